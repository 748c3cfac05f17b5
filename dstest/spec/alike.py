"""Equal values that are not the same: in Python `1 == True == 1.0`, and a named tuple is equal to a
plain one. States that differ in such a value only must not stand for one another."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Set
from functools import cache
from typing import Any

from dstest.spec.model import fields_of


def alike(one: Any, two: Any) -> bool:
    """Are two equal values of the same types, and all that they hold? Of objects that are no
    dataclass, struct, tuple, set or mapping their own equality decides."""
    if one is two:
        return True
    kind = type(one)
    if kind is not type(two):
        return False
    inside = _inside(kind)  # type: ignore[arg-type]  # a class can be hashed
    return inside is None or inside(one, two)


@cache
def _inside(kind: type) -> Callable[[Any, Any], bool] | None:
    """How values of a type are compared by what they hold; None where they hold nothing."""
    if issubclass(kind, tuple | list):
        return _in_order
    if issubclass(kind, Set):
        return _of_sets
    if issubclass(kind, Mapping):
        return _of_mappings
    if hasattr(kind, "__dataclass_fields__") or hasattr(kind, "__struct_fields__"):
        return _of_fields
    return None


def _in_order(one: Any, two: Any) -> bool:
    return all(map(alike, one, two))


def _of_sets(one: Any, two: Any) -> bool:
    theirs = {value: value for value in two}
    return all(alike(value, theirs[value]) for value in one)


def _of_mappings(one: Any, two: Any) -> bool:
    return _of_sets(one.keys(), two.keys()) and all(alike(one[key], two[key]) for key in one)


def _of_fields(one: Any, two: Any) -> bool:
    mine = fields_of(one) or {}
    return all(alike(value, getattr(two, name)) for name, value in mine.items())
