"""The 24 audit rows of a finished run: red flags RF1-RF10 and weak-oracle items WO1-WO14.

Each row is a sentence with numbers and one of ok, short, n/a. What nobody measured is short.
Source: discipline 5.3 and 5.4.
"""

from __future__ import annotations

from typing import Final

from dstest.core.evidence import AuditRow, Budgets
from dstest.judge._audit_red import red_flags
from dstest.judge._audit_weak import duration_s, weak_items
from dstest.judge.budgets import budgets
from dstest.judge.facts import RunFacts

__all__ = ["TITLES", "measure", "red_flags", "too_good", "weak_items"]

TITLES: Final = {
    "RF1": "The workload made the intended load",
    "RF2": "The checker judged everything, and was shown to bite",
    "RF3": "Faults landed on the injector's and the victim's side",
    "RF4": "No fault silently did nothing",
    "RF5": "Clock skew did not mask timing",
    "RF6": "The wanted budget was met",
    "RF7": "No error was silently suppressed",
    "RF8": "The cluster recovered",
    "RF9": "The baseline is a fair comparison",
    "RF10": "More than one seed agrees",
    "WO1": "Not only the final state was judged",
    "WO2": "Not only logs were judged",
    "WO3": "Not only health checks were judged",
    "WO4": "Not only one failover that went well",
    "WO5": "Not only the absence of errors",
    "WO6": "The run was long enough",
    "WO7": "Not only symmetric partitions",
    "WO8": "The client library hides no retries",
    "WO9": "Time stamps are monotonic",
    "WO10": "More than one cluster size",
    "WO11": "More than one seed",
    "WO12": "More than one surface",
    "WO13": "A negative control was run",
    "WO14": "Results are split by group",
}


def measure(facts: RunFacts) -> Budgets:
    """What the run did, against the budget tiers. Only faults that landed count."""
    measured = {
        "duration_s": duration_s(facts),
        "nodes": float(len(facts.history.header.nodes)),
        "faults": float(sum(1 for r in facts.records if r.landed == "yes")),
        "seeds": float(facts.seeds_agreeing),
        "ops": float(len(facts.history.ops)),
    }
    nemesis = facts.faults_planned > 0 or bool(facts.records)
    return budgets(measured, nemesis=nemesis, members_most=facts.members_most)


def too_good(rows: dict[str, AuditRow]) -> str | None:
    """A notice where nothing at all is short: on a first attempt that is suspicious in itself."""
    if any(row.status == "short" for row in rows.values()):
        return None
    return "No audit row is short. On a first attempt that is unusual: check that the audit bites."
