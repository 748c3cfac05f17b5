"""All states of a model: as many as its arithmetic says, and a shortest way to what is wrong."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

import pytest
import textbook

from dstest.core.errors import ConfigError
from dstest.spec import Spec, action, invariant, when
from dstest.spec.declare import KINDS
from dstest.spec.explore import explore
from dstest.spec.model import model_of
from dstest.spec.taking import replay


@pytest.mark.parametrize("sizes", [(3, 5), (2, 4), (4, 7), (6, 9)])
def test_jugs(sizes: tuple[int, int]) -> None:
    model = model_of(textbook.DieHard(small_size=sizes[0], big_size=sizes[1], wanted=-1))
    seen = explore(model)
    assert (seen.states, seen.outcome) == (textbook.jugs_states(*sizes), "holds")


@pytest.mark.parametrize("disks", [1, 3, 5])
def test_hanoi(disks: int) -> None:
    model = model_of(textbook.Hanoi(disks=disks))
    assert explore(model, all_violations=True).states == 3**disks
    (violation,) = explore(model).violations
    assert len(violation.trace.steps) == 2**disks - 1


@pytest.mark.parametrize("seats", [2, 3, 4, 5])
def test_philosophers(seats: int) -> None:
    model = model_of(textbook.Philosophers(seats=seats))
    seen = explore(model, all_violations=True)
    assert seen.states == textbook.philosophers_states(seats)
    (violation,) = seen.violations
    assert violation.id == "deadlock"
    assert len(violation.trace.steps) == seats
    assert explore(model, deadlock=False).outcome == "holds"


@pytest.mark.parametrize(("rms", "states"), [(1, 12), (2, 56), (3, 288), (4, 1568)])
def test_two_phase_commit(rms: int, states: int) -> None:
    """288 is what TLC says of three (Lamport's video course); the others are counted below."""
    seen = explore(model_of(textbook.TwoPhase(rms=rms)), deadlock=False)
    assert (seen.states, seen.outcome) == (states, "holds")
    assert states == by_hand(rms)
    assert seen.counts["TP3"].passed == states


def by_hand(rms: int) -> int:
    """Without a model: a state of the manager, what it has heard, and of each what it has sent and
    what it is. `sent` is forced by the state, but for one that was prepared and then told."""
    total = 0
    for tm in ("init", "committed", "aborted"):
        for one in itertools.product(_of_one(tm), repeat=rms):
            heard = [h for h, _ in one]
            if tm == "committed" and not all(heard):
                continue
            total += 1
    return total


def _of_one(tm: str) -> list[tuple[bool, str]]:
    """(was it heard to be prepared, what it is with whether it sent that) for one resource."""
    sent = [(False, "working"), (False, "aborted"), (False, "prepared"), (True, "prepared")]
    if tm == "committed":
        return [(True, "prepared"), (True, "committed")]
    if tm == "aborted":
        return [*sent, (False, "aborted, sent"), (True, "aborted, sent")]
    return sent


def test_mutual_exclusion() -> None:
    by_name = explore(model_of(textbook.PetersonByName()))
    merged = explore(model_of(textbook.Peterson()))
    assert (by_name.outcome, merged.outcome) == ("holds", "holds")
    assert by_name.states == brute_force_peterson()
    assert by_name.states / 2 <= merged.states < by_name.states


def brute_force_peterson() -> int:
    """With integers and a list, no line of which is shared with the model."""
    seen, todo = set(), [(0, 0, 0), (0, 0, 1)]
    while todo:
        a, b, turn = todo.pop()
        if (a, b, turn) in seen:
            continue
        seen.add((a, b, turn))
        for me, other, is_a in ((a, b, True), (b, a, False)):
            my_turn = turn == (0 if is_a else 1)
            after, next_turn = (me + 1) % 4, turn
            if me == 1:
                next_turn = 1 if is_a else 0
            if me == 2 and other != 0 and not my_turn:
                continue
            todo.append((after, b, next_turn) if is_a else (a, after, next_turn))
    return len(seen)


def test_the_trace_is_one_of_the_model_and_a_shortest_one() -> None:
    model = model_of(textbook.DieHard())
    (violation,) = explore(model).violations
    done = replay(model, violation.trace.steps)
    assert done.refused is None
    assert done.trace == violation.trace
    assert done.trace.last.big == 4
    assert len(violation.trace.steps) == 6
    assert explore(model, max_depth=5).outcome == "bounded"


def test_a_trace_through_merged_states_is_one_of_the_model() -> None:
    class Wrong(textbook.Peterson):
        @invariant("PE9", "never both want")
        def both(self, s: textbook.Two) -> bool:
            return s.pc != ("wants", "wants")

    model = model_of(Wrong())
    (violation,) = explore(model).violations
    assert replay(model, violation.trace.steps, violation.trace.states[0]).refused is None
    assert violation.trace.last.pc == ("wants", "wants")


@dataclass(frozen=True, slots=True)
class Count:
    n: int = 0


class Counter(Spec):
    most = 3

    def initial(self) -> Iterable[Count]:
        yield Count()

    def done(self, s: Count) -> bool:
        return s.n == self.most

    @action(by=(1,))
    @when("below", lambda self, s, by: s.n + by <= self.most)
    def add(self, s: Count, by: int) -> Count:
        return replace(s, n=s.n + by)

    @invariant("C1", "never more than allowed")
    def bounded(self, s: Count) -> bool:
        return s.n <= self.most

    @invariant("C2", "grows", kind="action")
    def grows(self, before: Count, step: Any, after: Count) -> bool:
        return bool(after.n == before.n + step.args[0])


class WithoutAWay(Counter):
    @invariant("C3", "back at the beginning", kind="liveness")
    def again(self, s: Count) -> bool:
        return s.n == 0


class NeverThere(Counter):
    @invariant("C4", "seven is reached", kind="sometimes")
    def seven(self, s: Count) -> bool:
        return s.n == 7


class WrongStep(Counter):
    @invariant("C5", "never from two to three", kind="action")
    def two(self, before: Count, step: Any, after: Count) -> bool:
        return (before.n, after.n) != (2, 3)


@pytest.mark.parametrize(
    ("spec", "id_", "length"), [(WithoutAWay, "C3", 1), (NeverThere, "C4", 0), (WrongStep, "C5", 3)]
)
def test_each_kind_can_be_violated(spec: type[Spec], id_: str, length: int) -> None:
    seen = explore(model_of(spec()))
    assert seen.outcome == "violated"
    assert [(one.id, len(one.trace.steps)) for one in seen.violations] == [(id_, length)]
    assert seen.counts[id_].failed
    others = {i: c.failed for i, c in seen.counts.items() if i != id_}
    assert not any(others.values())


def test_what_only_the_whole_can_show_is_not_said_of_a_part() -> None:
    for spec in (WithoutAWay, NeverThere):
        seen = explore(model_of(spec()), max_states=2)
        assert not seen.violations
        assert seen.outcome in ("bounded", "vacuous")


def test_nothing_to_hold_is_vacuous() -> None:
    class Empty(Spec):
        def initial(self) -> Iterable[Count]:
            yield Count()

        @action()
        def stay(self, s: Count) -> Count:
            return s

    assert explore(model_of(Empty())).outcome == "vacuous"


def test_an_invariant_of_steps_without_a_step_is_vacuous() -> None:
    seen = explore(model_of(Counter(most=0)))
    assert seen.never_taken == ["add"]
    assert seen.outcome == "vacuous"


def test_a_state_to_stay_in_is_no_deadlock() -> None:
    class Stuck(Counter):
        def done(self, s: Count) -> bool:
            return False

    assert explore(model_of(Counter())).outcome == "holds"
    (violation,) = explore(model_of(Stuck())).violations
    assert violation.id == "deadlock"
    assert violation.trace.last.n == 3


def twice(**_: Any) -> type[Spec]:
    class Twice(Counter):
        @action()
        @when("same", lambda s: s.n > 0)
        @when("same", lambda s: s.n > 1)
        def drop(self, s: Count) -> Count:
            return Count()

    return Twice


def two_ids() -> type[Spec]:
    class TwoIds(Counter):
        @invariant("C1", "again")
        def once_more(self, s: Count) -> bool:
            return True

    return TwoIds


def strange() -> type[Spec]:
    class Strange(Counter):
        @action()
        @when("odd", lambda s, nobody: s.n > nobody)
        def drop(self, s: Count) -> Count:
            return Count()

    return Strange


def not_hashed() -> type[Spec]:
    class NotHashed(Counter):
        def initial(self) -> Iterable[Any]:
            yield [0]

    return NotHashed


def of_no_kind() -> type[Spec]:
    class OfNoKind(Counter):
        @invariant("C8", "whatever", kind="always")  # type: ignore[arg-type]
        def whatever(self, s: Count) -> bool:
            return True

    return OfNoKind


@pytest.mark.parametrize(
    ("made", "said"),
    [
        (twice, "guard 'same' is there twice"),
        (two_ids, "invariant 'C1' is there twice"),
        (strange, "asks for nobody"),
        (not_hashed, "cannot begin"),
        (of_no_kind, "is of no kind 'always'"),
    ],
    ids=lambda one: getattr(one, "__name__", None),
)
def test_what_is_no_specification(made: Any, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        model_of(made()())


def test_an_unknown_constant() -> None:
    with pytest.raises(ConfigError, match="no constant 'mots'") as error:
        Counter(mots=1)
    assert "most" in (error.value.remedy or "")


class Forgets(Counter):
    @action()
    @when("there", lambda s: s.n == 2)
    def forget(self, s: Count) -> Count:
        return None  # type: ignore[return-value]


class Raises(Counter):
    @action()
    @when("there", lambda s: (1, 2)[s.n] > 0)
    def look(self, s: Count) -> Count:
        return s


@pytest.mark.parametrize(("spec", "said"), [(Forgets, "gave None"), (Raises, "IndexError")])
def test_a_model_that_goes_wrong_is_an_error_of_its_own(spec: type[Spec], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        explore(model_of(spec()))


def test_all_kinds_are_told() -> None:
    assert set(KINDS) == {"state", "action", "liveness", "sometimes"}
