"""What would make a specification hold that does not: each is refused, or told."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from dstest.core.errors import ConfigError
from dstest.spec import Spec, System, action, invariant, when
from dstest.spec.compose import load
from dstest.spec.explore import explore, walk
from dstest.spec.model import model_of
from dstest.spec.taking import replay, why
from dstest.spec.trace import read_trace, steps_in, to_bytes


@dataclass(frozen=True)
class S:
    x: int = 0


class Up(Spec):
    most = 4

    def initial(self) -> Iterable[S]:
        yield S()

    def done(self, s: S) -> bool:
        return True

    @action()
    @when("below", lambda self, s: s.x < self.most)
    def up(self, s: S) -> S:
        return S(s.x + 1)

    @invariant("U1", "never negative")
    def positive(self, s: S) -> bool:
        return s.x >= 0


def wrapped() -> type:
    class Wrapped(Up):
        @invariant("W1", "never three")
        @functools.cache  # noqa: B019
        def three(self, s: S) -> bool:
            return s.x != 3

    return Wrapped


def static() -> type:
    class Static(Up):
        @staticmethod
        @invariant("W1", "never three")
        def three(s: S) -> bool:
            return s.x != 3

    return Static


def twice() -> type:
    class Twice(Up):
        @invariant("W1", "never three")
        def three(self, s: S) -> bool:
            return s.x != 3

        @invariant("W2", "never four")  # type: ignore[no-redef]
        def three(self, s: S) -> bool:  # noqa: F811
            return s.x != 4

    return Twice


def overridden() -> type:
    class Overridden(Up):
        def positive(self, s: S) -> bool:
            return True

    return Overridden


@pytest.mark.parametrize("made", [wrapped, static, twice, overridden])
def test_an_invariant_that_would_not_be_seen(made: Callable[[], type]) -> None:
    with pytest.raises(ConfigError, match=r"which is no action|defined twice|is not marked"):
        made()


def test_one_that_takes_the_place_of_another_and_is_marked() -> None:
    class Strict(Up):
        @invariant("U1", "never three")
        def positive(self, s: S) -> bool:
            return s.x != 3

    assert [one.id for one in explore(model_of(Strict())).violations] == ["U1"]


def test_states_that_are_made_one_and_differ() -> None:
    class Modulo(Up):
        def canonical(self, s: S) -> S:
            return S(s.x % 2)

        @invariant("M1", "below three")
        def below(self, s: S) -> bool:
            return s.x < 3

    seen = explore(model_of(Modulo()))
    assert [one.id for one in seen.violations] == ["M1"]
    assert seen.violations[0].trace.last == S(3)

    class Lost(Up):
        def canonical(self, s: S) -> S:
            return S(0) if s.x < 2 else s

    with pytest.raises(ConfigError, match="no state that stands for it was seen"):
        explore(model_of(Lost()))


def test_one_state_for_others_may_be_of_another_type() -> None:
    class Keyed(Up):
        def canonical(self, s: S) -> tuple[int]:
            return (s.x,)

        @invariant("K1", "four is reached", kind="liveness")
        def four(self, s: S) -> bool:
            return s.x == 4

    assert explore(model_of(Keyed())).outcome == "holds"


def test_a_state_that_an_action_changes() -> None:
    @dataclass(frozen=True)
    class Loose:
        rows: Any = field(default_factory=list, hash=False, compare=False)
        n: int = 0

    class Changes(Spec):
        def initial(self) -> Iterable[Loose]:
            yield Loose()

        @action()
        @when("few", lambda s: s.n < 3)
        def add(self, s: Loose) -> Loose:
            s.rows.append(1)
            return replace(s, n=s.n + 1)

        @invariant("C1", "few")
        def few(self, s: Loose) -> bool:
            return len(s.rows) < 3

    with pytest.raises(ConfigError, match="has changed the state that it was given"):
        explore(model_of(Changes()))


def test_a_constant_that_would_change_nothing() -> None:
    class Fixed(Spec):
        clients = (1, 2)

        def initial(self) -> Iterable[S]:
            yield S()

        @action(c=clients)
        def take(self, s: S, c: int) -> S:
            return S(c)

    model_of(Fixed())
    with pytest.raises(ConfigError, match="is clients as the class has it"):
        model_of(Fixed(clients=(1, 2, 3)))


def test_a_domain_that_is_read_once() -> None:
    class Once(Up):
        @action(c=(n for n in (1, 2)))
        def take(self, s: S, c: int) -> S:
            return S(c)

    with pytest.raises(ConfigError, match="is a generator"):
        model_of(Once())


class Wide(Spec):
    """It begins anywhere; what can be done depends on where."""

    def initial(self) -> Iterable[S]:
        yield from (S(0), S(10), S(20))

    def done(self, s: S) -> bool:
        return True

    @action()
    @when("ten", lambda s: s.x >= 10)
    @when("not twenty", lambda s: s.x < 20)
    def go(self, s: S) -> S:
        return S(99)

    @invariant("W1", "never 99")
    def never(self, s: S) -> bool:
        return s.x != 99


def test_all_places_where_it_may_begin(tmp_path: Path) -> None:
    model = model_of(Wide())
    found = why(model, "go", model.initial)
    assert found.enabled == ((),)
    (violation,) = explore(model).violations
    file = tmp_path / "t.json"
    file.write_bytes(to_bytes(model, violation.trace))
    read = steps_in(model, read_trace(file))
    assert read.start == S(10)
    assert replay(model, read.steps, read.start).trace == violation.trace


def test_a_trace_of_another_model(tmp_path: Path) -> None:
    model = model_of(Up())
    trace = replay(model, [next(model.steps(S()))[0]]).trace
    file = tmp_path / "t.json"
    file.write_bytes(to_bytes(model, trace))
    for other, said in ((Wide(), "a trace of Up"), (Up(most=9), "other constants: most")):
        with pytest.raises(ConfigError, match=said):
            steps_in(model_of(other), read_trace(file))
    file.write_bytes(to_bytes(model, trace).replace(b"S(x=0)", b"S(x=7)"))
    with pytest.raises(ConfigError, match="does not begin in"):
        steps_in(model, read_trace(file))
    file.write_text('{"spec": "Up", "constants": {"most": "4"}, "initial": "S(x=0)", "steps": []}')
    with pytest.raises(ConfigError, match="no step"):
        steps_in(model, read_trace(file))


def test_the_same_part_twice() -> None:
    class Both(System):
        parts = {"left": Up(most=1), "right": Up(most=2)}

    seen = explore(model_of(Both()), deadlock=False)
    assert set(seen.counts) == {"left.U1", "right.U1"}


def test_what_is_never_walked_is_no_deadlock() -> None:
    class Back(Up):
        def done(self, s: S) -> bool:
            return False

        @action()
        @when("high", lambda s: s.x > 0)
        def back(self, s: S) -> S:
            return S(s.x - 1)

    seen = walk(model_of(Back()), seed=1, walks=5, weights={"back": 0})
    assert seen.outcome == "bounded"


def test_a_file_whose_functions_raise_says_where(tmp_path: Path) -> None:
    file = tmp_path / "bad.py"
    file.write_text(
        "from dataclasses import dataclass\n"
        "from dstest.spec import Spec, action, invariant\n"
        "@dataclass(frozen=True)\nclass S:\n    x: int = 0\n"
        "class Bad(Spec):\n"
        "    def initial(self):\n        yield S()\n"
        "    @action()\n    def go(self, s):\n        return S(1 // s.x)\n"
    )
    model = load(str(file))
    with pytest.raises(ConfigError, match="ZeroDivisionError"):
        list(model.steps(model.initial[0]))


def test_a_result_by_the_word_of_canonical_says_so() -> None:
    class Same(Up):
        def canonical(self, s: S) -> S:
            return s

    assert explore(model_of(Same())).merged
    assert not explore(model_of(Up())).merged
