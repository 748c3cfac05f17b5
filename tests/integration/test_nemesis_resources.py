"""A real etcd without memory, and one that can open no file: evidence, heal, leases, sabotage."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any, cast

import pytest
from runs import (
    deployed,
    etcd,
    faults_of,
    killed_in_mid_fault,
    landed_and_healed,
    not_proven,
    on_nodes,
    run_here,
)

from dstest.core.evidence import LandingRecord
from dstest.core.node import LabInfo
from dstest.core.protocols import NemesisContext, Process
from dstest.runner import adoption
from nemeses.process import descriptors, memory
from nemeses.process.descriptors import Descriptors, descriptor_leaks, files_of
from nemeses.process.memory import MEMORY, Memory, group_leaks

pytestmark = [pytest.mark.lab, pytest.mark.slow, pytest.mark.timeout(300)]

WINDOW = ("fault_s=5", "quiet_s=8")
ONE = (*WINDOW, "scope=one")
LIMIT_S = 24.0


def memory_left(lab: LabInfo) -> list[str]:
    """Limits and groups of ours on the nodes."""

    async def ask(nodes: dict[str, Any]) -> list[str]:
        rows = [group_leaks(await memory.read(node)) for node in nodes.values()]
        rows += [await MEMORY.leaks(node) for node in nodes.values()]
        return [text for row in rows for text in row]

    found: list[str] = on_nodes(lab, ask)
    return found


def processes(lab: LabInfo) -> dict[str, list[Process]]:
    async def ask(deployment: Any) -> dict[str, list[Process]]:
        found: dict[str, list[Process]] = await deployment.processes()
        return found

    found: dict[str, list[Process]] = deployed(lab, ask)
    return found


@pytest.mark.parametrize(("mode", "scope"), [("oom", "minority"), ("stall", "one"), ("oom", "all")])
def test_memory_lands_and_heals(lab: LabInfo, tmp_path: Path, mode: str, scope: str) -> None:
    options = (*WINDOW, f"scope={scope}", f"mode={mode}")
    done = run_here(lab, tmp_path, nemesis=memory.NEMESIS, options=options, time_limit_s=LIMIT_S)
    fault = landed_and_healed(done)
    now, before = fault["facts"]["memory"], fault["facts"]["memory_before"]
    for name in fault["targets"]:
        assert now[name]["failcnt"] > before[name]["failcnt"]
        assert now[name]["limit_in_bytes"] < 1 << 30
        assert now[name]["oom_kill"] - before[name]["oom_kill"] == (mode == "oom")
    for name in set(now) - set(fault["targets"]):
        assert now[name]["failcnt"] == before[name]["failcnt"]
    assert memory_left(lab) == []


class Ample(Memory):
    """The limit is a gibibyte, which the server never needs."""

    async def squeeze(self, ctx: NemesisContext, record: LandingRecord, name: str) -> None:
        argv = ["sh", "-c", 'echo 1G >"$0/memory.limit_in_bytes"', MEMORY.path]
        await ctx.node(name).run(argv)


class Outside(Memory):
    """The server is not in the group any more whose memory is limited."""

    async def apply(self, ctx: NemesisContext, record: LandingRecord) -> None:
        for name in record.targets:
            pid = record.facts["pids"][name][0]
            script = 'echo "$1" >"$0/cgroup.procs"'
            await ctx.node(name).run(["sh", "-c", script, MEMORY.mount, str(pid)])
        await super().apply(ctx, record)


class OtherHand(Ample):
    """Not the kernel kills the server."""

    async def apply(self, ctx: NemesisContext, record: LandingRecord) -> None:
        await super().apply(ctx, record)
        await etcd(ctx).kill(record.targets)


@pytest.mark.parametrize(
    ("nemesis", "landed"),
    [(Ample(), "no"), (Outside(), "no"), (OtherHand(), "ambiguous")],
    ids=["ample", "outside", "killed by another hand"],
)
def test_a_limit_that_is_none(lab: LabInfo, tmp_path: Path, nemesis: Memory, landed: str) -> None:
    done = run_here(lab, tmp_path, nemesis=nemesis, options=ONE, time_limit_s=LIMIT_S)
    assert not_proven(done)["landed"] == landed
    assert memory_left(lab) == []


@pytest.mark.parametrize("mode", ["oom", "stall"])
def test_memory_kill_9_of_ours_in_mid_fault(lab: LabInfo, tmp_path: Path, mode: str) -> None:
    def healed() -> bool:
        return len(processes(lab)) == 5 and not any("limited" in text for text in memory_left(lab))

    options = ("fault_s=30", "scope=minority", f"mode={mode}")
    args = ("--nemesis", "memory", *(word for o in options for word in ("-o", o)))
    killed_in_mid_fault(lab, tmp_path, args, healed, 30)


def test_the_audit_finds_a_limit(lab: LabInfo) -> None:
    async def ask(nodes: dict[str, Any]) -> list[str]:
        node = nodes["n2"]
        await MEMORY.make(node, "memory")
        script = 'echo 64M >"$0/memory.limit_in_bytes"'
        await node.run(["sh", "-c", script, MEMORY.path])
        found = await memory.NEMESIS.extra_leaks(cast(Any, None), node, [])
        left = await adoption.leaks({"n2": node}, [MEMORY.residue])
        await MEMORY.withdraw(node)
        return [*found, *left["n2"], *await MEMORY.leaks(node)]

    assert on_nodes(lab, ask) == [
        "its memory is limited to 67,108,864 bytes",
        f"mount {MEMORY.mount}",
        f"control group {MEMORY.path}",
    ]


def narrow(lab: LabInfo) -> list[str]:
    """Limits of open files that are still lowered."""
    running = processes(lab)

    async def ask(nodes: dict[str, Any]) -> list[str]:
        found = await asyncio.gather(
            *(files_of(nodes[n], p.pid, p.start_time) for n in running for p in running[n])
        )
        return [text for files in found if files for text in descriptor_leaks(files)]

    found: list[str] = on_nodes(lab, ask)
    return found


@pytest.mark.parametrize("scope", ["minority", "primaries"])
def test_fds_land_and_heal(lab: LabInfo, tmp_path: Path, scope: str) -> None:
    options = (*WINDOW, f"scope={scope}")
    nemesis = descriptors.NEMESIS
    done = run_here(lab, tmp_path, nemesis=nemesis, options=options, time_limit_s=LIMIT_S)
    fault = landed_and_healed(done)
    assert set(fault["injector"]["during"].values()) == {0}
    assert min(fault["injector"]["after"].values()) > 1000
    assert not any(fault["victim"]["during"].values())
    assert all(fault["control"]["during"].values())


class High(Descriptors):
    """The limit is lowered, but far above what the server has open."""

    async def exhaust(self, ctx: NemesisContext, record: LandingRecord, name: str) -> None:
        pid, _ = record.facts["pids"][name]
        await ctx.node(name).run(["prlimit", "--pid", str(pid), "--nofile=10000:"])


class WrongProcess(Descriptors):
    """The limits of process 1 are lowered."""

    async def exhaust(self, ctx: NemesisContext, record: LandingRecord, name: str) -> None:
        await ctx.node(name).run(["sh", "-c", "sleep 20 & prlimit --pid $! --nofile=3:"])


@pytest.mark.parametrize("nemesis", [High(), WrongProcess()], ids=["high", "wrong process"])
def test_fds_that_are_left(lab: LabInfo, tmp_path: Path, nemesis: Descriptors) -> None:
    done = run_here(lab, tmp_path, nemesis=nemesis, options=ONE, time_limit_s=LIMIT_S)
    assert not_proven(done)["landed"] == "no"


def test_fds_kill_9_of_ours_in_mid_fault(lab: LabInfo, tmp_path: Path) -> None:
    args = ("--nemesis", "fds", "-o", "fault_s=30", "-o", "scope=minority")
    killed_in_mid_fault(lab, tmp_path, args, lambda: narrow(lab) == [], 30)


class Forgetful(Descriptors):
    """Nothing is put back on the nodes."""

    async def revert(self, ctx: NemesisContext, record: LandingRecord) -> None:
        self.let_go(record)


def test_the_audit_finds_what_was_not_put_back(lab: LabInfo, tmp_path: Path) -> None:
    done = run_here(lab, tmp_path, nemesis=Forgetful(), options=ONE, time_limit_s=LIMIT_S)
    (fault,) = faults_of(done.path)
    assert not fault["heal_verified"]
    found = json.loads((done.path / "run.json").read_text())["residue"]
    (name,) = fault["targets"]
    # The server may have ended meanwhile, for lack of files; nothing has started it again then.
    assert any("its limit is" in text or "does not run" in text for text in found[name]), found
    assert not any(rows for node, rows in found.items() if node != name), found


def test_fds_end_the_server(lab: LabInfo, tmp_path: Path) -> None:
    """Within half a minute etcd looks for old snapshots, and ends where it cannot open them."""
    options = ("fault_s=33", "quiet_s=1", "scope=one")
    nemesis = descriptors.NEMESIS
    done = run_here(lab, tmp_path, nemesis=nemesis, options=options, time_limit_s=45.0)
    (fault,) = faults_of(done.path)
    assert fault["landed"] == "yes", fault
    assert fault["heal_verified"], fault["notes"]
    assert "has ended, it could open no file" in fault["injector"]["detail"]
    assert [look["present"] for look in fault["facts"]["rechecks"]] == [True, True]
    assert not fault["residue"]
