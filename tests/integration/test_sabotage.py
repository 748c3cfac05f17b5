"""Faults that do not happen must never count as tested: each sabotage is INCONCLUSIVE, exit 3."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from runs import SHORT, faults_of, run_here

from dstest.core.errors import ConfigError, Exit
from dstest.core.evidence import LandingRecord
from dstest.core.node import LabInfo
from dstest.core.protocols import FaultPlan, NemesisContext
from dstest.core.verdict import State
from dstest.runner.session import Finished
from nemeses.base.schedule import carrying
from nemeses.network.partition import Partition
from nemeses.tools import nft

pytestmark = [pytest.mark.lab, pytest.mark.slow, pytest.mark.timeout(300)]


def assert_not_proven(done: Finished) -> None:
    assert done.verdict is not None, done
    assert done.verdict.verdict is State.INCONCLUSIVE_FAULT, done.verdict.reason
    assert done.exit_code == Exit.NOT_PROVEN
    assert (done.path / "status").read_text().strip() == "verdict: INCONCLUSIVE-fault-not-proven"


@pytest.mark.selftest
@pytest.mark.parametrize("hook", ["forward", "output"])
def test_rules_in_the_wrong_chain(lab: LabInfo, tmp_path: Path, hook: str) -> None:
    done = run_here(lab, tmp_path, nemesis=Partition(hook=hook), options=(*SHORT, "action=drop"))
    assert_not_proven(done)
    (fault,) = faults_of(done.path)
    assert fault["landed"] == "no"
    assert not any(fault["injector"]["during"].values())
    assert all(min(n) > 0 for n in fault["victim"]["during"].values())


class Astray(Partition):
    """Its plan names a node that is not there: the option itself is refused before."""

    def plan(self, *args: Any, **fields: Any) -> list[FaultPlan]:
        return carrying(super().plan(*args, **fields), targets=["n9"])


@pytest.mark.selftest
def test_targets_that_are_not_in_the_cluster(lab: LabInfo, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no such node: n9"):
        run_here(lab, tmp_path, options=(*SHORT, "shape=one", "targets=n9"))
    done = run_here(lab, tmp_path, nemesis=Astray(), options=(*SHORT, "shape=one"))
    assert_not_proven(done)
    (fault,) = faults_of(done.path)
    assert fault["landed"] == "no"
    assert "not in the cluster" in fault["notes"][0]


@pytest.mark.selftest
def test_a_fault_on_an_idle_load(lab: LabInfo, tmp_path: Path) -> None:
    done = run_here(lab, tmp_path, rate=1.0)
    assert_not_proven(done)
    assert "idle" in done.verdict.evidence.faults[0].why


class Undone(Partition):
    """Somebody else removes the rules of one node in the middle of the window."""

    async def recheck(self, ctx: NemesisContext, record: LandingRecord) -> LandingRecord:
        if not record.facts["rechecks"]:
            assert record.landed == "yes"
            await nft.delete(ctx.node(record.facts["affected"][0]), nft.FAULT_TABLE)
        return await super().recheck(ctx, record)


@pytest.mark.selftest
def test_rules_removed_in_mid_window(lab: LabInfo, tmp_path: Path) -> None:
    done = run_here(
        lab, tmp_path, nemesis=Undone(), options=(*SHORT, "shape=one"), time_limit_s=15.0
    )
    assert_not_proven(done)
    (fault,) = faults_of(done.path)
    assert fault["landed"] == "ambiguous"
    assert any("vanished" in note for note in fault["notes"])


class Flapping(Partition):
    """Somebody else takes the rules out and puts them back, as often as nobody looks."""

    async def in_force(self, ctx: NemesisContext, record: LandingRecord) -> Mapping[str, str]:
        node = ctx.node(record.facts["affected"][0])
        listed = await node.run(["nft", "list", "table", "inet", nft.FAULT_TABLE])
        found = await super().in_force(ctx, record)
        await nft.delete(node, nft.FAULT_TABLE)
        await asyncio.sleep(0.1)
        await nft.load(node, listed.stdout)
        return found


def test_rules_that_flap_between_the_looks(lab: LabInfo, tmp_path: Path) -> None:
    done = run_here(
        lab,
        tmp_path,
        nemesis=Flapping(),
        options=("fault_s=6", "quiet_s=8", "shape=one"),
        time_limit_s=17.0,
    )
    assert_not_proven(done)
    (fault,) = faults_of(done.path)
    assert all(look["present"] for look in fault["facts"]["rechecks"]), "it stood at every look"
    assert fault["facts"]["stood"]["share"] < 0.9


class HalfCut(Partition):
    """The rules of one affected node are never installed."""

    async def inject(self, ctx: NemesisContext, plan: object) -> LandingRecord:
        real = nft.load

        async def skip_one(node: object, text: str) -> None:
            if nft.FAULT_TABLE not in text or node.name != sorted(ctx.nodes)[0]:  # type: ignore[attr-defined]
                await real(node, text)  # type: ignore[arg-type]

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(nft, "load", skip_one)
            return await super().inject(ctx, plan)  # type: ignore[arg-type]


@pytest.mark.selftest
def test_rules_missing_on_one_side(lab: LabInfo, tmp_path: Path) -> None:
    options = (*SHORT, "shape=majorities-ring")
    assert_not_proven(run_here(lab, tmp_path, nemesis=HalfCut(), options=options))
