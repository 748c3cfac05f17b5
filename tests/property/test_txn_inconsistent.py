"""Transactions that contradict themselves, have several appends to a key, or no known end: every
model that is decided, against brute force over all orders."""

from __future__ import annotations

import json
import random

import pytest
from inconsistent_oracle import MODELS, allowed, random_history
from isolation_oracle import jepsen

from checkers.second.judges import ORDERS, executable, in_an_order
from checkers.txn.api import check
from checkers.txn.ingest import load

pytestmark = pytest.mark.slow

ROUNDS = 150
LONG = 50_000
STRONG = {**{model: model for model in ORDERS}, "repeatable-read": "serializable"}


def differences(seeds: range, *, lists: bool) -> list[str]:
    workload, found = ("list-append" if lists else "rw-register"), []
    for seed in seeds:
        rng = random.Random(f"{seed}-{lists}")
        txns = random_history(rng, lists=lists)
        events = jepsen(txns, rng)
        columns = load(json.dumps(events).encode(), "json")
        for model in (*MODELS, *STRONG):
            got = check(columns, workload, [model]).valid
            if got == "unknown":
                continue
            if model in MODELS:
                want = allowed(txns, model, lists=lists)
            else:
                want = (in_an_order if lists else executable)(events, STRONG[model])
            if got != want:
                found.append(f"seed {seed} under {model}: {got} instead of {want}")
    return found


@pytest.mark.parametrize("lists", [True, False], ids=["lists", "registers"])
def test_every_model_agrees_with_brute_force(lists: bool) -> None:
    assert differences(range(ROUNDS), lists=lists) == []


@pytest.mark.long
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("lists", [True, False], ids=["lists", "registers"])
def test_every_model_agrees_with_brute_force_on_many(lists: bool) -> None:
    assert differences(range(ROUNDS, LONG), lists=lists) == []


LOST = [
    {"process": 0, "type": "invoke", "f": "txn", "value": [["append", 0, 1], ["append", 0, 2]]},
    {"process": 0, "type": "ok", "f": "txn", "value": [["append", 0, 1], ["append", 0, 2]]},
    {"process": 1, "type": "invoke", "f": "txn", "value": [["r", 0, None]]},
    {"process": 1, "type": "ok", "f": "txn", "value": [["r", 0, [2]]]},
]


@pytest.mark.parametrize("shown", [[2], [2, 1]])
@pytest.mark.parametrize("end", ["ok", "info"])
def test_a_later_append_is_never_there_without_the_earlier_one(end: str, shown: list[int]) -> None:
    history = [dict(event) for event in LOST]
    history[1]["type"] = end
    history[3]["value"] = [["r", 0, shown]]
    columns = load(json.dumps(history).encode(), "json")
    result = check(columns, "list-append", ["read-committed"])
    assert result.valid is False
    if shown == [2]:
        (found,) = result.anomalies["incompatible-order"]
        assert "appended 1 to key 0 before 2" in (found.explanation or "")


def test_lists_that_exclude_each_other_are_both_shown() -> None:
    history = [
        {"process": 0, "type": "ok", "f": "txn", "value": [["append", 0, 9], ["append", 0, 8]]},
        {"process": 1, "type": "ok", "f": "txn", "value": [["append", 0, i] for i in (1, 2, 3)]},
        {"process": 2, "type": "ok", "f": "txn", "value": [["r", 0, [1, 2, 3]]]},
        {"process": 3, "type": "ok", "f": "txn", "value": [["r", 0, [9, 8]]]},
    ]
    columns = load(json.dumps(history).encode(), "json")
    (found,) = check(columns, "list-append", ["read-committed"]).anomalies["incompatible-order"]
    assert "neither is a prefix" in (found.explanation or "")


def test_who_does_not_see_his_own_append_has_no_serial_order() -> None:
    history = [
        {"process": 0, "type": "ok", "f": "txn", "value": [["append", 0, 1], ["r", 0, []]]},
        {"process": 1, "type": "ok", "f": "txn", "value": [["append", 1, 1]]},
        {"process": 2, "type": "ok", "f": "txn", "value": [["r", 1, [1]]]},
    ]
    columns = load(json.dumps(history).encode(), "json")
    result = check(columns, "list-append", ["repeatable-read"])
    assert (result.valid, result.anomaly_types) == (False, ["internal"])
    assert "repeatable-read" in result.not_
