"""Nodes that were to be sampled and of which no samples are there: never, or not for a while."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import pytest
from made_load import NODES, SECOND, fault, inputs, sampled, settled, steady

from dstest.core.errors import Exit
from dstest.core.evidence import LandingRecord
from dstest.debug.monitor.alerts import Alert, severe
from dstest.debug.monitor.analysis import RunAnalysis, analyse, as_text, code_of
from dstest.debug.monitor.client import Load, Sample
from dstest.debug.monitor.settings import Settings

pytestmark = pytest.mark.slow

ENDS, CUTS = "restart", "partition"


def of(nemesis: str, *records: LandingRecord) -> list[LandingRecord]:
    return [msgspec.structs.replace(record, nemesis=nemesis) for record in records]


WELL = {"answers": lambda node, s: 1.0}


def rows(node: str = "", begin_s: float = 0, end_s: float = 0) -> list[Sample]:
    """Of healthy nodes, but for what one of them did not sample from `begin_s` up to `end_s`."""
    return [
        row
        for row in sampled(WELL)
        if row.node != node or not begin_s <= row.time_ns / SECOND < end_s
    ]


def missing(found: RunAnalysis) -> list[Alert]:
    return [alert for alert in found.alerts if alert.rule == "samples_missing"]


def test_who_samples_all_the_time_raises_nothing() -> None:
    found = analyse(inputs(steady(), rows=rows(), every_s=1.0))
    assert found.alerts == []
    assert code_of(found, sampling=True) is Exit.PASS


@pytest.mark.parametrize("node", NODES)
def test_a_node_that_never_sampled(node: str) -> None:
    found = analyse(inputs(steady(), rows=rows(node, 0, 1000), every_s=1.0))
    (alert,) = missing(found)
    assert (alert.node, alert.severity, alert.end_ns) == (node, "high", None)
    assert alert.said == "no sample of it at all"
    assert severe(found.alerts) == [alert]
    assert code_of(found, sampling=True) is Exit.FAIL
    assert f"samples_missing on {node}" in "\n".join(as_text("run", found, None))


def test_a_file_that_was_lost() -> None:
    found = analyse(inputs(steady(), every_s=1.0))
    assert [alert.node for alert in missing(found)] == list(NODES)
    assert code_of(found, sampling=True) is Exit.FAIL
    told = "\n".join(as_text("run", found, None, sampling=True))
    assert "no sample of any node, though they were to be sampled" in told


def test_a_run_that_was_not_to_be_sampled() -> None:
    found = analyse(inputs(steady()))
    assert found.alerts == []
    assert code_of(found) is Exit.PASS
    assert "the nodes were not sampled" in "\n".join(as_text("run", found, None))


def test_a_short_run_without_samples_of_a_node() -> None:
    """Shorter than the longest gap that is let pass."""
    load = steady(seconds=6)
    short = [row for row in rows("n2", 0, 1000) if row.time_ns < 6 * SECOND]
    (alert,) = missing(analyse(inputs(load, rows=short, every_s=1.0)))
    assert alert.node == "n2"


def test_a_node_that_fell_silent_for_a_while() -> None:
    (alert,) = missing(analyse(inputs(steady(), rows=rows("n2", 60, 90), every_s=1.0)))
    assert (alert.node, alert.begin_ns, alert.end_ns) == ("n2", 59 * SECOND, 90 * SECOND)
    assert (alert.value, alert.unexplained_severity) == (31.0, "high")
    assert alert.said == "no sample of it for 31 s"


def test_a_sampler_that_died() -> None:
    (alert,) = missing(analyse(inputs(steady(), rows=rows("n2", 60, 1000), every_s=1.0)))
    assert (alert.begin_ns, alert.end_ns) == (59 * SECOND, None)


def test_a_sampler_that_came_late() -> None:
    (alert,) = missing(analyse(inputs(steady(), rows=rows("n2", 0, 40), every_s=1.0)))
    assert (alert.begin_ns, alert.end_ns) == (0, 40 * SECOND)


def test_a_hiccup_is_none() -> None:
    assert missing(analyse(inputs(steady(), rows=rows("n2", 60, 68), every_s=1.0))) == []


def test_samples_of_a_long_run_are_further_apart() -> None:
    ten = [row for row in rows() if row.time_ns % (10 * SECOND) == 0]
    assert missing(analyse(inputs(steady(), rows=ten, every_s=10.0))) == []


@pytest.mark.parametrize(
    ("node", "end_s", "landed", "warranted", "expected"),
    [
        ("n1", 112, "yes", ["f1"], True),
        ("n1", 150, "yes", ["f1"], False),
        ("n3", 150, "yes", [], False),
        ("n1", 150, "ambiguous", [], False),
    ],
)
def test_what_a_fault_explains(
    node: str, end_s: float, landed: str, warranted: list[str], expected: bool
) -> None:
    """The fault is on n1, from 100 s until the load went well again at 108 s."""
    found = analyse(
        inputs(
            steady(),
            *of(ENDS, fault(landed=landed)),
            rows=rows(node, 99, end_s),
            recoveries=[settled(106.0, 108.0)],
            every_s=1.0,
        )
    )
    (alert,) = missing(found)
    assert (alert.warranted_by, alert.expected) == (warranted, expected)
    assert code_of(found, sampling=True) is (Exit.PASS if expected else Exit.FAIL)


def test_a_fault_of_a_while_does_not_explain_that_nothing_ever_came() -> None:
    """Not even where little of the load is left beside it."""
    load = steady(seconds=20)
    ended = of(ENDS, fault(start_s=3.0, end_s=16.0))
    found = analyse(inputs(load, *ended, recoveries=[settled(16.0, 17.0)], every_s=1.0))
    alert = next(one for one in missing(found) if one.node == "n1")
    assert (alert.warranted_by, alert.expected) == (["f1"], False)
    assert alert in severe(found.alerts)


def test_nothing_was_looked_at() -> None:
    """A fault that never ended explains that no node sampled; and there is nothing else."""
    one = msgspec.structs.replace(fault(start_s=0.0, end_s=None), targets=list(NODES))
    found = analyse(inputs(steady(), *of(ENDS, one), recoveries=[], every_s=1.0))
    assert missing(found) and severe(missing(found)) == []
    calm = msgspec.structs.replace(found, alerts=missing(found))
    assert code_of(calm, sampling=True) is Exit.NOT_PROVEN
    empty = analyse(inputs(Load(ops=[], end_ns=None), every_s=1.0))
    assert code_of(empty, sampling=True) is Exit.NOT_PROVEN


def test_how_long_is_the_users() -> None:
    strict = msgspec.structs.replace(Settings(), samples_missing_s=3.0)
    given = inputs(steady(), rows=rows("n2", 60, 66), every_s=1.0, settings=strict)
    assert missing(analyse(given))


def test_a_rule_that_only_some_nodes_could_be_asked_says_so() -> None:
    some = [*rows(), *(row for row in sampled({"rss": lambda n, s: 1e6}) if row.node != "n3")]
    found = analyse(inputs(steady(), rows=some, every_s=1.0))
    assert found.unmeasured["rss"] == "no samples of rss of n3"
    assert found.unmeasured["cpu"] == "no samples of cpu"
    assert "node_silent" not in found.unmeasured


@pytest.mark.parametrize("nemesis", ["partition", "latency", "pause", "kill", "power", "nowhere"])
def test_a_fault_that_leaves_the_sampler_alive_explains_nothing(nemesis: str) -> None:
    """Nodes sample on their own: cut off, slow, or with a server that is dead."""
    (begun,) = of(nemesis, fault(end_s=150.0))
    load, gone = steady(), rows("n1", 105, 140)
    found = analyse(inputs(load, begun, rows=gone, recoveries=[settled(150.0, 152.0)], every_s=1.0))
    (alert,) = missing(found)
    assert (alert.warranted_by, alert.others, alert.expected) == ([], ["f1"], False)
    assert code_of(found, sampling=True) is Exit.FAIL
    assert "f1 stood, which does not end its sampler" in "\n".join(as_text("run", found, None))
    ended = of(ENDS, begun)
    found = analyse(
        inputs(load, *ended, rows=gone, recoveries=[settled(150.0, 152.0)], every_s=1.0)
    )
    assert [alert.expected for alert in missing(found)] == [True]


@pytest.mark.parametrize(("begin_s", "end_s"), [(31, 170), (31, 1000), (51, 111)])
@pytest.mark.parametrize("apart_s", [1.5, 6.0, 9.0])
def test_faults_close_to_each_other_hide_no_sampler_that_died(
    begin_s: int, end_s: int, apart_s: float
) -> None:
    """Each is over before the next one begins, by less than may go without a sample."""
    begins = [30.0 + number * (5.0 + apart_s) for number in range(int(130 / (5.0 + apart_s)))]
    faults = of(ENDS, *(fault(f"f{at:g}", at, at + 5.0) for at in begins))
    gone = rows("n1", begin_s, end_s)
    found = analyse(inputs(steady(), *faults, recoveries=[], rows=gone, every_s=1.0))
    (alert,) = missing(found)
    assert alert.warranted_by and not alert.expected
    assert code_of(found, sampling=True) is Exit.FAIL


def test_faults_close_to_each_other_explain_that_each_ended_the_node() -> None:
    begins = range(30, 150, 20)
    faults = of(ENDS, *(fault(f"f{at}", at, at + 12.0) for at in begins))
    gone = {("n1", (at + second) * SECOND) for at in begins for second in range(15)}
    down = [row for row in rows() if (row.node, row.time_ns) not in gone]
    found = analyse(inputs(steady(), *faults, recoveries=[], rows=down, every_s=1.0))
    assert [alert.expected for alert in missing(found)] == [True] * 6


def test_silence_after_the_last_heal_is_odd_however_often_the_node_was_ended() -> None:
    """Windows that lie one over the other are counted once."""
    faults = of(ENDS, fault("f1", 100.0, 140.0), fault("f2", 110.0, 160.0))
    for end_s, expected in ((168, True), (173, False), (1000, False)):
        gone = rows("n1", 100, end_s)
        found = analyse(inputs(steady(), *faults, recoveries=[], rows=gone, every_s=1.0))
        assert [alert.expected for alert in missing(found)] == [expected], end_s


OWN = {name: (lambda node, s: 1.0) for name in ("answers", "cpu", "sampler", "term")}


def own(node: str, names: Sequence[str], begin_s: float, end_s: float = 1000) -> list[Sample]:
    return [
        row
        for row in sampled(OWN)
        if row.node != node or row.name not in names or not begin_s <= row.time_ns / SECOND < end_s
    ]


def test_what_a_server_says_is_no_sample_of_a_sampler_that_died() -> None:
    left = own("n3", ("answers", "cpu", "sampler"), 60)
    (alert,) = missing(analyse(inputs(steady(), rows=left, every_s=1.0)))
    assert (alert.node, alert.begin_ns, alert.end_ns) == ("n3", 59 * SECOND, None)


def test_a_server_that_says_no_more_is_no_sampler_that_died() -> None:
    assert missing(analyse(inputs(steady(), rows=own("n3", ("term",), 60), every_s=1.0))) == []


@pytest.mark.parametrize("begin_s", [0, 60])
@pytest.mark.parametrize("names", [("cpu",), ("cpu", "sampler")])
def test_a_series_that_stops_while_others_go_on(names: tuple[str, ...], begin_s: int) -> None:
    found = analyse(inputs(steady(), rows=own("n3", names, begin_s), every_s=1.0))
    (alert,) = missing(found)
    assert (alert.node, alert.begin_ns) == ("n3", max(0, begin_s - 1) * SECOND)
    assert alert.said.startswith(f"no sample of {', '.join(names)} of it")
    assert alert in severe(found.alerts)


def test_a_series_that_stops_shortly_before_the_end_is_none() -> None:
    assert missing(analyse(inputs(steady(), rows=own("n3", ("cpu",), 172), every_s=1.0))) == []


def test_samples_of_before_the_load_are_none_of_it() -> None:
    early = [
        row
        if row.node != "n2"
        else msgspec.structs.replace(row, time_ns=row.time_ns - 500 * SECOND)
        for row in rows()
    ]
    (alert,) = missing(analyse(inputs(steady(), rows=early, every_s=1.0)))
    assert (alert.node, alert.said) == ("n2", "no sample of it at all")


def test_health_is_measured_by_what_was_sampled_up_to_the_end() -> None:
    known = {"answers": lambda n, s: 1.0, "rss": lambda n, s: 1e6, "applied": lambda n, s: s}
    every = sampled(known)
    fresh = analyse(inputs(steady(), rows=every, every_s=1.0)).health
    assert (fresh.criteria_measured, fresh.criteria) == (15, 15)
    for lost_s, measured in ((8, 15), (12, 12)):
        left = [row for row in every if row.node != "n3" or row.time_ns < (180 - lost_s) * SECOND]
        stale = analyse(inputs(steady(), rows=left, every_s=1.0)).health
        criteria = {node.node: node.criteria for node in stale.nodes}
        assert stale.criteria_measured == measured
        assert (criteria["n3"]["resources"] is None) is (measured < 15)
        assert criteria["n1"]["resources"] is True
    slow = [row for row in every if row.time_ns % (12 * SECOND) == 0]
    assert analyse(inputs(steady(), rows=slow, every_s=1.0)).health.criteria_measured == 15


def test_the_samples_that_are_there_are_counted() -> None:
    cost = {"nodes": {node: {"samples": 180, "lost": 0} for node in NODES}}
    found = analyse(inputs(steady(), rows=rows("n1", 30, 1000), every_s=1.0))
    text = "\n".join(as_text("run", found, cost, sampling=True))
    assert "samples: n1 30 (its sampler reported 180), n2 180, n3 180" in text
    assert "samples: n1 30, n2 180, n3 180" in "\n".join(as_text("run", found, None))
    assert "samples" not in found.plain
