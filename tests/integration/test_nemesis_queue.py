"""Latency, duplicates, reordering, broken bits on a real etcd: proven on both sides, or nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from busy import assert_passed
from runs import CALM, dstest, faults_of, latest, on_nodes, run_here, start, verdict_of, wait_for

from dstest.core import registry
from dstest.core.errors import Exit
from dstest.core.evidence import LandingRecord
from dstest.core.node import LabInfo
from dstest.core.protocols import NemesisContext
from dstest.core.verdict import State
from dstest.runner.session import Finished
from nemeses.network.corrupt import Corrupt
from nemeses.network.duplicate import Duplicate
from nemeses.network.latency import Latency
from nemeses.network.queued import QueueFault
from nemeses.network.reorder import Reorder
from nemeses.tools import netqueue

pytestmark = [pytest.mark.lab, pytest.mark.slow, pytest.mark.timeout(300)]

OPTIONS = ("fault_s=4", "quiet_s=8", "shape=one")
KINDS: list[type[QueueFault]] = [Latency, Duplicate, Reorder, Corrupt]


def assert_not_proven(done: Finished) -> dict[str, Any]:
    assert done.verdict is not None, done
    assert done.verdict.verdict is State.INCONCLUSIVE_FAULT, done.verdict.reason
    assert done.exit_code == Exit.NOT_PROVEN
    (fault,) = faults_of(done.path)
    assert fault["landed"] != "yes"
    assert not fault["residue"]
    return fault


def left(lab: LabInfo) -> list[str]:
    """Nodes that have rules, a program or a queue of ours."""

    async def ask(nodes: dict[str, Any]) -> list[str]:
        return [n for n, node in nodes.items() if not (await netqueue.take_snapshot(node)).nothing]

    found: list[str] = on_nodes(lab, ask)
    return found


@pytest.mark.parametrize("name", ["latency", "duplicate", "reorder", "corrupt"])
@pytest.mark.parametrize("direction", ["both", "in"])
def test_it_lands_and_heals(lab: LabInfo, tmp_path: Path, name: str, direction: str) -> None:
    nemesis = registry.load("nemeses", name)
    options = (*OPTIONS, f"direction={direction}")
    done = run_here(lab, tmp_path, nemesis=nemesis, options=options)
    (fault,) = faults_of(done.path)
    assert_passed(done, fault)
    assert fault["landed"] == "yes"
    assert fault["heal_verified"], fault["notes"]
    assert not fault["control"]["moved"]
    assert len(fault["victim"]["during"]) == (8 if direction == "both" else 4)
    assert all(n > 0 for n in fault["injector"]["during"].values())
    assert all(row["present"] for row in fault["facts"]["rechecks"])
    assert left(lab) == []


@pytest.mark.parametrize("kind", KINDS, ids=lambda k: k.name)
def test_rules_in_the_wrong_chain(lab: LabInfo, tmp_path: Path, kind: type[QueueFault]) -> None:
    done = run_here(lab, tmp_path, nemesis=kind(hook="FORWARD"), options=OPTIONS)
    fault = assert_not_proven(done)
    assert fault["landed"] == "no"
    assert not any(fault["injector"]["during"].values())


@pytest.mark.parametrize("kind", KINDS, ids=lambda k: k.name)
def test_a_queue_that_nobody_serves(lab: LabInfo, tmp_path: Path, kind: type[QueueFault]) -> None:
    """The rules count packets, and let them pass."""
    done = run_here(lab, tmp_path, nemesis=kind(queue=78), options=OPTIONS)
    fault = assert_not_proven(done)
    assert fault["landed"] == "no"
    assert "the program saw 0" in fault["injector"]["detail"]


@pytest.mark.parametrize("kind", KINDS, ids=lambda k: k.name)
def test_a_fault_on_an_idle_load(lab: LabInfo, tmp_path: Path, kind: type[QueueFault]) -> None:
    """Heartbeats are delayed all the same; the system was not tested under it."""
    done = run_here(lab, tmp_path, nemesis=kind(), options=OPTIONS, rate=1.0)
    assert done.verdict is not None, done
    assert done.verdict.verdict is State.INCONCLUSIVE_FAULT, done.verdict.reason
    assert done.exit_code == Exit.NOT_PROVEN


def sabotaged(kind: type[QueueFault], command: list[str]) -> QueueFault:
    """Somebody else does something on one affected node in the middle of the window."""

    class Sabotaged(kind):  # type: ignore[misc, valid-type]
        async def recheck(self, ctx: NemesisContext, record: LandingRecord) -> LandingRecord:
            if not record.facts["rechecks"]:
                assert record.landed == "yes", record
                await ctx.node(record.facts["affected"][0]).run(command)
            found: LandingRecord = await super().recheck(ctx, record)
            return found

    made: QueueFault = Sabotaged()
    return made


@pytest.mark.parametrize("kind", KINDS, ids=lambda k: k.name)
def test_the_program_dies_in_mid_window(
    lab: LabInfo, tmp_path: Path, kind: type[QueueFault]
) -> None:
    nemesis = sabotaged(kind, ["pkill", "-9", "-x", "netqueue"])
    fault = assert_not_proven(run_here(lab, tmp_path, nemesis=nemesis, options=OPTIONS))
    assert any("program behind the queue vanished" in note for note in fault["notes"])
    assert fault["heal_verified"]


@pytest.mark.parametrize("tool", ["iptables", "ip6tables"])
def test_rules_removed_in_mid_window(lab: LabInfo, tmp_path: Path, tool: str) -> None:
    """Of one family, the one that etcd speaks or the other."""
    nemesis = sabotaged(Latency, [tool, "-t", "mangle", "-D", "INPUT", "-j", netqueue.CHAIN])
    done = run_here(lab, tmp_path, nemesis=nemesis, options=OPTIONS)
    assert assert_not_proven(done)["landed"] == "ambiguous"


@pytest.mark.parametrize("name", ["latency", "duplicate", "reorder", "corrupt"])
def test_kill_9_of_ours_in_mid_fault(lab: LabInfo, tmp_path: Path, name: str) -> None:
    log = tmp_path / "log"
    process = start(
        log,
        *(*CALM, "--nemesis", name, "--time-limit", "60", "-o", "fault_s=30", "-o", "shape=one"),
        *("--lab-id", lab.lab_id, "--store", tmp_path / "store"),
    )
    wait_for("a landed fault", lambda: "landed yes" in log.read_text(), 60)
    assert left(lab)
    process.kill()
    process.wait(timeout=10)
    assert wait_for("healing without us", lambda: not left(lab), 20) <= 20
    run = latest(tmp_path / "store")
    assert dstest("recover", run).returncode == Exit.NOT_PROVEN
    assert not verdict_of(run)["verdict"].startswith("PASS")
