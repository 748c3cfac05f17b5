"""Samples of real nodes: an alert that fires, a clean run without one, and what they cost."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from runs import run_here

from dstest.core import registry
from dstest.core.node import LabInfo
from dstest.core.run_record import RunMeta
from dstest.debug.monitor.alerts import severe
from dstest.debug.monitor.analysis import RunAnalysis
from dstest.debug.monitor.client import NODES, read_rows, series_of
from dstest.history.layout import RunDir
from dstest.runner.measurements import monitored
from dstest.runner.session import Finished

pytestmark = [pytest.mark.lab, pytest.mark.slow, pytest.mark.timeout(300)]

COST_PERCENT = 2.0
LATENCY = (
    *("delay_ms=2000", "jitter_ms=0", "shape=leader", "direction=both"),
    *("fault_s=15", "quiet_s=20", "op_timeout_s=5"),
)


def looked(path: Path) -> tuple[RunAnalysis, RunMeta]:
    found, meta, _ = monitored(path)
    return found, meta


@pytest.mark.selftest
def test_two_seconds_of_latency_raise_a_spike_within_ten(lab: LabInfo, tmp_path: Path) -> None:
    done = run_here(
        lab,
        tmp_path,
        nemesis=registry.load("nemeses", "latency"),
        options=LATENCY,
        time_limit_s=50.0,
    )
    found, _ = looked(done.path)
    (fault,) = [window for window in found.windows if window.landed == "yes"]
    spikes = [alert for alert in found.alerts if alert.rule == "latency_spike"]
    assert spikes, found.alerts
    first = min(spikes, key=lambda alert: alert.raised_ns)
    assert fault.start_ns < first.raised_ns <= fault.start_ns + 10 * 10**9
    assert first.warranted_by == [fault.id]
    assert not severe(found.alerts)


def test_a_clean_run_raises_nothing_high_and_costs_little(lab: LabInfo, tmp_path: Path) -> None:
    done = run_here(
        lab, tmp_path, nemesis=registry.load("nemeses", "none"), options=(), time_limit_s=21.0
    )
    found, meta = looked(done.path)
    assert not severe(found.alerts), found.alerts
    assert not found.unmeasured, "etcd is asked for all that rules look at"
    told: dict[str, Any] = (meta.monitor or {})["nodes"]
    assert told.keys() == {node.name for node in lab.nodes}
    for row in told.values():
        assert row["lost"] == 0
        assert row["samples"] >= 18
        assert row["cpu_percent"] < COST_PERCENT
    series = series_of(read_rows(done.path / NODES))
    for node in told:
        times = [time_ns for time_ns, _ in series[node, "rss"]]
        assert times == sorted(times)
        assert times[-1] > 19e9
        assert all(b - a < 4e9 for a, b in pairwise(times))
        assert series[node, "applied"][-1][1] > series[node, "applied"][0][1]


def test_a_node_that_is_cut_off_goes_on_sampling(stale_run: Finished) -> None:
    meta = RunDir(stale_run.path).read_meta()
    assert meta is not None
    series = series_of(read_rows(stale_run.path / NODES))
    found, _ = looked(stale_run.path)
    assert found.windows
    for window in found.windows:
        for node in meta.members or []:
            inside = [
                t for t, _ in series[node, "rss"] if window.start_ns <= t <= window.start_ns + 4e9
            ]
            assert len(inside) >= 2, (node, window)
