"""Of what kind a value is in a typed language: read off annotations, and off values where these
leave it open (`Any`).

| Python | Quint | TLA+ |
|---|---|---|
| int, bool, str | int, bool, str | the same |
| tuple[T, ...] | List[T] | a sequence |
| tuple[A, B] | (A, B) | a tuple |
| frozenset[T] | Set[T] | a set |
| FrozenDict[K, V] | K -> V | a function |
| a dataclass, a NamedTuple | a record | a record |
| T or None | List[T] of one or none | a sequence of one or none |
"""

from __future__ import annotations

import dataclasses
import types
import typing
from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec

from dstest.core.errors import ConfigError
from dstest.spec.model import FrozenDict, fields_of

_PLAIN_KINDS: Final = (int, bool, str)


class Kind(msgspec.Struct, frozen=True):
    """`name` is int, bool, str, list, set, option, map, tuple, record, or nothing for what nobody
    knows, as of what an empty list holds. `of` is what is held, of a map its values; `key` its
    keys; `items` are the fields of a record, or `_1`, `_2`, .. of a tuple; `made` is the class of a
    record."""

    name: str
    of: Kind | None = None
    key: Kind | None = None
    items: tuple[tuple[str, Kind], ...] = ()
    made: type | None = None

    def __str__(self) -> str:
        if self.made is not None:
            return self.made.__name__
        if self.items:
            return f"({', '.join(str(kind) for _, kind in self.items)})"
        if self.key is not None:
            return f"map of {self.key} to {self.of}"
        return self.name if self.of is None else f"{self.name} of {self.of}"

    @property
    def held(self) -> Kind:
        """What it holds, nothing where nobody knows."""
        return self.of or NOTHING

    def item(self, name: str) -> Kind | None:
        """Of a field; None where there is none."""
        return dict(self.items).get(name)

    @property
    def is_open(self) -> bool:
        """Is a part of it not known?"""
        inner = (self.of, self.key, *(kind for _, kind in self.items))
        return self == NOTHING or any(one.is_open for one in inner if one is not None)


INT: Final = Kind("int")
BOOL: Final = Kind("bool")
STR: Final = Kind("str")
NOTHING: Final = Kind("nothing")


class Unlike(Exception):
    """Values of two kinds where one is wanted: `args` are both."""


class Text(msgspec.Struct, frozen=True):
    """A piece of the other language."""

    text: str
    kind: Kind


def list_of(kind: Kind) -> Kind:
    """A sequence."""
    return Kind("list", kind)


def set_of(kind: Kind) -> Kind:
    """A finite set."""
    return Kind("set", kind)


def option_of(kind: Kind) -> Kind:
    """That, or nothing (`None`)."""
    return kind if kind.name == "option" else Kind("option", kind)


def tuple_of(kinds: Iterable[Kind]) -> Kind:
    """So many values of these kinds."""
    return Kind("tuple", items=tuple((f"_{n}", kind) for n, kind in enumerate(kinds, 1)))


def join(a: Kind, b: Kind) -> Kind:
    """The kind of what is of either. Raises Unlike."""
    if a == b or b == NOTHING:
        return a
    if a == NOTHING:
        return b
    if "option" in (a.name, b.name):
        return option_of(join(*(one.held if one.name == "option" else one for one in (a, b))))
    if {a.name, b.name} == {"list", "tuple"}:
        row, some = (a, b) if a.name == "list" else (b, a)
        held = row.held
        for _, one in some.items:
            held = join(held, one)
        return list_of(held)
    same = a.name == b.name and a.made is b.made
    if not same or [n for n, _ in a.items] != [n for n, _ in b.items]:
        raise Unlike(a, b)
    return Kind(
        a.name,
        None if a.of is None or b.of is None else join(a.of, b.of),
        None if a.key is None or b.key is None else join(a.key, b.key),
        tuple((n, join(one, other)) for (n, one), (_, other) in zip(a.items, b.items, strict=True)),
        a.made,
    )


def alike(a: Kind, b: Kind) -> bool:
    """May one stand where the other does?"""
    try:
        join(a, b)
    except Unlike:
        return False
    return True


def kind_of_hint(hint: Any, where: str) -> Kind:
    """Of an annotation; nothing where values have to tell. Raises ConfigError for one that has no
    counterpart."""
    if hint in _PLAIN_KINDS:
        return Kind(hint.__name__)
    origin, args = typing.get_origin(hint), typing.get_args(hint)
    if hint is Any or (origin in (typing.Union, types.UnionType) and type(None) not in args):
        return NOTHING
    if origin in (typing.Union, types.UnionType):
        rest = [one for one in args if one is not type(None)]
        return option_of(kind_of_hint(rest[0], where) if len(rest) == 1 else NOTHING)
    if origin is tuple and len(args) == 2 and args[1] is Ellipsis:
        return list_of(kind_of_hint(args[0], where))
    if origin is tuple and args:
        return tuple_of(kind_of_hint(one, where) for one in args)
    if origin is frozenset and len(args) == 1:
        return set_of(kind_of_hint(args[0], where))
    if origin is FrozenDict:
        return Kind("map", kind_of_hint(args[1], where), kind_of_hint(args[0], where))
    if isinstance(hint, type) and (dataclasses.is_dataclass(hint) or hasattr(hint, "_fields")):
        return kind_of_class(hint)
    shown = hint if isinstance(hint, types.GenericAlias) else repr(hint)
    if isinstance(hint, type) and not isinstance(hint, types.GenericAlias):
        shown = hint.__qualname__
    raise ConfigError(
        f"{where} is {shown}, which is not exported",
        remedy="int, bool, str, tuple, frozenset, FrozenDict, frozen dataclasses of such",
    )


def _more_than_fields(cls: type) -> str:
    """What else decides what an instance is, or which are equal; empty where nothing does."""
    if "__post_init__" in {name for base in cls.__mro__ for name in vars(base)}:
        return "__post_init__"
    if not dataclasses.is_dataclass(cls):
        return "__eq__ of its own" if "__eq__" in vars(cls) else ""
    if hidden := next((one for one in dataclasses.fields(cls) if not one.compare), None):
        return f"{hidden.name} with compare=False"
    made = getattr(cls.__eq__, "__code__", None)  # dataclass makes it of a text
    return "" if made is None or made.co_filename == "<string>" else "__eq__ of its own"


def kind_of_class(cls: type) -> Kind:
    """A record of its fields. Raises ConfigError for a class that does more than hold them."""
    if odd := _more_than_fields(cls):
        raise ConfigError(
            f"{cls.__name__} has {odd}, which is not exported",
            remedy="plain frozen dataclasses; what it does belongs into the actions",
        )
    names: Any = getattr(cls, "__dataclass_fields__", None) or getattr(cls, "_fields", ())
    try:
        hints = typing.get_type_hints(cls)
    except NameError:  # of a class that was made in a function: values have to tell
        hints = {}
    items = tuple((n, kind_of_hint(hints.get(n, Any), f"{cls.__name__}.{n}")) for n in names)
    return Kind("record", items=items, made=cls)


def kind_of(value: Any) -> Kind:
    """Of a value. Raises Unlike for one that holds values of several kinds, ConfigError for one
    that has no counterpart."""
    return fit(NOTHING, value)


def fit(kind: Kind, value: Any) -> Kind:
    """The kind, with what this value, which is of it, tells besides. Raises as `kind_of`."""
    if isinstance(value, Text):
        return join(kind, value.kind)
    if value is None:
        return option_of(kind)
    if kind.name == "option":
        return option_of(fit(kind.held, value))
    if type(value) in _PLAIN_KINDS:
        return join(kind, Kind(type(value).__name__))
    if isinstance(value, tuple | list | range) and not hasattr(value, "_fields"):
        return _fit_row(kind, list(value))
    if isinstance(value, frozenset | set):
        return join(kind, set_of(_of_all(value, kind.held if kind.name == "set" else NOTHING)))
    if isinstance(value, FrozenDict | dict):
        key, of = (kind.key, kind.of) if kind.name == "map" else (NOTHING, NOTHING)
        keys, values = _of_all(value, key or NOTHING), _of_all(value.values(), of or NOTHING)
        return join(kind, Kind("map", values, keys))
    fields = fields_of(value)
    if fields is None:
        raise ConfigError(
            f"{value!r} is not exported", remedy="int, bool, str, tuples, sets, records of such"
        )
    whole = join(kind, kind_of_class(type(value)))
    items = tuple((name, fit(one, fields[name])) for name, one in whole.items)
    return msgspec.structs.replace(whole, items=items)


def _fit_row(kind: Kind, row: list[Any]) -> Kind:
    if kind.name == "tuple" and len(kind.items) == len(row):
        return tuple_of(fit(one, value) for (_, one), value in zip(kind.items, row, strict=True))
    if kind.name == "list":
        return join(kind, list_of(_of_all(row, kind.held)))
    try:
        found = list_of(_of_all(row, NOTHING))
    except Unlike:
        found = tuple_of(map(kind_of, row))
    return join(kind, found)


def _of_all(values: Iterable[Any], known: Kind) -> Kind:
    for one in values:
        known = fit(known, one)
    return known


def holds_text(value: Any) -> bool:
    """Is a part of it not known before the specification runs?"""
    if isinstance(value, Text):
        return True
    if isinstance(value, tuple | list | set | frozenset):
        return any(map(holds_text, value))
    if isinstance(value, Mapping):
        return any(holds_text(one) for pair in value.items() for one in pair)
    fields = fields_of(value)
    return fields is not None and any(map(holds_text, fields.values()))
