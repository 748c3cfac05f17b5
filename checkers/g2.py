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

Tested are inserts of known outcome of which two could have succeeded. The first of a key to end
shows that there is a row by then, so these are the ones that had begun, where there are two or
more. Those that begin later test nothing, at once or not: any database that keeps what it has
refuses them.
Source: Adya (1999), section 4.2; Jepsen's `tests.adya/g2`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from checkers._findings import Findings, Part, PerKey, Unreadable, end_of
from dstest.core.op import Op

__all__ = ["CHECKER"]


def _took(op: Op) -> bool:
    if not isinstance(op.output, bool):
        raise Unreadable(op, "its output is neither true nor false")
    return op.output


def _first(ops: Iterable[Op]) -> Op | None:
    return min(ops, key=lambda op: op.invoke_ts, default=None)


def _began(op: Op | None, before: Op) -> bool:
    """Had the operation begun when the other one ended?"""
    return op is not None and op.invoke_ts <= end_of(before)


def _tested(done: list[Op]) -> int:
    """How many of those that are `done` could have succeeded beside another one of them."""
    there = min(map(end_of, done), default=-1)
    racing = sum(op.invoke_ts <= there for op in done)
    return racing if racing > 1 else 0


def decide(part: Part, findings: Findings) -> int:
    """Inserts of one key; how many of them could have succeeded beside another one."""
    done = part.of("insert")
    won = [op for op in done if _took(op)]
    refused = [op for op in done if not op.output]
    if len(won) > 1:
        names = ", ".join(str(op.op_id) for op in won[:8])
        findings.anomaly("G2", part.key, won, f"inserts {names} took effect, each saw no row")
    winner, unknown = _first(won), _first(part.unknown)
    failed = _first(part.refused("insert"))
    for op in refused:
        findings.tick()
        if _began(winner, op):
            continue
        if unknown is not None and _began(unknown, op):
            if winner is not None and len(won) == 1:
                message = (
                    f"insert {op.op_id} saw a row that only one of unknown outcome can have put,"
                    f" and insert {winner.op_id}, which began later, saw none"
                )
                findings.anomaly("G2", part.key, [unknown, op, winner], message)
            continue
        kind, what = ("G1a", "only failed inserts") if _began(failed, op) else ("phantom", "nobody")
        message = f"insert {op.op_id} saw a row, and {what} can have put it there"
        seen = [failed, op] if failed is not None and kind == "G1a" else [op]
        findings.anomaly(kind, part.key, seen, message)
    findings.count(keys_with_a_row=int(bool(won)), inserts=len(won), refused=len(refused))
    return _tested(done)


CHECKER: Final = PerKey(
    "g2",
    decide,
    models=("strict-serializable", "serializable"),
    types=frozenset({"insert"}),
    prefix_closed=True,
    vacuous="no two inserts of a key ran before there was a row",
    observers=frozenset(),
)
