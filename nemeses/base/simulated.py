"""Faults on simulated hosts: what a simulation shows of them, as records of the same steps.

A nemesis that can be simulated says `simulated = Simulated(...)`. It plans its faults itself; what
makes them there is a `SimulatedDriver`, which goes the way of any fault (`driver.py`) and asks the
world (`dstest.sim.world.World`) where others ask nodes. There is nobody who could die behind us, so
no lease is armed.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, Final

import msgspec

from dstest.core.details import LeadDetails
from dstest.core.evidence import LandingRecord, Signal
from dstest.core.node import Node
from dstest.core.protocols import FaultPlan, Leadership, Nemesis, NemesisContext, When
from nemeses.base.driver import Driver
from nemeses.base.leadership import Lead, lead_when_known, moved, unmoved
from nemeses.base.overlap import Overlap
from nemeses.base.steps import Facts

LANDING_S: Final = 5.0
"""Besides the time after which clients give up."""

REJOIN_S: Final = 15.0


class Simulated(msgspec.Struct, frozen=True, kw_only=True):
    """`dstest.core.protocols.SimulatedFaults` of a nemesis: by which driver, which of its options
    mean the same, which are `fixed` for its plan, and which values of planned facts are `only`
    possible. `requires` are capabilities that all of its faults ask of the simulated system,
    `requires_when` those that some do."""

    driver: Callable[[Nemesis, Any], Nemesis]
    options: frozenset[str]
    fixed: Mapping[str, Any] = {}
    only: Mapping[str, tuple[Any, ...]] = {}
    requires: tuple[type, ...] = ()
    requires_when: tuple[When, ...] = (
        When("shape", "leader", (Leadership,)),
        When("scope", "primaries", (Leadership,)),
    )

    def problem(self, facts: Mapping[str, Any]) -> str | None:
        """Which fact cannot be simulated."""
        wrong = [k for k, values in self.only.items() if k in facts and facts[k] not in values]
        return f"{wrong[0]}={facts[wrong[0]]}" if wrong else None

    def made(self, nemesis: Nemesis, world: Any) -> Nemesis:
        """What makes the faults of this nemesis in a world."""
        return self.driver(nemesis, world)


class SimulatedDriver(Driver):
    """Base of them. `world` is asked for what a nemesis of nodes asks these for."""

    tolerated: ClassVar[tuple[type[Exception], ...]] = (TimeoutError,)
    missing_prefix = "after the heal: "

    def __init__(self, of: Any, world: Any) -> None:
        self._of = of
        self.name = of.name
        self.doc = of.doc
        self.faults = of.faults
        self.options = of.options
        self.world = world

    @property
    def overlap(self) -> Overlap:  # type: ignore[override]
        """As on nodes."""
        overlap: Overlap = self._of.overlap
        return overlap

    def plan(
        self,
        rng: random.Random,
        nodes: Sequence[str],
        time_limit_s: float,
        options: Mapping[str, Any],
    ) -> list[FaultPlan]:
        """As the nemesis itself."""
        plans: list[FaultPlan] = self._of.plan(rng, nodes, time_limit_s, options)
        return plans

    def for_leader(self, facts: Mapping[str, Any]) -> bool:
        """Is a fault that is planned so for whoever leads?"""
        return facts.get("shape") == "leader" or facts.get("scope") == "primaries"

    async def lead(self, ctx: NemesisContext, facts: Mapping[str, Any]) -> Lead | None:
        """Who leads, for a fault that is for the leader. No other one asks: a question is a
        message, and what a seed has shown without it would be another simulation with it."""
        if not self.for_leader(facts):
            return None
        return await lead_when_known(ctx, seed=facts["seed"])

    async def clear(self, nodes: Sequence[Node]) -> None:
        """There is nothing of a dead run."""

    def lease_nodes(self, record: LandingRecord) -> list[str]:
        return []

    def heal_commands(
        self, ctx: NemesisContext, record: LandingRecord, name: str
    ) -> list[list[str]]:
        return []

    def usual_patience_s(self, ctx: NemesisContext, record: LandingRecord) -> float:
        clients_s = float(ctx.options.get("op_timeout_s", 2.0)) + LANDING_S
        led = self.for_leader(record.facts)
        return max(clients_s, ctx.deployment.timing.failover_s if led else 0.0)

    def heal_within_s(self, ctx: NemesisContext) -> float:
        return max(REJOIN_S, ctx.deployment.timing.rejoin_s)

    async def audit(self, ctx: NemesisContext) -> dict[str, list[str]]:
        """By host."""
        return {name: self.world.standing(name) for name in ctx.nodes}


async def followed(
    ctx: NemesisContext, record: LandingRecord, victim: Signal
) -> tuple[Signal, Facts]:
    """The victim signal of a fault that is for the leader: those whom it left alone must follow
    another one, or the same in a newer term. With what the record says of that."""
    lead = LeadDetails.of(record)
    if lead.moved:
        return victim, {}
    facts = await moved(ctx, lead, record.targets)
    if facts:
        return victim, facts
    detail = f"{victim.detail}; {unmoved(lead)}"
    return msgspec.structs.replace(victim, moved=False, detail=detail), {}
