"""The baseline: how long, up to where, and whether it held still."""

from __future__ import annotations

import msgspec
import pytest
from made_load import SECOND, fault, inputs, op, steady

from dstest.core.errors import ConfigError, EvidenceError
from dstest.core.settings import thresholds_of
from dstest.debug.monitor.analysis import analyse, as_text
from dstest.debug.monitor.client import (
    Clients,
    Load,
    client_rows,
    encode_rows,
    read_rows,
    series_of,
)
from dstest.debug.monitor.settings import LEAST, Settings
from dstest.runner.measurements import measured_of

pytestmark = pytest.mark.slow


def test_a_long_run_is_measured_after_its_warm_up() -> None:
    base = analyse(inputs(steady(seconds=200))).baseline
    assert (base.status, base.whole) == ("accepted", True)
    assert (base.start_ns, base.end_ns) == (30 * SECOND, 150 * SECOND)
    assert base.throughput == pytest.approx(100, rel=0.01)
    assert base.p95_ms == pytest.approx(10)


def test_it_ends_before_the_first_fault_and_says_so() -> None:
    base = analyse(inputs(steady(), fault(start_s=40.0, end_s=50.0))).baseline
    assert base.status == "accepted"
    assert base.end_ns == 40 * SECOND
    assert base.start_ns == 8 * SECOND
    assert "of the 120 asked), measured from" in base.said


def test_a_short_one_says_so_and_nothing_is_held_against_it() -> None:
    short = analyse(inputs(steady(), fault(start_s=5.0, end_s=8.0)))
    assert (short.baseline.status, short.baseline.whole) == ("accepted", False)
    assert short.baseline.said.startswith("short (4 s of the 120 asked), measured from 1 s on")
    assert "baseline: accepted, short (4 s of the 120 asked)" in "\n".join(
        as_text("run", short, None)
    )
    judged = measured_of(short)
    assert judged is not None
    assert not judged.accepted
    whole = analyse(inputs(steady()))
    judged = measured_of(whole)
    assert judged is not None
    assert judged.accepted
    assert "short" not in whole.baseline.said


@pytest.mark.parametrize(("swing", "status"), [(0.02, "accepted"), (0.2, "unstable")])
def test_it_has_to_hold_still(swing: float, status: str) -> None:
    def served(s: float) -> bool:
        return int(s / 10) % 2 == 0 or round(s * 100) % 100 >= 100 * swing

    base = analyse(inputs(steady(served=served))).baseline
    assert base.status == status


def test_without_time_or_operations_there_is_none() -> None:
    assert analyse(inputs(steady(), fault(start_s=2.0))).baseline.status == "none"
    assert analyse(inputs(steady(rate=0.5))).baseline.status == "none"
    empty = analyse(inputs(Load(ops=[], end_ns=None)))
    assert (empty.baseline.status, empty.alerts) == ("none", [])
    assert empty.unmeasured["latency_spike"] == "no baseline"


def test_an_unstable_baseline_weighs_less() -> None:
    def served(s: float) -> bool:
        return round(s * 100) % 100 >= (50 if int(s / 10) % 2 else 0) and not (
            160 <= s < 175 and round(s * 100) % 100 < 85
        )

    found = analyse(inputs(steady(served=served)))
    assert found.baseline.status == "unstable"
    assert [a.severity for a in found.alerts if a.rule == "throughput_drop"] in ([], ["medium"])


def test_rows_of_clients_add_up_to_the_history() -> None:
    load = msgspec.structs.replace(steady(seconds=20), end_ns=None)
    rows = list(client_rows(load))
    series = series_of(rows)
    assert sum(value for _, value in series["", "throughput"]) == len(load.ops)
    per_node = sum(value for node in ("n1", "n2", "n3") for _, value in series[node, "throughput"])
    assert per_node == len(load.ops)
    per_type = [series["", f"throughput.{name}"] for name in ("read", "write")]
    assert sum(value for points in per_type for _, value in points) == len(load.ops)


def test_a_given_up_operation_took_as_long_as_its_timeout() -> None:
    load = Load(
        ops=[
            op(1, 1.0, 0, "unknown: TimeoutError()"),
            op(2, 1.0, 0, "unknown: the connection was lost"),
            op(3, 1.0, 5.0),
        ],
        node_of={1: "n2", 2: "n3"},
    )
    seen = Clients(load).within(0, 10 * SECOND)
    assert (seen.ok, seen.unknown, seen.latencies_ms) == (1, 2, [5.0, 2000.0])
    assert Clients(load).by(load, load.node)["n2"].within(0, 10 * SECOND).unknown == 1


def test_rows_come_back_as_they_were(tmp_path) -> None:  # type: ignore[no-untyped-def]
    rows = list(client_rows(steady(seconds=3)))
    path = tmp_path / "rows.jsonl"
    path.write_bytes(encode_rows(rows) + b'{"time_ns":1,"no')
    assert list(read_rows(path)) == rows, "the torn line of a run that goes on is left out"
    path.write_bytes(b'{"time_ns":1,"no\n' + encode_rows(rows))
    with pytest.raises(EvidenceError, match="line 1"):
        list(read_rows(path))
    assert list(read_rows(tmp_path / "none.jsonl")) == []


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("latency_tims = 2", "latency_tims"),
        ("latency_times = 'x'", "latency_times"),
        ("latency_times = -1", "latency_times"),
        ("check_every_s = 0", "check_every_s"),
        ("cpu_percent = nan", "cpu_percent"),
        ("[", "no TOML"),
    ],
)
def test_thresholds_that_are_wrong_are_refused(tmp_path, text: str, why: str) -> None:  # type: ignore[no-untyped-def]
    path = tmp_path / "mine.toml"
    path.write_text(text)
    with pytest.raises(ConfigError, match=why):
        thresholds_of(Settings(), path, least=LEAST)


def test_thresholds_of_a_file(tmp_path) -> None:  # type: ignore[no-untyped-def]
    path = tmp_path / "mine.toml"
    path.write_text("cpu_percent = 50\n")
    assert thresholds_of(Settings(), path, least=LEAST).cpu_percent == 50
    assert thresholds_of(Settings(), path, least=LEAST).latency_times == Settings().latency_times
    with pytest.raises(ConfigError):
        thresholds_of(Settings(), tmp_path / "nowhere.toml")
