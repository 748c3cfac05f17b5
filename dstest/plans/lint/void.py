"""Words that look like an oracle, a bound or evidence, and that no run can break."""

from __future__ import annotations

import re
from typing import Final

_HOLDS: Final = re.compile(
    r"(>=|≥)\s*-?0([.,]0+)?(?![.,]?\d)|(?<![\d.,])0([.,]0+)?\s*(<=|≤)"
    r"|(?<![<>=!])>\s*-\s*\d|(!=|≠)\s*-\s*\d|\bat least (0|zero)\b"
    r"|\b(at most|no more than|<=|≤)\s*100 ?%",
    re.IGNORECASE,
)
"""A count is never below zero."""

_WHATEVER: Final = re.compile(
    r"\b(whatever|regardless of|no matter) (it|they|the (checker|oracle|result|outcome)s?)\b"
    r"|\b(always|in any case|either way|unconditionally) (pass(es)?|ok|green|counts?)\b"
    r"|\bpass(es)? (always|in any case|either way|unconditionally)\b|\bnever fails?\b"
    r"|\b(its|the) (answer|result|verdict|outcome)s? (is|are) ignored\b"
    r"|\bany (answer|result|verdict|outcome) (is|will be) (accepted|fine|ok|a pass)\b",
    re.IGNORECASE,
)
_ENDED_WELL: Final = re.compile(
    r"\binjector (reports?|reported|says) (success|ok)"
    r"|(\b(command|script|tool|injector|iptables|nft|tc)s?\W+|`[^`]+` )(has |have )?"
    r"(exit(s|ed)?|return(s|ed)?|end(s|ed)?|finish(es|ed)?)\b[^.;\n]{0,20}\b(0|zero|ok|success\w*)\b"
    r"|\b(exit (code|status)|return code|rc)\W*(is|=|==|of)?\W*(0|zero)\b",
    re.IGNORECASE,
)


def void_in(text: str, *, evidence: bool = False) -> str | None:
    """The words by which it holds for any run, None where there are none. `evidence`: the text is
    about a fault that landed, which its injector's own word does not show."""
    patterns = (_WHATEVER, _HOLDS, _ENDED_WELL) if evidence else (_WHATEVER, _HOLDS)
    return next((found[0] for one in patterns if (found := one.search(text))), None)
