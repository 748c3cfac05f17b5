"""`my-nemesis` on pretended nodes: landed, healed, and what is neither."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from dstest.core.clock import RunClock, monotonic_ns
from dstest.core.evidence import LandingRecord
from dstest.core.node import Completed
from dstest.core.protocols import NemesisContext
from dstest.core.registry import offered
from msgspec.structs import replace

NEMESIS: Any = offered(Path(__file__).with_name("my_nemesis.py"))["nemeses"]
NODES = ("n1", "n2", "n3")


class Cluster:
    """Nodes that know the fault's commands, and clients who are not answered where it stands.

    `felt`: do clients notice it? `goes`: does the command that takes it away work?
    """

    def __init__(self, *, felt: bool = True, goes: bool = True) -> None:
        self.felt, self.goes = felt, goes
        self.opened: LandingRecord | None = None
        self.cut: set[str] = set()
        self.leases: list[str] = []
        self.armed_before_cut = True
        self._counts = {n: dict.fromkeys(("invoked", "ok", "fail", "unknown"), 0) for n in NODES}

    def by_node(self) -> dict[str, dict[str, int]]:
        """One operation more on each node than when it was asked last."""
        for name, row in self._counts.items():
            row["invoked"] += 1
            row["unknown" if self.felt and name in self.cut else "ok"] += 1
        return {name: dict(row) for name, row in self._counts.items()}

    def node(self, name: str) -> Any:
        async def run(argv: list[str], *, stdin: str = "", **_: Any) -> Completed:
            if stdin:
                self.armed_before_cut &= name in self.leases
                self.cut.add(name)
            elif argv == NEMESIS.undo and self.goes:
                self.cut.discard(name)
            return Completed(status=0, stdout="packets 7" if name in self.cut else "", stderr="")

        async def arm_lease(lease: str, heal: list[list[str]], **_: float) -> None:
            assert heal == [NEMESIS.undo]
            self.leases.append(name)

        async def release_lease(lease: str) -> None:
            self.leases.remove(name)

        async def call(verb: str) -> dict[str, list[str]]:
            return {"armed": self.leases, "firing": []}

        return SimpleNamespace(
            name=name, run=run, call=call, arm_lease=arm_lease, release_lease=release_lease
        )

    async def open(self, record: LandingRecord) -> LandingRecord:
        return replace(record, injected_at=0)

    async def close(self, record: LandingRecord) -> LandingRecord:
        return replace(record, healed_at=1)


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    for patience in ("baseline_s", "settle_s", "landing_s", "healing_s"):
        monkeypatch.setattr(type(NEMESIS), patience, 0.2)


def fault(cluster: Cluster) -> tuple[LandingRecord, LandingRecord, dict[str, list[str]]]:
    """The record once the fault has been looked at, the one after its heal, and what is left."""
    ctx: Any = NemesisContext(
        nodes={name: cluster.node(name) for name in NODES},
        lab=SimpleNamespace(control="192.0.2.1"),  # type: ignore[arg-type]
        deployment=SimpleNamespace(),
        clock=RunClock(monotonic_ns()),
        traffic=cluster,
        epochs=cluster,
    )
    options = {key: option.default for key, option in NEMESIS.options.items()}
    (plan, *_) = NEMESIS.plan(random.Random(1), NODES, 60.0, options)

    async def course() -> tuple[LandingRecord, LandingRecord, dict[str, list[str]]]:
        await NEMESIS.setup(ctx)
        stood = await NEMESIS.recheck(ctx, await NEMESIS.inject(ctx, plan))
        healed = await NEMESIS.heal(ctx, stood)
        await NEMESIS.teardown(ctx)
        return stood, healed, await NEMESIS.audit(ctx)

    return asyncio.run(course())


def test_it_lands_and_heals_and_leaves_nothing() -> None:
    cluster = Cluster()
    stood, healed, left = fault(cluster)
    assert (stood.landed, stood.facts["rechecks"][0]["present"]) == ("yes", True)
    assert healed.heal_verified, healed.notes
    assert cluster.armed_before_cut
    assert (cluster.leases, cluster.cut) == ([], set())
    assert not any(left.values())


def test_what_is_not_done_has_not_landed(monkeypatch: pytest.MonkeyPatch) -> None:
    async def nothing(ctx: NemesisContext, record: LandingRecord) -> None: ...

    monkeypatch.setattr(NEMESIS, "apply", nothing)
    stood, healed, _ = fault(Cluster())
    assert stood.landed == "no"
    assert healed.landed == "no"


def test_what_nobody_feels_has_not_landed() -> None:
    assert fault(Cluster(felt=False))[0].landed == "ambiguous"


def test_what_does_not_go_is_not_healed() -> None:
    _, healed, left = fault(Cluster(goes=False))
    assert not healed.heal_verified
    assert healed.residue
    assert any(left.values())
