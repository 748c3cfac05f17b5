"""Health, correlations and aggregates on runs that break one thing each."""

from __future__ import annotations

from collections.abc import Callable

import made_load
import msgspec
import pytest
from made_load import NODES, fault, inputs, sampled, settled, steady

from dstest.debug.monitor.analysis import analyse, as_text
from dstest.debug.monitor.baseline import NodeHealth, cluster_health, summary_of
from dstest.debug.monitor.settings import Settings

pytestmark = pytest.mark.slow

WELL: dict[str, Callable[[str, float], float | None]] = {
    "rss": lambda node, s: 30e6,
    "cpu": lambda node, s: 20.0,
    "answers": lambda node, s: 1.0,
    "answer_time": lambda node, s: 2.0,
    "applied": lambda node, s: 50.0 * s,
}


def one_bad(
    name: str, bad: Callable[[float], float]
) -> dict[str, Callable[[str, float], float | None]]:
    usual = WELL[name]
    return {**WELL, name: lambda node, s: bad(s) if node == "n1" else usual(node, s)}


@pytest.mark.parametrize(
    ("name", "bad", "criterion"),
    [
        ("answers", lambda s: 0.0, "responsive"),
        ("answer_time", lambda s: 1500.0, "responsive"),
        ("rss", lambda s: 600e6, "resources"),
        ("cpu", lambda s: 90.0, "resources"),
        ("applied", lambda s: 50.0 * min(s, 100), "participation"),
        ("applied", lambda s: 50.0 * s - 300, "synchronized"),
    ],
)
def test_a_node_that_lacks_one_thing(
    name: str, bad: Callable[[float], float], criterion: str
) -> None:
    health = analyse(inputs(steady(), rows=sampled(one_bad(name, bad)))).health
    first = next(node for node in health.nodes if node.node == "n1")
    assert first.criteria[criterion] is False
    assert not first.healthy
    others = [node for node in health.nodes if node.node != "n1"]
    assert all(node.healthy for node in others)
    assert health.score == 0.5, "two of three are not more than 70 %"


@pytest.mark.parametrize("name", ["answer_time", "rss", "cpu"])
def test_nearly_too_much_is_well(name: str) -> None:
    near = {"answer_time": 999.0, "rss": 511e6, "cpu": 79.0}[name]
    health = analyse(inputs(steady(), rows=sampled(one_bad(name, lambda s: near)))).health
    assert health.score == 1.0


def test_a_lag_of_some_entries_is_none() -> None:
    rows = sampled(one_bad("applied", lambda s: 50.0 * s - 150))
    assert analyse(inputs(steady(), rows=rows)).health.score == 1.0


def test_what_nobody_measured_is_open_and_not_well() -> None:
    health = analyse(inputs(steady())).health
    assert {name for name, met in health.nodes[0].criteria.items() if met is None} == {
        *("resources", "participation", "synchronized"),
    }
    empty = analyse(inputs(steady(served=lambda s: False)))
    assert empty.health.score is None


@pytest.mark.parametrize(
    ("well", "of", "score"),
    [(10, 10, 1.0), (8, 10, 1.0), (7, 10, 0.5), (6, 10, 0.5), (5, 10, 0.0), (0, 10, 0.0)],
)
def test_the_rule_of_the_cluster(well: int, of: int, score: float) -> None:
    nodes = [
        NodeHealth(node=f"n{n}", criteria={"responsive": n < well}, score=1.0 if n < well else 0.5)
        for n in range(of)
    ]
    assert cluster_health(nodes, Settings()).score == score


def test_a_node_that_served_nothing_is_not_ill() -> None:
    """Its clients lost four connections, and went elsewhere."""
    load = steady()
    ops = [msgspec.structs.replace(op, node_seen="n1" if op.node_seen else None) for op in load.ops]
    lost = [made_load.op(10**6 + n, 170.0, 0, "unknown: connection lost") for n in range(4)]
    lost = [msgspec.structs.replace(op, process_id=2) for op in lost]
    health = analyse(inputs(msgspec.structs.replace(load, ops=[*ops, *lost]))).health
    (third,) = [node for node in health.nodes if node.node == "n3"]
    assert (third.criteria["error_rate"], third.score) == (None, None)
    assert (health.score, health.healthy, health.measured) == (1.0, 1, 1)
    assert (health.criteria_measured, health.criteria) == (2, 15)


def test_a_node_whose_clients_lose_much_is_ill() -> None:
    load = steady(error=lambda number, s: "unknown: gone" if number % 3 == 2 else None)
    health = analyse(inputs(load)).health
    assert [node.criteria["error_rate"] for node in health.nodes] == [True, True, False]


@pytest.mark.parametrize(
    ("settled_s", "score", "over_s"),
    [(160.0, 1.0, 20.0), (172.0, 1.0, 8.0), (177.0, 0.0, 30.0), (None, 0.0, 30.0)],
)
def test_health_is_that_of_the_load_since_it_recovered(
    settled_s: float | None, score: float, over_s: float
) -> None:
    """Where the load went on for long enough after it."""
    until_s = settled_s or 180.0
    load = steady(error=lambda number, s: "refused" if 155 <= s < until_s else None)
    recovery = settled(158.0, settled_s)
    found = analyse(inputs(load, fault(start_s=155, end_s=158), recoveries=[recovery])).health
    assert found.score == score
    assert found.over_s == pytest.approx(over_s, abs=2.1)


def test_little_measured_does_not_read_as_all_well() -> None:
    told = "\n".join(as_text("run", analyse(inputs(steady())), None))
    assert "health in the last 30.0 s of the load: 1 of what was measured" in told
    assert "6 of 15 criteria measured" in told
    assert "n1: well in the 2 measured; not measured: resources" in told
    assert "n1: well\n" not in told


def test_a_node_without_measurements_is_counted_and_not_judged() -> None:
    nodes = [
        NodeHealth(node="n1", criteria={"responsive": True}, score=1.0),
        NodeHealth(node="n2", criteria={"responsive": None}, score=None),
    ]
    health = cluster_health(nodes, Settings())
    assert (health.score, health.measured, health.mean) == (1.0, 1, 1.0)
    assert health.measured_said == "1 of 2 criteria measured, none of 1 of 2 nodes"
    assert not health.whole


def slow(s: float) -> float:
    return 300.0 if 100 <= s < 120 else 10.0


@pytest.mark.parametrize(("rss", "found"), [(600e6, True), (500e6, False)])
def test_memory_pressure_takes_both(rss: float, found: bool) -> None:
    rows = sampled({**WELL, "rss": lambda node, s: rss if node == "n2" else 30e6})
    pressed = analyse(inputs(steady(took_ms=slow), rows=rows)).correlations
    assert [(one.name, one.node) for one in pressed] == (
        [("memory-pressure", "n2")] if found else []
    )
    assert analyse(inputs(steady(), rows=rows)).correlations == []


@pytest.mark.parametrize(("cpu", "found"), [(95.0, True), (60.0, False)])
def test_a_cpu_bottleneck_takes_both(cpu: float, found: bool) -> None:
    def served(s: float) -> bool:
        return not 100 <= s < 120 or round(s * 100) % 100 < 40

    rows = sampled({**WELL, "cpu": lambda node, s: cpu if 100 <= s < 120 else 10.0})
    names = {one.name for one in analyse(inputs(steady(served=served), rows=rows)).correlations}
    assert names == ({"cpu-bottleneck"} if found else set())
    assert analyse(inputs(steady(), rows=rows)).correlations == []


def test_quantiles_of_a_series() -> None:
    points = [(n * 10**9, float(n)) for n in range(1001)]
    found = summary_of("n1", "rss", "B", points)
    assert (found.p50, found.p95, found.p99, found.p999, found.max) == (500, 950, 990, 999, 1000)
    assert found.steady
    assert found.per_s == pytest.approx(1.0)
    flat = summary_of("n1", "rss", "B", [(n * 10**9, 5.0) for n in range(10)])
    assert not flat.steady
    assert len(NODES) == 3
