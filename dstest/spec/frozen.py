"""`FrozenDict`: a mapping that can be part of a state."""

from __future__ import annotations

from collections.abc import Hashable, ItemsView, Iterable, Iterator, Mapping, ValuesView
from typing import Any, Generic, TypeVar, overload

from dstest.spec.model import shown

_K = TypeVar("_K", bound=Hashable)
_V = TypeVar("_V", bound=Hashable)
_T = TypeVar("_T")


class FrozenDict(Mapping[_K, _V], Generic[_K, _V]):
    """Keys and values can be hashed. `with_` and `without` give another one; what it costs to hash
    that is the cost of the items that differ."""

    __slots__ = ("_hash", "_items")

    def __init__(self, items: Mapping[_K, _V] | Iterable[tuple[_K, _V]] = ()) -> None:
        self._items: dict[_K, _V] = dict(items)
        self._hash = 0
        for item in self._items.items():
            self._hash ^= hash(item)

    def __getitem__(self, key: _K) -> _V:
        return self._items[key]

    def __iter__(self) -> Iterator[_K]:
        return iter(self._items)

    def __len__(self) -> int:
        return len(self._items)

    def __contains__(self, key: object) -> bool:
        return key in self._items

    def items(self) -> ItemsView[_K, _V]:
        return self._items.items()

    def values(self) -> ValuesView[_V]:
        return self._items.values()

    @overload
    def get(self, key: _K, /) -> _V | None: ...
    @overload
    def get(self, key: _K, /, default: _V | _T) -> _V | _T: ...
    def get(self, key: _K, /, default: Any = None) -> Any:
        return self._items.get(key, default)

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, FrozenDict):
            return NotImplemented
        return self._hash == other._hash and self._items == other._items

    def __repr__(self) -> str:
        pairs = sorted((shown(key), shown(value)) for key, value in self._items.items())
        return "{" + ", ".join(f"{key}: {value}" for key, value in pairs) + "}"

    def with_(self, changes: Mapping[_K, _V]) -> FrozenDict[_K, _V]:
        """With these items, instead of those that had their keys."""
        made = self._copied()
        for key, value in changes.items():
            if key in made._items:
                made._hash ^= hash((key, made._items[key]))
            made._items[key] = value
            made._hash ^= hash((key, value))
        return made

    def without(self, key: _K) -> FrozenDict[_K, _V]:
        """Without one that is there. Raises KeyError."""
        made = self._copied()
        made._hash ^= hash((key, made._items.pop(key)))
        return made

    def _copied(self) -> FrozenDict[_K, _V]:
        made: FrozenDict[_K, _V] = FrozenDict()
        made._items, made._hash = dict(self._items), self._hash
        return made
