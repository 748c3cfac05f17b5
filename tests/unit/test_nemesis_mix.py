"""Several nemeses in one run: shared windows, weighted kinds, options given once."""

from __future__ import annotations

import asyncio
import itertools
import random
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import pytest

from dstest.core.errors import ConfigError
from dstest.core.evidence import LandingRecord
from dstest.core.protocols import FaultPlan, Nemesis, NemesisContext, Option
from dstest.core.run_record import RunSpec
from dstest.runner.plugins import resolve
from nemeses.base.schedule import WINDOW_OPTIONS, windows
from nemeses.base.schedule import planned as planned_windows
from nemeses.mix import Mix, parse_weights
from nemeses.network.partition import NEMESIS as PARTITION
from nemeses.process.kill import NEMESIS as KILL
from nemeses.process.pause import NEMESIS as PAUSE

NODES = ["n1", "n2", "n3", "n4", "n5"]
OVERLAPS = {member.name: member.overlap for member in (PARTITION, KILL, PAUSE)}


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
        lanes = [OVERLAPS[p.nemesis].lane for p in window]
        turns = [OVERLAPS[p.nemesis].inject_order for p in window]
        assert len(set(lanes)) == len(lanes)
        assert turns == sorted(turns)
        assert len({p.duration_ns for p in window}) == 1
        assert all((p.heal_rank == 0) == (OVERLAPS[p.nemesis].lane == "network") for p in window)
    for earlier, later in itertools.pairwise(windows):
        assert earlier[0].start_ns + earlier[0].duration_ns < later[0].start_ns


def test_a_fault_for_the_leader_does_not_follow_one_that_may_leave_none() -> None:
    plans = planned(time_limit_s=4000.0, at_once=2)
    for _, group in itertools.groupby(plans, key=lambda p: p.start_ns):
        window = list(group)
        if any(p.facts["scope"] == "primaries" for p in window if p.nemesis != "partition"):
            assert "partition" not in [p.nemesis for p in window]
    assert any(p.facts.get("scope") == "primaries" for p in plans)


def test_every_kind_comes_in_a_storm_too() -> None:
    """Who is left out so that a fault for the leader finds one is never the kind that was drawn."""
    for seed in range(200):
        plans = planned(seed, time_limit_s=37.0, at_once=2)
        assert {p.nemesis for p in plans} == {"partition", "kill", "pause"}


@pytest.mark.parametrize("text", ["kil:2", "kill", "kill:0", "kill:-1", "kill:x", "kill:9999"])
def test_wrong_weights(text: str) -> None:
    with pytest.raises(ConfigError):
        parse_weights(text, ["kill", "pause"])


def test_a_run_that_is_too_short_for_all_kinds_is_refused() -> None:
    for limit_s, room in (
        (30.0, "2 faults, which leaves none for"),
        (20.0, "1 fault, which leaves"),
    ):
        with pytest.raises(ConfigError, match=f"has room for {room}") as caught:
            planned(time_limit_s=limit_s)
        assert (caught.value.remedy or "").startswith("--time-limit 37 or more")


def test_the_time_that_a_remedy_names_does_for_the_smoke_budget() -> None:
    """A fault fits into 17 s, of which no run could be more than PARTIAL."""
    with pytest.raises(ConfigError) as caught:
        windows("kill", 15.0, 6.0, 4.0)
    assert (caught.value.remedy or "").startswith("--time-limit 25 or more")
    with pytest.raises(ConfigError) as caught:
        windows("kill", 15.0, 60.0, 4.0)
    assert (caught.value.remedy or "").startswith("--time-limit 71 or more")


class Other(Nemesis):
    """A nemesis that means something else by `scope` and `weights`; it keeps what it was told."""

    name = "other"
    faults: tuple[str, ...] = ()
    requires: tuple[type, ...] = ()
    options = {
        "scope": Option(type=int, default=1, help=""),
        "weights": Option(type=float, default=0.5, help=""),
        **WINDOW_OPTIONS,
    }

    def __init__(self) -> None:
        self.told: list[tuple[Any, Any]] = []

    def plan(
        self,
        rng: random.Random,
        nodes: Sequence[str],
        time_limit_s: float,
        options: Mapping[str, Any],
    ) -> list[FaultPlan]:
        self.told.append((options["scope"], options["weights"]))
        return planned_windows(self.name, time_limit_s, options, dict)

    async def _tell(self, ctx: NemesisContext, *rest: Any) -> Any:
        """Every later call of a nemesis."""
        self.told.append((ctx.options["scope"], ctx.options["weights"]))
        return {}

    told_of: Any = _tell
    setup = inject = recheck = heal = teardown = audit = told_of


def test_what_two_mean_differently_is_given_to_each_of_them() -> None:
    mix = Mix([PARTITION, KILL, Other()])
    assert {"kill.scope", "other.scope", "other.weights", "weights", "fault_s"} <= set(mix.options)
    assert "scope" not in mix.options
    assert "kill.fault_s" not in mix.options
    assert mix.options["other.scope"].type is int
    assert "scope" in Mix([PARTITION, KILL, PAUSE]).options


def test_each_sees_its_own_value_in_every_call() -> None:
    other = Other()
    mix = Mix([KILL, other])
    values = {key: option.default for key, option in mix.options.items()}
    values |= {"other.scope": 7, "kill.scope": "one", "other.weights": 0.25}
    plans = mix.plan(random.Random(1), NODES, 60.0, values)
    assert {p.facts["scope"] for p in plans if p.nemesis == "kill"} == {"one"}
    nothing: Any = None
    ctx = NemesisContext(
        nodes={}, lab=nothing, deployment=nothing, clock=nothing, traffic=nothing,
        epochs=nothing, options=values,
    )  # fmt: skip
    plan = next(p for p in plans if p.nemesis == "other")
    record = LandingRecord(fault_id="f1", nemesis="other", targets=[], scheduled_at=0, epoch="f1")

    async def rest() -> None:
        await mix.inject(ctx, plan)
        await mix.recheck(ctx, record)
        await mix.heal(ctx, record)
        alone = Mix([other])
        told = msgspec.structs.replace(ctx, options={"scope": 7, "other.weights": 0.25})
        await alone.setup(told)
        await alone.teardown(told)
        await alone.audit(told)

    asyncio.run(rest())
    assert other.told == [(7, 0.25)] * 7


def test_a_plain_key_with_two_meanings_names_the_keys_to_use() -> None:
    spec = RunSpec(nemesis="kill,membership", seed=3)
    with pytest.raises(ConfigError, match="kill and membership mean different things") as caught:
        resolve(spec, ["scope=one"])
    assert "-o kill.scope=one and -o membership.scope=one" in str(caught.value.remedy)
    plugins = resolve(spec, ["kill.scope=all", "membership.scope=primaries", "fault_s=5"])
    scopes = {(p.nemesis, p.facts["scope"]) for p in plugins.plans}
    assert scopes == {("kill", "all"), ("membership", "primaries")}
    with pytest.raises(ConfigError, match="no such option"):
        resolve(RunSpec(nemesis="kill,pause"), ["kill.scope=one"])
    with pytest.raises(ConfigError, match="not allowed"):
        resolve(spec, ["membership.scope=all"])


class Long(Other):
    """It means something else by fault_s, and comes in other windows."""

    name = "long"
    options = {
        **WINDOW_OPTIONS, "fault_s": Option(type=float, default=9.0, help="")
    }  # fmt: skip

    def plan(
        self,
        rng: random.Random,
        nodes: Sequence[str],
        time_limit_s: float,
        options: Mapping[str, Any],
    ) -> list[FaultPlan]:
        return planned_windows(self.name, time_limit_s, options, dict)


def test_those_that_come_in_other_windows_are_refused() -> None:
    mix = Mix([KILL, Long()])
    values = {key: option.default for key, option in mix.options.items()}
    assert values["long.fault_s"] == 9.0
    with pytest.raises(ConfigError, match="long not in the windows of kill"):
        mix.plan(random.Random(1), NODES, 60.0, values)
    values["long.fault_s"] = values["kill.fault_s"]
    assert mix.plan(random.Random(1), NODES, 60.0, values)
    with pytest.raises(ConfigError, match="takes with the nodes"):
        resolve(RunSpec(nemesis="kill,restart"), [])


def test_all_that_reaches_into_the_system_goes_with_all_else() -> None:
    names = ["partition", "kill", "compaction", "membership", "config", "slow-follower", "backup"]
    names += ["bit-flip", "slow-disk", "latency"]
    spec = RunSpec(nemesis=",".join(names), seed=3, time_limit_s=200.0)
    plugins = resolve(spec, ["at_once=2", "latency.delay_ms=150", "slow-disk.delay_ms=90"])
    assert {p.nemesis for p in plugins.plans} == set(names)
    delays = {(p.nemesis, p.facts["delay_ms"]) for p in plugins.plans if "delay_ms" in p.facts}
    assert delays == {("latency", 150.0), ("slow-disk", 90)}


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
