"""Faults of the disk under a real etcd: proven by the file system's counters, undone, and fatal to
a server that does not sync."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from busy import assert_passed
from runs import deployed, faults_of, killed_in_mid_fault, on_nodes, run_here

from dstest.core.errors import Exit
from dstest.core.evidence import LandingRecord
from dstest.core.node import LabInfo
from dstest.core.protocols import DataDir, NemesisContext
from dstest.core.verdict import State
from dstest.runner.session import Finished
from nemeses.base.driver import Reverted
from nemeses.disk import disk_fault
from nemeses.disk.bit_rot import NEMESIS as BIT_ROT
from nemeses.disk.bit_rot import BitRot
from nemeses.disk.disk_error import DISK_FULL, FSYNC_ERROR, IO_ERROR, DiskErrorFault
from nemeses.disk.power import NEMESIS as POWER
from nemeses.disk.power import Power
from nemeses.disk.slow_disk import NEMESIS as SLOW_DISK
from nemeses.disk.slow_disk import SlowDisk

pytestmark = [pytest.mark.lab, pytest.mark.slow, pytest.mark.timeout(300)]

OPTIONS = ("fault_s=5", "quiet_s=8")


def run(
    lab: LabInfo, store: Path, nemesis: Any, *options: str, **spec: Any
) -> tuple[Finished, dict[str, Any]]:
    done = run_here(
        lab, store, nemesis=nemesis, options=(*OPTIONS, *options), time_limit_s=22.0, **spec
    )
    assert done.verdict is not None, done
    return done, faults_of(done.path)[0]


def assert_not_proven(done: Finished, fault: dict[str, Any]) -> None:
    assert done.verdict is not None
    assert done.verdict.verdict is State.INCONCLUSIVE_FAULT, done.verdict.reason
    assert done.exit_code == Exit.NOT_PROVEN
    assert fault["landed"] != "yes"


@pytest.mark.parametrize(
    ("nemesis", "scope"),
    [
        (POWER, "majority"), (DISK_FULL, "primaries"), (FSYNC_ERROR, "minority"),
        (IO_ERROR, "one"), (SLOW_DISK, "minority"), (BIT_ROT, "one"),
    ],
    ids=lambda v: getattr(v, "name", v),
)  # fmt: skip
def test_it_lands_and_heals(lab: LabInfo, tmp_path: Path, nemesis: Any, scope: str) -> None:
    done, fault = run(lab, tmp_path, nemesis, f"scope={scope}")
    assert fault["landed"] == "yes", fault
    assert fault["heal_verified"], fault["notes"]
    assert_passed(done)
    assert all(n > 0 for n in fault["injector"]["during"].values())
    assert not any(mounted(lab).values())


@pytest.mark.daily
def test_unsynced_writes_are_lost_and_the_loss_is_found(lab: LabInfo, tmp_path: Path) -> None:
    """By the checker, and by what the members say themselves that they have applied."""
    options = ("scope=all", "unsafe_no_fsync=true", "audit=true")
    done, fault = run(lab, tmp_path, POWER, *options)
    assert fault["landed"] == "yes", fault
    assert done.exit_code == Exit.FAIL
    effects = json.loads((done.path / "effects.json").read_text())
    assert effects["whole"] and set(effects["by_node"]) == {f"n{i}" for i in range(1, 6)}
    lost = [one["kind"] for one in effects["pairing"]["mismatches"]]
    assert "acknowledged-without-effect" in lost
    found = done.verdict.checkers["server-effects"]["anomaly_types"]
    assert found == ["acknowledged-without-effect"]


def test_synced_writes_survive(lab: LabInfo, tmp_path: Path) -> None:
    options = ("scope=all", "lose=majority", "torn=true", "audit=true")
    done, fault = run(lab, tmp_path, POWER, *options)
    assert fault["landed"] == "yes", fault
    assert_passed(done)


class OnlyKilled(Power):
    """The power is said to fail; the process is killed, the disk keeps everything."""

    async def cut(self, ctx: NemesisContext, record: LandingRecord) -> None:
        for name in record.facts["losers"]:
            await disk_fault.ask(ctx.node(name), "clear")


def test_a_kill_is_no_power_cut(lab: LabInfo, tmp_path: Path) -> None:
    done, fault = run(lab, tmp_path, OnlyKilled(), "scope=one")
    assert_not_proven(done, fault)
    assert "unsynced bytes" in fault["injector"]["detail"]


class Elsewhere(DiskErrorFault):
    """Another node's disk refuses."""

    async def apply(self, ctx: NemesisContext, record: LandingRecord) -> None:
        other = next(n for n in ctx.nodes if n not in record.targets)
        await super().apply(ctx, msgspec.structs.replace(record, targets=[other]))

    async def revert(self, ctx: NemesisContext, record: LandingRecord) -> Reverted:
        everywhere = msgspec.structs.replace(record, targets=list(ctx.nodes))
        return await super().revert(ctx, everywhere)


@pytest.mark.parametrize("real", [DISK_FULL, FSYNC_ERROR, IO_ERROR], ids=lambda v: v.name)
def test_the_wrong_disk(lab: LabInfo, tmp_path: Path, real: DiskErrorFault) -> None:
    wrong = Elsewhere(
        real.name, real.faults[0], "", real.setting, real.number, real.counter, real.signal
    )
    assert_not_proven(*run(lab, tmp_path, wrong, "scope=one"))


class TooShort(SlowDisk):
    """A delay far below the one asked for."""

    async def apply(self, ctx: NemesisContext, record: LandingRecord) -> None:
        for name in record.targets:
            await disk_fault.ask(ctx.node(name), "set", "sync_delay_us", 1000)


def test_a_delay_that_nobody_notices(lab: LabInfo, tmp_path: Path) -> None:
    done, fault = run(lab, tmp_path, TooShort(), "scope=one")
    assert_not_proven(done, fault)
    assert "per sync" in fault["victim"]["detail"]


class Sound(BitRot):
    """The server is killed and started again; its files are what they were."""

    async def rot(self, ctx: NemesisContext, record: LandingRecord, name: str) -> None:
        pass


class Unread(BitRot):
    """The bits are of a file that the server knows nothing of."""

    async def rot(self, ctx: NemesisContext, record: LandingRecord, name: str) -> None:
        place = f"{ctx.need(DataDir).data_dir()}/nobodys"  # type: ignore[type-abstract]
        await ctx.node(name).put(place, b"x" * 8192)
        await disk_fault.ask(ctx.node(name), "rot", 1, 1024, "nobodys")


class Worse(BitRot):
    """Another disk rots as well."""

    async def rot(self, ctx: NemesisContext, record: LandingRecord, name: str) -> None:
        other = next(n for n in ctx.nodes if n not in record.targets)
        for node in (name, other):
            await super().rot(ctx, record, node)

    async def revert(self, ctx: NemesisContext, record: LandingRecord) -> None:
        await disk_fault.clear_disks(ctx, list(ctx.nodes))
        await super().revert(ctx, record)


@pytest.mark.parametrize(
    ("nemesis", "signal", "told"),
    [
        (Sound(), "injector", "0 bits flipped"),
        (Unread(), "victim", "0 rotten bits read from the server's disk"),
        (Worse(), "control", "rots as well"),
    ],
    ids=lambda v: type(v).__name__,
)
def test_bits_that_nobody_reads_and_those_of_others(
    lab: LabInfo, tmp_path: Path, nemesis: Any, signal: str, told: str
) -> None:
    done, fault = run(lab, tmp_path, nemesis, "scope=one")
    assert_not_proven(done, fault)
    assert told in fault[signal]["detail"]


def mounted(lab: LabInfo) -> dict[str, bool]:
    async def ask(nodes: dict[str, Any]) -> dict[str, bool]:
        found = {}
        for name, node in nodes.items():
            found[name] = "faultfs" in (await node.run(["cat", "/proc/mounts"])).stdout
        return found

    found: dict[str, bool] = on_nodes(lab, ask)
    return found


@pytest.mark.parametrize(
    "nemesis", ["disk-full", "fsync-error", "io-error", "power", "slow-disk", "bit-rot"]
)
def test_kill_9_of_ours_in_mid_fault(lab: LabInfo, tmp_path: Path, nemesis: str) -> None:
    """The file system is gone from all nodes, and their servers serve on what it held."""

    async def serving(deployment: Any) -> bool:
        return all((await deployment.healthy()).values())

    def healed() -> bool:
        return not any(mounted(lab).values()) and bool(deployed(lab, serving))

    args = ("--nemesis", nemesis, "-o", "fault_s=30", "-o", "scope=one")
    killed_in_mid_fault(lab, tmp_path, args, healed, 30)
