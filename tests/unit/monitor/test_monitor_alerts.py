"""Alerts: each rule on a run that breaks it, and on one that nearly does."""

from __future__ import annotations

import msgspec
import pytest
from made_load import NODES, fault, inputs, sampled, settled, steady

from clusters.systems.etcd.system import ASKS as ETCD
from clusters.systems.toykv.system import ASKS as TOYKV
from dstest.core.errors import Exit
from dstest.debug.monitor.alerts import NODE_RULES, RULES, Alert, severe
from dstest.debug.monitor.analysis import RunAnalysis, analyse, as_text, code_of
from dstest.debug.monitor.client import UNITS, Load, client_rows
from dstest.debug.monitor.settings import Settings

pytestmark = pytest.mark.slow

HEALTHY = {
    "rss": lambda node, s: 30e6,
    "cpu": lambda node, s: 20.0,
    "connections": lambda node, s: 12.0,
    "queue": lambda node, s: 1.0,
    "answers": lambda node, s: 1.0,
    "answer_time": lambda node, s: 2.0,
    "applied": lambda node, s: 50.0 * s,
    "commit": lambda node, s: 50.0 * s,
}


def of(found: RunAnalysis, rule: str) -> list[Alert]:
    return [alert for alert in found.alerts if alert.rule == rule]


def test_a_clean_run_raises_nothing() -> None:
    found = analyse(inputs(steady(), rows=sampled(HEALTHY)))
    assert found.alerts == []
    assert found.health.score == 1.0
    assert code_of(found) is Exit.PASS
    assert found.unmeasured == {"consensus_failures": "no samples of proposals_failed"}


def test_no_rule_waits_for_what_no_system_supplies() -> None:
    supplied = {one.name for asks in (ETCD, TOYKV) for ask in asks for one in ask.readings}
    needed = {name for rule in (*NODE_RULES, *RULES) for name in rule.needs}
    assert needed <= supplied | UNITS.keys()
    assert {row.name.partition(".")[0] for row in client_rows(steady(seconds=3))} <= UNITS.keys()


def test_two_seconds_of_latency_are_told_within_ten() -> None:
    slow = steady(took_ms=lambda s: 1900.0 if 100 <= s < 120 else 10.0)
    found = analyse(inputs(slow, fault(end_s=120.0), recoveries=[settled(120.0, 121.0)]))
    (spike,) = of(found, "latency_spike")
    assert spike.raised_ns <= 110e9
    assert spike.severity == "high"
    assert spike.warranted_by == ["f1"]
    assert spike.expected
    assert severe(found.alerts) == []


def test_the_same_without_a_fault_is_a_failure() -> None:
    found = analyse(inputs(steady(took_ms=lambda s: 1900.0 if 100 <= s < 120 else 10.0)))
    assert {alert.rule for alert in severe(found.alerts)} == {
        "latency_spike",
        "latency_p95",
        "latency_p99",
    }
    assert code_of(found) is Exit.FAIL


def test_a_fault_that_is_not_proven_warrants_nothing() -> None:
    slow = steady(took_ms=lambda s: 1900.0 if 100 <= s < 106 else 10.0)
    found = analyse(inputs(slow, fault(landed="ambiguous"), recoveries=[settled(106.0, 107.0)]))
    (spike,) = of(found, "latency_spike")
    assert (spike.warranted_by, spike.unproven, spike.expected) == ([], ["f1"], False)


def test_what_goes_on_after_the_fault_is_not_explained_by_it() -> None:
    slow = steady(took_ms=lambda s: 1900.0 if 100 <= s < 150 else 10.0)
    found = analyse(inputs(slow, fault(end_s=106.0), recoveries=[settled(106.0, 108.0)]))
    (spike,) = of(found, "latency_spike")
    assert spike.warranted_by == ["f1"]
    assert spike.unexplained > 5
    assert not spike.expected
    assert spike in severe(found.alerts)


def test_what_a_fault_leaves_behind_has_a_severity_of_its_own() -> None:
    def took(s: float) -> float:
        return 1900.0 if 100 <= s < 106 else 25.0 if 106 <= s < 130 else 10.0

    found = analyse(inputs(steady(took_ms=took), fault(), recoveries=[settled(106.0, 108.0)]))
    (spike,) = of(found, "latency_spike")
    assert (spike.severity, spike.unexplained_severity) == ("high", "low")
    assert spike.unexplained >= 3
    assert severe(found.alerts) == []
    assert "but for" in "\n".join(as_text("run", found, None))


def test_a_latency_that_rises_by_less_than_half_is_none() -> None:
    found = analyse(inputs(steady(took_ms=lambda s: 14.5 if 100 <= s < 120 else 10.0)))
    assert found.alerts == []


def test_one_slow_operation_is_none() -> None:
    found = analyse(inputs(steady(took_ms=lambda s: 1900.0 if 100 <= s < 100.005 else 10.0)))
    assert found.alerts == []


def test_one_blip_is_one_alert() -> None:
    def took(s: float) -> float:
        return 300.0 if 90 <= s < 95 or 100 <= s < 105 else 10.0

    (spike,) = of(analyse(inputs(steady(took_ms=took))), "latency_spike")
    assert spike.end_ns is not None
    assert (spike.begin_ns // 10**9, spike.end_ns // 10**9) == (90, 110)


def test_two_blips_apart_are_two() -> None:
    def took(s: float) -> float:
        return 300.0 if 90 <= s < 95 or 130 <= s < 135 else 10.0

    assert len(of(analyse(inputs(steady(took_ms=took))), "latency_spike")) == 2


def test_an_alert_that_stands_at_the_end_has_none() -> None:
    (spike,) = of(
        analyse(inputs(steady(took_ms=lambda s: 300.0 if s > 160 else 10.0))), "latency_spike"
    )
    assert spike.end_ns is None


@pytest.mark.parametrize(
    ("share", "severity"), [(0.72, None), (0.6, "medium"), (0.2, "high"), (0.0, "critical")]
)
def test_throughput(share: float, severity: str | None) -> None:
    def served(s: float) -> bool:
        return not 155 <= s < 175 or round(s * 100) % 100 < share * 100

    found = of(analyse(inputs(steady(served=served))), "throughput_drop")
    assert [alert.severity for alert in found] == ([] if severity is None else [severity])


@pytest.mark.parametrize(
    ("every", "severity"), [(200, None), (50, "medium"), (15, "high"), (5, "critical")]
)
def test_errors(every: int, severity: str | None) -> None:
    def error(number: int, s: float) -> str | None:
        return "no-leader: nobody" if 100 <= s < 120 and number % every == 0 else None

    found = of(analyse(inputs(steady(error=error))), "error_rate")
    assert [alert.severity for alert in found] == ([] if severity is None else [severity])


def test_a_race_is_no_error() -> None:
    def error(number: int, s: float) -> str | None:
        return "compare-failed: it was another" if number % 3 == 0 else None

    assert analyse(inputs(steady(error=error))).alerts == []


def test_unknown_outcomes_are_timeouts_and_slow() -> None:
    def error(number: int, s: float) -> str | None:
        return "unknown: TimeoutError()" if 100 <= s < 110 and number % 4 == 0 else None

    found = analyse(inputs(steady(error=error)))
    assert {"timeouts", "error_rate", "latency_spike"} <= {alert.rule for alert in found.alerts}


@pytest.mark.parametrize(
    ("name", "limit"), [("rss", 512e6), ("cpu", 80.0), ("connections", 1000.0), ("queue", 1e4)]
)
@pytest.mark.parametrize("above", [False, True])
def test_resources(name: str, limit: float, above: bool) -> None:
    def value(node: str, s: float) -> float:
        return limit * (1.01 if above else 1.0) if node == "n2" and 60 <= s < 80 else 1.0

    found = analyse(inputs(steady(), rows=sampled({**HEALTHY, name: value})))
    assert [(a.rule, a.node, a.severity) for a in found.alerts] == (
        [(name, "n2", "medium")] if above else []
    )


def test_a_server_that_answers_nobody() -> None:
    dead = {**HEALTHY, "answers": lambda node, s: float(not (node == "n3" and 60 <= s < 75))}
    (alert,) = analyse(inputs(steady(), rows=sampled(dead))).alerts
    assert (alert.rule, alert.node, alert.severity) == ("node_silent", "n3", "high")


@pytest.mark.parametrize(
    ("node", "landed", "warranted", "expected"),
    [
        ("n1", "yes", ["f1"], True),
        ("n3", "yes", [], False),
        ("n1", "ambiguous", [], False),
        ("n3", "ambiguous", [], False),
    ],
)
def test_a_fault_explains_what_is_wrong_with_its_own_nodes(
    node: str, landed: str, warranted: list[str], expected: bool
) -> None:
    """The fault is on n1."""
    dead = {**HEALTHY, "answers": lambda of, s: float(not (of == node and 100 <= s < 106))}
    given = inputs(
        steady(), fault(landed=landed), rows=sampled(dead), recoveries=[settled(106.0, 108.0)]
    )
    found = analyse(given)
    (alert,) = found.alerts
    assert (alert.rule, alert.node) == ("node_silent", node)
    assert (alert.warranted_by, alert.expected) == (warranted, expected)
    assert alert.others == (["f1"] if (node, landed) == ("n3", "yes") else [])
    assert code_of(found) is (Exit.PASS if expected else Exit.FAIL)
    told = "\n".join(as_text("run", found, None))
    assert ("f1 stood, which is about other nodes" in told) is bool(alert.others)


def test_a_load_that_never_went_well_again_is_explained_until_the_next_fault() -> None:
    slow = steady(took_ms=lambda s: 1900.0 if s >= 100 else 10.0)
    first = analyse(inputs(slow, fault(), recoveries=[settled(106.0, None)]))
    # What is found while it stands is the fault's, as in logs; that it never ends is not.
    assert [alert.rule for alert in severe(first.alerts)] == ["not_recovered"]
    both = (fault(), fault("f2", 140.0, 141.0, landed="ambiguous"))
    recoveries = [settled(106.0, None), settled(141.0, None)]
    assert severe(analyse(inputs(slow, *both, recoveries=recoveries)).alerts)


def test_of_a_run_that_goes_on_a_fault_shows_for_a_while_after_its_heal() -> None:
    def took(until_s: float) -> Load:
        return steady(took_ms=lambda s: 1900.0 if 100 <= s < until_s else 10.0)

    assert severe(analyse(inputs(took(130.0), fault(), recoveries=None)).alerts) == []
    assert severe(analyse(inputs(took(160.0), fault(), recoveries=None)).alerts)


def test_a_server_that_missed_one_question_is_not_silent() -> None:
    late = {**HEALTHY, "answers": lambda node, s: float(not (node == "n3" and s == 62))}
    assert analyse(inputs(steady(), rows=sampled(late))).alerts == []


@pytest.mark.parametrize(
    ("failed", "severity"), [(0.4, None), (1.0, "medium"), (4.0, "high"), (9.0, "critical")]
)
def test_proposals_that_fail(failed: float, severity: str | None) -> None:
    rows = sampled({**HEALTHY, "proposals_failed": lambda node, s: failed})
    found = of(analyse(inputs(steady(), rows=rows)), "consensus_failures")
    assert [alert.severity for alert in found] == ([] if severity is None else [severity])


def test_thresholds_are_the_users() -> None:
    load = steady(took_ms=lambda s: 14.5 if 100 <= s < 120 else 10.0)
    strict = msgspec.structs.replace(Settings(), latency_times=1.2, latency_slack_ms=1.0)
    assert of(analyse(inputs(load, settings=strict)), "latency_spike")


def test_what_is_missing_is_told() -> None:
    cost = {
        "nodes": {
            "n1": {"samples": 20, "lost": 0, "clock_doubt_ns": 3_000_000},
            "n2": {"samples": 0, "lost": 0, "problem": "n2: no answer"},
        },
        "refused": "No space left on device",
    }
    for rows in (sampled(HEALTHY, 20), []):
        told = "\n".join(as_text("run", analyse(inputs(steady(), rows=rows)), cost))
        assert "samples are missing: writing them down was refused (No space left" in told
        assert "samples of n2 are missing: n2: no answer" in told
        assert "samples of n1" not in told
        assert ("their times are known to 3.0 ms" in told) is bool(rows)
    well = "\n".join(as_text("run", analyse(inputs(steady())), {"nodes": {"n1": {"samples": 20}}}))
    assert "missing" not in well


def test_what_is_told_to_people() -> None:
    slow = steady(took_ms=lambda s: 1900.0 if 100 <= s < 106 else 10.0)
    found = analyse(
        inputs(slow, fault(), rows=sampled(HEALTHY), recoveries=[settled(106.0, 107.0)])
    )
    told = "\n".join(as_text("run", found, {"nodes": {n: {"samples": 180} for n in NODES}}))
    assert "samples: n1 180, n2 180, n3 180" in told
    assert "high latency_spike from 100.0 s to" in told
    assert "warranted by f1" in told
