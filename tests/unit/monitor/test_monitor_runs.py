"""A simulated run with samples: what is there, that it changes nothing, and what is held to it."""

from __future__ import annotations

import io
import json
import shutil
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec
import pytest

from dstest.core.errors import EvidenceError
from dstest.core.run_record import RunSpec
from dstest.debug.monitor.client import BASELINE, CLIENT, NODES, read_rows, series_of
from dstest.history.layout import RunDir
from dstest.history.sums import SUMS, sums_of
from dstest.report.model import BaselineView, alert_lines, read_baseline
from dstest.runner.integrity import verify_run
from dstest.runner.measurements import monitored
from dstest.runner.plugins import resolve
from dstest.runner.screen import Progress
from dstest.runner.session import Finished, recover, run_session

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


def ran(store: Path, **changes: Any) -> Finished:
    spec = RunSpec(
        system="toykv",
        lab="sim",
        nodes=3,
        concurrency=6,
        rate=50.0,
        time_limit_s=30.0,
        seed=1,
        **changes,
    )
    pairs = [] if spec.nemesis == "none" else ["fault_s=4"]
    return run_session(resolve(spec, pairs), store=store, ui=Progress(io.StringIO()))


@pytest.fixture(scope="module")
def faulty(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return ran(tmp_path_factory.mktemp("sampled"), nemesis="partition").path


def meta_of(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((path / "run.json").read_bytes())
    return found


def test_it_has_what_a_simulated_process_has(faulty: Path) -> None:
    rows = list(read_rows(faulty / NODES))
    names = {row.name for row in rows}
    assert names == {
        *("answers", "applied", "commit", "leads", "queue", "term", "messages_sent", "net_sent"),
    }
    assert {row.node for row in rows} == {"n1", "n2", "n3"}
    series = series_of(rows)
    times = [time_ns for time_ns, _ in series["n1", "term"]]
    assert len(times) > 30
    assert all(0.9e9 < b - a < 1.2e9 for a, b in pairwise(times))
    assert series["n1", "applied"][-1][1] > 500
    meta = meta_of(faulty)
    assert meta["monitor"]["nodes"]["n1"]["samples"] == len(series["n1", "answers"])
    assert "monitor" not in meta["spec"] or meta["spec"]["monitor"] is True


def test_sampling_changes_nothing_of_a_simulation(faulty: Path, tmp_path: Path) -> None:
    bare = ran(tmp_path, nemesis="partition", monitor=False).path
    assert meta_of(bare)["digest"] == meta_of(faulty)["digest"]
    assert "monitor" not in meta_of(bare)
    assert not (bare / "metrics").exists()
    assert meta_of(bare)["spec"]["monitor"] is False
    assert "What was measured" not in (bare / "findings.md").read_text()
    assert read_baseline(bare) is None
    assert verify_run(RunDir(bare)).verdict.verdict is verify_run(RunDir(faulty)).verdict.verdict
    without, _, _ = monitored(bare)
    assert not without.sampled
    assert "rss" in without.unmeasured


def test_a_server_that_is_down_says_nothing(tmp_path: Path) -> None:
    killed = ran(tmp_path, nemesis="kill").path
    series = series_of(read_rows(killed / NODES))
    silent = [
        time_ns
        for (_, name), row in series.items()
        if name == "answers"
        for time_ns, v in row
        if not v
    ]
    assert silent
    (record, *_) = map(json.loads, (killed / "faults.jsonl").read_bytes().splitlines())
    assert any(record["injected_at"] <= t <= record["healed_at"] for t in silent)


def test_faults_warrant_their_alerts(faulty: Path) -> None:
    found, _, _ = monitored(faulty)
    assert found.alerts
    assert all(alert.expected for alert in found.alerts), found.alerts
    measured = read_baseline(faulty)
    assert measured is not None
    assert measured.alerts == found.alerts
    findings = (faulty / "findings.md").read_text()
    assert "## What was measured" in findings
    assert "warranted by f1" in findings
    page = (faulty / "report.html").read_text()
    assert "what waits in the servers (queue)" in page
    assert "memory of the servers" not in page
    assert 'id="measured"' in page


def test_a_clean_run_raises_nothing_high(tmp_path: Path) -> None:
    found, _, _ = monitored(ran(tmp_path, nemesis="none").path)
    assert found.alerts == []
    assert found.baseline.status != "none"
    assert found.health.score == 1.0


def died(path: Path, meta: dict[str, Any]) -> None:
    """As if its process had been killed."""
    (path / "status").write_text("running\n")
    (path / "run.json").write_text(json.dumps({**meta, "pid": 1 << 22, "pid_start_time": 1}))


def sealed_again(path: Path) -> None:
    (path / SUMS).write_text(sums_of(path))


CHANGES: dict[str, Callable[[Path], int]] = {
    NODES: lambda path: path.write_bytes(
        b"".join(
            line.replace(b'"answers","value":1.0', b'"answers","value":0.0')
            for line in path.read_bytes().splitlines(keepends=True)
        )
    ),
    CLIENT: lambda path: path.write_bytes(path.read_bytes().replace(b'"p95"', b'"p96"', 1)),
    BASELINE: lambda path: path.write_bytes(path.read_bytes().replace(b'"error_rate"', b'"x"', 1)),
}


@pytest.mark.parametrize("name", CHANGES)
def test_who_changes_it_and_its_sum_is_found(faulty: Path, tmp_path: Path, name: str) -> None:
    copy = tmp_path / faulty.name
    shutil.copytree(faulty, copy)
    CHANGES[name](copy / name)
    with pytest.raises(EvidenceError):
        verify_run(RunDir(copy))
    sealed_again(copy)
    with pytest.raises(EvidenceError, match="metrics/"):
        verify_run(RunDir(copy), "all")


def test_a_run_that_died_is_judged_with_the_samples_that_it_has(
    faulty: Path, tmp_path: Path
) -> None:
    copy = tmp_path / faulty.name
    shutil.copytree(faulty, copy)
    for name in (SUMS, CLIENT, BASELINE, "verdict.json", "history.jsonl"):
        (copy / name).unlink()
    died(copy, meta_of(copy))
    lines = (copy / NODES).read_bytes().splitlines(keepends=True)
    (copy / NODES).write_bytes(b"".join(lines[: len(lines) // 2]) + b'{"time_ns":12')
    found, _, _ = monitored(copy)
    assert found.sampled
    recover(copy)
    assert (copy / BASELINE).is_file()
    assert verify_run(RunDir(copy))


def test_a_run_whose_samples_were_lost_says_so(faulty: Path, tmp_path: Path) -> None:
    """Its sampler has told how it went, and what it wrote is not there."""
    copy = tmp_path / faulty.name
    shutil.copytree(faulty, copy)
    shutil.rmtree(copy / "metrics")
    died(copy, meta_of(copy))
    for name in (SUMS, "verdict.json"):
        (copy / name).unlink()
    recover(copy)
    measured = read_baseline(copy)
    assert measured is not None
    missed = [alert.node for alert in measured.severe if alert.rule == "samples_missing"]
    assert missed == ["n1", "n2", "n3"]
    assert (
        "on n2 from 0.0 s to the end: no sample of it at all" in (copy / "findings.md").read_text()
    )
    assert verify_run(RunDir(copy))


def test_a_run_of_before_is_judged_as_it_was(faulty: Path, tmp_path: Path) -> None:
    """One that has no samples, and no word of them in run.json."""
    copy = tmp_path / faulty.name
    shutil.copytree(faulty, copy)
    shutil.rmtree(copy / "metrics")
    meta = meta_of(copy)
    del meta["monitor"], meta["spec"]["monitor"]
    died(copy, meta)
    for name in (SUMS, "verdict.json"):
        (copy / name).unlink()
    recover(copy)
    evidence = json.loads((copy / "verdict.json").read_bytes())["evidence"]
    assert "measured baseline" not in evidence["redflags"]["RF8"]["evidence"]
    assert not (copy / "metrics").exists()
    assert verify_run(RunDir(copy))


def test_lines_are_sentences(faulty: Path) -> None:
    measured = read_baseline(faulty)
    assert isinstance(measured, BaselineView)
    assert all(line.endswith(".") for line in alert_lines(measured))
    calm = msgspec.structs.replace(measured, alerts=[])
    assert alert_lines(calm)[-1] == "No alert."
