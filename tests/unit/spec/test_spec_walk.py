"""Random walks: the same by the same seed, and what they say of what was never so."""

from __future__ import annotations

from dataclasses import replace

import pytest
import textbook

from dstest.core.errors import ConfigError
from dstest.spec import action, when
from dstest.spec.explore import walk
from dstest.spec.model import model_of
from dstest.spec.taking import replay


def test_a_planted_violation_is_found_and_its_walk_is_one_of_the_model() -> None:
    model = model_of(textbook.DieHard())
    seen = walk(model, seed=1, walks=100, max_steps=200)
    assert seen.outcome == "violated"
    (violation,) = seen.violations
    assert replay(model, violation.trace.steps).trace == violation.trace
    assert violation.trace.last.big == 4


def test_the_same_seed_walks_the_same_ways() -> None:
    model = model_of(textbook.TwoPhase())
    first, again, other = (walk(model, seed=seed, walks=20, deadlock=False) for seed in (7, 7, 8))
    assert first == again
    assert first.taken != other.taken


def test_no_walk_shows_that_something_holds() -> None:
    seen = walk(model_of(textbook.PetersonByName()), seed=1, walks=50)
    assert seen.outcome == "bounded"
    assert seen.counts["PE1"].passed > 1000
    assert "PE2" not in seen.counts


class NeverEnabled(textbook.PetersonByName):
    @action(p=(0, 1))
    @when("always", lambda s, p: s.turn in (0, 1))
    @when("both", lambda s: s.pc == ("inside", "inside"))
    def collide(self, s: textbook.Two, p: int) -> textbook.Two:
        return replace(s, turn=p)


def test_what_was_never_enabled_and_what_never_stood_in_the_way() -> None:
    seen = walk(model_of(NeverEnabled()), seed=1, walks=30)
    assert seen.never_taken == ["collide"]
    assert seen.never_false == ["collide.always"]
    assert seen.guards["collide.both"].true == 0


def test_weights() -> None:
    model = model_of(textbook.TwoPhase())
    seen = walk(
        model, seed=1, walks=50, weights={"manager_aborts": 0, "abort_alone": 0}, deadlock=False
    )
    assert seen.taken["manager_aborts"] == seen.taken["abort_alone"] == 0
    assert seen.counts["TP2"].passed
    with pytest.raises(ConfigError, match="no action 'abort_alne'"):
        walk(model, seed=1, weights={"abort_alne": 1})


def test_where_walks_end_without_a_way_on() -> None:
    seen = walk(model_of(textbook.Philosophers()), seed=1, walks=200, max_steps=200)
    assert [one.id for one in seen.violations] == ["deadlock"]
    assert seen.stuck == 1
