"""What is marked in a specification is read, or refused by class and method."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from dstest.core.errors import ConfigError
from dstest.spec import Spec, Step, action, invariant, maps, when
from dstest.spec.compose import load


@dataclass(frozen=True)
class S:
    x: int = 0


class Base(Spec):
    def initial(self) -> Iterable[S]:
        yield S()

    @action()
    @when("below", lambda s: s.x < 3)
    def up(self, s: S) -> S:
        return replace(s, x=s.x + 1)

    @invariant("B1", "never negative")
    def positive(self, s: S) -> bool:
        return s.x >= 0


def guards_without_action() -> type:
    class Dropped(Base):
        @when("above", lambda s: s.x > 0)
        def break_it(self, s: S) -> S:
            return replace(s, x=-1)

    return Dropped


def action_twice() -> type:
    class Dropped(Base):
        @action(by=(1, 2))
        @action()
        def break_it(self, s: S) -> S:
            return replace(s, x=-1)

    return Dropped


def guarded_invariant() -> type:
    class Dropped(Base):
        @when("above", lambda s: s.x > 0)
        @invariant("B2", "never two")
        def break_it(self, s: S) -> bool:
            return s.x != 2

    return Dropped


def invariant_twice() -> type:
    class Dropped(Base):
        @invariant("B2", "never two")
        @invariant("B3", "never three")
        def break_it(self, s: S) -> bool:
            return s.x != 2

    return Dropped


def action_and_invariant() -> type:
    class Dropped(Base):
        @action()
        @invariant("B2", "never two")
        def break_it(self, s: S) -> S:
            return s

    return Dropped


def guarded_mapping() -> type:
    class Dropped(Base):
        @when("above", lambda s: s.x > 0)
        @maps("up")
        def break_it(self, record: object) -> Iterable[Step]:
            yield Step("up")

    return Dropped


def static_guards() -> type:
    class Dropped(Base):
        @staticmethod
        @when("above", lambda s: s.x > 0)
        def break_it(s: S) -> S:
            return replace(s, x=-1)

    return Dropped


def static_mapping() -> type:
    class Dropped(Base):
        @staticmethod
        @maps("up")
        def break_it(record: object) -> Iterable[Step]:
            yield Step("up")

    return Dropped


def mixed_in() -> type:
    class Mixin:
        @when("above", lambda s: s.x > 0)
        def break_it(self, s: S) -> S:
            return replace(s, x=-1)

    class Dropped(Mixin, Base):
        pass

    return Dropped


@pytest.mark.parametrize(
    "made",
    [
        guards_without_action,
        action_twice,
        guarded_invariant,
        invariant_twice,
        action_and_invariant,
        guarded_mapping,
        static_guards,
        static_mapping,
        mixed_in,
    ],
)
def test_what_is_marked_and_nothing_reads_is_an_error(made: Callable[[], type]) -> None:
    with pytest.raises(ConfigError) as caught:
        made()
    assert "break_it" in caught.value.message
    assert caught.value.remedy


def test_a_marked_function_outside_of_a_class_is_an_error(tmp_path: Path) -> None:
    file = tmp_path / "out.py"
    file.write_text(
        "from dataclasses import dataclass\n"
        "from dstest.spec import Spec, action, invariant\n"
        "@dataclass(frozen=True)\nclass S:\n    x: int = 0\n"
        "class One(Spec):\n    def initial(self):\n        yield S()\n"
        "    @action()\n    def stay(self, s):\n        return s\n"
        "@invariant('X1', 'never')\ndef never(self, s):\n    return False\n"
    )
    with pytest.raises(ConfigError, match="never is marked, and stands in no class"):
        load(str(file))


def test_attributes_that_mean_another_one_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"Odd\.per_keys"):

        class Odd(Base):
            per_keys = True

    with pytest.raises(ConfigError, match=r"Odd2\.ignore\b"):

        class Odd2(Base):
            ignore = frozenset({"read"})


def test_an_attribute_of_another_type_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"Odd\.ignores"):

        class Odd(Base):
            ignores = "read"  # type: ignore[assignment]


def test_a_constant_of_a_near_name_and_another_type_is_one() -> None:
    class Fine(Base):
        crashes = 2
        keys = ("a", "b")

    assert Fine(crashes=3).crashes == 3
