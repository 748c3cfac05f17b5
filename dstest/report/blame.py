"""Whose fault a violation is and what kind of bug it shows, as Markdown and for a terminal."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from dstest.core.evidence import BlameProbe, Evidence
from dstest.core.verdict import Bug
from dstest.judge.blame import PROBES, blame, results
from dstest.judge.taxdc import UNCLASSIFIED

__all__ = ["bug_lines", "probe_lines", "said", "short_lines"]

_NO_SYMPTOM = f"{UNCLASSIFIED}nothing is known of how the violation showed"


def said(probe: BlameProbe) -> str:
    """`fired`, `not fired` or `no result`."""
    return {True: "fired", False: "not fired", None: "no result"}[probe.fired]


def probe_lines(
    evidence: Evidence, more: Mapping[str, BlameProbe] | None, md: Callable[[object], str]
) -> list[str]:
    """A table of all probes, each with what it asks and what it came to."""
    lines = ["| Probe | Against | Asks | Result | Seen |", "|---|---|---|---|---|"]
    for name, probe in results(evidence, more).items():
        about = PROBES[name]
        lines.append(
            f"| {md(name)} | {about.who} | {md(about.asks)} | {said(probe)} | {md(probe.said)} |"
        )
    return lines


def bug_lines(bug: Bug | None, md: Callable[[object], str]) -> list[str]:
    """Type, tags, severity and the reasons, as items of a list."""
    if bug is None:
        return [f"- TaxDC type: {md(_NO_SYMPTOM)}", f"- Severity: {md(_NO_SYMPTOM)}"]
    return [
        f"- TaxDC type: {md(bug.type)}",
        f"- Tags: {md(', '.join(bug.tags) or 'nothing that is known gives one')}",
        f"- Severity: {md(bug.severity)}",
        *(f"  - {md(reason)}" for reason in bug.reasons),
    ]


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
