"""Nodes that were to be sampled and of which no samples are there: never, or not for a while."""

from __future__ import annotations

import msgspec
import pytest
from made_load import NODES, SECOND, fault, inputs, sampled, settled, steady

from dstest.core.errors import Exit
from dstest.monitor.alerts import Alert, severe
from dstest.monitor.client import Load
from dstest.monitor.look import Monitored, look
from dstest.monitor.rows import Row
from dstest.monitor.settings import Settings
from dstest.monitor.told import as_text, code_of

WELL = {"answers": lambda node, s: 1.0}


def rows(node: str = "", begin_s: float = 0, end_s: float = 0) -> list[Row]:
    """Of healthy nodes, but for what one of them did not sample from `begin_s` up to `end_s`."""
    return [
        row
        for row in sampled(WELL)
        if row.node != node or not begin_s <= row.time_ns / SECOND < end_s
    ]


def missing(found: Monitored) -> list[Alert]:
    return [alert for alert in found.alerts if alert.rule == "samples_missing"]


def test_who_samples_all_the_time_raises_nothing() -> None:
    found = look(inputs(steady(), rows=rows(), every_s=1.0))
    assert found.alerts == []
    assert code_of(found, sampling=True) is Exit.PASS


@pytest.mark.parametrize("node", NODES)
def test_a_node_that_never_sampled(node: str) -> None:
    found = look(inputs(steady(), rows=rows(node, 0, 1000), every_s=1.0))
    (alert,) = missing(found)
    assert (alert.node, alert.severity, alert.end_ns) == (node, "high", None)
    assert alert.said == "no sample of it at all"
    assert severe(found.alerts) == [alert]
    assert code_of(found, sampling=True) is Exit.FAIL
    assert f"samples_missing on {node}" in "\n".join(as_text("run", found, None))


def test_a_file_that_was_lost() -> None:
    found = look(inputs(steady(), every_s=1.0))
    assert [alert.node for alert in missing(found)] == list(NODES)
    assert code_of(found, sampling=True) is Exit.FAIL
    told = "\n".join(as_text("run", found, None, sampling=True))
    assert "no sample of any node, though they were to be sampled" in told


def test_a_run_that_was_not_to_be_sampled() -> None:
    found = look(inputs(steady()))
    assert found.alerts == []
    assert code_of(found) is Exit.PASS
    assert "the nodes were not sampled" in "\n".join(as_text("run", found, None))


def test_a_short_run_without_samples_of_a_node() -> None:
    """Shorter than the longest gap that is let pass."""
    load = steady(seconds=6)
    short = [row for row in rows("n2", 0, 1000) if row.time_ns < 6 * SECOND]
    (alert,) = missing(look(inputs(load, rows=short, every_s=1.0)))
    assert alert.node == "n2"


def test_a_node_that_fell_silent_for_a_while() -> None:
    (alert,) = missing(look(inputs(steady(), rows=rows("n2", 60, 90), every_s=1.0)))
    assert (alert.node, alert.begin_ns, alert.end_ns) == ("n2", 59 * SECOND, 90 * SECOND)
    assert (alert.value, alert.unexplained_severity) == (31.0, "high")
    assert alert.said == "no sample of it for 31 s"


def test_a_sampler_that_died() -> None:
    (alert,) = missing(look(inputs(steady(), rows=rows("n2", 60, 1000), every_s=1.0)))
    assert (alert.begin_ns, alert.end_ns) == (59 * SECOND, None)


def test_a_sampler_that_came_late() -> None:
    (alert,) = missing(look(inputs(steady(), rows=rows("n2", 0, 40), every_s=1.0)))
    assert (alert.begin_ns, alert.end_ns) == (0, 40 * SECOND)


def test_a_hiccup_is_none() -> None:
    assert missing(look(inputs(steady(), rows=rows("n2", 60, 68), every_s=1.0))) == []


def test_samples_of_a_long_run_are_further_apart() -> None:
    ten = [row for row in rows() if row.time_ns % (10 * SECOND) == 0]
    assert missing(look(inputs(steady(), rows=ten, every_s=10.0))) == []


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
    found = look(
        inputs(
            steady(),
            fault(landed=landed),
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
    found = look(
        inputs(load, fault(start_s=3.0, end_s=16.0), recoveries=[settled(16.0, 17.0)], every_s=1.0)
    )
    alert = next(one for one in missing(found) if one.node == "n1")
    assert (alert.warranted_by, alert.expected) == (["f1"], False)
    assert alert in severe(found.alerts)


def test_nothing_was_looked_at() -> None:
    """A fault that never ended explains that no node sampled; and there is nothing else."""
    all_of_them = msgspec.structs.replace(fault(start_s=0.0, end_s=None), targets=list(NODES))
    found = look(inputs(steady(), all_of_them, recoveries=[], every_s=1.0))
    assert missing(found) and severe(missing(found)) == []
    calm = msgspec.structs.replace(found, alerts=missing(found))
    assert code_of(calm, sampling=True) is Exit.NOT_PROVEN
    empty = look(inputs(Load(ops=[], end_ns=None), every_s=1.0))
    assert code_of(empty, sampling=True) is Exit.NOT_PROVEN


def test_how_long_is_the_users() -> None:
    strict = msgspec.structs.replace(Settings(), samples_missing_s=3.0)
    given = inputs(steady(), rows=rows("n2", 60, 66), every_s=1.0, settings=strict)
    assert missing(look(given))


def test_a_rule_that_only_some_nodes_could_be_asked_says_so() -> None:
    some = [*rows(), *(row for row in sampled({"rss": lambda n, s: 1e6}) if row.node != "n3")]
    found = look(inputs(steady(), rows=some, every_s=1.0))
    assert found.unmeasured["rss"] == "no samples of rss of n3"
    assert found.unmeasured["cpu"] == "no samples of cpu"
    assert "node_silent" not in found.unmeasured
