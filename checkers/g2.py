"""`g2`: of inserts that each read by a predicate that there was nothing, at most one succeeds.

    {"op_type": "insert", "key": "p1", "input": ["a", 17], "output": true}
    {"op_type": "insert", "key": "p1", "input": ["b", 18], "output": false}
    {"op_type": "read", "key": null, "output": {"pairs": [["p2", [19, 20]]]}}

An insert of a key reads all its rows that a predicate holds of and puts one more, of which the
predicate holds, where there was none (`true`); else it does nothing (`false`). A read gives the
keys of which several such rows stand, with the numbers of their inserts, and `"more": true` where
it leaves some out. It sees what two inserts of unknown outcome did; where two were acknowledged it
tells whether their rows are there.

| anomaly | meaning |
|---|---|
| G2 | two inserts of a key took effect: in a serial order the later one sees the other one's row |
| G1a | an insert saw a row, and only inserts that had failed can have put one |
| phantom | an insert saw a row, and no insert can have put one |

Tested are inserts of known outcome of which two could have succeeded. The first of a key to end
shows that there is a row by then, so these are the ones that had begun, where there are two or
more. Those that begin later test nothing, at once or not: any database that keeps what it has
refuses them. Reads test nothing that is counted: a run of inserts of which none raced has shown
nothing, whatever stands at its end.
Source: Adya (1999), section 4.2; Jepsen's `tests.adya/g2`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import Any, Final

from checkers._findings import Findings, Part, PerKey, Unreadable, end_of
from dstest.core.op import Op, Outcome

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


def _number(insert: Op) -> Any:
    """Of the row that it puts; None where its input cannot be read."""
    match insert.input:
        case [_, int() | str() as number]:
            return number
    return None


def _standing(read: Op) -> dict[Any, set[int]]:
    """Keys of which a read has found several rows, and these. Raises Unreadable."""
    match read.output:
        case {"pairs": [*pairs]} if all(
            isinstance(pair, list) and len(pair) == 2 and len(pair[1]) > 1 for pair in pairs
        ):
            return {key: set(numbers) for key, numbers in pairs}
    raise Unreadable(read, "its output is not a list of pairs with several rows each")


def _told(findings: Findings, key: Any, won: list[Op]) -> Iterator[str]:
    """What later reads say of the rows of inserts that were acknowledged."""
    after, numbers = max(map(end_of, won)), {_number(op) for op in won}
    for op in findings.history.ops:
        if op.op_type == "read" and op.outcome is Outcome.OK and op.invoke_ts > after:
            with suppress(Unreadable, TypeError):
                rows = _standing(op).get(key, set())
                if rows >= numbers:
                    yield f"read {op.op_id} found their rows"
                elif not op.output.get("more"):
                    yield f"read {op.op_id} did not find the rows of all of them"


def _rows(reads: list[Op], findings: Findings) -> None:
    """Keys of which several rows stand, but those of which two inserts were acknowledged."""
    found = {key: (read, rows) for read in reads for key, rows in _standing(read).items()}
    inserts: dict[Any, list[Op]] = {key: [] for key in found}
    for op in findings.history.ops if found else ():
        if op.op_type == "insert" and op.key in inserts and _number(op) in found[op.key][1]:
            inserts[op.key].append(op)
    for key, (read, rows) in found.items():
        findings.tick()
        if sum(op.outcome is Outcome.OK and op.output is True for op in inserts[key]) < 2:
            names = ", ".join(str(number) for number in sorted(rows)[:8])
            message = f"read {read.op_id} found rows {names}, of which each was put where none was"
            findings.anomaly("G2", key, [*inserts[key], read], message)
    findings.count(reads=len(reads), keys_with_several_rows=len(found))


def decide(part: Part, findings: Findings) -> int:
    """Inserts of one key; how many of them could have succeeded beside another one. Or reads."""
    if reads := part.of("read"):
        _rows(reads, findings)
    done = part.of("insert")
    won = [op for op in done if _took(op)]
    refused = [op for op in done if not op.output]
    if len(won) > 1:
        names = ", ".join(str(op.op_id) for op in won[:8])
        told = [] if findings.full("G2") else _told(findings, part.key, won)
        message = f"inserts {names} took effect, each saw no row"
        findings.anomaly("G2", part.key, won, "; ".join([message, *told]))
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
    types=frozenset({"insert", "read"}),
    prefix_closed=True,
    vacuous="no two inserts of a key ran before there was a row",
    observers=frozenset({"read"}),
)
