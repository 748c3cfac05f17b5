"""What is neither true nor false holds nowhere: no layer takes it for true, nor for false."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import pytest
from notation import op as parsed

from dstest.core.errors import ConfigError
from dstest.spec import Record, Spec, Step, action, invariant, maps, when
from dstest.spec.against import drive_against
from dstest.spec.conform import conform_history, conform_log
from dstest.spec.drive import drive_to
from dstest.spec.explore import explore, walk
from dstest.spec.live import Monitor
from dstest.spec.mapping import Event
from dstest.spec.model import Model, model_of
from dstest.spec.mutate import campaign
from dstest.spec.taking import replay, why

pytestmark = pytest.mark.slow


@dataclass(frozen=True)
class S:
    x: int = 0


class Up(Spec):
    most = 4

    def initial(self) -> Iterable[S]:
        yield S()

    def done(self, s: S) -> bool:
        return True

    def answer_of(self, s: S, step: Step, after: S) -> Any:
        return ...

    @action()
    @when("below", lambda self, s: s.x < self.most)
    def up(self, s: S) -> S:
        return S(s.x + 1)

    @maps("up")
    def of_up(self, record: Record) -> Iterable[Step]:
        yield Step("up")

    @invariant("U1", "never negative")
    def positive(self, s: S) -> bool:
        return s.x >= 0


LOG = [Event("up", {}), Event("down", {})]
OPS = [parsed("0 up -> @1-2", 0), parsed("0 down -> @3-4", 1)]


class Silent:
    """A system that answers nothing."""

    def take(self, step: Step) -> Any:
        return None

    def close(self) -> None:
        pass


def sampled(model: Model) -> None:
    """A monitor tells at once what it could not evaluate."""
    broken = Monitor(model, lambda: 0, lambda _: None).sample(S())
    raise ConfigError("; ".join(one.error or "" for one in broken))


STATES: dict[str, Callable[[Model], Any]] = {
    "explore": explore,
    "simulate": lambda model: walk(model, seed=1, walks=3),
    "mutate": campaign,
    "conform, a log": lambda model: conform_log(model, LOG),
    "conform, a history": lambda model: conform_history(model, OPS),
}
LAYERS: dict[str, dict[str, Callable[[Model], Any]]] = {
    "state": {**STATES, "live": sampled},
    "action": STATES,
    "sometimes": STATES,
    "guard": {
        **STATES,
        "why": lambda model: why(model, "down", model.initial),
        "replay": lambda model: replay(model, [Step("down")]),
        "drive": lambda model: drive_to(model, S(3)),
        "against": lambda model: drive_against(model, lambda _: Silent(), seed=1),
    },
    "done": {name: STATES[name] for name in ("explore", "simulate", "mutate")},
}
"""What a specification says, and all that ask for it."""


def odd_in(part: str, given: Callable[[S], Any]) -> Spec:
    class Odd(Up):
        def done(self, s: S) -> bool:
            return given(s) if part == "done" else True

        @action()
        @when("whatever", lambda s: given(s) if part == "guard" else True)
        def down(self, s: S) -> S:
            return S()

        @maps("down")
        def of_down(self, record: Record) -> Iterable[Step]:
            yield Step("down")

    class OfStates(Odd):
        @invariant("O1", "whatever")
        def whatever(self, s: S) -> bool:
            return given(s)  # type: ignore[no-any-return]

    class OfSteps(Odd):
        @invariant("O1", "whatever", kind="action")
        def whatever(self, before: S, step: Step, after: S) -> bool:
            return given(after)  # type: ignore[no-any-return]

    class Sometimes(Odd):
        @invariant("O1", "whatever", kind="sometimes")
        def whatever(self, s: S) -> bool:
            return given(s)  # type: ignore[no-any-return]

    class Ends(Odd):
        """In a state without a way on."""

        @action()
        @when("never", lambda s: False)
        def down(self, s: S) -> S:
            return S()

    kinds = {"state": OfStates, "action": OfSteps, "sometimes": Sometimes, "done": Ends}
    return kinds.get(part, Odd)()


@pytest.mark.parametrize(
    "given",
    [
        lambda s: iter([False]),
        lambda s: (False, "why"),
        lambda s: "no",
        lambda s: None,
        lambda s: 1,
        lambda s: s.x,
    ],
    ids=["generator", "tuple", "text", "nothing", "one", "number"],
)
@pytest.mark.parametrize(
    ("part", "layer"), [(part, layer) for part, layers in LAYERS.items() for layer in layers]
)
def test_what_is_neither_true_nor_false(part: str, layer: str, given: Callable[[S], Any]) -> None:
    said = {"guard": "guard 'whatever'", "done": r"done\(\) of Ends"}.get(part, "invariant O1")
    with pytest.raises(ConfigError, match=f"{said}.* neither true nor false"):
        LAYERS[part][layer](model_of(odd_in(part, given)))


@pytest.mark.parametrize("asked", ["after", "too_late", "only_reads"])
@pytest.mark.parametrize("given", [iter([False]), None, 1, "no"])
def test_what_a_mapping_says_is_true_or_false(asked: str, given: Any) -> None:
    said: dict[str, Any] = {asked: lambda *_: given}

    class Odd(Up):
        @action()
        def down(self, s: S) -> S:
            return S()

        @maps("down", **said)
        def of_down(self, record: Record) -> Iterable[Step]:
            yield Step("down")

    ops = [*OPS, parsed("0 down -> ? @5-6", 2)]
    with pytest.raises(ConfigError, match=f"{asked} of 'down' gave .* neither true nor false"):
        conform_history(model_of(Odd()), ops)


def test_an_invariant_that_raises_says_where_in_each_layer() -> None:
    class Raises(Up):
        ignores = frozenset({"down"})

        @invariant("O1", "whatever")
        def whatever(self, s: S) -> bool:
            return 1 // s.x > 0

    for run in STATES.values():
        with pytest.raises(ConfigError, match="ZeroDivisionError"):
            run(model_of(Raises()))
