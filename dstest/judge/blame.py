"""Whose fault a violation is, as far as the probes that were run can tell (discipline 3.1).

A wrong guess is worse than none: without results of all probes the answer is
`unknown - pending: generator swap, host events`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from dstest.core.evidence import Evidence

__all__ = ["PROBES", "blame"]

PROBES: Final = {
    "checker self-test": "checker",
    "independent checker": "checker",
    "documented relaxation": "checker",
    "generator swap": "harness",
    "host events": "",
    "replay on another host": "environment",
}
"""Probe -> who is to blame where it fires. The history lints always run and come first.

A host event near the anomaly blames nobody alone: the violation must also vanish elsewhere.
"""

_FOR_SUT: Final = ("checker self-test", "generator swap", "host events")


def blame(evidence: Evidence, probes: Mapping[str, bool] | None = None) -> str | None:
    """`harness`, `checker`, `environment`, `SUT` or `unknown - pending: ...`; None without cause.

    `probes` maps a name of `PROBES` to whether it fired, that is, spoke against a real violation.
    """
    if evidence.history_lint.corrupt or "H16" in evidence.history_lint.weak:
        return "harness"
    if not (evidence.violation or evidence.checker.result == "violation"):
        return None
    outcomes = dict(probes or {})
    if evidence.checker.canary_total:
        outcomes.setdefault("checker self-test", evidence.checker.canary_killed == 0)
    for name, who in PROBES.items():
        if outcomes.get(name) and who not in ("", "environment"):
            return who
    if outcomes.get("host events") and outcomes.get("replay on another host"):
        return "environment"
    if all(name in outcomes for name in _FOR_SUT) and not outcomes["host events"]:
        return "SUT"
    return f"unknown - pending: {', '.join(name for name in PROBES if name not in outcomes)}"
