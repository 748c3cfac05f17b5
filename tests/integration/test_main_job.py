"""The main job on real nodes: partitions of a real etcd, proven on both sides, judged."""

from __future__ import annotations

import json
import signal
import subprocess
from pathlib import Path

import pytest
from busy import assert_code
from runs import (
    SHORT,
    SHORT_S,
    dstest,
    faults_of,
    latest,
    run_here,
    start,
    verdict_of,
    wait_for,
)

from dstest.core.errors import Exit
from dstest.core.node import LabInfo
from dstest.core.op import FIELDS
from dstest.runner.session import Finished
from nemeses.none import NoNemesis

pytestmark = [pytest.mark.lab, pytest.mark.slow, pytest.mark.timeout(300)]


def main_job(lab: LabInfo, store: Path, *extra: str) -> subprocess.CompletedProcess[str]:
    options = [part for option in SHORT for part in ("-o", option)]
    return dstest(
        *("run", "--lab-id", lab.lab_id, "--store", store, "--seed", "5"),
        *("--time-limit", str(SHORT_S), *options, *extra),
    )


def test_partitions_land_and_etcd_passes(lab: LabInfo, tmp_path: Path) -> None:
    done = main_job(lab, tmp_path, "--json")
    assert_code(done.returncode, latest(tmp_path), done.stdout + done.stderr)
    shown = json.loads(done.stdout)
    assert shown["exit"] == 0
    assert shown["verdict"]["verdict"] == "PASS-smoke"
    path = latest(tmp_path)
    for fault in faults_of(path):
        assert fault["landed"] == "yes"
        assert fault["heal_verified"]
        assert all(n > 0 for n in fault["injector"]["during"].values())
        assert all(sum(n) == 0 for n in fault["victim"]["during"].values())
        assert all(min(n) > 0 for n in fault["victim"]["after"].values())
        assert all(before == after for before, after in fault["injector"]["after"].values())
        assert all(min(n) > 0 for n in fault["control"]["during"].values())
    head, *lines = (path / "history.jsonl").read_text().splitlines()
    assert json.loads(head)["schema"] == "dstest.history/1"
    assert all(tuple(json.loads(line)) == FIELDS for line in lines[:100])
    assert len(lines) > 1000
    checked = subprocess.run(
        ["sha256sum", "--quiet", "-c", "sha256sums"],
        cwd=path,
        capture_output=True,
        timeout=60,
        check=False,
    )
    assert checked.returncode == 0, checked.stderr
    for name in ("report.html", "findings.md", "junit.xml", "plots/latency.svg"):
        assert (path / name).stat().st_size > 0
    assert (path / "status").read_text().strip() == "verdict: PASS-smoke"
    again = dstest("check", path / "history.jsonl", "--json")
    assert again.returncode == 0, again.stderr
    assert json.loads(again.stdout)["valid"] is True


def test_serializable_reads_fail_with_a_small_witness(stale_run: Finished) -> None:
    assert stale_run.exit_code == Exit.FAIL
    verdict = verdict_of(stale_run.path)
    assert verdict["verdict"].startswith("FAIL")
    anomalies = verdict["checkers"]["linearizable"]["anomalies"]["nonlinearizable"]
    assert min(len(a["ops"]) for a in anomalies) <= 4
    assert dstest("check", stale_run.path / "history.jsonl").returncode == 1


@pytest.mark.long
def test_cas_register_passes(lab: LabInfo, tmp_path: Path) -> None:
    done = run_here(lab, tmp_path, workload="cas-register", rate=None)
    assert done.exit_code == 0, done
    assert done.verdict.checkers["linearizable"]["model"] == "cas-register"


@pytest.mark.long
def test_no_nemesis_is_a_smoke_pass(lab: LabInfo, tmp_path: Path) -> None:
    done = run_here(lab, tmp_path, options=(), nemesis=NoNemesis(), time_limit_s=21.0)
    assert done.exit_code == 0, done
    assert done.verdict.verdict == "PASS-smoke"
    assert done.verdict.rule == "V11"


@pytest.mark.long
def test_the_same_seed_gives_the_same_operations_and_faults(lab: LabInfo, tmp_path: Path) -> None:
    plans, ops = [], []
    for name in ("a", "b"):
        done = run_here(lab, tmp_path / name, options=(*SHORT, "shape=one"))
        head, *lines = (done.path / "history.jsonl").read_text().splitlines()
        assert json.loads(head)["seed"] == 11
        rows = sorted((json.loads(line) for line in lines), key=lambda row: row["op_id"])
        ops.append([(r["op_id"], r["op_type"], r["key"], r["input"]) for r in rows])
        facts = [f["facts"] for f in faults_of(done.path)]
        plans.append([(f["shape"], f["direction"], f["action"], f["cuts"]) for f in facts])
    assert plans[0] == plans[1]
    shared = min(len(o) for o in ops) // 2
    by_id = [{row[0]: row for row in o} for o in ops]
    both = sorted(set(by_id[0]) & set(by_id[1]))[:shared]
    assert len(both) > 500
    assert [by_id[0][i] for i in both] == [by_id[1][i] for i in both]


def test_a_second_run_in_the_same_lab_is_refused(lab: LabInfo, tmp_path: Path) -> None:
    first = start(tmp_path / "log", "run", "--lab-id", lab.lab_id, "--store", tmp_path)
    wait_for("the first run", lambda: "[connect]" in (tmp_path / "log").read_text(), 30)
    second = dstest("run", "--lab-id", lab.lab_id, "--store", tmp_path)
    first.send_signal(signal.SIGTERM)
    assert second.returncode == Exit.HARNESS
    assert "another run uses lab" in second.stderr
    assert first.wait(timeout=60) == Exit.INTERRUPTED
