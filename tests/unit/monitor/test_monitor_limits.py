"""Where rules and samples end: what varies, what hangs, what is no number."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from made_load import SECOND, fault, inputs, sampled, settled, steady

from clusters.remote.agent_readings import numbers_in
from dstest.core.errors import ConfigError, EvidenceError, Exit
from dstest.core.settings import thresholds_of
from dstest.debug.monitor.alerts import Alert, severe
from dstest.debug.monitor.analysis import RunAnalysis, analyse, code_of
from dstest.debug.monitor.client import Sample, encode_rows, read_rows
from dstest.debug.monitor.settings import LEAST, MOST, Settings

pytestmark = pytest.mark.slow


def of(found: RunAnalysis, rule: str) -> list[Alert]:
    return [alert for alert in found.alerts if alert.rule == rule]


@pytest.mark.parametrize("name", Settings.__struct_fields__)
def test_the_largest_threshold_is_reckoned_with(name: str) -> None:
    word = f"{name}={MOST.get(name, 1e9):g}"
    largest = thresholds_of(Settings(), None, [word], least=LEAST, most=MOST)
    rows = sampled({"answers": lambda node, s: 1.0, "rss": lambda node, s: 1e6})
    for load in (steady(seconds=40), msgspec.structs.replace(steady(seconds=40), end_ns=None)):
        analyse(inputs(load, fault(start_s=20.0), rows=rows, every_s=1.0, settings=largest))


def test_proposals_that_all_fail() -> None:
    rows = sampled(
        {
            "proposals_failed": lambda node, s: 10.0 if s >= 60 else 0.0,
            "commit": lambda node, s: min(s, 60.0) * 100,
        }
    )
    (alert,) = of(analyse(inputs(steady(), rows=rows)), "consensus_failures")
    assert alert.severity == "critical" and alert.end_ns is None and alert.value == 1.0


def test_a_baseline_that_varies_hides_no_service_that_stands() -> None:
    """Ten seconds of 100/s, ten of 60/s, ten of 20/s, in turns; then one a second."""

    def served(s: float) -> bool:
        share = (1.0, 0.6, 0.2)[int(s // 10) % 3] if s < 155 else 0.01
        return s % 1.0 < share

    found = analyse(inputs(steady(served=served)))
    assert found.baseline.spread * 3 > found.baseline.throughput
    (alert,) = of(found, "throughput_drop")
    assert alert.severity == "critical" and alert.end_ns is None
    assert 155 * SECOND <= alert.begin_ns <= 160 * SECOND


def test_a_load_whose_clients_all_hang_is_looked_at_to_its_end() -> None:
    (alert,) = of(analyse(inputs(steady(served=lambda s: s < 160))), "throughput_drop")
    assert alert.severity == "critical" and alert.end_ns is None
    assert alert.begin_ns <= 165 * SECOND


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf"), 1.7e308])
def test_what_is_no_measured_number_is_not_kept_and_not_read(value: float, tmp_path: Path) -> None:
    rows = [
        Sample(time_ns=at, node="n1", name="queue", value=one, unit="1")
        for at, one in enumerate((1.0, value))
    ]
    path = tmp_path / "nodes.jsonl"
    path.write_bytes(encode_rows(rows))
    assert list(read_rows(path)) == rows[:1]
    if value > 0 and value != float("inf"):
        path.write_bytes(msgspec.json.encode(rows[1]) + b"\n")
        with pytest.raises(EvidenceError, match="nothing counts to"):
            list(read_rows(path))


@pytest.mark.parametrize("line", ["check_every_s = 1e-7", "part_s = 0", "measure_s = 0.01"])
def test_stretches_have_a_least_length(line: str, tmp_path: Path) -> None:
    path = tmp_path / "limits.toml"
    path.write_text(line)
    with pytest.raises(ConfigError, match=r"from 0\.1 on"):
        thresholds_of(Settings(), path, least=LEAST)


def test_what_a_server_says_beside_its_numbers() -> None:
    said = b'q{a="x y"} 5 1395066363000\nq 2\nup NaN\nup\n'
    assert numbers_in(said, "text", ["q", "up"]) == {"q": 7.0}
    assert numbers_in(b'{"q": 1e999, "up": NaN}', "json", ["q", "up"]) == {}
    assert numbers_in(b'{"q": 3, "up": true}', "json", ["q", "up"]) == {"q": 3.0, "up": 1.0}


def test_a_load_that_never_goes_well_again_is_nobodys_fault_window() -> None:
    """What a fault did is explained by it; that nothing is served after its heal is not."""
    load = steady(error=lambda number, s: "timeout" if s >= 100 else None)
    never = analyse(inputs(load, fault(), recoveries=[settled(106.0, None)]))
    (alert,) = severe(never.alerts)
    assert (alert.rule, alert.severity, alert.begin_ns) == ("not_recovered", "high", 106 * SECOND)
    assert code_of(never) is Exit.FAIL

    again = fault("f2", 150.0, 156.0)
    soon = analyse(inputs(load, fault(), again, recoveries=[settled(106.0, None)]))
    assert of(soon, "not_recovered") == []  # the next fault came before it could
    well = steady(error=lambda number, s: "timeout" if 100 <= s < 110 else None)
    assert severe(analyse(inputs(well, fault(), recoveries=[settled(106.0, 110.0)])).alerts) == []
