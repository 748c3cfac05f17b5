"""Faults of other nemeses that wait for their moment, on a real etcd: landed by both proofs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from busy import assert_passed
from runs import (
    CALM,
    assert_not_proven,
    faults_of,
    frozen,
    on_nodes,
    run_here,
    start,
    wait_for,
)

from dstest.core import registry
from dstest.core.node import LabInfo
from nemeses.base import moment
from nemeses.tools import aim

pytestmark = [pytest.mark.lab, pytest.mark.slow, pytest.mark.timeout(300)]

APPLY = "function:etcdserver.(*EtcdServer).applyEntryNormal"
WINDOW = ("fault_s=4", "quiet_s=8")


def named(name: str) -> Any:
    return registry.load("nemeses", name)


def traced(lab: LabInfo) -> list[int]:
    """Pids of our program on any node."""

    async def ask(nodes: dict[str, Any]) -> list[int]:
        return [pid for node in nodes.values() for pid in await aim.traces(node)]

    found: list[int] = on_nodes(lab, ask)
    return found


def left(lab: LabInfo) -> list[str]:
    """What of ours still traces, or stands in a lease, on any node."""

    async def ask(nodes: dict[str, Any]) -> list[str]:
        found = []
        for name, node in nodes.items():
            found += [f"{name}: {pid}" for pid in await aim.traces(node)]
            looked = await node.run(["pgrep", "-f", "aim-log.py"], check=False)
            found += [f"{name}: follows a log, {pid}" for pid in looked.stdout.split()]
            leases = await node.call("lease_list")
            rows = (*leases["armed"], *leases["firing"])
            found += [f"{name}: {row}" for row in rows if row.startswith("f1")]
        return found

    rows: list[str] = on_nodes(lab, ask)
    return rows


@pytest.mark.parametrize(
    ("nemesis", "at", "more"),
    [
        ("partition", APPLY, ()),
        ("kill", "syscall:fdatasync:*.wal:3", ("scope=primaries",)),
        ("pause", f"{APPLY} > return:mvcc.(*storeTxnWrite).put", ("scope=one",)),
    ],
)
def test_it_begins_while_the_thread_stands(
    lab: LabInfo, tmp_path: Path, nemesis: str, at: str, more: tuple[str, ...]
) -> None:
    options = (*WINDOW, f"{nemesis}.at={at}", *more)
    done = run_here(lab, tmp_path, options=options, nemesis=named(nemesis))
    (fault,) = faults_of(done.path)
    assert_passed(done, fault)
    assert fault["landed"] == "yes" and fault["heal_verified"]
    told = fault["facts"]["moment"]
    assert told["held"] and 0 < told["begun_within_ms"] <= told["hold_ms"] and told["pid"]
    assert "at its moment" in fault["injector"]["detail"]
    assert left(lab) == [] and frozen(lab) == []


def test_it_begins_at_a_line_of_the_log(lab: LabInfo, tmp_path: Path) -> None:
    options = (*WINDOW, "partition.at=log:finished scheduled compaction", "partition.on=all")
    done = run_here(
        lab, tmp_path, options=options, nemesis=named("partition"), workload="revisions"
    )
    (fault,) = faults_of(done.path)
    assert fault["landed"] == "yes" and fault["heal_verified"], fault
    told = fault["facts"]["moment"]
    assert "finished scheduled compaction" in told["line"] and not told["held"]
    assert "which nothing held" in fault["injector"]["detail"] and left(lab) == []


def test_a_fault_that_begins_too_late_is_in_doubt(lab: LabInfo, tmp_path: Path) -> None:
    options = (*WINDOW, f"partition.at={APPLY}", "partition.hold_ms=1")
    done = run_here(lab, tmp_path, options=options, nemesis=named("partition"))
    fault = assert_not_proven(done)
    assert fault["landed"] == "ambiguous" and "stood for 1 ms" in str(fault["notes"])
    assert fault["heal_verified"] and left(lab) == []


class LetGo(moment.Moment):
    """Somebody else ends the tracer while it waits."""

    async def _waited(self, source: moment.Source) -> moment.Arrival:
        for name in source.names:
            await self._ctx.node(name).run([aim.OFF])
        return await super()._waited(source)


def test_a_tracer_that_somebody_ends(
    lab: LabInfo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(moment, "Moment", LetGo)
    options = (*WINDOW, f"kill.at={APPLY}", "kill.hit=100000", "kill.reach_s=2")
    fault = assert_not_proven(run_here(lab, tmp_path, options=options, nemesis=named("kill")))
    assert fault["landed"] == "no" and fault["injected_at"] is None and left(lab) == []


def test_kill_9_of_ours_while_it_waits(lab: LabInfo, tmp_path: Path) -> None:
    at = ("-o", f"kill.at={APPLY}", "-o", "kill.hit=100000000", "-o", "kill.reach_s=50")
    words = ("--nemesis", "kill", "-o", "scope=one", *at, "-o", "fault_s=30", "--time-limit", "60")
    log = tmp_path / "log"
    process = start(log, *CALM, *words, "--lab-id", lab.lab_id, "--store", tmp_path / "store")
    try:
        wait_for("a tracer", lambda: traced(lab) != [], 90)
    finally:
        process.kill()
        process.wait(timeout=10)
    wait_for("healing without us", lambda: left(lab) == [], 60)


@pytest.mark.parametrize(
    ("at", "why"),
    [
        ("function:mvcc.(*store).scheduleCompaction", "never reached in 2 s"),
        ("function:mvcc.(*store).nonesuch", "none is mvcc.(*store).nonesuch"),
        ("log:nobody says this", "never reached in 2 s"),
    ],
)
def test_what_does_not_come(lab: LabInfo, tmp_path: Path, at: str, why: str) -> None:
    options = (*WINDOW, f"partition.at={at}", "partition.reach_s=2")
    fault = assert_not_proven(run_here(lab, tmp_path, options=options, nemesis=named("partition")))
    assert fault["landed"] == "no" and fault["injected_at"] is None
    assert why in str(fault["notes"]) and left(lab) == []
