"""Evidence as the decision table reads it: a row that is absent counts as short.

`view(evidence)` derives, once, every boolean that the rules of `dstest.judge.rules` ask for. It
errs to the strict side wherever two parts of the evidence contradict each other.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from dstest.core.evidence import Evidence

RED_FLAGS: Final = tuple(f"RF{n}" for n in range(1, 11))
WEAK_ITEMS: Final = tuple(f"WO{n}" for n in range(1, 15))
ALL_ROWS: Final = frozenset(RED_FLAGS + WEAK_ITEMS)

BREADTH: Final = ("WO6", "WO7", "WO10", "WO11")
"""Items that only more runs, other shapes or longer runs can fill: they cap at PASS-smoke."""

STRENGTH: Final = tuple(item for item in WEAK_ITEMS if item not in BREADTH)
"""Items about how strong the oracle is: a gap here is no pass at all."""

SURFACE_KINDS: Final = frozenset({"final-state", "logs", "health", "no-error"})
"""Kinds of oracle that never look at single operations."""

_FINE: Final = ("ok", "n/a")


@dataclass(frozen=True, slots=True)
class View:
    """Booleans of the decision table. `short` holds the ids of short rows, absent ones included."""

    e: Evidence
    violation: bool
    reproduced: bool
    corrupt: bool
    planned: bool
    landed: bool
    ran: bool
    clean: bool
    surface_only: bool
    heals_verified: bool
    in_process: bool
    short: frozenset[str]
    missing: frozenset[str]

    def any_short(self, *rows: str) -> bool:
        """Is one of these rows short?"""
        return not self.short.isdisjoint(rows)


def view(e: Evidence) -> View:
    """The booleans of `e`. Total: every Evidence has a view."""
    rows = e.redflags | e.weak_audit
    missing = ALL_ROWS - rows.keys()
    short = {name for name, row in rows.items() if row.status not in _FINE} | missing
    heals_verified = all(fault.heal_verified for fault in e.faults)
    if not heals_verified:
        short.add("RF8")
    planned = e.fault_planned or e.faults_planned > 0 or bool(e.faults)
    distinct = len({fault.id for fault in e.faults})
    return View(
        e=e,
        violation=e.violation or e.checker.result == "violation",
        reproduced=0 < e.rerun.reproduced <= e.rerun.same_seed_runs,
        corrupt=bool(e.history_lint.corrupt),
        planned=planned,
        landed=e.fault_landed and distinct >= max(1, e.faults_planned),
        ran=e.checker_ran and e.checker.result != "not-run",
        clean=e.checker.result == "clean",
        surface_only=bool(e.oracle_kinds) and SURFACE_KINDS.issuperset(e.oracle_kinds),
        heals_verified=heals_verified,
        in_process=e.transport != "network",
        short=frozenset(short),
        missing=missing,
    )
