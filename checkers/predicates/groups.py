"""From a history to transactions with predicate reads, in order of invocation and by group: all
operations with one key of the record (Elle's histories have one group, null). Its universe are the
keys that occur in its micro-ops or its initial state.

| micro-op | meaning |
|---|---|
| `["r", k, v]` | read the row of key k; null: there was none |
| `["w", k, v]`, `["insert", k, v]` | the row of key k holds v from now on |
| `["delete", k]` | key k has no row from now on |
| `["rp", predicate, found]` | the rows that it holds of, value by key or `[[k, v], ..]` |

Predicates are `true`, `["=", v]` and `["mod", m, r]` (v mod m is r, of integers). Where there is no
row (not yet, or no more) none of them holds. Source: Elle's `elle.closed-predicate`; version sets
by Adya (1999), section 4.3.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from checkers._findings import USUAL, name_of, start_of
from dstest.core.errors import HistoryError
from dstest.core.history import History
from dstest.core.op import Op, Outcome

ABSENT: Final = None
"""The state of a key without a row."""

_MOPS: Final = (
    'micro-ops are ["r", k, v], ["w", k, v], ["insert", k, v], ["delete", k] and '
    '["rp", predicate, found]'
)
_PREDICATES: Final = 'predicates are true, ["=", v] and ["mod", m, r] with integers m and r'
_FOUND: Final = "rows are an object of values by key, or a list of [key, v]"

_RESULTS: Final = (
    "record what each read returned: an empty list or map where a predicate found nothing"
)
_ASKED: Final = "record the micro-ops with the invocation"
_ONE: Final = "give the initial state once"
_FIRST: Final = "let one init operation be over before the first transaction begins"


def identity(value: Any) -> tuple[type, Any]:
    """Equal for the same scalar only: 1, 1.0 and true are three."""
    return type(value), value


def _scalar(value: Any) -> bool:
    return isinstance(value, int | str | float | bool)


class Predicate(NamedTuple):
    """`kind` is true, = or mod."""

    kind: str
    args: tuple[Any, ...] = ()

    def holds(self, state: Any) -> bool:
        """Does it hold of a row with this value? Raises HistoryError for `mod` of no integer."""
        if state is ABSENT:
            return False
        if self.kind == "true":
            return True
        if self.kind == "=":
            return identity(state) == identity(self.args[0])
        if type(state) is not int:
            raise HistoryError(
                f"predicate {self} is asked of the value {state!r}",
                remedy="mod is of integers: write integers, or ask another predicate",
            )
        modulus, rest = self.args
        return bool(state % modulus == rest)

    def __str__(self) -> str:
        return self.kind if not self.args else json.dumps([self.kind, *self.args])


class Mop(NamedTuple):
    """`kind` is r, w (of `value`; ABSENT deletes) or rp; `found` are (key, value) as they stand,
    `named` whether they came as an object, whose keys are strings."""

    kind: str
    key: Any = None
    value: Any = ABSENT
    predicate: Predicate | None = None
    found: tuple[tuple[Any, Any], ...] = ()
    named: bool = False


def _word(value: Any) -> Any:
    return value.removeprefix(":") if isinstance(value, str) else value


def _predicate(given: Any, who: str) -> Predicate:
    if given is True or _word(given) == "true":
        return Predicate("true")
    if isinstance(given, list | tuple) and given:
        kind, *args = given
        kind = _word(kind)
        if kind == "=" and len(args) == 1 and _scalar(args[0]):
            return Predicate("=", tuple(args))
        if kind == "mod" and [*map(type, args)] == [int, int] and args[0]:
            return Predicate("mod", tuple(args))
    raise HistoryError(f"{who}: no predicate: {given!r}", remedy=_PREDICATES)


def _rows(given: Any, who: str) -> tuple[tuple[Any, Any], ...]:
    rows = list(given.items()) if isinstance(given, dict) else given
    if rows is None:
        return ()
    fine = isinstance(rows, list | tuple) and all(
        isinstance(row, list | tuple) and len(row) == 2 and _scalar(row[0]) and _scalar(row[1])
        for row in rows
    )
    if not fine or len({identity(row[0]) for row in rows}) < len(rows):
        raise HistoryError(f"{who}: found {str(given)[:80]}", remedy=f"{_FOUND}, each key once")
    return tuple((key, value) for key, value in rows)


def _mop(given: Any, who: str) -> Mop:
    match [_word(given[0]), *given[1:]] if isinstance(given, list | tuple) and given else None:
        case ["r", key] if _scalar(key):
            return Mop("r", key)
        case ["r", key, value] if _scalar(key) and (value is None or _scalar(value)):
            return Mop("r", key, value)
        case ["w" | "insert", key, value] if _scalar(key) and _scalar(value):
            return Mop("w", key, value)
        case ["delete", key] | ["delete", key, None] if _scalar(key):
            return Mop("w", key, ABSENT)
        case ["rp", predicate]:
            return Mop("rp", predicate=_predicate(predicate, who))
        case ["rp", predicate, found]:
            rows = _rows(found, who)
            return Mop("rp", None, None, _predicate(predicate, who), rows, isinstance(found, dict))
    raise HistoryError(f"{who}: no micro-op: {str(given)[:80]}", remedy=_MOPS)


def parse(mops: Any, who: str) -> tuple[Mop, ...]:
    """The micro-ops of a transaction, which errors call `who`. Raises HistoryError."""
    if not isinstance(mops, list | tuple):
        raise HistoryError(f"{who}: no list of micro-ops: {str(mops)[:80]}", remedy=_MOPS)
    return tuple(_mop(mop, who) for mop in mops)


def lacks_result(given: Any) -> bool:
    """Of a micro-op that can be parsed: is it a read without a result?"""
    kind, _, *rest = given
    kind = _word(kind)
    return (kind == "r" and not rest) or (kind == "rp" and rest in ([], [None]))


class Rows(NamedTuple):
    """(key, value) as they stand; `named`: they came as an object, whose keys are strings."""

    rows: tuple[tuple[Any, Any], ...]
    named: bool


def initial_rows(given: Any, who: str) -> Rows:
    """What the first rows are. Raises HistoryError where they are none."""
    if given is None:
        raise HistoryError(f"{who}: it tells no rows", remedy=f"{_FOUND}; {{}} where there is none")
    return Rows(_rows(given, who), isinstance(given, dict))


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
    asked = None if op.input is None else parse(op.input, who)
    if not told:
        if asked is None and op.output is not None:
            asked = parse(op.output, who)  # of unknown end, it tells with its end what it was
        if asked is None and op.outcome is not Outcome.FAIL:
            raise HistoryError(f"{who}: it does not say what it did", remedy=_ASKED)
        if op.outcome is Outcome.OK and any(mop.kind != "w" for mop in asked or ()):
            raise HistoryError(f"{who}: it ended well, and tells no result", remedy=_RESULTS)
        return False, asked or ()
    answered = parse(op.output, who)
    if any(map(lacks_result, op.output)):
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
