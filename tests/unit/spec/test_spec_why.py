"""Why an action cannot be taken: the two guards that contradict one another, and no others."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

import pytest
import textbook

from dstest.core.errors import ConfigError
from dstest.spec import Spec, System, action, when
from dstest.spec.drive import drive_along, drive_to
from dstest.spec.model import Model, Step, model_of
from dstest.spec.taking import knock, replay, why, without_guards


@dataclass(frozen=True, slots=True)
class Point:
    x: int = 0
    y: int = 0


class Inner(Spec):
    """A part that lets `go` at two only."""

    def initial(self) -> Iterable[Point]:
        yield Point()

    @action()
    @when("below", lambda s: s.x < 5)
    def right(self, s: Point) -> Point:
        return replace(s, x=s.x + 1)

    @action()
    @when("below", lambda s: s.y < 3)
    def up(self, s: Point) -> Point:
        return replace(s, y=s.y + 1)

    @action()
    @when("positive", lambda s: s.y >= 0)
    @when("x_is_2", lambda s: s.x == 2)
    def go(self, s: Point) -> Point:
        return replace(s, y=0)


class Outer(System):
    """The whole lets it at three only."""

    parts = {"inner": Inner()}

    @action()
    @when("x_is_3", lambda s: s.inner.x == 3)
    @when("small", lambda s: s.inner.y < 2)
    def go(self, s: object) -> object:
        return s


def test_two_guards_at_two_levels_contradict_one_another() -> None:
    model = model_of(Outer())
    found = why(model, "go", model.initial)
    assert [one.guards for one in found.contradictions] == [("x_is_3", "sub:inner.x_is_2")]
    (one,) = found.contradictions
    assert one.levels == ("system", "sub:inner")
    assert one.across
    assert one.proved
    assert found.complete
    assert found.path is None
    refused = {row.guard: row.operands for row in found.refused}
    assert refused == {"x_is_3": {"s.inner.x": "0"}, "sub:inner.x_is_2": {"s.x": "0"}}


class OfThree(Inner):
    """Each two of them hold together somewhere, all three nowhere."""

    @action()
    @when("sum_even", lambda s: (s.x + s.y) % 2 == 0)
    @when("x_even", lambda s: s.x % 2 == 0)
    @when("y_odd", lambda s: s.y % 2 == 1)
    @when("near", lambda s: s.x < 5)
    def jump(self, s: Point) -> Point:
        return Point()


def test_a_contradiction_of_three_is_minimal() -> None:
    model = model_of(OfThree())
    found = why(model, "jump", model.initial)
    assert [one.guards for one in found.contradictions] == [("sum_even", "x_even", "y_odd")]
    assert not found.contradictions[0].across


class Far(Inner):
    @action()
    @when("corner", lambda s: (s.x, s.y) == (5, 3))
    @when("right", lambda s: s.x >= 5)
    def end(self, s: Point) -> Point:
        return s


def test_what_can_be_reached_is_no_contradiction() -> None:
    model = model_of(Far())
    found = why(model, "end", model.initial)
    assert not found.contradictions
    assert found.path is not None
    assert found.step is not None
    assert len(found.path.steps) == 8
    assert model.action("end").enabled(found.path.last, ())
    assert replay(model, found.path.steps).trace == found.path


def test_what_was_not_seen_of_many_states_is_not_proved() -> None:
    model = model_of(Outer())
    found = why(model, "go", model.initial, most_states=8, walks=20)
    assert not found.complete
    assert all(not one.proved for one in found.contradictions)


def test_an_enabled_action_is_said_to_be() -> None:
    model = model_of(Inner())
    found = why(model, "go", [Point(2, 0)])
    assert found.enabled == ((),)
    assert not found.refused


class Relies(Inner):
    @action()
    @when("there", lambda s: s.x > 3)
    @when("divides", lambda s: 12 % (s.x - s.x % 4) == 0)
    def divide(self, s: Point) -> Point:
        return s


def test_a_guard_that_relies_on_another_is_undefined_not_false() -> None:
    model = model_of(Relies())
    found = why(model, "divide", model.initial)
    assert {row.guard: row.truth for row in found.refused} == {
        "there": "false",
        "divides": "undefined",
    }


def many(guards: int, wrong: set[int]) -> Model:
    """Guards whose only parameter is the state."""
    truth = [number not in wrong for number in range(guards)]

    def rule(value: bool) -> Callable[[Point], bool]:
        return lambda s: value

    def go(self: Spec, s: Point) -> Point:
        return s

    function: Callable[..., object] = go
    for number in reversed(range(guards)):
        function = when(f"g{number:03}", rule(truth[number]))(function)
    namespace = {"go": action()(function), "initial": lambda self: iter([Point()])}
    return model_of(type("Many", (Spec,), namespace)())


@pytest.mark.parametrize("seed", range(20))
def test_a_smallest_set_of_guards_in_few_questions(seed: int) -> None:
    rng = random.Random(seed)
    guards = rng.choice([8, 16, 64])
    wrong = set(rng.sample(range(guards), rng.randint(1, 4)))
    model = many(guards, wrong)

    def accepts(changed: Model) -> bool:
        return replay(changed, [Step("go")]).refused is None

    found = knock(model, accepts)
    assert found.guards == tuple(f"go.g{number:03}" for number in sorted(wrong))
    assert found.asked <= 2 * math.log2(guards) * len(wrong) + 2
    for back in found.guards:
        assert not accepts(without_guards(model, set(found.guards) - {back}))


def test_what_no_guard_forbids_is_not_laid_at_a_guard() -> None:
    model = many(4, set())
    assert knock(model, lambda _: True).guards == ()
    assert knock(model, lambda _: False).guards is None


@pytest.mark.parametrize("seed", range(20))
def test_driven_to_a_planted_state(seed: int) -> None:
    """A state that random steps have reached, of each model in turn; then along its trace."""
    specs = [textbook.DieHard(), textbook.TwoPhase(), textbook.Hanoi(), textbook.PetersonByName()]
    model = model_of(specs[seed % 4])
    rng = random.Random(seed)
    state, steps = model.initial[0], []
    for _ in range(rng.randint(1, 12)):
        ways = list(model.steps(state))
        if not ways:
            break
        step, state = rng.choice(ways)
        steps.append(step)
    found = drive_to(model, state)
    assert found.how == "found"
    assert found.trace.last == state
    assert replay(model, found.trace.steps, found.trace.states[0]).trace == found.trace
    assert drive_to(model, lambda s: s == state).trace.last == state
    half = len(steps) // 2
    assert drive_along(model, steps, half).trace == replay(model, steps[:half]).trace


def test_a_state_that_cannot_be_reached_is_made_and_said_to_be() -> None:
    model = model_of(textbook.DieHard())
    found = drive_to(model, textbook.Jugs(1, 1))
    assert (found.how, found.complete, found.trace.last) == ("made", True, textbook.Jugs(1, 1))
    missing = drive_to(model, lambda s: s == textbook.Jugs(1, 1))
    assert (missing.how, missing.complete) == ("not found", True)


def test_a_step_that_is_not_enabled_ends_the_way() -> None:
    model = model_of(textbook.DieHard())
    with pytest.raises(ConfigError, match=r"step 1, empty_big\(\), is not enabled"):
        drive_along(model, [Step("fill_small"), Step("empty_big")])
