"""Is a claim believed more than before, or less? (discipline 6.3)"""

from __future__ import annotations

from collections.abc import Collection

from dstest.core.verdict import State
from dstest.report.review.model import Change


def confidence_of(states: Collection[State]) -> tuple[Change, str]:
    """From the verdicts of all that ran for a claim: the change, and a sentence."""
    if any(state.failed for state in states):
        return "LESS", "a violation was observed."
    undelivered = [state.value for state in states if not state.passed]
    if undelivered:
        said = ", ".join(sorted(set(undelivered)))
        return "LESS", f"what was to test it did not deliver: {said}."
    if State.PASS_HARDENING in states:
        return "MORE", "no violation was observed under the faults that landed."
    if states:
        return "UNCHANGED", "smoke passes alone: the tests work, and say nothing of robustness."
    return "UNCHANGED", "nothing ran for it."
