"""Micro-operations of transactions with predicate reads, and which versions a read can have seen.

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
from typing import Any, Final, NamedTuple

from dstest.core.errors import HistoryError

ABSENT: Final = None
"""The state of a key without a row."""

_MOPS: Final = (
    'micro-ops are ["r", k, v], ["w", k, v], ["insert", k, v], ["delete", k] and '
    '["rp", predicate, found]'
)
_PREDICATES: Final = 'predicates are true, ["=", v] and ["mod", m, r] with integers m and r'
_FOUND: Final = "rows are an object of values by key, or a list of [key, v]"


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


def _found(given: Any, who: str) -> tuple[tuple[Any, Any], ...]:
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
            rows = _found(found, who)
            return Mop("rp", None, None, _predicate(predicate, who), rows, isinstance(found, dict))
    raise HistoryError(f"{who}: no micro-op: {str(given)[:80]}", remedy=_MOPS)


def parsed(mops: Any, who: str) -> tuple[Mop, ...]:
    """The micro-ops of a transaction, which errors call `who`. Raises HistoryError."""
    if not isinstance(mops, list | tuple):
        raise HistoryError(f"{who}: no list of micro-ops: {str(mops)[:80]}", remedy=_MOPS)
    return tuple(_mop(mop, who) for mop in mops)


def unanswered(given: Any) -> bool:
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
    return Rows(_found(given, who), isinstance(given, dict))
