"""Weak isolation of registers that is decided: against known histories and a slow oracle."""

from __future__ import annotations

import gzip
import json
import random
from collections.abc import Iterator
from typing import Any

import pytest
from isolation_oracle import (
    MODELS,
    Txn,
    demands_are_acyclic,
    in_some_order,
    jepsen,
    random_transactions,
)
from places import OUTER

from checkers.txn import weak_models
from checkers.txn.api import check
from checkers.txn.circles import KINDS
from checkers.txn.columns import NIL
from checkers.txn.ingest import load
from checkers.txn.models import implied_models
from checkers.txn.plugin import from_op_maps
from dstest.core.check import Budget

RW = "rw-register"
LEAST = Budget(time_s=10.0, memory_mb=64)


def decide(txns: list[Txn], rng: random.Random | None = None) -> weak_models.Isolation:
    columns = load(json.dumps(jepsen(txns, rng)).encode(), "json", threads=1)
    return weak_models.decide(columns, MODELS, LEAST)


def txn(process: int, *mops: str, outcome: str = "ok") -> Txn:
    """`wx1` writes 1 to x, `rx1` reads it, `rx_` reads the initial value."""
    words = [(m[0], m[1], None if m[2:] == "_" else int(m[2:])) for m in mops]
    return Txn(process, outcome, tuple(words))


KNOWN = {
    "fresh": ([txn(0, "wx1"), txn(1, "rx1", "wx2"), txn(2, "rx2")], None),
    "own session's write missed": (
        [txn(0, "wx1"), txn(1, "wx2"), txn(1, "rx1"), txn(0, "rx2")],
        "strong-session-read-atomic",
    ),
    "half of a transaction": (
        [txn(0, "wx1", "wy1"), txn(1, "rx1", "ry_")],
        "monotonic-atomic-view",
    ),
    "half of a transaction, first the old half": (
        [txn(0, "wx1", "wy1"), txn(1, "ry_", "rx1")],
        "read-atomic",
    ),
    "what led to it is missing": (
        [txn(0, "wx1"), txn(1, "rx1", "wy1"), txn(2, "ry1", "rx_")],
        "causal-cerone",
    ),
    "the same along a session": (
        [txn(0, "wx1"), txn(0, "wy1"), txn(2, "ry1", "rx_")],
        "strong-session-causal",
    ),
    "aborted": ([txn(0, "wx1", outcome="fail"), txn(1, "rx1")], "read-committed"),
    "intermediate": ([txn(0, "wx1", "wx2"), txn(1, "rx1")], "read-committed"),
    "out of thin air": ([txn(0, "wx1"), txn(1, "rx7")], "read-committed"),
    "circle": ([txn(0, "wx1", "ry1"), txn(1, "wy1", "rx1")], "read-committed"),
    "circle with a session": (
        [txn(0, "rx1"), txn(0, "wy1"), txn(1, "ry1", "wx1")],
        "strong-session-read-committed",
    ),
    "own write missed": ([txn(0, "wx1"), txn(1, "wx2", "rx1")], "read-atomic"),
    "long fork is no matter of causes": (
        [txn(0, "wx1"), txn(1, "wy1"), txn(2, "rx1", "ry_"), txn(3, "ry1", "rx_")],
        None,
    ),
    "unread and unknown": ([txn(0, "wx1"), txn(5, "wx2", outcome="info"), txn(1, "rx1")], None),
    "read, though unknown": (
        [txn(5, "wx2", "wy2", outcome="info"), txn(1, "rx2", "ry_")],
        "monotonic-atomic-view",
    ),
}


@pytest.mark.parametrize("name", KNOWN)
def test_known(name: str) -> None:
    """The weakest model that is violated, and all that imply it; the oracle says the same."""
    txns, weakest = KNOWN[name]
    found = decide(txns).decisions
    for model in MODELS:
        bad = weakest is not None and weakest in implied_models(model)
        assert found[model] == ("violated" if bad else "valid"), model
        assert in_some_order(txns, model) is not bad, model


@pytest.mark.parametrize("name", KNOWN)
def test_explained(name: str) -> None:
    txns, weakest = KNOWN[name]
    columns = from_op_maps(jepsen(txns))
    result = check(columns, RW, ["strong-session-causal"])
    assert result.valid is (weakest is None), result
    assert result.stats["method"] == "decided"
    if name == "own write missed":
        assert "internal" in result.anomaly_types
    elif weakest is not None and not weakest.endswith("read-committed"):
        assert KINDS[weakest] in result.anomaly_types
        assert weakest in result.not_
        (anomaly,) = result.anomalies[KINDS[weakest]]
        assert anomaly.minimal
        assert "although it saw" in anomaly.explanation


def disagreements(seeds: range) -> list[str]:
    wrong = []
    for seed in seeds:
        rng = random.Random(seed)
        txns = random_transactions(rng, 5 if seed % 2 else 10)
        found = decide(txns, rng).decisions
        for model in MODELS:
            holds = demands_are_acyclic(txns, model)
            if found[model] != ("valid" if holds else "violated"):
                wrong.append(f"{seed} {model}: {found[model]}")
            if seed % 50 == 1 and in_some_order(txns, model) is not holds:
                wrong.append(f"{seed} {model}: the oracles differ")
    return wrong


@pytest.mark.parametrize("block", range(0, 2000, 500))
def test_agrees_with_brute_force(block: int) -> None:
    assert disagreements(range(block, block + 500)) == []


@pytest.mark.long
@pytest.mark.timeout(900)
@pytest.mark.parametrize("block", range(2000, 22_000, 2000))
def test_agrees_with_brute_force_on_many(block: int) -> None:
    assert disagreements(range(block, block + 2000)) == []


def corpus() -> Iterator[tuple[str, list[dict[str, Any]], dict[str, bool]]]:
    assert OUTER is not None
    for name in ("published", "random"):
        for case in json.loads(gzip.decompress((OUTER / "exact" / f"{name}.json.gz").read_bytes())):
            yield case["name"], case["history"], case["truth"]


TRUTH = {
    "read-committed": "strong-session-monotonic-atomic-view",
    "read-atomic": "strong-session-read-atomic",
    "causal-cerone": "strong-session-causal",
    "strong-session-read-committed (session order counted)": "strong-session-monotonic-atomic-view",
    "strong-session-read-atomic (session order counted)": "strong-session-read-atomic",
}
"""What the corpus calls a model -> our name of it; it counts sessions in all three."""


@pytest.mark.outer_corpora
def test_known_corpus() -> None:
    wrong, seen = [], 0
    for name, history, truth in corpus():
        columns = load(json.dumps(history).encode(), "json", threads=1)
        found = weak_models.decide(columns, weak_models.MODELS, Budget()).decisions
        for told, model in TRUTH.items():
            if told in truth:
                seen += 1
                if found[model] != ("valid" if truth[told] else "violated"):
                    wrong.append((name, model, found[model]))
        if truth.get("serializable"):
            plain = {m: d for m, d in found.items() if not m.startswith("strong-session")}
            assert set(plain.values()) == {"valid"}, name
    assert wrong == []
    assert seen > 2_300


def test_a_process_that_does_two_things_at_once_is_left_open_where_that_matters() -> None:
    txns = [txn(0, "wx1"), txn(0, "wy1"), txn(2, "ry1", "rx_")]
    events = jepsen(txns)
    invoked = events.pop(2)
    events.insert(0, invoked)
    columns = from_op_maps([{**e, "process": None, "index": n} for n, e in enumerate(events)])
    columns.process[:2] = 0
    found = weak_models.decide(columns, weak_models.MODELS, Budget())
    assert found.overlapping == 1
    assert found.decisions["strong-session-causal"] == "open"
    assert found.decisions["causal-cerone"] == "valid"
    result = check(columns, RW, ["strong-session-causal"])
    assert result.valid == "unknown"
    assert "before the one before them" in str(result.reason)


def test_a_write_of_nil_leaves_it_open() -> None:
    columns = from_op_maps(jepsen([txn(0, "wx1"), txn(1, "rx1"), txn(2, "wx2"), txn(3, "rx_")]))
    columns.mop_value[2] = NIL
    found = weak_models.decide(columns, weak_models.MODELS, Budget())
    assert set(found.decisions.values()) == {"open"}
    assert "nil was written" in found.why_open


def test_no_memory_or_no_time_is_never_valid() -> None:
    txns = [txn(n % 5, f"wx{n + 1}", f"ry{n}" if n else "ry_", f"wy{n + 1}") for n in range(500)]
    columns = from_op_maps(jepsen(txns))
    for budget in (Budget(time_s=0.0), Budget(memory_mb=0)):
        found = weak_models.decide(columns, weak_models.MODELS, budget)
        assert set(found.decisions.values()) == {"open"}
        assert found.status in (1, 2)


def test_the_order_of_sessions_is_an_option() -> None:
    txns, weakest = KNOWN["own session's write missed"]
    assert weakest == "strong-session-read-atomic"
    columns = from_op_maps(jepsen(txns))
    assert check(columns, RW, ["read-atomic"]).valid is True
    result = check(columns, RW, ["read-atomic"], {"session-order?": True})
    assert (result.valid, result.model) == (False, "strong-session-read-atomic")
    with pytest.raises(ValueError, match="no form that counts sessions"):
        check(columns, RW, ["repeatable-read"], {"session-order?": True})
