"""States that are equal in Python and differ in the types of their values are not one."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple

import msgspec
import pytest

from dstest.core.errors import ConfigError
from dstest.spec import FrozenDict, Spec, action, invariant, when
from dstest.spec.consensus.replication import EMPTY, Row
from dstest.spec.explore import alike, explore
from dstest.spec.model import model_of


@dataclass(frozen=True)
class S:
    x: Any = 0


class Pair(NamedTuple):
    a: int
    b: int


class Held(msgspec.Struct, frozen=True):
    x: Any


EQUAL: tuple[tuple[Any, Any], ...] = (
    (1, True),
    (0, False),
    (2, 2.0),
    ((1, 2), (1, True + 1.0)),
    ((1, 2), Pair(1, 2)),
    (frozenset({0, 1}), frozenset({False, 1})),
    (FrozenDict({1: "a"}), FrozenDict({True: "a"})),
    (FrozenDict({"a": (1,)}), FrozenDict({"a": (True,)})),
    (Held(1), Held(True)),
    (S(1), S(1.0)),
)


@pytest.mark.parametrize(("one", "two"), EQUAL)
def test_equal_and_not_alike(one: Any, two: Any) -> None:
    assert one == two and not alike(one, two) and not alike(two, one)


@pytest.mark.parametrize(
    ("one", "two"),
    [
        *((a, a) for a, _ in EQUAL),
        (S((1, FrozenDict({1: 2}))), S((1, FrozenDict({1: 2})))),
        (EMPTY.then(Row(1, "a")), EMPTY.then(Row(1, "a"))),
    ],
)
def test_what_is_the_same(one: Any, two: Any) -> None:
    assert one == two and alike(one, two)


class Sets(Spec):
    """An invariant fails of what another state would stand for."""

    first: Any = 1
    second: Any = None

    def initial(self) -> Iterable[S]:
        yield S()

    def done(self, s: S) -> bool:
        return True

    @action()
    @when("first", lambda s: s.x == 0)
    def one(self, s: S) -> S:
        return S(self.first)

    @action()
    @when("second", lambda s: s.x == 0)
    def two(self, s: S) -> S:
        return S(self.second)

    @invariant("T1", "never `True`")
    def never(self, s: S) -> bool:
        return s.x is not True


@pytest.mark.parametrize("second", [True, 1.0])
def test_states_of_different_types_are_not_one(second: Any) -> None:
    with pytest.raises(ConfigError, match="are equal, and of different types"):
        explore(model_of(Sets(second=second)))
    assert explore(model_of(Sets(second=2))).outcome == "holds"


def test_nor_are_those_in_which_it_may_begin() -> None:
    class Begins(Sets):
        def initial(self) -> Iterable[S]:
            yield from (S(1), S(True))

    with pytest.raises(ConfigError, match=r"S\(x=True\) and S\(x=1\) are equal"):
        explore(model_of(Begins()))
