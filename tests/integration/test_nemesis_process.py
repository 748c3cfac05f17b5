"""kill, stop and pause on a real etcd: landed, sabotaged, healed, healed without us."""

from __future__ import annotations

import copy
import itertools
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from busy import assert_passed
from runs import (
    CALM,
    assert_not_proven,
    dstest,
    etcd,
    faults_of,
    frozen,
    latest,
    on_nodes,
    run_here,
    start,
    verdict_of,
    wait_for,
)

from clusters.systems.etcd.deployment import EtcdDeployment
from clusters.systems.etcd.on_node import PIDFILE
from dstest.core import registry
from dstest.core.errors import Exit
from dstest.core.evidence import LandingRecord
from dstest.core.node import LabInfo
from dstest.core.protocols import Nemesis, NemesisContext, Process
from dstest.core.verdict import State
from nemeses.base.process_fault import ProcessFault
from nemeses.base.schedule import carrying
from nemeses.mix import Mix
from nemeses.process.kill import Kill
from nemeses.process.pause import Pause
from nemeses.process.stop import Stop

pytestmark = [pytest.mark.lab, pytest.mark.slow, pytest.mark.timeout(300)]

OPTIONS = ("fault_s=4", "quiet_s=8")


def named(*names: str) -> Nemesis:
    """The nemesis of that name, or a mix of several."""
    members = [registry.load("nemeses", name) for name in names]
    found: Nemesis = Mix(members) if len(members) > 1 else members[0]
    return found


@pytest.mark.parametrize(
    ("nemesis", "scope"),
    [
        ("kill", "all"),
        ("kill", "primaries"),
        ("stop", "minority"),
        ("pause", "majority"),
        ("pause way=freezer", "primaries"),
        ("pause way=freezer", "all"),
    ],
)
def test_it_lands_and_heals(lab: LabInfo, tmp_path: Path, nemesis: str, scope: str) -> None:
    nemesis, *way = nemesis.split()
    options = (*OPTIONS, f"scope={scope}", *way)
    done = run_here(lab, tmp_path, nemesis=named(nemesis), options=options)
    (fault,) = faults_of(done.path)
    assert_passed(done, fault)
    assert done.verdict.verdict == "PASS-smoke"
    assert fault["landed"] == "yes"
    assert fault["heal_verified"]
    assert len(fault["facts"]["rechecks"]) == 2
    assert len(fault["targets"]) == {"all": 5, "primaries": 1, "minority": 2, "majority": 3}[scope]
    paths = [p for p in fault["victim"]["during"] if not p.startswith("clients")]
    assert not any(fault["victim"]["during"][p] for p in paths)
    assert all(fault["victim"]["before"][p] for p in paths)
    assert all(fault["victim"]["after"].values())
    assert all(fault["control"]["during"].values())
    assert frozen(lab) == []
    assert fault["facts"]["requested_to_applied_ms"] < 2000
    for name in fault["targets"]:
        pid = fault["facts"]["pids"][name][0]
        if nemesis != "pause":
            assert fault["injector"]["after"][name] not in (0, pid)
    if scope == "primaries":
        assert fault["targets"] == [fault["facts"]["leader_before"]]
        assert fault["facts"]["new_term"] > fault["facts"]["term_before"]


def test_three_kinds_in_one_run(lab: LabInfo, tmp_path: Path) -> None:
    options = ("fault_s=3", "quiet_s=2", "shape=one")
    mix = named("partition", "kill", "pause")
    done = run_here(lab, tmp_path, nemesis=mix, options=options, time_limit_s=26.0, seed=5)
    faults = faults_of(done.path)
    assert_passed(done, faults)
    assert {f["nemesis"] for f in faults} == {"partition", "kill", "pause"}
    assert len({f["fault_id"] for f in faults}) == len(faults)
    for earlier, later in itertools.pairwise(faults):
        assert earlier["healed_at"] <= later["injected_at"]


class Elsewhere(Kill):
    """Kills a process that we started ourselves instead of the server."""

    async def apply(self, ctx: NemesisContext, record: LandingRecord) -> None:
        for name in record.targets:
            other = await ctx.node(name).call("spawn", argv=["/bin/sleep", "60"])
            await ctx.node(name).call("signal", signum=9, **other)


def test_the_wrong_process_is_killed(lab: LabInfo, tmp_path: Path) -> None:
    fault = assert_not_proven(run_here(lab, tmp_path, nemesis=Elsewhere(), options=OPTIONS))
    assert fault["landed"] == "no"
    assert "is still there" in fault["injector"]["detail"]
    assert "still answers" in fault["victim"]["detail"]


def wrapped(monkeypatch: pytest.MonkeyPatch, *, from_the_start: bool) -> None:
    """The deployment takes a wrapper for the server: kills and pauses hit that one."""
    real = EtcdDeployment.processes
    wrappers: dict[str, Process] = {}

    async def processes(
        self: EtcdDeployment, names: Sequence[str] = ()
    ) -> dict[str, list[Process]]:
        asked = names or list(self.nodes)
        return {n: [wrappers[n]] for n in asked} if wrappers else await real(self, names)

    async def wrap(deployment: EtcdDeployment) -> None:
        for name, node in deployment.nodes.items():
            row = await node.call("spawn", argv=["/bin/sleep", "100"])
            wrappers[name] = Process("etcd", row["pid"], row["start_time"])

    async def version(self: EtcdDeployment) -> str:
        if from_the_start:
            await wrap(self)
        return "3.4.23"

    async def ready(self: ProcessFault, ctx: NemesisContext) -> None:
        if not from_the_start:
            await wrap(etcd(ctx))

    def signalling(number: int) -> Any:
        async def send(self: EtcdDeployment, names: Sequence[str], service: str = "") -> None:
            for name in names:
                pid, start = wrappers[name].pid, wrappers[name].start_time
                await self.nodes[name].call("signal", pid=pid, start_time=start, signum=number)

        return send

    monkeypatch.setattr(EtcdDeployment, "processes", processes)
    monkeypatch.setattr(EtcdDeployment, "version", version)
    monkeypatch.setattr(Kill, "ready", ready)
    monkeypatch.setattr(Pause, "ready", ready)
    monkeypatch.setattr(EtcdDeployment, "kill", signalling(9))
    monkeypatch.setattr(EtcdDeployment, "pause", signalling(19))


@pytest.mark.parametrize("nemesis", [Kill(), Pause()], ids=["kill", "pause"])
def test_a_wrapper_is_hit_instead_of_the_server(
    lab: LabInfo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, nemesis: ProcessFault
) -> None:
    wrapped(monkeypatch, from_the_start=False)
    options = (*OPTIONS, "scope=one")
    fault = assert_not_proven(run_here(lab, tmp_path, nemesis=nemesis, options=options))
    assert "was not the one that served" in fault["injector"]["detail"]
    assert "still answers" in fault["victim"]["detail"]


def test_a_server_that_another_program_is_taken_for_gets_no_load(
    lab: LabInfo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wrapped(monkeypatch, from_the_start=True)
    done = run_here(lab, tmp_path, nemesis=Kill(), options=OPTIONS)
    assert done.failure is not None
    assert "which is not of service etcd" in done.failure.message
    assert done.exit_code not in (Exit.PASS, Exit.FAIL)


class DeadPid(Pause):
    """Stops a process that has long ended."""

    async def pause(self, ctx: NemesisContext, names: Sequence[str], service: str) -> None:
        for name in names:
            await ctx.node(name).call("signal", pid=4_000_000, start_time=1, signum=19)


def test_a_dead_process_is_paused(lab: LabInfo, tmp_path: Path) -> None:
    fault = assert_not_proven(run_here(lab, tmp_path, nemesis=DeadPid(), options=OPTIONS))
    assert fault["landed"] == "no"
    assert "apply failed" in fault["notes"][0]


class Supervised(Kill):
    """Something else starts the server again in the middle of the window."""

    async def recheck(self, ctx: NemesisContext, record: LandingRecord) -> LandingRecord:
        if not record.facts["rechecks"]:
            assert record.landed == "yes"
            name = record.targets[0]
            await ctx.node(name).run(etcd(ctx).restart_command(name))
        return await super().recheck(ctx, record)


class Continued(Pause):
    """Something else continues the process in the middle of the window."""

    async def recheck(self, ctx: NemesisContext, record: LandingRecord) -> LandingRecord:
        if not record.facts["rechecks"]:
            assert record.landed == "yes"
            await etcd(ctx).resume(record.targets[:1])
        return await super().recheck(ctx, record)


class Thawed(Pause):
    """Something else thaws a group in the middle of the window."""

    async def recheck(self, ctx: NemesisContext, record: LandingRecord) -> LandingRecord:
        if not record.facts["rechecks"]:
            assert record.landed == "yes"
            name = record.targets[0]
            await ctx.node(name).run(etcd(ctx).thaw_command())
        return await super().recheck(ctx, record)


@pytest.mark.parametrize(
    ("nemesis", "way"),
    [(Supervised(), ()), (Continued(), ()), (Thawed(), ("way=freezer",))],
    ids=["kill", "pause", "freezer"],
)
def test_undone_in_mid_window(
    lab: LabInfo, tmp_path: Path, nemesis: ProcessFault, way: tuple[str, ...]
) -> None:
    options = (*OPTIONS, "scope=minority", *way)
    fault = assert_not_proven(run_here(lab, tmp_path, nemesis=nemesis, options=options))
    assert fault["landed"] == "ambiguous"
    assert any("did not stand" in note for note in fault["notes"])


class Deaf(Stop):
    """SIGTERM is swallowed on the way; SIGKILL comes instead."""

    async def apply(self, ctx: NemesisContext, record: LandingRecord) -> None:
        await etcd(ctx).kill(record.targets)


def test_a_stop_that_was_a_kill(lab: LabInfo, tmp_path: Path) -> None:
    fault = assert_not_proven(run_here(lab, tmp_path, nemesis=Deaf(), options=OPTIONS))
    assert fault["landed"] == "ambiguous"
    assert "no orderly end in the log" in fault["injector"]["detail"]


@pytest.mark.parametrize("name", ["kill", "pause"])
def test_targets_that_are_not_in_the_cluster(lab: LabInfo, tmp_path: Path, name: str) -> None:
    nemesis = copy.copy(named(name))
    planned = nemesis.plan
    nemesis.plan = lambda *args: carrying(planned(*args), targets=["n9"])  # type: ignore[method-assign]
    done = run_here(lab, tmp_path, nemesis=nemesis, options=OPTIONS)
    fault = assert_not_proven(done)
    assert "not in the cluster" in fault["notes"][0]


def test_a_pause_on_an_idle_load(lab: LabInfo, tmp_path: Path) -> None:
    options = (*OPTIONS, "scope=one")
    done = run_here(lab, tmp_path, nemesis=named("pause"), options=options, rate=1.0)
    assert done.verdict.verdict is State.INCONCLUSIVE_FAULT, done.verdict.reason
    assert done.exit_code == Exit.NOT_PROVEN
    assert "idle" in done.verdict.evidence.faults[0].why


def _servers(lab: LabInfo) -> dict[str, tuple[int, str]]:
    """Per node: pid of the server by its pid file and the process's state, X where it is gone."""

    async def ask(nodes: dict[str, Any]) -> dict[str, tuple[int, str]]:
        found = {}
        for name, node in nodes.items():
            pid = int((await node.run(["cat", PIDFILE])).stdout.split()[0])
            info = await node.call("procinfo", pid=pid)
            found[name] = (pid, info["state"] or "X")
        return found

    servers: dict[str, tuple[int, str]] = on_nodes(lab, ask)
    return servers


@pytest.mark.parametrize(
    ("nemesis", "state"),
    [("kill", "X"), ("stop", "X"), ("pause", "T"), ("pause way=freezer", "D")],
)
def test_kill_9_of_ours_in_mid_fault(
    lab: LabInfo, tmp_path: Path, nemesis: str, state: str
) -> None:
    nemesis, *way = nemesis.split()
    log = tmp_path / "log"
    process: subprocess.Popen[bytes] = start(
        log,
        *(*CALM, "--nemesis", nemesis, "--time-limit", "60", "-o", "fault_s=30"),
        *("-o", "scope=minority", "--lab-id", lab.lab_id, "--store", tmp_path / "store"),
        *(word for option in way for word in ("-o", option)),
    )
    try:
        wait_for("a landed fault", lambda: "landed yes" in log.read_text(), 60)
        before = _servers(lab)
        stood = frozen(lab)
        # A server that syncs its log is in state D as well as one that is frozen.
        hit = stood if way else [name for name, row in before.items() if row[1] == state]
        assert len(hit) == 2, before
        assert {before[name][1] for name in hit} == {state}
        assert bool(stood) is bool(way)
    finally:
        process.kill()
        process.wait(timeout=10)

    def healed() -> bool:
        return not frozen(lab) and all(row[1] in "SRD" for row in _servers(lab).values())

    assert wait_for("healing without us", healed, 20) <= 20
    after = _servers(lab)
    for name in hit:
        assert (after[name][0] == before[name][0]) is (nemesis == "pause")
    run = latest(tmp_path / "store")
    assert dstest("recover", run).returncode == Exit.NOT_PROVEN
    assert not verdict_of(run)["verdict"].startswith("PASS")


def test_ctrl_c_in_mid_kill(lab: LabInfo, tmp_path: Path) -> None:
    log = tmp_path / "log"
    process = start(
        log,
        *(*CALM, "--nemesis", "kill", "--time-limit", "60", "-o", "fault_s=30"),
        *("-o", "scope=one", "--lab-id", lab.lab_id, "--store", tmp_path / "store"),
    )
    wait_for("a landed fault", lambda: "landed yes" in log.read_text(), 60)
    process.terminate()
    assert process.wait(timeout=60) == Exit.INTERRUPTED, log.read_text()
    (fault,) = faults_of(latest(tmp_path / "store"))
    assert fault["heal_verified"], fault["notes"]


def test_a_server_that_cannot_come_back(lab: LabInfo, tmp_path: Path) -> None:
    """Its data directory is made useless while it is down: the heal is not proven, no pass."""

    class Ruined(Kill):
        async def revert(self, ctx: NemesisContext, record: LandingRecord) -> None:
            for name in record.targets:
                await ctx.node(name).run(["chmod", "000", "/usr/bin/etcd"])
            await super().revert(ctx, record)

        async def teardown(self, ctx: NemesisContext) -> None:
            for name in ctx.nodes:
                await ctx.node(name).run(["chmod", "755", "/usr/bin/etcd"])

    done = run_here(lab, tmp_path, nemesis=Ruined(), options=(*OPTIONS, "scope=one"))
    assert done.exit_code != Exit.PASS
    (fault,) = faults_of(done.path)
    assert not fault["heal_verified"]
    assert any("its server does not run" in note for note in fault["notes"])


class Lingering(Stop):
    """SIGTERM reaches servers that stand still: they would end whenever they go on."""

    async def apply(self, ctx: NemesisContext, record: LandingRecord) -> None:
        await etcd(ctx).pause(record.targets)
        await super().apply(ctx, record)


def test_a_server_that_does_not_end_is_killed_by_the_heal(lab: LabInfo, tmp_path: Path) -> None:
    options = ("fault_s=4", "quiet_s=8", "scope=one")
    done = run_here(lab, tmp_path, nemesis=Lingering(), options=options, time_limit_s=45.0)
    for fault in faults_of(done.path):
        assert fault["landed"] != "yes"
        assert fault["heal_verified"], fault["notes"]
    assert done.exit_code == Exit.NOT_PROVEN
