"""Whose fault a violation is and what kind of bug it shows, as Markdown and for a terminal."""

from __future__ import annotations

from collections.abc import Mapping

from dstest.core.evidence import BlameProbe, Evidence
from dstest.core.verdict import Bug
from dstest.judge.blame import PROBES, blame, results
from dstest.judge.taxdc import UNCLASSIFIED
from dstest.report.review.markdown import table

__all__ = ["bug_text", "probe_lines", "said", "short_lines"]

_NO_SYMPTOM = f"{UNCLASSIFIED}nothing is known of how the violation showed"


def said(probe: BlameProbe) -> str:
    """`fired`, `not fired` or `no result`."""
    return {True: "fired", False: "not fired", None: "no result"}[probe.fired]


def probe_lines(evidence: Evidence, more: Mapping[str, BlameProbe] | None = None) -> list[str]:
    """A table of all probes, each with what it asks and what it came to."""
    rows = (
        (name, PROBES[name].who, PROBES[name].asks, said(probe), probe.said)
        for name, probe in results(evidence, more).items()
    )
    return table(("Probe", "Against", "Asks", "Result", "Seen"), rows)[:-1]


def bug_text(bug: Bug | None) -> str:
    """`partition; severity P0; tags: durability, safety`."""
    if bug is None:
        return _NO_SYMPTOM
    tags = f"; tags: {', '.join(bug.tags)}" if bug.tags else ""
    return f"{bug.type}; severity {bug.severity}{tags}"


def short_lines(
    evidence: Evidence, bug: Bug | None, more: Mapping[str, BlameProbe] | None = None
) -> list[str]:
    """For a terminal: whose fault, and what kind of bug; nothing where neither is known of."""
    whose = blame(evidence, more)
    lines = [] if whose is None else [f"blame       {whose}"]
    if bug is not None:
        lines.append(f"bug         {bug_text(bug)}")
    return lines
