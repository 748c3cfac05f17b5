"""Registers whose values are written more than once: against brute force, and what is told."""

from __future__ import annotations

import json
import random
from collections import Counter
from typing import Any

import numpy as np
import pytest
from repeated_oracle import STORES, WEAK, Did, events, satisfies, some_history
from test_txn_order_search import at_once
from test_txn_weak_models import txn

from checkers.second.judges import executable
from checkers.txn import assignments, order_search, weak_models
from checkers.txn.apart import told_apart
from checkers.txn.api import EMPTY, check
from checkers.txn.columns import NO_OPEN, TxnColumns, UnfitError
from checkers.txn.ingest import load
from checkers.txn.order_replay import refutation
from dstest.core.check import Budget
from dstest.core.errors import MemorySpent

pytestmark = pytest.mark.slow

RW = "rw-register"
SHARES = (0.02, 0.1, 0.3, 0.5, 0.9)


def columns_of(history: list[dict[str, Any]]) -> TxnColumns:
    return load(json.dumps(history).encode(), "json", threads=1)


def drawn(seed: int) -> list[Did]:
    rng = random.Random(seed)
    return some_history(rng, rng.choice(SHARES), rng.choice((4, 6, 7)))


def with_open_reads(seeds: range) -> Any:
    for seed in seeds:
        txns = drawn(seed)
        c = columns_of(events(txns))
        apart = told_apart(c)
        if apart is not None and apart.open:
            yield seed, txns, c, apart


def test_orders_are_found_exactly_where_a_store_could_have_run() -> None:
    said: Counter[tuple[str, bool]] = Counter()
    for seed, txns, c, apart in with_open_reads(range(1500)):
        found = order_search.decide(apart, STORES, Budget(time_s=10.0))
        for model in STORES:
            holds = satisfies(txns, model)
            assert found.decisions[model] == ("valid" if holds else "violated"), (seed, model)
            assert holds == executable(events(txns), model), (seed, model)
            said[model, holds] += 1
        if found.order_model is not None:
            assert refutation(c, False, found.order_model, found.order) is None, seed
            assert {*found.sources} == {*apart.open.once.tolist()}
    assert min(said[model, holds] for model in STORES for holds in (True, False)) > 25


def test_weak_models_hold_exactly_where_some_writers_explain_the_reads() -> None:
    said: Counter[tuple[str, bool]] = Counter()
    for seed, txns, _, apart in with_open_reads(range(1500)):
        found = assignments.decide(apart, WEAK, Budget(time_s=10.0)).seen
        for model in WEAK:
            holds = satisfies(txns, model)
            assert found.decisions[model] == ("valid" if holds else "violated"), (seed, model)
            said[model, holds] += 1
    assert min(said[model, holds] for model in WEAK for holds in (True, False)) > 20


@pytest.mark.parametrize("model", [*STORES, *WEAK])
def test_the_whole_check_says_so_and_why(model: str) -> None:
    """Also of histories whose reads all tell their writer."""
    false = 0
    for seed in range(400):
        txns = drawn(seed)
        c = columns_of(events(txns))
        if told_apart(c) is None:
            continue
        result, holds = check(c, RW, [model]), satisfies(txns, model)
        if holds:
            vacuous = "nothing" in (result.reason or "")
            assert result.valid is True or (result.valid == "unknown" and vacuous), seed
            continue
        false += 1
        assert result.valid is False, seed
        assert result.anomaly_types
        assert all(result.anomalies[kind] for kind in result.anomaly_types if kind != EMPTY), seed
        assert result.stats["method"] == "decided"
    assert false > 15


def test_columns_that_are_told_apart_say_the_same() -> None:
    """Of a history whose values are unique nothing is open; its answers are those of before."""
    for seed in range(200):
        txns = some_history(random.Random(seed), 0.0)
        c = columns_of(events(txns))
        if told_apart(c) is not None:
            continue  # a transaction wrote one value twice
        # another key, where a value is written twice, and nobody reads it
        more = [Did(8 + n, "ok", (("w", "other", 1),), 90 + 2 * n, 91 + 2 * n) for n in range(2)]
        apart = told_apart(columns_of(events([*txns, *more])))
        assert apart is not None and not apart.open
        for decide, names in ((order_search.decide, STORES), (weak_models.decide, WEAK)):
            before: Any = decide(c, names, Budget())
            after: Any = decide(apart, names, Budget())
            assert before.decisions == after.decisions, seed


SEEDED = {
    "write skew": (
        [
            txn(9, "wx1", "wy1"), txn(8, "wx7"), txn(7, "wx1"),
            txn(0, "rx1", "ry1", "wx2"), txn(1, "rx1", "ry1", "wy2"), txn(2, "rx2", "ry2"),
        ],
        "serializable",
    ),
    "lost update": (
        [
            txn(9, "wx1"), txn(8, "wy1"), txn(7, "wy1"),
            txn(0, "rx1", "ry1", "wx2"), txn(1, "rx1", "wx2"), txn(2, "rx2"),
        ],
        "snapshot-isolation",
    ),
    "two of three read one": (
        [txn(9, "wx1"), txn(8, "wx1"), *(txn(n, "rx1", f"wx{n + 2}") for n in range(3))],
        "snapshot-isolation",
    ),
    "fork of two forks": (
        [
            txn(7, "wx1"), txn(8, "wx1"), txn(9, "wy1"),
            txn(2, "rx1", "ry_"), txn(3, "rx_", "ry1"),
        ],
        "snapshot-isolation",
    ),
    "fractured whichever": (
        [txn(8, "wx1", "wy1"), txn(9, "wx1", "wy2"), txn(0, "rx1", "ry_")],
        "read-atomic",
    ),
    "in a circle whichever": (
        [txn(8, "rx1", "wy1"), txn(9, "rx1", "wy1"), txn(0, "ry1", "wx1")],
        "read-committed",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", SEEDED)
def test_seeded(name: str) -> None:
    txns, model = SEEDED[name]
    history = at_once(*txns)
    c = columns_of(history)
    apart = told_apart(c)
    assert apart is not None and apart.open
    result = check(c, RW, [model])
    assert result.valid is False
    told = [a.explanation for found in result.anomalies.values() for a in found]
    assert any("Reads with several writers: T" in (text or "") for text in told)
    if model in STORES:
        assert not executable(history, model)
    assert result.stats["open_reads"] == len(apart.open.read)


RIGHT = {
    "either of two": [txn(9, "wx1"), txn(8, "wx1"), txn(0, "rx1", "wx2"), txn(1, "rx1", "wx3")],
    "own write first": [txn(9, "wx1"), txn(8, "wx1"), txn(0, "wx1", "rx1"), txn(1, "rx1")],
    "not the aborted one": [
        txn(9, "wx1"), txn(8, "wx2"), txn(7, "wx1", outcome="fail"), txn(0, "rx1"),
    ],
    "an unknown one took effect": [
        txn(9, "wx1"), txn(8, "rx1", "wx2"), txn(7, "wx1", outcome="info"), txn(0, "rx2"),
        txn(1, "rx1"),
    ],
}  # fmt: skip


@pytest.mark.parametrize("name", RIGHT)
@pytest.mark.parametrize("model", ["strong-session-serializable", "snapshot-isolation"])
def test_right_histories(name: str, model: str) -> None:
    history = at_once(*RIGHT[name])
    assert executable(history, model)
    assert check(columns_of(history), RW, [model]).valid is True


def test_an_aborted_write_of_the_same_value_is_no_candidate() -> None:
    history = at_once(txn(9, "wx1", outcome="fail"), txn(8, "wx1", outcome="fail"), txn(0, "rx1"))
    result = check(columns_of(history), RW, ["read-committed"])
    assert result.valid is False
    assert "G1a" in result.anomaly_types


def test_little_time_leaves_it_open_with_a_reason() -> None:
    history = at_once(*SEEDED["two of three read one"][0])
    result = check(columns_of(history), RW, ["serializable"], budget=Budget(time_s=0.0))
    assert result.valid == "unknown"
    assert "time budget spent" in (result.reason or "")


def test_a_weak_model_that_is_left_open_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(assignments, "TRIES_MAX", 0)
    monkeypatch.setattr(assignments, "GUIDES", ())
    said = set()
    for seed, _, c, apart in with_open_reads(range(1500)):
        found = assignments.decide(apart, WEAK, Budget())
        for model, why in found.open.items():
            assert "ways to say which" in why
            result = check(c, RW, [model])
            assert result.valid == "unknown" or result.anomaly_types, seed
            said.add(model)
    assert said


def test_an_order_that_does_not_replay_is_not_believed(monkeypatch: pytest.MonkeyPatch) -> None:
    history = at_once(*RIGHT["either of two"])
    monkeypatch.setattr("checkers.txn.api.refutation", lambda *_: "it is turned round")
    result = check(columns_of(history), RW, ["serializable"])
    assert result.valid == "unknown"
    assert "it is turned round" in (result.reason or "")


@pytest.mark.parametrize(
    ("model", "opts"),
    [("read-uncommitted", {}), ("serializable", {"wfr-keys?": True}), ("prefix", {})],
)
def test_what_is_only_inferred_is_not_called_valid(model: str, opts: dict[str, Any]) -> None:
    history = at_once(*SEEDED["in a circle whichever"][0], txn(1, "ry1"))
    c = columns_of(history)
    found = check(c, RW, [model], opts)
    assert found.valid is ("unknown" if model == "read-uncommitted" else False)
    right = check(columns_of(at_once(*RIGHT["either of two"])), RW, [model], opts)
    assert right.valid is (True if not opts else "unknown")
    assert not opts or "reads returned what several transactions wrote" in (right.reason or "")


def test_of_too_many_candidates_nothing_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("checkers.txn.apart.CANDIDATES_MAX", 3)
    with pytest.raises(MemorySpent, match="4 writes: 3 are looked at"):
        check(columns_of(at_once(*RIGHT["either of two"])), RW, ["serializable"])


def test_lists_with_a_value_appended_twice_are_refused() -> None:
    rows = [
        {"index": n, "time": n, "type": kind, "process": p, "f": "txn",
         "value": [["append", "x", 1]]}
        for n, (p, kind) in enumerate([(0, "invoke"), (0, "ok"), (1, "invoke"), (1, "ok")])
    ]  # fmt: skip
    with pytest.raises(UnfitError):
        check(columns_of(rows), "list-append", ["serializable"])


def test_the_core_refuses_candidates_that_are_none() -> None:
    c = columns_of(at_once(*RIGHT["either of two"]))
    apart = told_apart(c)
    assert apart is not None
    some = np.arange(2, dtype=np.int64)
    for change in (
        {"read": some},
        {"first": np.array([0, 1, 4], np.int64)},
        {"write": np.array([0, 2, 0, 1], np.int64)},
        {"write": np.array([0, 3, 0, 1], np.int64)},
        {"write": np.array([0, -1, 0, 1], np.int64)},
    ):
        fields = {name: getattr(apart.open, name) for name in NO_OPEN.__dataclass_fields__}
        broken = type(apart.open)(**{**fields, **change})
        wrong = TxnColumns(
            **{n: getattr(apart, n) for n in apart.__dataclass_fields__ if n != "open"},
            open=broken,
        )
        with pytest.raises(UnfitError):
            order_search.decide(wrong, ["serializable"], Budget())
