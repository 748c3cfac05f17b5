"""list-append without a graph: transactions are executed as real time goes (txn_execute.c)."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from checkers.txn._native import Analysis, analyse
from checkers.txn.ingest import load
from dstest.core.check import Budget

NO_ORDER = np.empty(0, np.int64)


Step = tuple[str, int, list[list[Any]]]
"""`invoke`, `ok`, `fail` or `info`, the process, and its micro-operations."""


def analysed(*steps: Step) -> Analysis:
    events = [
        {"index": n, "process": process, "type": kind, "f": "txn", "value": mops}
        for n, (kind, process, mops) in enumerate(steps)
    ]
    columns = load(json.dumps(events).encode(), "json")
    budget = Budget()
    return analyse(columns, "list-append", between=2, sources=0, order=NO_ORDER, budget=budget)


def one_by_one(*txns: tuple[str, list[list[Any]]]) -> Analysis:
    steps: list[Step] = []
    for kind, mops in txns:
        asked = [[f, k, None if f == "r" else v] for f, k, v in mops]
        steps += [("invoke", len(steps), asked), (kind, len(steps), mops)]
    return analysed(*steps)


def without_a_graph(found: Analysis) -> bool:
    """The graph of each history here has more edges than reads that saw another's append."""
    return found.proved and found.edges == 1


def test_reads_that_tell_what_is_there_are_the_proof() -> None:
    found = one_by_one(
        ("ok", [["append", "x", 1], ["append", "y", 1]]),
        ("fail", [["append", "x", 2]]),
        ("info", [["append", "x", 3]]),
        ("ok", [["r", "x", [1]], ["append", "x", 4], ["r", "x", [1, 4]], ["append", "y", 2]]),
    )
    assert without_a_graph(found)
    assert not any(found.counts.values())


@pytest.mark.parametrize(
    "last",
    [
        pytest.param([["r", "x", []]], id="stale"),
        pytest.param([["r", "x", [2]]], id="what failed"),
        pytest.param([["r", "x", [9]]], id="what nobody appended"),
        pytest.param([["r", "x", [1, 1]]], id="twice"),
        pytest.param([["r", "x", [1, 4]], ["append", "x", 4]], id="its own future"),
        pytest.param([["r", "x", [1]], ["append", "x", 4], ["r", "x", [1]]], id="own one missing"),
    ],
)
def test_what_no_store_would_tell_is_not_proved(last: list[list[Any]]) -> None:
    found = one_by_one(("ok", [["append", "x", 1]]), ("fail", [["append", "x", 2]]), ("ok", last))
    assert not found.proved


def test_null_and_then_the_empty_list_are_left_to_the_graph() -> None:
    """Both say the same, but not in one transaction: Elle calls it internal."""
    found = one_by_one(
        ("ok", [["append", "x", 1]]), ("ok", [["r", "y", None], ["r", "y", []], ["r", "x", [1]]])
    )
    assert found.counts["internal"] == 1


def test_what_is_still_to_be_read_is_not_replaced() -> None:
    """The reader of [1] goes on while 2 is appended, and the reader of [1, 2] comes before it."""
    invoked: list[Step] = [
        ("invoke", 0, [["append", "x", 1]]),
        ("invoke", 1, [["append", "x", 2]]),
        ("invoke", 2, [["r", "x", None]]),
        ("invoke", 3, [["r", "x", None]]),
    ]
    ended: list[Step] = [
        ("ok", 3, [["r", "x", [1, 2]]]),
        ("ok", 2, [["r", "x", [1]]]),
        ("ok", 1, [["append", "x", 2]]),
        ("ok", 0, [["append", "x", 1]]),
    ]
    found = analysed(*invoked, *ended)
    assert found.proved
    assert found.edges == 2
    late = analysed(*invoked[:2], invoked[3], ended[0], invoked[2], *ended[1:])
    assert not late.proved
    assert [cycle.type for cycle in late.cycles] == ["G-single-item-realtime"]


def test_only_reads_of_another_ones_appends_prove() -> None:
    """Else nothing was tested, and the graph says so: it has no edge."""
    found = one_by_one(("ok", [["append", "x", 1], ["r", "x", [1]]]), ("ok", [["append", "y", 1]]))
    assert found.edges == 0


def test_many_that_wait_for_one_key_are_left_to_the_graph() -> None:
    """Each read lets one more be executed, and all of them were looked at for each."""
    many = 700
    values = [*range(1, many + 1)]
    asked = [("invoke", v, [["r", "x", None], ["append", "x", v]]) for v in reversed(values)]
    told = [("ok", v, [["r", "x", values[: v - 1]], ["append", "x", v]]) for v in values]
    found = analysed(*asked, *told)
    assert found.proved
    assert found.edges > many
    few = analysed(*asked[-20:], *told[:20])
    assert few.proved
    assert few.edges == 19
