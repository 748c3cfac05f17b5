"""Weak isolation of list-append: decided from the lists, against pairs of transactions."""

from __future__ import annotations

import json
import random
from collections import Counter
from typing import Any

import pytest
from isolation_oracle import MODELS, Txn, jepsen
from list_isolation_oracle import random_ends, random_lists, satisfies

from checkers.txn.api import check
from checkers.txn.as_registers import registers_of
from checkers.txn.columns import NIL, TxnColumns
from checkers.txn.ingest import load
from checkers.txn.plugin import from_op_maps

pytestmark = pytest.mark.slow

LISTS = "list-append"


def compare(seeds: range) -> Counter[tuple[bool, bool | str]]:
    """How often which answer was given to what holds or not; wrong ones are raised."""
    answers: Counter[tuple[bool, bool | str]] = Counter()
    for seed in seeds:
        rng = random.Random(seed)
        txns = random_ends(rng) if seed % 2 else random_lists(rng)
        columns = load(json.dumps(jepsen(txns, rng)).encode(), "json", threads=1)
        for model in MODELS:
            holds = satisfies(txns, model)
            result = check(columns, LISTS, [model])
            answers[holds, result.valid] += 1
            assert result.valid in (holds, "unknown"), (seed, model, result.anomaly_types)
            assert result.valid is not False or result.anomaly_types, (seed, model)
    return answers


FOLLOWED = (
    # what an unknown transaction wrote was read, or overwritten, before it began in its session
    [
        (2, "invoke", [["r", "x", None]]),
        (1, "invoke", [["append", "y", 1]]),
        (2, "ok", [["r", "x", [1]]]),
        (2, "invoke", [["append", "x", 1]]),
        (2, "info", [["append", "x", 1]]),
        (1, "ok", [["append", "y", 1]]),
    ],
    [
        (2, "invoke", [["append", "x", 2]]),
        (2, "ok", [["append", "x", 2]]),
        (2, "invoke", [["append", "x", 1]]),
        (2, "info", [["append", "x", 1]]),
        (3, "invoke", [["r", "x", None]]),
        (3, "ok", [["r", "x", [1, 2]]]),
    ],
)


@pytest.mark.parametrize("rows", FOLLOWED)
@pytest.mark.parametrize(
    ("model", "valid"),
    [
        ("strong-session-read-committed", False),
        ("strong-session-read-uncommitted", "unknown"),
        ("read-committed", True),
    ],
)
def test_an_unknown_transaction_follows_its_session(
    rows: list[Any], model: str, valid: bool | str
) -> None:
    history = [
        {"process": process, "type": kind, "f": "txn", "value": value, "index": n}
        for n, (process, kind, value) in enumerate(rows)
    ]
    result = check(load(json.dumps(history).encode(), "json", threads=1), LISTS, [model])
    assert result.valid == valid, result


@pytest.mark.parametrize("rows", FOLLOWED)
def test_what_it_violates_is_named(rows: list[Any]) -> None:
    history = [
        {"process": process, "type": kind, "f": "txn", "value": value, "index": n}
        for n, (process, kind, value) in enumerate(rows)
    ]
    columns = load(json.dumps(history).encode(), "json", threads=1)
    result = check(columns, LISTS, ["strong-session-serializable"])
    assert (result.valid, result.anomaly_types) == (False, ["no-serial-order-process"])
    (anomaly,) = result.anomalies["no-serial-order-process"]
    assert anomaly.ops
    assert [row["op_id"] for row in anomaly.witness] == anomaly.ops


@pytest.mark.parametrize("block", range(0, 600, 200))
def test_agrees_with_pairs_of_transactions(block: int) -> None:
    answers = compare(range(block, block + 200))
    assert answers[False, False] > 100
    assert answers[True, True] > 500


@pytest.mark.long
@pytest.mark.timeout(900)
@pytest.mark.parametrize("block", range(600, 20_600, 2000))
def test_agrees_with_pairs_of_transactions_of_many(block: int) -> None:
    compare(range(block, block + 2000))


def test_the_order_of_the_lists_counts() -> None:
    """T2 saw T1's y; T3 saw T2, and of x what was there before T1's, by the order of the lists."""
    txns = [
        Txn(0, "ok", (("append", "x", 1),)),
        Txn(1, "ok", (("append", "x", 2), ("append", "y", 1))),
        Txn(2, "ok", (("r", "y", [1]), ("append", "z", 1))),
        Txn(3, "ok", (("r", "z", [1]), ("r", "x", [1]))),
        Txn(4, "ok", (("r", "x", [1, 2]),)),
    ]
    columns = from_op_maps(jepsen(txns))
    result = check(columns, LISTS, ["causal-cerone"])
    assert (result.valid, result.stats["method"]) == (False, "decided")
    assert result.anomaly_types == ["causal-stale-read"]
    assert "although it saw T3" in result.anomalies["causal-stale-read"][0].explanation
    assert check(columns, LISTS, ["read-atomic"]).valid is True
    assert check(columns, LISTS, ["causal-cerone"], {"decide?": False}).valid == "unknown"


def history(*txns: list[list[Any]], unknown: int | None = None) -> TxnColumns:
    """Of ["append", k, v] and ["r", k, values], one transaction at a time; the end of the
    `unknown` one is not known."""
    made = [
        Txn(n, "info" if n == unknown else "ok", tuple((f, k, v) for f, k, v in mops))
        for n, mops in enumerate(txns)
    ]
    return from_op_maps(jepsen(made))


def test_what_is_read_of_others_and_whose_versions_are_earlier() -> None:
    txns = [
        Txn(0, "ok", (("append", "x", 1),)),
        Txn(1, "ok", (("append", "x", 2), ("r", "x", [1, 2]))),
        Txn(2, "ok", (("append", "x", 3),)),
        Txn(3, "ok", (("r", "x", []),)),
    ]
    columns, (first, then) = registers_of(from_op_maps(jepsen(txns)))
    assert sorted(zip(first.tolist(), then.tolist(), strict=True)) == [(0, 1), (1, 2)]
    assert columns.mop_kind.tolist() == [1, 0, 1, 1, 0]
    assert columns.mop_value[[1, 4]].tolist() == [columns.mop_value[0], NIL]


def test_each_element_of_a_list_is_seen() -> None:
    """T3 saw what T1 appended to x, before T2's, and not what it appended to y."""
    columns = history(
        [["append", "x", 1], ["append", "y", 3]],
        [["append", "x", 2]],
        [["r", "x", [1, 2]], ["r", "y", []]],
        [["r", "y", [3]]],
    )
    for model in ("monotonic-atomic-view", "read-atomic", "causal-cerone"):
        result = check(columns, LISTS, [model])
        assert (result.valid, result.anomaly_types) == (False, ["non-monotonic-read"])
        told = result.anomalies["non-monotonic-read"][0].explanation
        assert "T5 read 1 in key x, which T1 wrote" in told
    assert check(columns, LISTS, ["read-committed"]).valid is True


def test_a_seen_transaction_of_unknown_end_took_effect_as_a_whole() -> None:
    """Of T1 some read shows y, so that its append to x comes after T0's."""
    columns = history(
        [["append", "x", 2]],
        [["append", "x", 3], ["append", "y", 4]],
        [["r", "y", [4]], ["r", "x", [2]]],
        unknown=1,
    )
    for model in ("monotonic-atomic-view", "read-atomic", "causal-cerone"):
        assert check(columns, LISTS, [model]).valid is False, model
    assert check(columns, LISTS, ["read-committed"]).valid is True
