"""An order proves a model exactly where a store that tries every order could have run by it."""

from __future__ import annotations

import itertools
import json
import random
from typing import Any

import numpy as np
import pytest
from isolation_oracle import INFO, OK, ORDERS, Txn, executable, jepsen, random_transactions
from list_isolation_oracle import in_an_order, random_ends
from repeated_oracle import STORES, events, satisfies, some_history

from checkers.txn import columns, order_search
from checkers.txn.as_registers import replacing
from checkers.txn.columns import TxnColumns
from checkers.txn.ingest import load
from checkers.txn.order_replay import PROVABLE, refutation
from dstest.core.check import Budget

pytestmark = pytest.mark.slow


def columns_of(history: list[dict[str, Any]]) -> TxnColumns:
    return load(json.dumps(history).encode(), "json", threads=1)


def orders(c: TxnColumns) -> Any:
    """All orders of the acknowledged transactions and of some unknown ones."""
    must = np.flatnonzero(c.outcome == columns.OK).tolist()
    free = np.flatnonzero(c.outcome == columns.INFO).tolist()
    for size in range(len(free) + 1):
        for some in itertools.combinations(free, size):
            yield from itertools.permutations([*must, *some])


def histories(kind: str, seeds: range) -> Any:
    for seed in seeds:
        rng = random.Random(seed)
        txns = random_ends(rng) if kind == "lists" else random_transactions(rng, most=5)
        if len(txns) <= 5:
            yield jepsen(txns, rng)


@pytest.mark.parametrize("kind", ["registers", "lists"])
@pytest.mark.parametrize("model", ORDERS)
def test_some_order_is_accepted_exactly_where_there_is_one(kind: str, model: str) -> None:
    said = {True: 0, False: 0}
    for history in histories(kind, range(250)):
        c = columns_of(history)
        holds = (executable if kind == "registers" else in_an_order)(history, model)
        found = any(refutation(c, kind == "lists", model, order) is None for order in orders(c))
        assert found == holds, (history, model)
        said[holds] += 1
    assert min(said.values()) > 15


@pytest.mark.parametrize("kind", ["registers", "lists"])
def test_the_order_that_was_found_is_accepted(kind: str) -> None:
    """And with two of its transactions exchanged it mostly is not."""
    accepted = broken = 0
    for history in histories(kind, range(400)):
        c = columns_of(history)
        for model in order_search.MODELS:
            of = replacing(c)[0] if kind == "lists" else c
            found = order_search.decide(of, [model], Budget())
            if found.decisions[model] != "valid":
                continue
            if kind == "lists" and not in_an_order(history, model):
                continue  # lists that contradict one another are not looked at by it
            assert refutation(c, kind == "lists", model, found.order) is None, (history, model)
            accepted += 1
            for i in range(len(found.order) - 1):
                other = [*found.order]
                other[i], other[i + 1] = other[i + 1], other[i]
                broken += refutation(c, kind == "lists", model, other) is not None
    assert accepted > 300
    assert broken > 100


def txn(process: int, outcome: str, *mops: tuple[str, str, Any]) -> Txn:
    return Txn(process, outcome, mops)


SERIAL = [txn(0, OK, ("w", "x", 1)), txn(1, OK, ("r", "x", 1)), txn(2, INFO, ("w", "x", 2))]


@pytest.mark.parametrize(
    ("order", "why"),
    [
        ([0], "transaction 3 was acknowledged, and is not in it"),
        ([0, 1, 1], "transaction 3 is in it twice"),
        ([0, 1, 9], "it names transactions that are not in the history"),
        ([0, 1, -1], "it names transactions that are not in the history"),
        ([1, 0], "transaction 3 cannot have seen one state"),
        ([0, 2, 1], "transaction 3 cannot have seen one state"),
    ],
)
def test_why_an_order_is_refused(order: list[int], why: str) -> None:
    c = columns_of(jepsen(SERIAL))
    assert refutation(c, False, "serializable", [0, 1]) is None
    assert refutation(c, False, "serializable", [0, 1, 2]) is None
    assert why in str(refutation(c, False, "serializable", order))


AGAIN = [
    txn(0, OK, ("w", "x", 1)),
    txn(1, OK, ("w", "x", 2)),
    txn(2, OK, ("w", "x", 1), ("w", "y", 1)),
    txn(3, OK, ("r", "x", 1), ("r", "y", 1)),
]


@pytest.mark.parametrize("model", ["serializable", "snapshot-isolation"])
@pytest.mark.parametrize(
    ("order", "holds"),
    [([0, 1, 2, 3], True), ([1, 0, 2, 3], True), ([2, 3, 1, 0], True), ([0, 2, 1, 3], False)],
)
def test_a_value_written_twice(order: list[int], holds: bool, model: str) -> None:
    c = columns_of(jepsen(AGAIN))
    why = refutation(c, False, model, order)
    assert (why is None) == (holds or model == "snapshot-isolation"), why
    assert why is None or "cannot have seen one state" in why or "must come before it" in why


def test_all_that_can_be_searched_for_can_be_replayed() -> None:
    assert set(PROVABLE) == set(order_search.MODELS) == set(ORDERS)


@pytest.mark.timeout(60)
def test_many_sessions_are_no_cliff() -> None:
    """Each process has two transactions; a look per process at all of them would take minutes."""
    count = 60_000
    n = np.arange(2 * count)
    c = TxnColumns(
        outcome=np.zeros(2 * count, np.uint8),
        process=np.repeat(np.arange(count), 2),
        invoke_pos=2 * n,
        complete_pos=2 * n + 1,
        op_index=n,
        mop_start=np.arange(2 * count + 1),
        mop_kind=np.ones(2 * count, np.uint8),
        mop_key=np.zeros(2 * count, np.int32),
        mop_value=n.astype(np.int32),
        mop_known=np.ones(2 * count, np.uint8),
        elem_start=np.zeros(2 * count + 1, np.int64),
        elem=np.empty(0, np.int32),
        key_names=["x"],
        value_names=n.tolist(),
    )
    assert refutation(c, False, "strong-session-serializable", n.tolist()) is None
    other = [1, 0, *n[2:].tolist()]
    assert "place" in str(refutation(c, False, "strong-session-serializable", other))


@pytest.mark.parametrize("model", STORES)
def test_values_written_more_than_once(model: str) -> None:
    """Some order is accepted exactly where a store could have executed the transactions."""
    said = {True: 0, False: 0}
    for seed in range(220):
        txns = some_history(random.Random(seed), 0.6, most=5)
        c = columns_of(events(txns))
        holds = satisfies(txns, model)
        found = any(refutation(c, False, model, order) is None for order in orders(c))
        assert found == holds, (seed, txns)
        said[holds] += 1
    assert min(said.values()) > 15
