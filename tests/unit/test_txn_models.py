"""The lattice: against Elle's own, where the corpora are at hand, and its laws."""

from __future__ import annotations

import json
from typing import Any

import pytest
from places import OUTER

from checkers.txn import models

STALE = {"non-monotonic-read", "fractured-read", "causal-stale-read"}
NO_ORDER = {
    f"no-{kind}-order{suffix}"
    for kind in ("serial", "snapshot")
    for suffix in ("", "-process", "-realtime")
}
OURS = {"garbage-read", *STALE, *(f"{kind}-process" for kind in STALE), *NO_ORDER}


@pytest.fixture(scope="module")
def elle() -> dict[str, Any]:
    assert OUTER is not None
    loaded: dict[str, Any] = json.loads((OUTER / "elle" / "models.json").read_text())
    return loaded


@pytest.mark.outer_corpora
def test_same_anomalies(elle: dict[str, Any]) -> None:
    assert set(elle["all_anomalies"]) | {"GSIa", "GSIb", "GSI"} == set(models.ANOMALIES) - OURS


@pytest.mark.outer_corpora
def test_same_implied_anomalies(elle: dict[str, Any]) -> None:
    for name, implied in elle["implied"].items():
        assert models.anomalies_implied(name) == set(implied), name


@pytest.mark.outer_corpora
def test_same_models(elle: dict[str, Any]) -> None:
    differ = {"strict-serializable", "conflict-serializable"}
    own = {*models.OWN, "transactional-causal"}
    assert set(elle["models"]) == set(models.known_models()) - own
    for name, facts in elle["models"].items():
        ours = models.canonical(name)
        assert models.proscribed(name) - OURS == set(facts["prohibits"]), name
        if name not in differ:
            assert ours == facts["friendly"]
        implied = {models.canonical(m) for m in facts["implies_models"]}
        assert models.implied_models(ours) - models.OWN == implied, name


@pytest.mark.outer_corpora
def test_same_boundary(elle: dict[str, Any]) -> None:
    for name, facts in elle["boundary"].items():
        found = models.boundary([name])
        assert found.not_ == sorted(facts["not"]), name
        assert found.also_not == sorted(facts["also_not"]), name


def test_lattice_has_no_cycle_and_one_top() -> None:
    import networkx as nx

    graph = models.lattice()
    assert nx.is_directed_acyclic_graph(graph)
    assert [m for m, d in graph.in_degree() if d == 0] == ["strong-serializable"]
    assert nx.transitive_reduction(graph).edges == graph.edges


def test_unknown_model_is_refused() -> None:
    with pytest.raises(ValueError, match="unknown consistency model 'snapshot'"):
        models.canonical("snapshot")


def test_nothing_found_rules_nothing_out() -> None:
    assert models.boundary([]) == models.Boundary([], [])
    assert models.boundary(["empty-transaction-graph"]) == models.Boundary([], [])


def test_models_that_count_sessions_are_those_of_the_order_of_processes_alone() -> None:
    found = {model for model in models.MODELS if models.counts_sessions(model)}
    assert found == {model for model in models.MODELS if model.startswith("strong-session-")}
    assert models.counts_sessions("transactional-causal")
    assert not models.counts_sessions("strict-serializable")
