"""`g2`: of inserts that each read by a predicate that there was nothing, at most one succeeds.

    {"op_type": "insert", "key": "p1", "input": ["a", 17], "output": true}
    {"op_type": "insert", "key": "p1", "input": ["b", 18], "output": false}

An insert of a key reads all its rows that a predicate holds of and puts one more, of which the
predicate holds, where there was none (`true`); else it does nothing (`false`).

| anomaly | meaning |
|---|---|
| G2 | two inserts of a key took effect: in a serial order the later one sees the other one's row |
| G1a | an insert saw a row, and only inserts that had failed can have put one |
| phantom | an insert saw a row, and no insert can have put one |

Source: Adya (1999), section 4.2; Jepsen's `tests.adya/g2`.
"""

from __future__ import annotations

from typing import Final

from checkers._findings import Findings, Part, PerKey, Unreadable, end_of
from dstest.core.op import Op

__all__ = ["CHECKER"]


def _took(op: Op) -> bool:
    if not isinstance(op.output, bool):
        raise Unreadable(op, "its output is neither true nor false")
    return op.output


def decide(part: Part, findings: Findings) -> int:
    """Inserts of one key; how many of them had another one to see or to be seen by."""
    done = part.of("insert")
    won = [op for op in done if _took(op)]
    if len(won) > 1:
        names = ", ".join(str(op.op_id) for op in won)
        findings.anomaly("G2", part.key, won, f"inserts {names} took effect, each saw no row")
    for op in done:
        if _took(op):
            continue
        others = [o for o in (*won, *part.unknown) if o.invoke_ts <= end_of(op)]
        if others:
            continue
        failed = [o for o in part.refused("insert") if o.invoke_ts <= end_of(op)]
        kind = "G1a" if failed else "phantom"
        what = "only failed inserts" if failed else "nobody"
        message = f"insert {op.op_id} saw a row, and {what} can have put it there"
        findings.anomaly(kind, part.key, [*failed, op], message)
    findings.count(keys_with_a_row=int(bool(won)), inserts=len(won), refused=len(done) - len(won))
    return len(done) if len(done) + len(part.unknown) > 1 else 0


CHECKER: Final = PerKey(
    "g2",
    decide,
    models=("strict-serializable", "serializable"),
    types=frozenset({"insert"}),
    prefix_closed=True,
    vacuous="no key has two inserts",
    observers=frozenset(),
)
