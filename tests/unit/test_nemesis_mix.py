"""Several nemeses in one run: shared windows, weighted kinds, options given once."""

from __future__ import annotations

import itertools
import random
from collections import Counter

import pytest

from dstest.core.errors import ConfigError
from dstest.core.protocols import FaultPlan, Nemesis, Option
from dstest.core.spec import RunSpec
from dstest.runner.plugins import resolve
from nemeses.kill import KILL
from nemeses.mix import Mix, parse_weights
from nemeses.overlap import LANES
from nemeses.partition import NEMESIS as PARTITION
from nemeses.pause import NEMESIS as PAUSE

NODES = ["n1", "n2", "n3", "n4", "n5"]


def planned(seed: int = 1, time_limit_s: float = 120.0, **options: object) -> list[FaultPlan]:
    mix = Mix([PARTITION, KILL, PAUSE])
    values = {key: option.default for key, option in mix.options.items()} | options
    return mix.plan(random.Random(seed), NODES, time_limit_s, values)


def test_one_fault_per_window_with_ids_of_its_own() -> None:
    plans = planned()
    assert [p.fault_id for p in plans] == [f"f{i + 1}" for i in range(len(plans))]
    for earlier, later in itertools.pairwise(plans):
        assert earlier.start_ns + earlier.duration_ns < later.start_ns


def test_every_kind_comes_before_any_comes_again() -> None:
    for seed in range(20):
        plans = planned(seed)
        assert {p.nemesis for p in plans[:3]} == {"partition", "kill", "pause"}


def test_a_member_deals_its_own_kinds_in_turn() -> None:
    plans = [p for p in planned(time_limit_s=1000.0) if p.nemesis == "kill"]
    assert len({p.facts["scope"] for p in plans[:5]}) == 5


def test_the_same_seed_gives_the_same_schedule() -> None:
    assert planned(7) == planned(7)
    assert planned(7) != planned(8)


def test_weights() -> None:
    counts = Counter(p.nemesis for p in planned(time_limit_s=2000.0, weights="kill:3"))
    assert counts["kill"] > 2 * counts["pause"]
    assert counts["pause"] >= 10
    assert parse_weights("a:2, b:3", ["a", "b", "c"]) == {"a": 2, "b": 3, "c": 1}


def test_in_a_storm_two_lanes_meet_and_the_network_is_healed_first() -> None:
    plans = planned(time_limit_s=2000.0, at_once=2)
    windows = [list(group) for _, group in itertools.groupby(plans, key=lambda p: p.start_ns)]
    assert [p.fault_id for p in plans] == [f"f{i + 1}" for i in range(len(plans))]
    assert {len(window) for window in windows} == {1, 2}
    for window in windows:
        lanes = [LANES[p.nemesis].lane for p in window]
        turns = [LANES[p.nemesis].turn for p in window]
        assert len(set(lanes)) == len(lanes)
        assert turns == sorted(turns)
        assert len({p.duration_ns for p in window}) == 1
        assert all((p.heal_rank == 0) == (LANES[p.nemesis].lane == "network") for p in window)
    for earlier, later in itertools.pairwise(windows):
        assert earlier[0].start_ns + earlier[0].duration_ns < later[0].start_ns


def test_a_fault_for_the_leader_does_not_follow_one_that_may_leave_none() -> None:
    plans = planned(time_limit_s=4000.0, at_once=2)
    for _, group in itertools.groupby(plans, key=lambda p: p.start_ns):
        window = list(group)
        if any(p.facts["scope"] == "primaries" for p in window if p.nemesis != "partition"):
            assert "partition" not in [p.nemesis for p in window]
    assert any(p.facts.get("scope") == "primaries" for p in plans)


@pytest.mark.parametrize("text", ["kil:2", "kill", "kill:0", "kill:-1", "kill:x", "kill:9999"])
def test_wrong_weights(text: str) -> None:
    with pytest.raises(ConfigError):
        parse_weights(text, ["kill", "pause"])


def test_a_run_that_is_too_short_for_all_kinds_is_refused() -> None:
    with pytest.raises(ConfigError, match="leaves none for"):
        planned(time_limit_s=30.0)


class Other:
    """A nemesis that means something else by fault_s."""

    name = "other"
    faults: tuple[str, ...] = ()
    options = {"fault_s": Option(type=int, default=1, help="")}  # noqa: RUF012


def test_options_that_clash_are_refused() -> None:
    clashing: list[Nemesis] = [KILL, Other()]  # type: ignore[list-item]
    with pytest.raises(ConfigError, match="mean different things by -o fault_s"):
        Mix(clashing)


def test_a_run_takes_the_options_of_all() -> None:
    spec = RunSpec(nemesis="partition,kill", seed=3)
    plugins = resolve(spec, ["shape=one", "scope=all", "fault_s=5", "weights=kill:2"])
    assert {p.nemesis for p in plugins.plans} == {"partition", "kill"}
    assert {p.facts["scope"] for p in plugins.plans if p.nemesis == "kill"} == {"all"}
    assert {p.facts["shape"] for p in plugins.plans if p.nemesis == "partition"} == {"one"}
    assert {p.duration_ns for p in plugins.plans} == {5_000_000_000}


def test_naming_one_twice_is_naming_it_once() -> None:
    assert resolve(RunSpec(nemesis="partition,partition"), []).nemesis.name == "partition"
    assert resolve(RunSpec(nemesis="kill,none"), []).nemesis.name == "kill"
