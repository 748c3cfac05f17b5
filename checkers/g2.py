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
| G1a | an insert or a read saw a row, and only inserts that had failed can have put it |
| phantom | an insert or a read saw a row, and no insert can have put it |

Tested are inserts of known outcome of which two could have succeeded. The first of a key to end
shows that there is a row by then, so these are the ones that had begun, where there are two or
more. Those that begin later test nothing, at once or not: any database that keeps what it has
refuses them. Reads test nothing that is counted: a run of inserts of which none raced has shown
nothing, whatever stands at its end.
Jepsen's inserts, `[key [a b]]` with `--independent`, are ok with what they put, and fail else.
Source: Adya (1999), section 4.2; Jepsen's `tests.adya/g2`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from itertools import islice
from typing import Any, Final

from msgspec.structs import replace

from checkers._findings import Findings, Part, PerKey, Unreadable, end_of
from dstest.core.check import Budget, CheckResult
from dstest.core.history import History
from dstest.core.op import Op, Outcome

_TOLD_MAX: Final = 2
"""Reads that are quoted with an anomaly."""


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


def _number(insert: Op) -> int | str | None:
    """Of the row that it puts; None where its input cannot be read."""
    match insert.input:
        case [_, number] if type(number) in (int, str):
            return number  # type: ignore[no-any-return]
    return None


def _pairs(read: Op) -> list[Any]:
    """What a read has found, not looked into yet. Raises Unreadable."""
    match read.output:
        case {"pairs": [*pairs], **rest} if rest.keys() <= {"more"}:
            more = rest.get("more", False)
            if type(more) is bool and (pairs or not more):
                return pairs
    raise Unreadable(read, "its output is not a list of pairs with several rows each")


def _rows_of(read: Op, pair: Any) -> tuple[Any, list[int | str]]:
    """A key and the numbers of its rows, several and each once. Raises Unreadable."""
    match pair:
        case [None | bool() | int() | float() | str() as key, [*numbers]] if (
            len(numbers) > 1
            and all(type(number) in (int, str) for number in numbers)
            and len(set(numbers)) == len(numbers)
        ):
            return key, numbers
    raise Unreadable(read, "one of its pairs is not a key with the numbers of several rows")


def _told(findings: Findings, key: Any, won: list[Op]) -> Iterator[str]:
    """What the first reads after inserts that were acknowledged say of their rows."""
    after, numbers = max(map(end_of, won)), {_number(op) for op in won}
    if None in numbers or len(numbers) < len(won):
        return
    later = (op for op in findings.history.ops if op.op_type == "read" and op.invoke_ts > after)
    for op in islice((op for op in later if op.outcome is Outcome.OK), _TOLD_MAX):
        with suppress(Unreadable):
            rows = dict(_rows_of(op, pair) for pair in _pairs(op)).get(key, [])
            if numbers <= {*rows}:
                yield f"read (op {op.op_id}) found their rows"
            elif not op.output.get("more"):
                where = f" at {op.node_seen}" if op.node_seen else ""
                yield f"read (op {op.op_id}){where} did not find all of their rows"


def _inserts_of(history: History) -> dict[tuple[type, Any], list[Op] | None]:
    """All inserts by their keys; None of a key that also has operations of which nobody knows what
    they did."""
    found: dict[tuple[type, Any], list[Op] | None] = {}
    for op in history.ops:
        name = type(op.key), op.key
        if op.op_type == "insert":
            there = found.setdefault(name, [])
            if there is not None:
                there.append(op)
        elif op.op_type != "read":
            found[name] = None
    return found


def _judge_rows(
    read: Op, key: Any, rows: list[int | str], inserts: list[Op], findings: Findings
) -> None:
    """Several rows of a key stand: who may have put them?"""
    began = [op for op in inserts if op.invoke_ts <= end_of(read)]
    done = [op for op in inserts if op.outcome is Outcome.OK]
    won = [op for op in done if op.output is True]
    maybe = [op for op in inserts if op.outcome is Outcome.UNKNOWN]
    may = [op for op in (*won, *maybe) if op.invoke_ts <= end_of(read)]
    putters = [op for op in may if _number(op) in rows]
    # The key itself tells of inserts that were acknowledged, where it can be read.
    named = len(won) > 1 and all(type(op.output) is bool for op in done)
    if len({_number(op) for op in putters}) > 1 and not named:
        names = ", ".join(str(number) for number in rows[:8])
        message = f"read (op {read.op_id}) found rows {names}, of which each was put where none was"
        findings.anomaly("G2", key, [*putters, read], message)
    for number in rows:
        if any(_number(op) == number for op in may):
            continue
        failed = [op for op in began if _number(op) == number and op.outcome is Outcome.FAIL]
        kind = "G1a" if failed else "phantom"
        who = "only a failed insert" if failed else "no insert"
        message = f"read (op {read.op_id}) found row {number}, and {who} can have put it"
        findings.anomaly(kind, key, [*failed, read], message)


def _judge_reads(reads: list[Op], findings: Findings) -> None:
    """Each pair of each read by itself, so that none hides another. Raises Unreadable at the end,
    where one could not be read."""
    inserts, wrong, several = None, None, 0
    seen: set[tuple[type, Any, frozenset[int | str]]] = set()
    for read in reads:
        try:
            pairs = _pairs(read)
        except Unreadable as error:
            wrong = wrong or error
            continue
        for pair in pairs:
            findings.tick()
            try:
                key, rows = _rows_of(read, pair)
            except Unreadable as error:
                wrong = wrong or error
                continue
            same = (type(key), key, frozenset(rows))
            inserts = inserts or _inserts_of(findings.history)
            known = inserts.get((type(key), key), [])
            if same in seen or known is None:
                continue
            seen.add(same)
            several += 1
            _judge_rows(read, key, rows, known, findings)
    findings.count(reads=len(reads), keys_with_several_rows=several)
    if wrong is not None:
        raise wrong


def decide(part: Part, findings: Findings) -> int:
    """Inserts of one key; how many of them could have succeeded beside another one. Or reads."""
    done = part.of("insert")
    won = [op for op in done if _took(op)]
    refused = [op for op in done if not op.output]
    if len(won) > 1:
        names = ", ".join(str(op.op_id) for op in won[:8])
        told = [] if findings.full("G2") else _told(findings, part.key, won)
        message = (
            f"inserts (ops {names}) were acknowledged, each having seen no row of the others: in "
            "any serial order the later one sees the earlier one's"
        )
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
                    f"insert (op {op.op_id}) saw a row that only one of unknown outcome can have "
                    f"put, and insert (op {winner.op_id}), which began later, saw none"
                )
                findings.anomaly("G2", part.key, [unknown, op, winner], message)
            continue
        kind, what = ("G1a", "only failed inserts") if _began(failed, op) else ("phantom", "nobody")
        message = f"insert (op {op.op_id}) saw a row, and {what} can have put it there"
        seen = [failed, op] if failed is not None and kind == "G1a" else [op]
        findings.anomaly(kind, part.key, seen, message)
    findings.count(keys_with_a_row=int(bool(won)), inserts=len(won), refused=len(refused))
    if reads := part.of("read"):
        _judge_reads(reads, findings)
    return _tested(done)


def _as_flags(ops: list[Op]) -> list[Op]:
    """Jepsen's inserts as ours: an ok one repeats what it put. One that failed, while another one
    that put its row had begun, may have seen that row."""
    won: dict[tuple[type, Any], int] = {}
    for op in ops:
        if op.op_type == "insert" and op.outcome is Outcome.OK:
            name = type(op.key), op.key
            won[name] = min(op.invoke_ts, won.get(name, op.invoke_ts))

    def ours(op: Op) -> Op:
        if op.op_type != "insert" or op.input is None:
            return op
        if op.outcome is Outcome.OK and op.output == op.input:
            return replace(op, output=True)
        before = won.get((type(op.key), op.key))
        if op.outcome is Outcome.FAIL and before is not None and before <= end_of(op):
            return replace(op, output=False, error=None)
        return op

    return [ours(op) for op in ops]


class _G2(PerKey):
    """Takes Jepsen's notation as well."""

    def check(self, history: History, model: str, budget: Budget) -> CheckResult:
        """As `PerKey.check`."""
        ops = history.ops
        done = [op for op in ops if op.op_type == "insert" and op.outcome is Outcome.OK]
        if done and all(op.input is not None and op.output == op.input for op in done):
            history = replace(history, ops=_as_flags(list(ops)))
        return super().check(history, model, budget)


CHECKER: Final = _G2(
    "g2",
    decide,
    models=("strict-serializable", "serializable"),
    types=frozenset({"insert", "read"}),
    prefix_closed=True,
    vacuous="no two inserts of a key ran before there was a row",
    observers=frozenset({"read"}),
    keyed=False,
)
