"""Partition shapes: who is cut from whom, for every cluster size."""

from __future__ import annotations

import random
from collections.abc import Iterable

import pytest

from dstest.core.errors import ConfigError
from dstest.core.protocols import FaultPlan
from nemeses.base.paths import SHAPES, Path, cuts_for, paths_in
from nemeses.base.schedule import windows
from nemeses.network.partition import Partition


def names(n: int) -> list[str]:
    return [f"n{i + 1}" for i in range(n)]


def heard(nodes: list[str], cuts: Iterable[Path], node: str) -> set[str]:
    """Peers that exchange messages with `node` both ways."""
    gone = set(cuts)
    return {p for p in nodes if p != node and (p, node) not in gone and (node, p) not in gone}


@pytest.mark.parametrize("shape", SHAPES)
def test_shapes(shape: str, dice: random.Random) -> None:
    for n in range(4, 10):
        for _ in range(5):
            _require_shape(shape, n, dice)


def _require_shape(shape: str, n: int, dice: random.Random) -> None:
    nodes = names(n)
    found = cuts_for(shape, "both", nodes, dice, leader="n2")
    majority = n // 2 + 1
    assert found.cuts
    assert len(set(found.cuts)) == len(found.cuts)
    assert all((b, a) in set(found.cuts) for a, b in found.cuts), "both ways"
    assert all(a != b and a in nodes and b in nodes for a, b in found.cuts)
    sizes = {node: len(heard(nodes, found.cuts, node)) + 1 for node in nodes}
    if shape == "one":
        assert sorted(sizes.values()) == [1] + [n - 1] * (n - 1)
    elif shape == "leader":
        assert found.targets == ["n2"]
        assert sizes["n2"] == 1
    elif shape == "halves":
        assert len(found.targets) == n - majority
        assert all(sizes[t] == n - majority for t in found.targets)
    elif shape == "majority":
        assert max(sizes.values()) < majority, "nobody keeps a quorum"
        assert all(sizes[t] == 1 for t in found.targets)
    elif shape == "majorities-ring":
        assert min(sizes.values()) >= majority
        views = [frozenset({*heard(nodes, found.cuts, x), x}) for x in nodes]
        assert len(set(views)) == n, "no two see the same majority"
    elif shape == "bridge":
        (bridge,) = [node for node in nodes if sizes[node] == n]
        sides = {frozenset({*heard(nodes, found.cuts, x), x} - {bridge}) for x in nodes}
        left, right = sorted(sides - {frozenset(set(nodes) - {bridge})}, key=len)
        assert left.isdisjoint(right), "only one node is on both sides"
        assert left | right | {bridge} == set(nodes)
        assert len(right) - len(left) in (0, 1), "halves"
        assert set(found.cuts) == {p for a in left for b in right for p in ((a, b), (b, a))}


@pytest.mark.parametrize("direction", ["in", "out"])
@pytest.mark.parametrize("shape", ["halves", "one", "leader", "majority", "bridge"])
def test_one_way_cuts_are_one_way(shape: str, direction: str) -> None:
    found = cuts_for(shape, direction, names(5), random.Random(1), leader="n4")  # type: ignore[arg-type]
    cuts = set(found.cuts)
    assert cuts
    if shape != "majority":
        assert not any((b, a) in cuts for a, b in cuts)
    end = 1 if direction == "in" else 0
    if shape != "bridge":
        assert all(path[end] in found.targets for path in cuts)
    both = cuts_for(shape, "both", names(5), random.Random(1), leader="n4").cuts
    assert cuts < set(both)
    assert {frozenset(path) for path in cuts} == {frozenset(path) for path in both}, (
        "no pair missed"
    )


def test_impossible_shapes() -> None:
    with pytest.raises(ValueError, match="at least three"):
        cuts_for("halves", "both", names(2), random.Random(1))
    with pytest.raises(ValueError, match="more than 3"):
        cuts_for("majorities-ring", "both", names(3), random.Random(1))
    with pytest.raises(ValueError, match="leader"):
        cuts_for("leader", "both", names(5), random.Random(1))
    with pytest.raises(ValueError, match="unknown shape"):
        cuts_for("spiral", "both", names(5), random.Random(1))


def test_schedule_leaves_time_before_and_after() -> None:
    found = windows("partition", 60, 6, 4)
    assert len(found) == 5
    assert found[0][0] == 4_000_000_000
    assert all(start + length <= 53e9 for start, length in found)
    with pytest.raises(ConfigError, match="no room"):
        windows("partition", 10, 6, 4)


def test_the_same_seed_plans_the_same_faults() -> None:
    nemesis = Partition()
    options = {key: option.default for key, option in nemesis.options.items()}
    plans = [nemesis.plan(random.Random(3), names(5), 120, options) for _ in range(2)]
    assert plans[0] == plans[1]
    assert {p.facts["shape"] for p in plans[0]} == set(SHAPES)
    with pytest.raises(ConfigError, match="three nodes"):
        nemesis.plan(random.Random(3), names(2), 120, options)


def test_paths_by_name() -> None:
    paths = [("n1", "n2"), ("n3", "n1")]
    assert paths_in("n1:n2, n3->n1,n1->n2", names(3)) == paths
    for text in ("n1", "n1:n1", "n1:n9", "n1-n2", ":n1"):
        with pytest.raises(ValueError, match="no path between two of n1, n2, n3"):
            paths_in(text, names(3))


def test_a_plan_for_given_paths() -> None:
    nemesis = Partition()
    options = {key: option.default for key, option in nemesis.options.items()}

    def plan(**given: str) -> FaultPlan:
        return nemesis.plan(random.Random(3), names(5), 20, {**options, **given})[0]

    one_way, both = plan(paths="n1:n2,n4:n2"), plan(paths="n1:n2,n2:n1")
    assert one_way.facts["paths"] == ["n1->n2", "n4->n2"]
    assert (one_way.facts["shape"], one_way.facts["direction"]) == ("paths", "in")
    assert both.facts["direction"] == "both"
    for given in ({"shape": "one"}, {"direction": "in"}, {"targets": "n1"}):
        with pytest.raises(ConfigError, match="leaves no choice of"):
            plan(paths="n1:n2", **given)
    for text in ("n1:n8", ",", "n1"):
        with pytest.raises(ConfigError, match=f"-o paths={text}"):
            plan(paths=text)
