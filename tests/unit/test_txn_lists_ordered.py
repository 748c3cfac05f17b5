"""Serializability and snapshot isolation of list-append, against a store that tries every order."""

from __future__ import annotations

import json
import random
from collections import Counter
from typing import Any

import pytest
from isolation_oracle import INFO, OK, ORDERS, Txn, jepsen
from list_isolation_oracle import in_an_order, random_ends

from checkers.txn.api import check, silent
from checkers.txn.as_registers import replacing
from checkers.txn.columns import TxnColumns
from checkers.txn.exact import look_at_lists
from checkers.txn.ingest import load
from checkers.txn.plugin import from_op_maps
from dstest.core.check import Budget

pytestmark = pytest.mark.slow

LISTS = "list-append"


def judged(history: list[dict[str, Any]], model: str, **opts: Any) -> Any:
    columns = load(json.dumps(history).encode(), "json", threads=1)
    return check(columns, LISTS, [model], opts)


def compare(seeds: range) -> Counter[tuple[str, bool, bool | str, str]]:
    """How often which answer was given, and how; wrong ones are raised."""
    answers: Counter[tuple[str, bool, bool | str, str]] = Counter()
    for seed in seeds:
        rng = random.Random(seed)
        history = jepsen(random_ends(rng), rng)
        for model in ORDERS:
            holds = in_an_order(history, model)
            result = judged(history, model)
            answers[model, holds, result.valid, result.stats["method"]] += 1
            assert result.valid in (holds, "unknown"), (seed, model, result.anomaly_types)
            assert result.valid is not True or result.stats["method"] == "decided", (seed, model)
    return answers


@pytest.mark.parametrize("block", range(0, 300, 100))
def test_agrees_with_every_order(block: int) -> None:
    answers = compare(range(block, block + 100))
    for model in ORDERS:
        assert answers[model, True, True, "decided"] > 10
    assert sum(n for (_, _, valid, _), n in answers.items() if valid is False) > 100


@pytest.mark.long
@pytest.mark.timeout(900)
@pytest.mark.parametrize("block", range(300, 10_300, 1000))
def test_agrees_with_every_order_of_many(block: int) -> None:
    compare(range(block, block + 1000))


def test_a_snapshot_that_is_no_serial_order_is_proved() -> None:
    """Write skew: each transaction reads what the other appends to."""
    txns = [
        Txn(0, OK, (("r", "x", []), ("append", "y", 1))),
        Txn(1, OK, (("r", "y", []), ("append", "x", 1))),
        Txn(2, OK, (("r", "x", [1]), ("r", "y", [1]))),
    ]
    history = jepsen(txns, random.Random(3))
    assert in_an_order(history, "snapshot-isolation")
    result = judged(history, "snapshot-isolation")
    assert (result.valid, result.stats["method"]) == (True, "decided")
    result = judged(history, "serializable")
    assert (result.valid, result.anomaly_types) == (False, ["G2-item"])


def test_an_unknown_append_that_was_seen_has_happened() -> None:
    """Its transaction's other append is seen to be missing afterwards, in real time and in any
    order."""
    txns = [
        Txn(0, INFO, (("append", "x", 1), ("append", "y", 1))),
        Txn(1, OK, (("r", "x", [1]), ("r", "y", []))),
    ]
    for model in ("serializable", "snapshot-isolation"):
        assert judged(jepsen(txns), model).valid is False


def test_without_deciding_it_is_inferred() -> None:
    txns = [Txn(0, OK, (("append", "x", 1),)), Txn(0, OK, (("r", "x", [1]),))]
    result = judged(jepsen(txns), "serializable", **{"decide?": False})
    assert (result.valid, result.stats["method"]) == (True, "inferred")


def late(read: list[int], wrote: str = "x") -> TxnColumns:
    """One of unknown end, which nobody saw begin, appends 2 after 1 to x, or to another key."""
    events: list[dict[str, Any]] = [
        {"type": "invoke", "process": 0, "value": [["append", "x", 1]]},
        {"type": "ok", "process": 0, "value": [["append", "x", 1]]},
        {"type": "info", "process": 9, "value": [["append", wrote, 2], ["append", "y", 1]]},
        {"type": "invoke", "process": 1, "value": [["r", "x", None], ["r", "y", None]]},
        {"type": "ok", "process": 1, "value": [["r", "x", read], ["r", "y", [1] * (2 in read)]]},
    ]
    return from_op_maps([{"f": "txn", "index": i, **event} for i, event in enumerate(events)])


def test_one_of_unknown_end_that_nobody_saw_begin() -> None:
    """What it appended is read; when it began is not known, so that real time says nothing."""
    columns = late([1, 2])
    assert (replacing(columns)[1], silent(columns).tolist()) == (1, [1])
    found = look_at_lists(columns, ["snapshot-isolation", "strong-snapshot-isolation"], Budget())
    assert found.decisions["snapshot-isolation"] == "valid"
    assert found.holds("strong-snapshot-isolation") is None
    assert "have no invocation" in (found.why_open("strong-snapshot-isolation") or "")


@pytest.mark.parametrize("model", ["strong-snapshot-isolation", "strong-serializable"])
def test_what_real_time_alone_could_refute_is_open(model: str) -> None:
    found = look_at_lists(late([1, 2]), [model], Budget())
    assert set(found.decisions.values()) == {"valid"}
    assert found.holds(model) is None
    answer = check(late([1, 2]), LISTS, [model])
    assert answer.valid == "unknown"
    assert "no invocation" in (answer.reason or "")


def test_one_that_nobody_saw_changes_nothing() -> None:
    columns = late([1], wrote="z")
    assert silent(columns).tolist() == []
    assert check(columns, LISTS, ["strong-serializable"]).valid is True
