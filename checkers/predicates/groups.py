"""From a history to transactions in order of invocation, and what their keys start with.

A group is all operations with one key of the record (Elle's histories have one group, null). Its
universe are the keys that occur in its micro-ops or its initial state.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

from checkers._start import USUAL, name_of, start_of
from checkers.predicates.mops import Mop, Rows, identity, initial_rows, parsed, unanswered
from dstest.core.errors import HistoryError
from dstest.core.history import History
from dstest.core.op import Op, Outcome

_RESULTS: Final = (
    "record what each read returned: an empty list or map where a predicate found nothing"
)
_ASKED: Final = "record the micro-ops with the invocation"
_ONE: Final = "give the initial state once"
_FIRST: Final = "let one init operation be over before the first transaction begins"


@dataclass(frozen=True, slots=True)
class Txn:
    """`at` is its place in `History.ops`, `told` whether its results are known. Event positions
    count invocations and completions in the order of time, invocations first where they are equal;
    -1 is a completion that never came."""

    at: int
    name: str
    process: int
    invoke_pos: int
    complete_pos: int
    outcome: Outcome
    told: bool
    mops: tuple[Mop, ...]


@dataclass(slots=True)
class Group:
    """`initial` are the rows that are there at first."""

    key: Any
    txns: list[Txn] = field(default_factory=list)
    initial: Rows | None = None
    inits: list[Op] = field(default_factory=list)
    wrong: str | None = None
    """Why it cannot be judged."""


def _positions(history: History) -> tuple[list[int], list[int]]:
    events = []
    for at, op in enumerate(history.ops):
        events.append((op.invoke_ts, 0, at))
        if op.complete_ts is not None:
            events.append((op.complete_ts, 1, at))
    invoked, completed = [-1] * len(history.ops), [-1] * len(history.ops)
    for position, (_, end, at) in enumerate(sorted(events)):
        (completed if end else invoked)[at] = position
    return invoked, completed


def _shape(mops: tuple[Mop, ...]) -> list[Any]:
    """What an invocation and its answer have in common."""
    return [
        (
            m.kind,
            identity(m.key),
            m.predicate and (m.predicate.kind, *map(identity, m.predicate.args)),
            identity(m.value) if m.kind == "w" else None,
        )
        for m in mops
    ]


def _mops(op: Op) -> tuple[bool, tuple[Mop, ...]]:
    """Whether the results are known, and the micro-ops."""
    who = f"operation {op.op_id}"
    told = op.outcome is Outcome.OK and op.output is not None
    asked = None if op.input is None else parsed(op.input, who)
    if not told:
        if asked is None and op.output is not None:
            asked = parsed(op.output, who)  # of unknown end, it tells with its end what it was
        if asked is None and op.outcome is not Outcome.FAIL:
            raise HistoryError(f"{who}: it does not say what it did", remedy=_ASKED)
        if op.outcome is Outcome.OK and any(mop.kind != "w" for mop in asked or ()):
            raise HistoryError(f"{who}: it ended well, and tells no result", remedy=_RESULTS)
        return False, asked or ()
    answered = parsed(op.output, who)
    if any(map(unanswered, op.output)):
        raise HistoryError(f"{who}: a read in it tells no result", remedy=_RESULTS)
    if asked is not None and _shape(asked) != _shape(answered):
        raise HistoryError(
            f"{who}: the answer is to other micro-ops than were asked for",
            remedy="record the micro-ops in their order, with results in the output only",
        )
    return True, answered


def _begin(group: Group, first_ns: int) -> None:
    """Takes the initial state from the group's init operation."""
    done = [op for op in group.inits if op.outcome is Outcome.OK]
    if len(group.inits) > 1:
        who = " and ".join(str(op.op_id) for op in group.inits[:2])
        raise HistoryError(f"operations {who} are both init", remedy=_FIRST)
    for op in group.inits:
        if not done or (op.complete_ts or 0) > first_ns:
            raise HistoryError(f"operation {op.op_id}: init was not over at first", remedy=_FIRST)
        who = f"operation {op.op_id}"
        told = [initial_rows(r, who) for r in (op.input, op.output) if r is not None]
        told = told or [initial_rows(None, who)]
        told += [] if group.initial is None else [group.initial]
        if len({_content(rows) for rows in told}) > 1:
            raise HistoryError(f"{who}: two initial states, which differ", remedy=_ONE)
        group.initial = told[0]


def _content(rows: Rows) -> frozenset[Any]:
    return frozenset((name_of(key), identity(value)) for key, value in rows.rows)


def _start(history: History, groups: dict[Any, Group]) -> None:
    """What the header says: rows by group, or, of one group without a key, its rows."""
    start = start_of(history)
    if start is None:
        return
    if start.by_key is None:
        if start.every is not None:
            raise HistoryError(
                f"the initial state {start.every!r} is that of no row",
                remedy="--initial is an object of values by key (by group, of rows by key)",
            )
        return
    if [*groups] == [identity(None)]:
        groups[identity(None)].initial = initial_rows(start.by_key, "the initial state")
        return
    strange = start.by_key.keys() - {name_of(group.key) for group in groups.values()}
    if strange:
        raise HistoryError(
            f"the initial state names {min(strange)!r}, which is no group of rows",
            remedy="each key of the records is a group: give an object of rows by group",
        )
    for group in groups.values():
        rows = start.of(group.key)
        if rows is not USUAL:
            group.initial = initial_rows(rows, f"the initial state of {name_of(group.key)}")


def groups_of(history: History, skip: Callable[[Op, str], None]) -> list[Group]:
    """The groups, each with `wrong` where it cannot be judged; `skip` is told of operations that
    are no transactions. Raises HistoryError for an initial state of another shape."""
    invoked, completed = _positions(history)
    groups: dict[Any, Group] = {}
    processes: dict[Any, int] = {}
    for at, op in enumerate(history.ops):
        group = groups.setdefault(identity(op.key), Group(op.key))
        if op.op_type == "init":
            group.inits.append(op)
            continue
        if op.op_type != "txn":
            message = f"{op.op_type}: not an operation of closed-predicate"
            skip(op, message)
            group.wrong = group.wrong or message
            continue
        try:
            told, mops = _mops(op)
        except HistoryError as error:
            group.wrong = group.wrong or f"{error.message}; {error.remedy}"
            continue
        process = processes.setdefault(op.process_id, len(processes))
        group.txns.append(
            Txn(
                at, f"T{op.op_id}", process, invoked[at], completed[at], op.outcome, told, mops
            )
        )  # fmt: skip
    _start(history, groups)
    for group in groups.values():
        group.txns.sort(key=lambda t: t.invoke_pos)
        first = min((history.ops[t.at].invoke_ts for t in group.txns), default=0)
        try:
            _begin(group, first)
        except HistoryError as error:
            group.wrong = group.wrong or f"{error.message}; {error.remedy}"
    return list(groups.values())
