"""Service levels: declared before, measured of what counts, and no guess of a percentile."""

from __future__ import annotations

from typing import Any

import pytest

from checkers.slo import CHECKER, levels_of
from dstest.core import registry
from dstest.core.check import Budget, CheckResult
from dstest.core.errors import ConfigError
from dstest.core.history import FaultWindow, Header, History
from dstest.core.op import Op

MS = 1_000_000
SECOND = 1000 * MS


def _op(number: int, start_ns: int, took_ns: int | None, **more: Any) -> Op:
    fields: dict[str, Any] = {
        "op_id": number,
        "process_id": number % 7,
        "invoke_ts": start_ns,
        "complete_ts": None if took_ns is None else start_ns + took_ns,
        "op_type": "read",
        "key": "x",
        "input": None,
        "output": None if took_ns is None else 1,
        "error": None,
        "timeout_marker": took_ns is None,
        "node_seen": "n1",
        "fault_epoch": None,
    }
    return Op(**{**fields, **more})


def _history(ops: list[Op], **options: Any) -> History:
    header = Header(options=options, windows=options.pop("windows", []), time_limit_s=20.0)
    return History(header=header, ops=ops)


def _steady(count: int = 2000, took_ns: int = 2 * MS) -> list[Op]:
    return [_op(n, n * 10 * MS, took_ns) for n in range(count)]


def _judge(ops: list[Op], slo: str, **options: Any) -> CheckResult:
    return CHECKER.check(_history(ops, slo=slo, **options), "slo", Budget())


def test_levels_that_are_kept_are_valid_and_told() -> None:
    done = _judge(_steady(), "p50_ms<=2, p99_ms<=2,max_ms<3,ok_ratio>=1,unknown_ratio<=0,gap_s<1")
    assert done.valid is True
    assert (done.stats["tested"], done.stats["p99_ms"]) == (6, 2.0)


@pytest.mark.parametrize(
    ("slo", "said"),
    [
        ("p99_ms<=1.9", "p99_ms<=1.9"),
        ("ok_per_s>=101", "ok_per_s>=101"),
        ("gap_s<=0.009", "gap_s<=0.009"),
        ("max_ms<2", "max_ms<2"),
    ],
)
def test_a_level_that_is_not_kept_is_a_violation(slo: str, said: str) -> None:
    done = _judge(_steady(), slo)
    assert (done.valid, done.anomaly_types) == (False, ["slo-missed"])
    assert said in done.anomalies["slo-missed"][0].explanation


def test_operations_of_unknown_outcome_are_slower_than_any() -> None:
    ops = _steady()
    for n in range(21):
        ops[n * 50] = _op(n * 50, n * 500 * MS, None)
    assert _judge(ops, "p99_ms<=2").valid is False
    assert _judge(ops, "p95_ms<=2").valid is True
    assert _judge(ops, "max_ms<=1000").valid is False


def test_what_was_refused_has_no_latency_and_was_not_served() -> None:
    ops = _steady()
    ops[7] = _op(7, 70 * MS, 900 * MS, output=None, error="refused")
    assert _judge(ops, "max_ms<=2").valid is True
    assert _judge(ops, "ok_ratio>=1").valid is False


def test_a_percentile_needs_operations_beyond_it() -> None:
    done = _judge(_steady(999), "p99_ms<=1000")
    assert done.valid == "unknown"
    assert "too few for p99_ms" in str(done.reason)


def test_only_the_load_counts_and_only_while_it_was_asked_for() -> None:
    late = [_op(5000 + n, 21 * SECOND + n, 900 * MS) for n in range(50)]
    assert _judge([*_steady(), *late], "max_ms<=2").valid is True
    windows = [FaultWindow(epoch="f1", nemesis="kill", start_ns=5 * SECOND, healed_ns=8 * SECOND)]
    ops = _steady()
    ops[600] = _op(600, 6000 * MS, 900 * MS)
    for when, valid in (("all", False), ("faults", False), ("calm", True)):
        done = _judge(ops, "max_ms<=2", windows=windows, slo_in=when)
        assert done.valid is valid, when
    assert _judge(_steady(), "max_ms<=2", slo_in="faults").valid == "unknown"


def test_types_and_a_window_that_is_too_short() -> None:
    ops = _steady()
    ops[7] = _op(7, 70 * MS, 900 * MS, op_type="write")
    assert _judge(ops, "max_ms<=2", slo_of="read").valid is True
    assert _judge(ops, "max_ms<=2", slo_of="read, write").valid is False
    short = _judge(ops, "max_ms<=2", slo_of="read", slo_window_s=60.0)
    assert short.valid == "unknown"
    assert "of 60 s at least" in str(short.reason)


def test_the_stretch_without_service_counts_from_the_beginning_to_the_end() -> None:
    ops = [op for op in _steady() if op.invoke_ts >= 3 * SECOND]
    assert _judge(ops, "gap_s<=2.9").valid is False
    assert _judge(ops, "gap_s<=3.1").valid is True


def test_a_load_that_stopped_early_has_served_nobody_since() -> None:
    done = _judge(_steady(400), "gap_s<=1,ok_per_s>=50")
    assert done.valid is False
    assert len(done.anomalies["slo-missed"]) == 2


@pytest.mark.parametrize("slo", ["ok_ratio>=0", "unknown_ratio<=1", "p99_ms>=0"])
def test_a_level_that_cannot_be_broken_is_none(slo: str) -> None:
    assert _judge(_steady(), slo).valid == "unknown"


@pytest.mark.parametrize(
    ("slo", "said"),
    [
        ("unknown_ratio<2", "everything"), ("ok_per_s>=0", "everything"),
        (f"max_ms<={'9' * 400}", "everything"), ("ok_ratio<5", "worse"), ("p99_ms>0", "worse"),
        ("gap_s>=1", "worse"), ("unknown_ratio>0.5", "worse"), ("ok_ratio>1", "nothing"),
        ("ok_ratio>=99.9", "nothing"), ("max_ms<0", "nothing"),
    ],
)  # fmt: skip
def test_a_level_that_tells_nothing_is_refused_where_it_is_given(slo: str, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        registry.parse_options([f"slo={slo}"], {"slo": CHECKER.options["slo"]})


def test_a_type_that_nobody_asked_for() -> None:
    done = _judge(_steady(), "max_ms<=2", slo_of="read,wriet")
    assert (done.valid, "no operation is a wriet" in str(done.reason)) == ("unknown", True)


def test_what_no_level_can_be_is_refused_where_it_is_given() -> None:
    with pytest.raises(ValueError, match="no service level"):
        levels_of("p99<=5")
    option = {"slo": CHECKER.options["slo"]}
    for text in ("p99<=5", "p99_ms=5", "fast", "p99_ms<=5;max_ms<=1", ""):
        with pytest.raises(ConfigError, match="slo"):
            registry.parse_options([f"slo={text}"], option)
    assert registry.parse_options(["slo=p99_ms<=5, gap_s<1"], option)["slo"] == "p99_ms<=5, gap_s<1"
