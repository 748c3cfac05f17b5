"""What comes of something else than the state is found by asking twice."""

from __future__ import annotations

import itertools
import os
import random
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from dstest.core.errors import ConfigError
from dstest.core.op import Op
from dstest.spec import Spec, Step, action, invariant, maps, when
from dstest.spec.conform import conform_history
from dstest.spec.explore import explore, walk
from dstest.spec.model import model_of


@dataclass(frozen=True)
class S:
    x: int = 0


class Base(Spec):
    most = 6

    def initial(self) -> Iterable[S]:
        yield S()

    def done(self, s: S) -> bool:
        return True

    @action()
    @when("below", lambda self, s: s.x < self.most)
    def up(self, s: S) -> S:
        return replace(s, x=s.x + 1)

    @invariant("B1", "never negative")
    def positive(self, s: S) -> bool:
        return s.x >= 0

    @maps("up")
    def of_up(self, record: Any) -> Iterable[Step]:
        yield Step("up")


DICE = random.Random(7)
COUNT = itertools.count()


class RandomUpdate(Base):
    @action()
    @when("below", lambda self, s: s.x < self.most)
    def up(self, s: S) -> S:
        return replace(s, x=s.x + DICE.choice((1, 2)))


class CountingUpdate(Base):
    @action()
    @when("below", lambda self, s: s.x < self.most)
    def up(self, s: S) -> S:
        return replace(s, x=min(s.x + next(COUNT) % 2, self.most))


class RandomGuard(Base):
    @action()
    @when("below", lambda self, s: s.x < self.most and DICE.random() < 0.5)
    def up(self, s: S) -> S:
        return replace(s, x=s.x + 1)


class RandomDomain(Base):
    @action(by=lambda: (DICE.choice((1, 2)),))
    @when("below", lambda self, s: s.x < self.most)
    def up(self, s: S, by: int) -> S:  # type: ignore[override]
        return replace(s, x=s.x + by)


class RandomInitial(Base):
    def initial(self) -> Iterable[S]:
        yield S(DICE.randrange(5))


class RandomInvariant(Base):
    @invariant("R1", "at random")
    def at_random(self, s: S) -> bool:
        return next(COUNT) % 2 == 0


class RandomOfSteps(Base):
    @invariant("R2", "at random", kind="action")
    def at_random(self, before: S, step: Step, after: S) -> bool:
        return next(COUNT) % 2 == 0


class RandomCanonical(Base):
    def canonical(self, s: S) -> S:
        return replace(s, x=s.x % 2 + DICE.randrange(100) * 2)


@pytest.mark.parametrize(
    ("spec", "named"),
    [
        (RandomUpdate, r"up\(\)"),
        (CountingUpdate, r"up\(\)"),
        (RandomGuard, "up"),
        (RandomDomain, "up"),
        (RandomInitial, "initial"),
        (RandomInvariant, "R1"),
        (RandomOfSteps, "R2"),
        (RandomCanonical, "canonical"),
    ],
)
def test_what_is_drawn_at_random_is_an_error_of_explore(spec: type[Spec], named: str) -> None:
    with pytest.raises(ConfigError, match=rf"(?s){named}.*S\(x="):
        explore(model_of(spec()))


@pytest.mark.parametrize("spec", [RandomUpdate, CountingUpdate, RandomGuard, RandomDomain])
def test_what_is_drawn_at_random_is_an_error_of_walks(spec: type[Spec]) -> None:
    with pytest.raises(ConfigError, match="from the same state"):
        walk(model_of(spec()), seed=1, walks=20)


def test_what_is_drawn_at_random_is_an_error_of_conform() -> None:
    ops = [
        Op(op_id=n, process_id=0, op_type="up", invoke_ts=2 * n, complete_ts=2 * n + 1)
        for n in range(2)
    ]
    with pytest.raises(ConfigError, match="from the same state"):
        conform_history(model_of(CountingUpdate()), ops)


def test_two_states_of_one_step_are_both_told() -> None:
    with pytest.raises(ConfigError) as caught:
        explore(model_of(CountingUpdate()))
    assert "x=0" in caught.value.message and "x=1" in caught.value.message


def test_what_follows_from_the_state_alone_is_none() -> None:
    assert explore(model_of(Base())).outcome == "holds"
    assert walk(model_of(Base()), seed=1, walks=20).outcome == "bounded"


NAMED = """
from dstest.spec import Spec, action, invariant

class Named(Spec):
    names = frozenset({"ada", "bob", "cyd", "dan", "eve"})

    def initial(self):
        yield ("",)

    @action(name=lambda self: self.names)
    def call(self, s, name):
        return (name,)

    @action(name=frozenset({("a", 1), ("b", 2), ("c", 3)}))
    def pair(self, s, name):
        return name[:1]

    @invariant("N1", "never dan")
    def never(self, s):
        return s[0] != "dan"
"""


def test_a_seed_walks_the_same_ways_in_each_process(tmp_path: Path) -> None:
    file = tmp_path / "named.py"
    file.write_text(NAMED)
    said = set()
    for hashed in ("1", "2", "3"):
        done = subprocess.run(
            [sys.executable, "-m", "dstest", "spec", "simulate", str(file), "--seed", "5"],
            env={**os.environ, "PYTHONHASHSEED": hashed}, capture_output=True, text=True,
            timeout=100, check=False,
        )  # fmt: skip
        assert "N1 is violated" in done.stdout
        said.add(done.stdout)
    assert len(said) == 1
