"""Whose fault a violation is and what kind of bug it shows, as rows and for a terminal."""

from __future__ import annotations

from collections.abc import Mapping

from dstest.core.evidence import BlameProbe, Evidence
from dstest.core.verdict import Bug
from dstest.judge.blame import PROBES, blame, results
from dstest.judge.taxdc import UNCLASSIFIED

PROBE_COLUMNS = ("Probe", "Against", "Asks", "Result", "Seen")

_NO_SYMPTOM = f"{UNCLASSIFIED}nothing is known of how the violation showed"


def said(probe: BlameProbe) -> str:
    """`fired`, `not fired` or `no result`."""
    return {True: "fired", False: "not fired", None: "no result"}[probe.fired]


def probe_rows(
    evidence: Evidence, more: Mapping[str, BlameProbe] | None
) -> list[tuple[str, str, str, str, str]]:
    """All probes, each with what it asks and what it came to: rows of `PROBE_COLUMNS`."""
    return [
        (name, PROBES[name].who, PROBES[name].asks, said(probe), probe.said)
        for name, probe in results(evidence, more).items()
    ]


def bug_of(bug: Bug | None) -> Bug:
    """What is known of the kind of bug, if only that nothing is."""
    return bug or Bug(type=_NO_SYMPTOM, severity=_NO_SYMPTOM)


def short_lines(
    evidence: Evidence, bug: Bug | None, more: Mapping[str, BlameProbe] | None = None
) -> list[str]:
    """For a terminal: whose fault, and what kind of bug; nothing where neither is known of."""
    whose = blame(evidence, more)
    lines = [] if whose is None else [f"blame       {whose}"]
    if bug is not None:
        tags = f" ({', '.join(bug.tags)})" if bug.tags else ""
        lines.append(f"bug         {bug.type}{tags}, severity {bug.severity}")
    return lines
