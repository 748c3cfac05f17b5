"""What the judges of a run saw, whatever verdict it came to.

A run whose record has a gap, or whose faults are not proven, has no verdict, and a judge of it may
have found an anomaly all the same. That is no run that merely proves nothing: somebody has to look
at it, so it is accepted by nobody.
"""

from __future__ import annotations

from collections.abc import Iterable

from dstest.core.check import kinds_in
from dstest.core.verdict import Verdict
from dstest.gate.judged import JudgedRun
from dstest.gate.rules import Finding


def anomalies_in(verdict: Verdict) -> set[str]:
    """The types of anomalies that any judge of a run found."""
    return kinds_in(verdict.checkers)


def unproven(runs: Iterable[JudgedRun], of: str = "") -> list[Finding]:
    """The runs without a verdict in which a judge found an anomaly."""
    return [
        Finding(rule="G37", what=_seen(run.verdict), of=of, where=str(run.path))
        for run in runs
        if is_unproven(run.verdict)
    ]


def is_unproven(verdict: Verdict) -> bool:
    """Did a judge find an anomaly in a run that came to no verdict?"""
    state = verdict.verdict
    return (
        not state.passed and not state.failed and (verdict.evidence.violation or _judges(verdict))
    )


def _judges(verdict: Verdict) -> bool:
    return any(row.get("valid") is False for row in verdict.checkers.values())


def _seen(verdict: Verdict) -> str:
    judges = sorted(n for n, row in verdict.checkers.items() if row.get("valid") is False)
    named = ", ".join(sorted(anomalies_in(verdict))) or verdict.evidence.violation_fingerprint
    by = f" by {', '.join(judges)}" if judges else ""
    return (
        f"an anomaly was found{by}: {named or 'without a name'}; and it came to no verdict"
        f" ({verdict.verdict.value}: {verdict.reason})"
    )
