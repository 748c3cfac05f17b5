"""`NodeFault`: what the course of a fault does where the fault, the plan or the nodes are off."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest
from msgspec.structs import replace

from dstest.core.clock import RunClock, monotonic_ns
from dstest.core.errors import RemoteLost
from dstest.core.evidence import LandingRecord, Signal
from dstest.core.node import Node
from dstest.core.protocols import FaultPlan, NemesisContext
from dstest.extend.nemesis import Healing, NodeFault, Observed
from nemeses.base import driver

NODES = ("n1", "n2", "n3")
Signals = tuple[Signal, Signal, Signal]
MOVED = Signal(signal="s", before={"n": 0}, during={"n": 1}, moved=True)
STILL = Signal(signal="s")
NO_FIGURE = Signal(signal="s", moved=True)
SAME_FIGURE = Signal(signal="s", before={"n": 0}, during={"n": 0}, moved=True)


class Fault(NodeFault):
    """On the nodes of `on`; its signals are those of `shown`."""

    name, doc, undo = "mine", "a fault", ("undo",)
    baseline_s = settle_s = landing_s = healing_s = 0.0

    def __init__(self, shown: Signals = (MOVED, MOVED, STILL)) -> None:
        self.on: set[str] = set()
        self.shown = shown
        self.wrong: list[str] = []

    async def apply(self, ctx: NemesisContext, record: LandingRecord) -> None:
        self.on |= {*record.targets}

    async def stands_on(self, node: Node) -> bool:
        return node.name in self.on

    async def observe(self, ctx: NemesisContext, record: LandingRecord) -> Observed:
        injector, victim, control = self.shown
        return Observed(injector=injector, victim=victim, control=control)

    async def missing(
        self, ctx: NemesisContext, record: LandingRecord, healing: Healing
    ) -> list[str]:
        return self.wrong


class World:
    """Nodes that know one command; `said` is what they were asked, in order."""

    def __init__(self, fault: Fault) -> None:
        self.said: list[str] = []
        self.armed: list[str] = []
        self.opened: LandingRecord | None = None
        self.ctx: Any = NemesisContext(
            nodes={name: self._node(name, fault) for name in NODES},
            lab=None,  # type: ignore[arg-type]
            deployment=None,  # type: ignore[arg-type]
            clock=RunClock(monotonic_ns()),
            traffic=SimpleNamespace(by_node=lambda: {n: {"ok": 0} for n in NODES}),
            epochs=self,
        )

    def _node(self, name: str, fault: Fault) -> Any:
        async def run(argv: list[str], *, check: bool) -> None:
            self.said.append(f"{name} {' '.join(argv)}")
            fault.on.discard(name)

        async def arm_lease(lease: str, heal: list[list[str]], **_: float) -> None:
            self.said.append(f"{name} armed {heal}")

        async def release_lease(lease: str) -> None:
            self.said.append(f"{name} released")

        async def call(verb: str) -> dict[str, list[str]]:
            return {"armed": self.armed, "firing": []}

        return SimpleNamespace(
            name=name, run=run, call=call, arm_lease=arm_lease, release_lease=release_lease
        )

    async def open(self, record: LandingRecord) -> LandingRecord:
        self.said.append("open")
        return replace(record, injected_at=1)

    async def close(self, record: LandingRecord) -> LandingRecord:
        self.said.append("close")
        return replace(record, healed_at=2)


def plan(*targets: str) -> FaultPlan:
    facts = {"targets": list(targets)}
    return FaultPlan(fault_id="f1", nemesis="mine", start_ns=0, duration_ns=1, facts=facts)


def test_the_order_of_a_fault() -> None:
    fault = Fault()
    world = World(fault)

    async def course() -> LandingRecord:
        return await fault.heal(world.ctx, await fault.inject(world.ctx, plan("n2")))

    healed = asyncio.run(course())
    assert (healed.landed, healed.heal_verified, healed.residue) == ("yes", True, [])
    assert world.said == ["n2 armed [['undo']]", "open", "n2 undo", "n2 released", "close"]


@pytest.mark.parametrize(
    ("shown", "landed"),
    [
        ((STILL, STILL, STILL), "no"),
        ((MOVED, STILL, STILL), "ambiguous"),
        ((STILL, MOVED, STILL), "ambiguous"),
        ((MOVED, MOVED, MOVED), "ambiguous"),
        ((NO_FIGURE, NO_FIGURE, STILL), "no"),
        ((MOVED, SAME_FIGURE, STILL), "ambiguous"),
        ((MOVED, MOVED, STILL), "yes"),
    ],
)
def test_landed_asks_all_three_signals(shown: Signals, landed: str) -> None:
    fault = Fault(shown)
    record = asyncio.run(fault.inject(World(fault).ctx, plan("n1")))
    assert record.landed == landed
    assert (record.landed_at is not None) == (landed == "yes")


def test_a_fault_that_went_by_itself_did_not_stand() -> None:
    fault = Fault()
    ctx = World(fault).ctx

    async def course() -> LandingRecord:
        record = await fault.inject(ctx, plan("n1", "n2"))
        fault.on.discard("n1")
        record = await fault.recheck(ctx, record)
        fault.on.add("n1")
        return await fault.recheck(ctx, record)

    record = asyncio.run(course())
    assert record.landed == "ambiguous"
    assert [row["present"] for row in record.facts["rechecks"]] == [False, True]
    assert "mine vanished from n1" in record.notes[0]


class Flickering(Fault):
    """Its control is what `controls` says, one look after the other; the last one stays."""

    def __init__(self, *controls: Signal) -> None:
        super().__init__()
        self.controls = list(controls)

    async def observe(self, ctx: NemesisContext, record: LandingRecord) -> Observed:
        control = self.controls.pop(0) if len(self.controls) > 1 else self.controls[0]
        return Observed(injector=MOVED, victim=MOVED, control=control)


@pytest.mark.parametrize(
    ("controls", "landed", "asked_again"),
    [
        ((STILL, STILL), "yes", False),
        ((STILL, replace(MOVED, detail="hit as well: n3"), STILL), "yes", True),
        ((STILL, replace(MOVED, detail="hit as well: n3")), "ambiguous", True),
    ],
)
def test_a_control_that_seems_hit_is_asked_once_more(
    controls: tuple[Signal, ...], landed: str, asked_again: bool
) -> None:
    """One late datagram on a busy host hits nobody; what was hit is hit again."""
    fault = Flickering(*controls)
    ctx = World(fault).ctx

    async def course() -> LandingRecord:
        return await fault.recheck(ctx, await fault.inject(ctx, plan("n1")))

    record = asyncio.run(course())
    assert record.landed == landed
    [row] = record.facts["rechecks"]
    assert row.get("asked_again", "") == ("hit as well: n3" if asked_again else "")


def test_a_target_that_is_not_in_the_cluster_is_not_touched() -> None:
    fault = Fault()
    world = World(fault)

    async def course() -> LandingRecord:
        return await fault.heal(world.ctx, await fault.inject(world.ctx, plan("n9")))

    record = asyncio.run(course())
    assert (record.landed, record.injected_at, record.heal_verified) == ("no", None, True)
    assert "not in the cluster: n9" in record.notes[0]
    assert world.said == []


def test_what_is_missing_after_the_heal_is_told() -> None:
    fault = Fault()
    fault.wrong = ["n2 limps"]
    world = World(fault)

    async def course() -> LandingRecord:
        return await fault.heal(world.ctx, await fault.inject(world.ctx, plan("n2")))

    healed = asyncio.run(course())
    assert (healed.heal_verified, healed.notes) == (False, ["n2 limps"])


def test_a_lease_that_stands_is_a_leak() -> None:
    fault = Fault()
    world = World(fault)
    world.armed = ["f1"]
    assert asyncio.run(fault.audit(world.ctx))["n1"] == ["lease f1"]


def test_a_fault_that_stays_or_cannot_be_seen_is_a_leak(monkeypatch: pytest.MonkeyPatch) -> None:
    fault = Fault()
    ctx = World(fault).ctx
    fault.on.add("n1")
    assert asyncio.run(fault.audit(ctx)) == {"n1": ["mine"], "n2": [], "n3": []}

    async def lost(node: Node) -> bool:
        raise RemoteLost(f"{node.name} is gone")

    monkeypatch.setattr(fault, "stands_on", lost)
    assert asyncio.run(fault.audit(ctx))["n2"] == ["cannot be audited: n2 is gone"]


class Hanging(Fault):
    """Steps named in `hangs` never come back."""

    hangs: frozenset[str] = frozenset()

    async def observe(self, ctx: NemesisContext, record: LandingRecord) -> Observed:
        if "observe" in self.hangs:
            await asyncio.Event().wait()
        return await super().observe(ctx, record)

    async def missing(
        self, ctx: NemesisContext, record: LandingRecord, healing: Healing
    ) -> list[str]:
        if "missing" in self.hangs:
            await asyncio.Event().wait()
        return []


@pytest.fixture
def _short_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(driver, "LOOK_S_MAX", 0.05)


@pytest.mark.usefixtures("_short_looks")
def test_a_look_that_never_ends_shows_nothing() -> None:
    fault = Hanging()
    ctx = World(fault).ctx

    async def course() -> tuple[LandingRecord, LandingRecord]:
        fault.hangs = frozenset(("observe",))
        unseen = await fault.inject(ctx, plan("n1"))
        fault.hangs = frozenset()
        landed = await fault.inject(ctx, plan("n2"))
        fault.hangs = frozenset(("observe",))
        return unseen, await fault.recheck(ctx, landed)

    unseen, doubtful = asyncio.run(course())
    assert unseen.landed == "no"
    assert doubtful.landed == "ambiguous"
    assert "no look at it could be taken" in unseen.notes[0]


@pytest.mark.usefixtures("_short_looks")
def test_a_heal_that_cannot_be_looked_at_is_not_proven() -> None:
    fault = Hanging()
    world = World(fault)

    async def course() -> LandingRecord:
        record = await fault.inject(world.ctx, plan("n2"))
        fault.hangs = frozenset(("missing",))
        return await fault.heal(world.ctx, record)

    healed = asyncio.run(course())
    assert not healed.heal_verified
    assert "no look at its heal" in healed.notes[0]
    assert "n2 undo" in world.said
