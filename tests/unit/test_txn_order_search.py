"""Serializability and snapshot isolation of registers: against known histories and brute force."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest
from isolation_oracle import (
    MODELS,
    ORDERS,
    Txn,
    demands_are_acyclic,
    executable,
    jepsen,
    random_transactions,
)
from test_txn_weak_models import corpus, txn

from checkers.txn import order_search
from checkers.txn.api import check
from checkers.txn.columns import TxnColumns
from checkers.txn.ingest import load
from checkers.txn.models import implied_models
from checkers.txn.plugin import from_op_maps
from dstest.core.check import Budget
from dstest.core.clock import monotonic_ns

pytestmark = pytest.mark.slow

RW = "rw-register"


def columns_of(history: list[dict[str, Any]]) -> TxnColumns:
    return load(json.dumps(history).encode(), "json", threads=1)


def at_once(*txns: Txn) -> list[dict[str, Any]]:
    """All invoked before any completes: real time orders nothing."""
    events = jepsen([*txns])
    events.sort(key=lambda e: e["type"] != "invoke")
    return [{**event, "index": n, "time": n} for n, event in enumerate(events)]


SKEW = (txn(9, "wx1", "wy1"), txn(0, "rx1", "ry1", "wx2"), txn(1, "rx1", "ry1", "wy2"))
FORK = (
    txn(9, "wx1", "wy1"), txn(0, "wx2"), txn(1, "wy2"), txn(2, "rx2", "ry1"), txn(3, "rx1", "ry2"),
)  # fmt: skip
LOST = (txn(9, "wx1"), txn(0, "rx1", "wx2"), txn(1, "rx1", "wx3"))
WHICHEVER = (
    txn(0, "wx1", "wa1"), txn(1, "wx2", "wb1"), txn(2, "wy1", "wc1"), txn(3, "wy2", "wd1"),
    txn(4, "rx1", "rd_"), txn(5, "rx1", "rc_"), txn(6, "rx2", "rd_"), txn(7, "rx2", "rc_"),
    txn(8, "ry1", "rb_"), txn(9, "ry1", "ra_"), txn(10, "ry2", "rb_"), txn(11, "ry2", "ra_"),
)  # fmt: skip
"""Whichever of x and y was written last, somebody missed something."""

KNOWN = {
    "serial": (jepsen([txn(0, "wx1"), txn(1, "rx1", "wx2"), txn(2, "rx2")]), None),
    "write skew": (at_once(*SKEW), "serializable"),
    "long fork": (at_once(*FORK), "snapshot-isolation"),
    "lost update": (at_once(*LOST), "snapshot-isolation"),
    "stale in its session": (
        jepsen([txn(0, "wx1"), txn(0, "rx_"), txn(1, "rx1")]),
        "strong-session-read-atomic",
    ),
    "stale in real time": (
        jepsen([txn(0, "wx1"), txn(1, "rx_"), txn(2, "rx1")]),
        "strong-snapshot-isolation",
    ),
    "fork that sessions forbid": (
        at_once(txn(0, "wx1"), txn(1, "wy1")) + [
            {**e, "index": e["index"] + 4, "time": e["time"] + 4}
            for e in at_once(txn(0, "ry_"), txn(1, "rx_"))
        ],
        "strong-session-snapshot-isolation",
    ),
    "unknown and unread": (
        jepsen([txn(0, "wx1"), txn(5, "rx1", "wx2", outcome="info"), txn(1, "rx1")]),
        None,
    ),
    "unknown and read": (
        jepsen([txn(0, "wx1"), txn(5, "wx2", outcome="info"), txn(1, "rx2")]),
        None,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", KNOWN)
def test_known(name: str) -> None:
    history, weakest = KNOWN[name]
    found = order_search.decide(columns_of(history), ORDERS, Budget())
    for model in ORDERS:
        bad = weakest is not None and weakest in implied_models(model)
        assert found.decisions[model] == ("violated" if bad else "valid"), model
        assert executable(history, model) is not bad, model
    if found.order_model is not None:
        assert sorted(found.order) == sorted(set(found.order))


SHAPES = {
    "write skew": ("G2-item", 3),
    "long fork": ("G-nonadjacent-item", 5),
    "lost update": ("lost-update", 2),
    "stale in real time": ("G-single-item-realtime", 2),
    "fork that sessions forbid": ("G-nonadjacent-item-process", 4),
}


@pytest.mark.parametrize("name", SHAPES)
def test_explained(name: str) -> None:
    kind, size = SHAPES[name]
    history, weakest = KNOWN[name]
    assert weakest is not None
    result = check(columns_of(history), RW, ["strong-serializable"])
    assert result.valid is False
    assert kind in result.anomaly_types
    assert len(result.anomalies[kind][0].ops) <= size
    found = [a for group in result.anomalies.values() for a in group]
    assert all("would have to come before itself" in a.explanation for a in found if len(a.ops) > 2)
    assert result.stats["method"] == "decided"


def test_a_search_that_no_single_circle_ends() -> None:
    history = at_once(*WHICHEVER)
    assert not executable(history, "serializable")
    result = check(columns_of(history), RW, ["serializable"])
    assert result.valid is False
    for kind in (t for t in result.anomaly_types if t.startswith("no-")):
        assert result.anomalies[kind][0].minimal


def disagreements(seeds: range) -> list[str]:
    wrong = []
    for seed in seeds:
        rng = random.Random(seed)
        history = jepsen(random_transactions(rng, 5 if seed % 2 else 8), rng)
        found = order_search.decide(columns_of(history), ORDERS, Budget(time_s=10.0))
        truth = {m: "valid" if executable(history, m) else "violated" for m in ORDERS}
        wrong += [
            f"{seed} {m}: {found.decisions[m]}" for m in ORDERS if found.decisions[m] != truth[m]
        ]
    return wrong


@pytest.mark.parametrize("block", range(0, 500, 250))
def test_agrees_with_brute_force(block: int) -> None:
    assert disagreements(range(block, block + 250)) == []


@pytest.mark.long
@pytest.mark.timeout(900)
@pytest.mark.parametrize("block", range(500, 20_500, 2000))
def test_agrees_with_brute_force_on_many(block: int) -> None:
    assert disagreements(range(block, block + 2000)) == []


@pytest.mark.parametrize("block", range(0, 150, 50))
def test_an_answer_rules_out_no_model_that_holds(block: int) -> None:
    """`not` and `also_not` of every question about a history, against the oracles."""
    wrong = []
    for seed in range(block, block + 50):
        rng = random.Random(seed)
        txns = random_transactions(rng, 6)
        history = jepsen(txns, rng)
        columns = columns_of(history)
        truth = {m: demands_are_acyclic(txns, m) for m in MODELS}
        truth |= {m: executable(history, m) for m in ORDERS}
        for model, holds in truth.items():
            result = check(columns, RW, [model])
            if result.valid not in (holds, "unknown"):
                wrong.append(f"{seed} {model}: {result.valid}")
            named = [*result.not_, *result.also_not] if result.valid is False else []
            wrong += [f"{seed} {model} not {m}" for m in named if truth.get(m)]
            if result.valid is False and not result.anomaly_types:
                wrong.append(f"{seed} {model}: {result.reason}")
    assert wrong == []


@pytest.mark.outer_corpora
def test_known_corpus() -> None:
    wrong, seen = [], 0
    for name, history, truth in corpus():
        asked = [model for model in ORDERS if model in truth]
        found = order_search.decide(columns_of(history), asked, Budget()).decisions if asked else {}
        for model in asked:
            seen += 1
            if found[model] != ("valid" if truth[model] else "violated"):
                wrong.append((name, model, found[model]))
    assert wrong == []
    assert seen > 3_000


@pytest.mark.outer_corpora
def test_published_bugs_are_found_without_an_option() -> None:
    bugs = {
        "isovista/pg_ser_bug": ["serializable"],
        "isovista/dgraph_si_bug": ["snapshot-isolation"],
        "isovista/yuga_tcc_bug": ["strong-session-causal"],
    }
    found = {name: history for name, history, _ in corpus() if name.startswith("isovista/")}
    assert found
    for name, models in bugs.items():
        if name in found:
            assert check(columns_of(found[name]), RW, models).valid is False, name


def test_no_memory_or_no_time_is_never_valid() -> None:
    txns = [txn(n % 5, f"wx{n + 1}", f"ry{n}" if n else "ry_", f"wy{n + 1}") for n in range(500)]
    columns = from_op_maps(jepsen(txns))
    for budget in (Budget(time_s=0.0), Budget(memory_mb=0)):
        found = order_search.decide(columns, order_search.MODELS, budget)
        assert set(found.decisions.values()) == {"open"}
        assert found.status in (1, 2)
        result = check(columns, RW, ["serializable"], None, budget)
        assert result.valid == "unknown"


def test_what_no_order_can_explain_is_violated_at_once() -> None:
    columns = from_op_maps(jepsen([txn(0, "wx1"), txn(1, "rx7"), txn(2, "rx1")]))
    found = order_search.decide(columns, order_search.MODELS, Budget())
    assert set(found.decisions.values()) == {"violated"}
    assert found.faults == 1


def entangled(keys: int, clauses: int) -> list[dict[str, Any]]:
    """Two writers of each key, whose order is one of `keys` truth values; three readers for each of
    some random clauses, so that an order is a solution of all."""
    rng = random.Random(5)
    writes = {(k, s): [("w", f"k{k}", s + 1)] for k in range(keys) for s in (0, 1)}
    readers: list[list[tuple[str, Any, Any]]] = []
    for clause in range(clauses):
        literals = [(k, rng.randrange(2)) for k in rng.sample(range(keys), 3)]
        three = [[("r", f"k{k}", s + 1)] for k, s in literals]
        for i, (k, s) in enumerate(literals):
            writes[k, 1 - s].append(("w", f"t{clause}-{i}", 1))
            three[(i + 1) % 3].append(("r", f"t{clause}-{i}", 1))
        readers += three
    everyone = [*writes.values(), *readers]
    return at_once(*(Txn(n, "ok", tuple(mops)) for n, mops in enumerate(everyone)))


def test_a_search_without_end_ends_in_time() -> None:
    """Deciding and explaining together take little more than the budget."""
    columns = columns_of(entangled(60, 255))
    began_ns = monotonic_ns()
    result = check(columns, RW, ["serializable"], None, Budget(time_s=2.0))
    assert (monotonic_ns() - began_ns) / 1e9 < 12
    assert result.valid in (False, "unknown")


def test_what_stands_between_decided_models_is_not_valid_by_silence() -> None:
    skew = columns_of(at_once(*SKEW))
    result = check(skew, RW, ["repeatable-read"])
    assert (result.valid, result.anomaly_types, result.reason) == (False, ["G2-item"], None)
    assert check(skew, RW, ["consistent-view"]).valid is True, "since snapshot isolation holds"
    torn = columns_of(at_once(txn(0, "wx1", "wy1"), txn(1, "wx2", "wy2"), txn(2, "rx1", "ry2")))
    for model in ("repeatable-read", "serializable", "read-atomic"):
        result = check(torn, RW, [model])
        assert result.valid is False and "fractured-read" in result.anomaly_types, model
    result = check(torn, RW, ["consistent-view"])
    assert result.valid == "unknown"
    assert "no stronger model is known to hold" in str(result.reason)
    assert check(torn, RW, ["read-committed"]).valid is True


def test_two_things_of_one_process_at_once_have_no_order() -> None:
    events = [
        {"type": "invoke", "process": 0, "value": [["w", "x", 1]]},
        {"type": "ok", "process": 0, "value": [["w", "x", 1]]},
        {"type": "invoke", "process": 1, "value": [["r", "x", None]]},
        {"type": "ok", "process": 1, "value": [["r", "x", None]]},
        {"type": "invoke", "process": 2, "value": [["r", "x", None]]},
        {"type": "ok", "process": 2, "value": [["r", "x", 1]]},
    ]
    columns = from_op_maps([{**e, "f": "txn", "index": n} for n, e in enumerate(events)])
    columns.process[:2] = 0
    columns.invoke_pos[:2], columns.complete_pos[:2] = [0, 1], [2, 3]
    for model in ("strong-session-serializable", "strong-session-snapshot-isolation"):
        result = check(columns, RW, [model])
        assert (result.valid, result.anomaly_types) == ("unknown", [])
        assert "its session has no order" in str(result.reason)
