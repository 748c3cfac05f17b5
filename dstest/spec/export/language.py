"""How one language writes what a specification says (`Language`), and what Python means otherwise:
places counted from the end, parts that go beyond, values of one kind where another is wanted."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from dstest.core.errors import ConfigError
from dstest.spec.export.kinds import (
    BOOL,
    Kind,
    Text,
    Unlike,
    alike,
    fit,
    kind_of,
    list_of,
)
from dstest.spec.model import FrozenDict, fields_of, show


class Language(Protocol):
    """All take and give its text. A `name` is one that occurs nowhere else."""

    def word(self, name: str) -> str: ...
    def literal(self, value: Any) -> str: ...
    def both(self, parts: list[str]) -> str: ...
    def either(self, parts: list[str]) -> str: ...
    def negation(self, one: str) -> str: ...
    def arithmetic(self, sign: str, left: str, right: str) -> str: ...
    def quotient(self, one: str, divisor: str) -> str: ...
    def rest(self, one: str, divisor: str) -> str: ...
    def compare(self, sign: str, left: str, right: str) -> str: ...
    def choice(self, condition: str, yes: str, no: str) -> str: ...
    def let(self, name: str, value: str, body: str) -> str: ...
    def field(self, state: str, name: str) -> str: ...
    def record(self, fields: Mapping[str, str]) -> str: ...
    def changed(self, state: str, fields: Mapping[str, str]) -> str: ...
    def a_list(self, parts: list[str]) -> str: ...
    def a_set(self, parts: list[str]) -> str: ...
    def at(self, row: str, index: str) -> str: ...
    def part(self, row: str, start: str, end: str) -> str: ...
    def joined(self, parts: list[str]) -> str: ...
    def length(self, row: str) -> str: ...
    def size(self, group: str) -> str: ...
    def in_list(self, one: str, row: str) -> str: ...
    def in_set(self, one: str, group: str) -> str: ...
    def of_sets(self, sign: str, left: str, right: str) -> str: ...
    def upto(self, start: str, end: str) -> str: ...
    def members(self, row: str) -> str: ...
    def every(self, name: str, group: str, body: str) -> str: ...
    def some(self, name: str, group: str, body: str) -> str: ...
    def each(self, name: str, group: str, body: str) -> str: ...
    def the(self, name: str, group: str, condition: str) -> str: ...
    def only(self, name: str, group: str, condition: str) -> str: ...
    def a_tuple(self, parts: list[str]) -> str: ...
    def item(self, row: str, number: int) -> str: ...
    def a_map(self, pairs: list[tuple[str, str]], name: str) -> str: ...
    def keys(self, of: str) -> str: ...
    def looked(self, of: str, key: str) -> str: ...
    def mapped(self, name: str, keys: str, body: str) -> str: ...


def wanted(to: Language, of: Any, kind: Kind, what: str) -> str:
    """The value as a text of this kind. Raises ConfigError where it is of another kind."""
    try:
        return written(to, of, fit(kind, of) if kind.name == "option" else kind)
    except Unlike:
        had = of.kind if isinstance(of, Text) else kind_of(of)
        remedy = f"{kind}: bool(..) of what is only taken for true" if kind == BOOL else str(kind)
        raise ConfigError(
            f"{what} is {had} where {kind} is wanted, which is not exported", remedy=remedy
        ) from None


def written(to: Language, of: Any, kind: Kind) -> str:
    """The same. Raises Unlike."""
    if isinstance(of, Text):
        return _as_kind(to, of, kind)
    if kind.name == "option":
        return to.a_list([] if of is None else [written(to, of, kind.held)])
    fit(kind, of)
    if of is None:
        raise Unlike(kind_of(of), kind)
    match kind.name:
        case "nothing":
            return written(to, of, kind_of(of))
        case "list":
            return _row(to, of, kind)
        case "set":
            rows = sorted(of, key=_order)
            return to.a_set([written(to, one, kind.held) for one in rows])
        case "tuple":
            pairs = zip(of, kind.items, strict=True)
            return to.a_tuple([written(to, one, inner) for one, (_, inner) in pairs])
        case "map":
            return to.a_map(
                [
                    (written(to, key, kind.key or kind_of(key)), written(to, one, kind.held))
                    for key, one in sorted(of.items(), key=lambda pair: show(pair[0]))
                ],
                "k_",
            )
        case "record":
            fields = fields_of(of) or {}
            return to.record({name: written(to, fields[name], one) for name, one in kind.items})
    return to.literal(of)


def _order(value: Any) -> tuple[str, Any]:
    return type(value).__name__, value if isinstance(value, int | str) else show(value)


def _row(to: Language, row: Any, kind: Kind) -> str:
    return to.a_list([written(to, one, kind.held) for one in row])


def _as_kind(to: Language, of: Text, kind: Kind) -> str:
    if of.kind == kind or kind.name == "nothing":
        return of.text
    if kind.name == "option" and of.kind.name != "option":
        return to.a_list([_as_kind(to, of, kind.held)])
    if of.kind.name == "option" and kind.name != "option":
        return _as_kind(to, Text(to.at(of.text, to.literal(0)), of.kind.held), kind)
    if not alike(of.kind, kind) or (of.kind.name == "tuple" and kind.name == "list"):
        raise Unlike(of.kind, kind)
    if not _lifts(of.kind, kind):
        return of.text
    pairs = list(zip(of.kind.items, kind.items, strict=True))
    if of.kind.name == "tuple":
        parts = enumerate(pairs, 1)
        return to.a_tuple(
            [
                _as_kind(to, Text(to.item(of.text, n), one), other)
                for n, ((_, one), (_, other)) in parts
            ]
        )
    if of.kind.name == "record":
        return to.record(
            {
                name: _as_kind(to, Text(to.field(of.text, name), one), other)
                for (name, one), (_, other) in pairs
            }
        )
    raise Unlike(of.kind, kind)


def _lifts(had: Kind, kind: Kind) -> bool:
    """Would a part of it have to be written otherwise?"""
    pairs = [(had.of, kind.of), (had.key, kind.key)]
    pairs += [(one, other) for (_, one), (_, other) in zip(had.items, kind.items, strict=False)]
    return any(
        a is not None and b is not None and a.name != "nothing" and b.name != "nothing"
        and (("option" in (a.name, b.name) and a.name != b.name) or _lifts(a, b))
        for a, b in pairs
    )  # fmt: skip


def place(to: Language, row: Text, at: Text) -> str:
    """Counted from the front.

    Python counts from the end below 0; other languages count from the front, and go wrong outside
    of the sequence.
    """
    if at.text.isdigit():
        return at.text
    length = to.length(row.text)
    if at.text.startswith("-") and at.text[1:].isdigit():
        return to.arithmetic("-", length, at.text[1:])
    below = to.compare("<", at.text, to.literal(0))
    return to.choice(below, to.arithmetic("+", length, at.text), at.text)


def part(to: Language, row: Text, lower: Text | None, upper: Text | None) -> Text:
    """`row[lower:upper]`; None is the beginning or the end.

    It goes no further than the sequence, as in Python.
    """
    start = to.literal(0) if lower is None else _within(to, row, lower)
    end = to.length(row.text) if upper is None else _within(to, row, upper)
    if lower is not None and upper is not None:
        end = larger(to, start, end)
    return Text(to.part(row.text, start, end), list_of(row.kind.held))


def _within(to: Language, row: Text, bound: Text) -> str:
    at, length = place(to, row, bound), to.length(row.text)
    if at == to.literal(0):
        return at
    if not at.isdigit():
        at = larger(to, to.literal(0), at)
    return to.choice(to.compare("<", at, length), at, length)


def free_word(name: str, text: str) -> str:
    """A word that begins like this and is nowhere in the text."""
    while name in text:
        name += "x"
    return name


def larger(to: Language, a: str, b: str) -> str:
    """Of two numbers."""
    return to.choice(to.compare("<", a, b), b, a)


def merged(to: Language, one: Text, other: Text, name: str) -> Text:
    """A map with the items of another one instead of its own."""
    kind = Kind("map", fit(one.kind.held, Text("", other.kind.held)), one.kind.key)
    inside = to.in_set(name, to.keys(other.text))
    value = to.choice(inside, to.looked(other.text, name), to.looked(one.text, name))
    keys = to.of_sets("|", to.keys(one.text), to.keys(other.text))
    return Text(to.mapped(name, keys, value), kind)


def as_map(value: Any) -> Any:
    """A dict with parts that are not known, as one."""
    return dict(value) if isinstance(value, FrozenDict) else value
