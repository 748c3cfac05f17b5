"""Mutants: killed where invariants notice, listed with the nearest invariant where they do not."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

import pytest
import textbook

from dstest.core.errors import ConfigError
from dstest.spec import Spec, action, invariant, when
from dstest.spec.model import model_of
from dstest.spec.mutate import campaign, mutants


@dataclass(frozen=True, slots=True)
class Line:
    waiting: tuple[int, ...] = ()
    served: tuple[int, ...] = ()


class Tickets(Spec):
    """Two at most wait; the lowest number is served first; all three are served in the end."""

    def initial(self) -> Iterable[Line]:
        yield Line()

    def done(self, s: Line) -> bool:
        return len(s.served) == 3

    @action(n=(3, 1, 2))
    @when("new", lambda s, n: n not in s.waiting and n not in s.served)
    @when("room", lambda s: len(s.waiting) < 2)
    def come(self, s: Line, n: int) -> Line:
        return replace(s, waiting=tuple(sorted((*s.waiting, n))))

    @action()
    @when("someone", lambda s: len(s.waiting) > 0)
    def serve(self, s: Line) -> Line:
        return Line(s.waiting[1:], (*s.served, s.waiting[0]))

    @invariant("T1", "never more than two wait")
    def few(self, s: Line) -> bool:
        return len(s.waiting) <= 2

    @invariant("T2", "none is there twice")
    def once(self, s: Line) -> bool:
        return len({*s.waiting, *s.served}) == len(s.waiting) + len(s.served)

    @invariant("T3", "who waits stands in order")
    def ordered(self, s: Line) -> bool:
        return all(a < b for a, b in zip(s.waiting, s.waiting[1:], strict=False))

    @invariant("T5", "none is lost", kind="action")
    def kept(self, before: Line, step: object, after: Line) -> bool:
        return {*before.waiting, *before.served} <= {*after.waiting, *after.served}

    @invariant("T4", "all are served in the end", kind="liveness")
    def ends(self, s: Line) -> bool:
        return len(s.served) == 3


class Weak(Tickets):
    """The same, and nobody looks at the order."""

    @invariant("T3", "anything")
    def ordered(self, s: Line) -> bool:
        return len(s.waiting) >= 0


def test_every_mutant_is_killed_by_invariants_that_say_enough() -> None:
    done = campaign(model_of(Tickets()))
    assert len(done) >= 12
    assert [one for one in done if one.fate not in ("killed", "error")] == []
    assert {one.action for one in done if one.fate == "error"} <= {"serve"}
    assert {one.operator for one in done} >= {
        *("drop-guard", "negate-guard", "drop-update", "limit", "off-by-one", "skip-sort"),
    }


def test_a_mutant_that_nobody_notices_is_listed_with_what_is_nearest() -> None:
    done = campaign(model_of(Weak()))
    survived = [one for one in done if one.fate == "survived"]
    assert [one.operator for one in survived] == ["skip-sort"]
    assert "sorted" in survived[0].what
    assert survived[0].nearest[0] in ("T1", "T2", "T3", "T5")


class Above(Spec):
    limit = 3

    def allowed(self, s: Line) -> bool:
        return len(s.served) < self.limit


class Below(Above):
    """With what it has from its class: `super()`, and a name of its own."""

    __step = 1

    def initial(self) -> Iterable[Line]:
        yield Line()

    def done(self, s: Line) -> bool:
        return True

    def allowed(self, s: Line) -> bool:
        return super().allowed(s)

    @action()
    @when("allowed", lambda self, s: self.allowed(s))
    def serve(self, s: Line) -> Line:
        assert super().limit
        return Line(s.waiting, (*s.served, len(s.served) + self.__step + 0))

    @invariant("B1", "anything")
    def anything(self, s: Line) -> bool:
        return True


def test_a_mutant_lives_in_its_class() -> None:
    """None goes wrong by what was taken out of its class; nothing is noticed here."""
    done = campaign(model_of(Below()), max_states=50)
    assert {one.fate for one in done} == {"survived", "undecided"}


def test_a_bound_decides_nothing() -> None:
    done = campaign(model_of(Tickets()), max_states=3)
    assert {one.fate for one in done} <= {"killed", "undecided", "error"}
    assert any(one.fate == "undecided" for one in done)


def test_a_model_that_is_wrong_itself_teaches_nothing() -> None:
    with pytest.raises(ConfigError, match="is violated as it is"):
        campaign(model_of(textbook.DieHard()))


def test_guards_of_actions_are_no_mutants_of_their_updates() -> None:
    made = [one for one in mutants(model_of(textbook.TwoPhase())) if one.operator == "limit"]
    assert made
    assert all(": " in one.what for one in made)


def test_each_mutant_differs_in_one_place() -> None:
    model = model_of(Tickets())
    for one in mutants(model):
        changed = [new.name for new in one.model.actions if new not in model.actions]
        assert changed == [one.action]
