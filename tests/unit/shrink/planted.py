"""A cluster that is none: runs in which a violation comes by a rule, so that one knows what a
reduction must find."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

import msgspec

from dstest.campaign.shrink.candidate import Attempt, Candidate, Progress
from dstest.campaign.shrink.oracle import Oracle
from dstest.core.protocols import FaultPlan

S = 1_000_000_000

Rule = Callable[[Candidate], float]
"""How often the violation comes in runs of a candidate, 0 to 1."""


class Planted:
    """Makes attempts by a rule, `width` at once. `made` are the candidates, in order; `rounds`
    counts how often it was asked."""

    def __init__(self, rule: Rule, seed: int = 1, width: int = 1) -> None:
        self._rule, self._dice, self.width = rule, random.Random(seed), width
        self.rounds = 0
        self.made: list[Candidate] = []

    def refused(self, candidate: Candidate) -> str:
        """As a schedule whose last fault does not fit."""
        return "does not fit" if candidate.end_s > candidate.time_limit_s else ""

    def make(self, candidates: Sequence[Candidate]) -> list[Attempt]:
        assert len(candidates) <= self.width
        self.rounds += 1
        return [self._made(candidate) for candidate in candidates]

    def _made(self, candidate: Candidate) -> Attempt:
        self.made.append(candidate)
        came = self._dice.random() < self._rule(candidate)
        faults = len(candidate.plans)
        return Attempt(path="x", judged=True, came=came, landed=faults, targets=faults, ops=1000)


class Simulated(Planted):
    """Each run of a candidate is the same simulation."""

    def _made(self, candidate: Candidate) -> Attempt:
        assert self._rule(candidate) in (0.0, 1.0)
        return msgspec.structs.replace(super()._made(candidate), digest=candidate.key)


def oracle_of(
    runs: Planted,
    most: int = 10_000,
    *,
    simulated: bool = False,
    say: Callable[[str], None] = lambda text: None,
) -> Oracle:
    """With so many runs at most."""
    empty = Progress(run="r", history_sha256="", fingerprint="c/a/#/m")
    return Oracle(
        runs,
        empty,
        simulated=simulated,
        time_left=lambda: len(runs.made) < most,
        keep=lambda progress: None,
        say=say,
    )


def faults(count: int, kinds: Sequence[str] = ("partition", "kill", "pause")) -> list[FaultPlan]:
    """One after the other, 6 s each and 4 s apart, the kinds in turn."""
    return [
        FaultPlan(
            fault_id=f"f{n + 1}",
            nemesis=kinds[n % len(kinds)],
            start_ns=(4 + 10 * n) * S,
            duration_ns=6 * S,
            facts={"seed": n},
        )
        for n in range(count)
    ]


def start_of(plans: Sequence[FaultPlan]) -> Candidate:
    """A run of five nodes with these faults."""
    last = plans[-1]
    return Candidate(
        nodes=5,
        time_limit_s=(last.start_ns + last.duration_ns) / S + 7,
        concurrency=20,
        plans=tuple(plans),
    )


def has(candidate: Candidate, *ids: str) -> bool:
    """Are these faults in it?"""
    return {*ids} <= {plan.fault_id for plan in candidate.plans}
