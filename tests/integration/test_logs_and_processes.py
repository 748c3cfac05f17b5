"""Logs and processes as evidence on a real etcd: faults explain what they do, and nothing else."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from busy import assert_passed
from runs import CALM, RATE, dstest, latest, run_here, start, verdict_of, wait_for

from clusters.systems.etcd.on_node import PIDFILE, START
from dstest.core.errors import Exit
from dstest.core.node import LabInfo
from dstest.core.run_record import RunSpec
from dstest.runner.plugins import resolve

pytestmark = [pytest.mark.lab, pytest.mark.slow, pytest.mark.timeout(300)]

BY_HAND = f"read -r pid _ <{PIDFILE}; kill -9 $pid; sleep 2; {START}"


def rf7(path: Path) -> dict[str, Any]:
    row: dict[str, Any] = json.loads((path / "verdict.json").read_text())["evidence"]["redflags"][
        "RF7"
    ]
    return row


def behind_our_back(lab: LabInfo, folder: Path, script: str, node: str = "n2") -> tuple[int, Path]:
    """A run with a partition of other nodes, in which somebody runs a script on a node by hand."""
    log, store = folder / "log", folder / "store"
    process = start(
        log,
        *(*CALM, "--time-limit", "21", "-o", "fault_s=4", "-o", "quiet_s=6"),
        *("-o", "paths=n4:n5,n5:n4", "--lab-id", lab.lab_id, "--store", store),
    )
    try:
        wait_for("a healed fault", lambda: "f1: heal proven" in log.read_text(), 90)
        done = dstest("lab", "ssh", "--lab-id", lab.lab_id, node, "--", script)
        assert done.returncode == 0, done.stdout + done.stderr
        process.wait(timeout=120)
    finally:
        process.kill()
        process.wait(timeout=10)
    return process.returncode, latest(store)


def test_a_server_that_somebody_else_killed_and_restarted(lab: LabInfo, tmp_path: Path) -> None:
    """It serves again at the end, and every operation is right: only the watch can tell."""
    code, path = behind_our_back(lab, tmp_path, BY_HAND)
    assert rf7(path)["status"] == "short"
    assert "n2: process" in rf7(path)["evidence"]
    assert code == Exit.NOT_PROVEN, verdict_of(path)["reason"]
    assert not verdict_of(path)["verdict"].startswith("PASS")


def test_a_crash_that_only_the_log_tells_of(lab: LabInfo, tmp_path: Path) -> None:
    line = "panic: runtime error: index out of range [7] with length 7"
    code, path = behind_our_back(lab, tmp_path, f"echo '{line}' >>/opt/etcd/etcd.log")
    assert code == Exit.FAIL
    verdict = verdict_of(path)
    assert verdict["verdict"] == "FAIL-nondeterministic"
    assert list(verdict["checkers"]["no-crash"]["anomalies"]) == ["panic"]


@pytest.mark.selftest
@pytest.mark.parametrize("nemesis", ["partition", "kill", "pause", "clock", "memory", "io-error"])
def test_what_a_fault_does_is_explained(lab: LabInfo, tmp_path: Path, nemesis: str) -> None:
    options = ["fault_s=4", "quiet_s=8"]
    spec = RunSpec(nemesis=nemesis, time_limit_s=24.0, seed=11, rate=RATE)
    real = resolve(spec, options).nemesis
    done = run_here(lab, tmp_path, nemesis=real, options=tuple(options), time_limit_s=24.0)
    assert rf7(done.path)["status"] == "ok", rf7(done.path)
    assert_passed(done)
