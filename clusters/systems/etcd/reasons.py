"""Why a member did not do what it was asked to, in the words that any nemesis understands."""

from __future__ import annotations

from dstest.core.protocols import REFUSED, UNANSWERED

LATE = "Deadline Exceeded"


def why_not(text: str, refusal: str) -> str:
    """`text` is what gRPC tells of a call, empty where it succeeded; a refusal has `refusal`."""
    if LATE in text:
        return UNANSWERED + text
    return REFUSED + text if refusal in text else text
