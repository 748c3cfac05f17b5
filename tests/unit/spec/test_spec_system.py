"""Specifications of parts: nothing of a part is lost without a word."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any

import pytest

from dstest.core.errors import ConfigError
from dstest.spec import Spec, System, action, invariant, when
from dstest.spec.explore import explore
from dstest.spec.model import model_of


@dataclass(frozen=True)
class S:
    x: int = 0


class Part(Spec):
    most = 2
    steps = (1, 2)

    def initial(self) -> Iterable[S]:
        yield S()

    def done(self, s: S) -> bool:
        return True

    @action()
    @when("below", lambda self, s: s.x < self.most)
    def up(self, s: S) -> S:
        return S(s.x + 1)

    @invariant("P1", "never two")
    def below(self, s: S) -> bool:
        return s.x < 2


class Inner(System):
    parts = {"part": Part()}


def test_a_system_within_a_system() -> None:
    assert [one.id for one in explore(model_of(Inner())).violations] == ["P1"]

    class Outer(System):
        parts = {"inner": Inner(), "beside": Part(most=1)}

    with pytest.raises(ConfigError, match="'inner' of Outer is a whole itself"):
        Outer()


def with_domain(given: Any) -> type[Spec]:
    class Adds(Part):
        @action(by=given)
        @when("low", lambda s: s.x < 3)
        def add(self, s: S, by: int) -> S:
            return S(s.x + by)

    return Adds


DOMAINS: dict[str, tuple[Callable[[], Any], dict[str, Any], str]] = {
    "read once": (lambda: (n for n in (1, 2)), {}, "is a generator"),
    "of a constant": (lambda: Part.steps, {"steps": (5,)}, "is steps as the class has it"),
}


@pytest.mark.parametrize("name", DOMAINS)
def test_domains_of_a_part_are_looked_at_as_any(name: str) -> None:
    made, constants, said = DOMAINS[name]
    part = with_domain(made())(**constants)

    class Whole(System):
        parts = {"part": part}

    for spec in (part, Whole()):
        with pytest.raises(ConfigError, match=f"parameter 'by' of action 'add'.* {said}"):
            model_of(spec)


@pytest.mark.parametrize("name", DOMAINS)
def test_domains_of_the_whole_are_looked_at_as_any(name: str) -> None:
    made, constants, said = DOMAINS[name]
    given = made()

    class Whole(System):
        parts = {"part": Part()}
        steps = given if constants else ()

        @action(by=given)
        def add(self, s: Any, by: int) -> Any:
            return replace(s, part=S(s.part.x + by))

    with pytest.raises(ConfigError, match=said):
        model_of(Whole(**constants))


def test_only_a_canonical_of_its_own_makes_states_one() -> None:
    """A part cannot say which states of the whole are one: names may be shared."""

    class Merges(Part):
        def canonical(self, s: S) -> S:
            return S(s.x % 2)

    class Whole(System):
        parts = {"left": Merges(most=1), "right": Merges(most=1)}

    said = explore(model_of(Whole()))
    assert (said.states, said.merged) == (2, False)

    class Folded(Whole):
        def canonical(self, s: Any) -> Any:
            return s.left

    assert explore(model_of(Folded())).merged


def test_an_action_of_a_part_gives_a_state_of_it() -> None:
    class Wrong(Spec):
        def initial(self) -> Iterable[S]:
            yield S()

        @action()
        def go(self, s: S) -> Any:
            return 3

    class Whole(System):
        parts = {"part": Wrong()}

    for spec in (Wrong(), Whole()):
        with pytest.raises(ConfigError, match="gave 3, which is no S"):
            explore(model_of(spec))


@pytest.mark.parametrize("given", [iter([False]), None, 1])
def test_whether_a_part_is_done_is_true_or_false(given: Any) -> None:
    class Odd(Part):
        def done(self, s: S) -> bool:
            return given  # type: ignore[no-any-return]

    class Whole(System):
        parts = {"part": Odd(most=1)}

    with pytest.raises(ConfigError, match=r"done\(\) of part gave .* neither true nor false"):
        explore(model_of(Whole()))
