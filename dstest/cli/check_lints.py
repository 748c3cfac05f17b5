"""`dstest check` before any checker: does the history contradict itself?

The lints are those of a run (dstest/judge/lints.py), as far as a file alone can be held to them. A
*corrupt* history is refused as unreadable ones are (HistoryError, exit 2): neither answer about it
would count. A *weak* one can still show a violation, but is never valid.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

import numpy as np
from msgspec.structs import replace

from checkers.ops.table import FAIL, OK, UNKNOWN, OpTable
from dstest.core.errors import HistoryError
from dstest.core.op import Op, Outcome
from dstest.judge.lints import LintContext, lint

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from dstest.core.check import CheckResult
    from dstest.core.history import Header, History

_CORRUPT: Final = frozenset({"H02", "H04", "H05", "H06", "H07", "H09"})
"""What contradicts itself in any history; a foreign one does not name its clock (H03)."""

_WEAK: Final = frozenset({"H04"})
"""What leaves open whether an operation had an end; other weak lints tell a reader of a run
something that no checker asks for."""

_REMEDY: Final = "no verdict about it would count; record it again, or judge the file as it was"


def require_counts(header: Header, counted: Mapping[str, int], weak: Sequence[str] = ()) -> None:
    """Raises HistoryError where the recorder counted other operations than are in the file.

    `counted` are ok, fail and unknown; `weak` is what else is known of the file.
    """
    counters = {**counted, "issued": sum(counted.values())}
    counters["invokes"] = counters["issued"]
    for name, n in counters.items():
        told = header.counters.get(name)
        if told is not None and told != n:
            message = f"the recorder counted {told:,} {name}, the file holds {n:,} (H14)"
            raise HistoryError(
                "; ".join([f"the history is corrupt: {message}", *weak]),
                remedy=_REMEDY,
            )


def _outcomes(ops: Sequence[Op], table: OpTable | None) -> dict[str, int]:
    if table is not None:
        counts = np.bincount(table.outcome, minlength=3).tolist()
        return {
            Outcome.OK: counts[OK],
            Outcome.FAIL: counts[FAIL],
            Outcome.UNKNOWN: counts[UNKNOWN],
        }
    found = Counter(op.outcome for op in ops)
    return {outcome: found[outcome] for outcome in Outcome}


def require_sound(history: History, weak: Sequence[str] = ()) -> list[str]:
    """What is weak about a history. Raises HistoryError where it contradicts itself; `weak` is what
    its reader knows of it already."""
    table = history.ops if isinstance(history.ops, OpTable) else None
    # What a table was made of has been looked at for what lints of records find.
    looked_at = history if table is None else replace(history, ops=[])
    lints = lint(looked_at, None, LintContext(needs_node_seen=False))
    ours = history.header.source is None
    corrupt = [f"{said} ({name})" for name, said in lints.corrupt.items() if name in _CORRUPT]
    if ours and history.header.clock is not None and "H03" in lints.corrupt:
        corrupt.append(f"{lints.corrupt['H03']} (H03)")
    if corrupt:
        raise HistoryError(f"the history is corrupt: {'; '.join(corrupt)}", remedy=_REMEDY)
    require_counts(history.header, _outcomes(history.ops, table), weak)
    return [f"{said} ({name})" for name, said in lints.weak.items() if name in _WEAK]


def weakened(result: CheckResult, weak: list[str]) -> CheckResult:
    """The answer about a weak history: a violation stands, nothing else does."""
    if not weak or result.valid is False:
        return result
    said = "; ".join([*weak, *filter(None, [result.reason])])
    return replace(result, valid="unknown", reason=f"the history is weak: {said}")
