"""Samples of a cluster that runs, held to the invariants of its specification."""

from __future__ import annotations

import asyncio
from typing import Any

import textbook

from dstest.sim.world import Host, World
from dstest.spec.explore import explore, walk
from dstest.spec.live import Broken, Monitor
from dstest.spec.model import model_of, vacuous


def monitor(found: list[Broken]) -> Monitor:
    ticks = iter(range(10**9))
    return Monitor(model_of(textbook.PetersonByName()), lambda: next(ticks), found.append)


def test_a_violation_counts_within_one_sample() -> None:
    found = list[Broken]()
    watching = monitor(found)
    assert list(watching.metrics())[-1].startswith("# TYPE")  # no gauge before the first sample
    watching.sample(textbook.Two(("idle", "inside"), (False, True), 0))
    assert [watching.healthy, watching.counts["PE1"].passed, found] == [True, 1, []]
    watching.sample(textbook.Two(("inside", "inside"), (True, True), 0))
    assert [watching.healthy, watching.counts["PE1"].failed] == [False, 1]
    assert [one.id for one in found] == ["PE1"]
    watching.sample(textbook.Two(("idle", "idle"), (False, False), 0))
    assert watching.healthy is True
    assert list(watching.metrics()) == [
        "# TYPE dstest_invariant_checks_total counter",
        'dstest_invariant_checks_total{id="PE1",result="passed"} 2',
        'dstest_invariant_checks_total{id="PE1",result="failed"} 1',
        "# TYPE dstest_invariants_healthy gauge",
        "dstest_invariants_healthy 1",
    ]


def test_a_sample_that_cannot_be_judged_is_none_that_passes() -> None:
    found = list[Broken]()
    watching = monitor(found)
    watching.sample(None)
    assert watching.healthy is False
    assert "has no attribute 'pc'" in (found[0].error or "")


def test_the_same_function_in_all_layers() -> None:
    """Explored, walked, and sampled: each layer executes it, and says how often."""
    model = model_of(textbook.PetersonByName())
    watching = Monitor(model, lambda: 0, lambda _: None)
    watching.sample(model.initial[0])
    layers = {
        "explore": explore(model).counts,
        "simulate": walk(model, seed=1, walks=5).counts,
        "live": watching.counts,
    }
    for name, counts in layers.items():
        assert counts["PE1"].passed, name
        assert vacuous(counts) == [], name
    (one,) = [i for i in model.invariants if i.id == "PE1"]
    assert one.source is textbook.Peterson.exclusion


def test_a_cluster_of_which_one_goes_wrong() -> None:
    """Two servers that take turns, in a simulation, until one of them no longer asks."""
    inside = {"a": False, "b": False}
    found = list[Broken]()
    watching = Monitor(model_of(textbook.PetersonByName()), lambda: 0, found.append)

    async def server(world: World, host: Host) -> None:
        other = "b" if host.name == "a" else "a"
        while True:
            await asyncio.sleep(host.numbers.uniform(0.1, 0.3))
            if inside[other] and world.loop.time() < 20:
                continue
            inside[host.name] = True
            await asyncio.sleep(host.numbers.uniform(0.1, 0.3))
            inside[host.name] = False

    async def watch(world: World) -> Any:
        times = {"before": 0, "after": 0}
        while world.loop.time() < 40:
            state = textbook.Two(
                tuple("inside" if inside[n] else "idle" for n in ("a", "b")),  # type: ignore[arg-type]
                (True, True),
                0,
            )
            broken = watching.sample(state)
            times["before" if world.loop.time() < 20 else "after"] += len(broken)
            await asyncio.sleep(0.05)
        return times

    made = World(1, ["a", "b"], server)
    for name in made.hosts:
        made.start(name)
    times = made.run(watch(made))
    made.close()
    assert times["before"] == 0
    assert times["after"] > 10
    assert watching.counts["PE1"].failed == times["after"] == len(found)
