"""Process faults without a cluster: whom they hit, and what counts as hit."""

from __future__ import annotations

import asyncio
import random
import subprocess
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from third_party import context

from clusters.remote.agent_exec import process_info
from dstest.core.errors import ConfigError
from dstest.core.evidence import LandingRecord, Signal
from dstest.core.protocols import Process
from nemeses.base.driver import Observed, demote, landing, with_signals
from nemeses.base.process_evidence import control, victim
from nemeses.base.process_fault import SCOPES, fitting, still_standing, victims
from nemeses.disk.power import losers
from nemeses.observe.processes import ProcessSnapshot, signal_command
from nemeses.observe.servers import probe_pairs
from nemeses.process.absence import gone_signal
from nemeses.process.kill import NEMESIS as KILL
from nemeses.process.pause import NEMESIS as PAUSE
from nemeses.process.pause import standstill
from nemeses.process.restart import as_one
from nemeses.process.slow_follower import quota
from nemeses.process.stop import NEMESIS as STOP
from nemeses.process.stop import orderly_signal

NODES = ["n1", "n2", "n3", "n4", "n5"]


def record(**facts: Any) -> LandingRecord:
    known = {
        "pids": {"n1": [100, 7]},
        "processes": {"n1": [["toy", 100, 7, True]]},
        "listening_before": {"n1": [100]},
        "scope": "one",
    }
    return LandingRecord(
        fault_id="f1",
        nemesis="kill",
        targets=["n1"],
        scheduled_at=0,
        epoch="f1",
        facts={**known, **facts},
    )


def test_scopes_hit_as_many_as_they_say() -> None:
    sizes = {"one": 1, "minority": 2, "majority": 3, "all": 5, "primaries": 1}
    for scope in SCOPES:
        hit = victims(scope, NODES, random.Random(1), leader="n4", voting=NODES)
        assert len(hit) == sizes[scope]
        assert set(hit) <= set(NODES)
    assert victims("primaries", NODES, random.Random(1), leader="n4", voting=NODES) == ["n4"]
    assert victims("one", NODES, random.Random(1), targets=["n2"], voting=NODES) == ["n2"]
    with pytest.raises(ValueError, match="no leader"):
        victims("primaries", NODES, random.Random(1), voting=NODES)


def test_majorities_are_of_those_that_vote() -> None:
    for seed in range(9):
        rng = random.Random(seed)
        assert len({*victims("majority", NODES, rng, voting=NODES[:3])} & {*NODES[:3]}) == 2
        assert len({*victims("minority", NODES, rng, voting=NODES[:3])} & {*NODES[:3]}) == 1
        hit = msgspec.structs.replace(record(lose="majority", seed=seed), targets=NODES)
        assert len({*losers(hit, NODES[2:])} & {*NODES[2:]}) == 2
    assert victims("all", NODES, random.Random(1), voting=NODES[:3]) == NODES


def test_a_guard_runs_all_commands_of_a_heal() -> None:
    assert as_one([["start", "a b"]]) == ["start", "a b"]
    told = as_one([["echo", "a b"], ["false"], ["echo", "c"]])
    assert subprocess.run(told, capture_output=True, text=True).stdout == "a b\nc\n"


def test_small_clusters_have_fewer_scopes() -> None:
    assert fitting(1) == ["one"]
    assert fitting(2) == ["one", "all", "primaries"]
    assert "minority" not in fitting(3)
    assert fitting(5) == list(SCOPES)


def test_a_node_that_is_no_target_asks() -> None:
    asked = probe_pairs(NODES, ["n1", "n2"])
    assert {("control", n) for n in NODES} <= set(asked)
    assert [w for w in asked if w[0] != "control"] == [("n3", "n1"), ("n3", "n2")]
    assert next(w for w in probe_pairs(NODES, NODES) if w[0] != "control") == ("n2", "n1")
    assert probe_pairs(["n1"], ["n1"]) == [("control", "n1")]


GROUP = "/dstest-service-toy"
SERVING = frozenset({100})
GONE = ProcessSnapshot(lost=(100,))
FROZEN = ProcessSnapshot(left=(100,), frozen=GROUP, standing=(100,), ticks=50, listening=SERVING)
STOPPED = ProcessSnapshot(left=(100,), stopped=True, standing=(100,), ticks=50, listening=SERVING)
ONE_OF_TWO = ProcessSnapshot(left=(100, 101), standing=(101,), ticks=50, listening=SERVING)
RUNS = ProcessSnapshot(left=(100,), ticks=50, listening=SERVING)
FORKED = {"processes": {"n1": [["toy", 100, 7, True], ["toy", 101, 8, False]]}}
"""A server that has forked a child."""

ORPHAN = ProcessSnapshot(left=(101,), lost=(100,))


@pytest.mark.parametrize(
    ("sight", "before", "moved"),
    [
        (GONE, [100], True),
        (RUNS, [100], False),
        (ProcessSnapshot(lost=(100,), listening=frozenset({101})), [100], False),
        (ProcessSnapshot(lost=(100,), more=(102,)), [100], False),
        (GONE, [101], False),
        (GONE, [], False),
        (GONE, [100, 101], False),
    ],
    ids=[
        "gone",
        "still there",
        "another serves",
        "another started",
        "wrapper",
        "nobody served",
        "two served",
    ],
)
def test_what_counts_as_killed(sight: ProcessSnapshot, before: list[int], moved: bool) -> None:
    signal = gone_signal(record(listening_before={"n1": before}), {"n1": (sight, sight)})
    assert signal.moved is moved


def test_a_child_that_is_left_was_not_killed() -> None:
    forked = record(**FORKED)
    assert not gone_signal(forked, {"n1": (ORPHAN, ORPHAN)}).moved
    assert gone_signal(forked, {"n1": (GONE, GONE)}).moved


@pytest.mark.parametrize(
    ("lines", "status", "orderly", "moved"),
    [
        (1, 0, [0, -15], True),
        (1, -15, [0, -15], True),
        (0, 0, [0, -15], False),
        (1, -9, [0, -15], False),
        (1, None, [0, -15], False),
        (1, 143, [0, -15], False),
        (1, 143, [0, 143], True),
    ],
    ids=["orderly", "default action", "log is silent", "killed", "nobody knows", "error", "a JVM"],
)
def test_a_stop_needs_the_log_and_the_status(
    lines: int, status: int | None, orderly: list[int], moved: bool
) -> None:
    ended = record(
        shutdown_lines={"n1": lines},
        exits={"n1": {"toy": status}},
        orderly_statuses={"toy": orderly},
    )
    assert orderly_signal(ended, {"n1": (GONE, GONE)}).moved is moved
    assert not orderly_signal(ended, {"n1": (RUNS, RUNS)}).moved


class Lingering:
    """A deployment of two servers; one of them has not ended yet."""

    def __init__(self) -> None:
        self.done: list[tuple[str, list[str]]] = []

    async def processes(self, names: Sequence[str] = ()) -> dict[str, list[Process]]:
        return {"n1": [Process("toy", 100, 7)], "n2": [Process("toy", 300, 9)]}

    async def kill(self, names: list[str], service: str) -> None:
        self.done.append(("kill", list(names)))

    async def restart(self, names: list[str]) -> None:
        self.done.append(("restart", list(names)))


def test_what_a_stop_has_not_ended_is_killed_before_it_is_started_again() -> None:
    """It would end when nobody looks any more, and the node would be left without a server."""
    deployment = Lingering()
    hit = msgspec.structs.replace(
        record(processes={"n1": [["toy", 100, 7, True]], "n2": [["toy", 200, 8, True]]}),
        targets=["n1", "n2"],
    )
    asyncio.run(STOP.revert(context(deployment, nodes={"n1": None, "n2": None}), hit))
    assert deployment.done == [("kill", ["n1"]), ("restart", ["n1", "n2"])]


def test_a_lease_kills_what_a_stop_has_not_ended() -> None:
    server = subprocess.Popen(["sh", "-c", "trap '' TERM; while :; do sleep 0.05; done"])
    start = process_info(server.pid)["start_time"]
    restart = SimpleNamespace(restart_command=lambda name: ["echo", name])
    ctx = context(restart)

    def run(start_time: int) -> None:
        hit = record(processes={"n1": [["toy", server.pid, start_time, True]]})
        for argv in STOP.heal_commands(ctx, hit, "n1"):
            subprocess.run(argv, check=True, stdout=subprocess.DEVNULL)

    try:
        run(start + 1)
        assert server.poll() is None
        run(start)
        assert server.wait(60) == -9
    finally:
        server.kill()
        server.wait()


@pytest.mark.parametrize(
    ("first", "second", "moved"),
    [
        (STOPPED, STOPPED, True),
        (RUNS, STOPPED, False),
        (STOPPED, RUNS, False),
        (STOPPED, msgspec.structs.replace(STOPPED, ticks=51), False),
        (STOPPED, GONE, False),
    ],
    ids=["stands", "stopped late", "goes on", "used CPU", "gone"],
)
def test_what_counts_as_paused(
    first: ProcessSnapshot, second: ProcessSnapshot, moved: bool
) -> None:
    assert standstill(record(), {"n1": (first, second)}).moved is moved


@pytest.mark.parametrize(
    ("first", "second", "moved"),
    [
        (FROZEN, FROZEN, True),
        (RUNS, FROZEN, False),
        (FROZEN, RUNS, False),
        (STOPPED, STOPPED, False),
        (FROZEN, msgspec.structs.replace(FROZEN, ticks=51), False),
        (FROZEN, msgspec.structs.replace(FROZEN, frozen="/another"), False),
        (FROZEN, GONE, False),
    ],
    ids=["stands", "frozen late", "goes on", "by a signal", "used CPU", "another's group", "gone"],
)
def test_what_counts_as_frozen(
    first: ProcessSnapshot, second: ProcessSnapshot, moved: bool
) -> None:
    asked = record(way="freezer", freezers={"n1": [f"/sys/fs/cgroup/freezer{GROUP}"]})
    assert standstill(asked, {"n1": (first, second)}).moved is moved
    assert not standstill(record(), {"n1": (FROZEN, FROZEN)}).moved


def test_what_is_healed_runs_and_serves_as_the_same_processes() -> None:
    now = [Process("toy", 100, 7)]
    for stands in (FROZEN, STOPPED, ONE_OF_TWO):
        assert still_standing(stands) is not None
        assert not stands.whole
    assert still_standing(ONE_OF_TWO) == "process 101 still stands, stopped or frozen"
    assert still_standing(RUNS) is None
    assert (
        PAUSE.process_problem(record(), "n1", [Process("toy", 100, 8)], RUNS)
        == "its server is gone"
    )
    silent = msgspec.structs.replace(RUNS, listening=frozenset())
    assert PAUSE.process_problem(record(), "n1", now, silent) == "processes 100 do not serve"
    assert PAUSE.process_problem(record(), "n1", now, RUNS) is None
    assert KILL.process_problem(record(), "n1", now, RUNS) is not None
    assert KILL.process_problem(record(), "n1", [Process("toy", 100, 8)], RUNS) is None


def test_a_signal_reaches_each_process_that_is_the_one_it_was() -> None:
    sleepers = [subprocess.Popen(["sleep", "60"]) for _ in range(3)]
    rows = [Process("toy", p.pid, process_info(p.pid)["start_time"]) for p in sleepers]
    rows[1] = msgspec.structs.replace(rows[1], start_time=rows[1].start_time + 1)
    try:
        subprocess.run(signal_command(rows, "KILL"), check=True, timeout=10)
        assert [sleepers[0].wait(60), sleepers[1].poll(), sleepers[2].wait(60)] == [-9, None, -9]
    finally:
        for sleeper in sleepers:
            sleeper.kill()
            sleeper.wait()


def decided(given: LandingRecord, injector: Signal, victim: Signal, control: Signal) -> str:
    return landing(with_signals(given, Observed(injector=injector, victim=victim, control=control)))


def test_landed_needs_both_sides_and_untouched_others() -> None:
    yes, no = Signal(signal="s", during={"n1": 1}, moved=True), Signal(signal="s")
    assert decided(record(), yes, yes, no) == "yes"
    assert decided(record(), yes, no, no) == "ambiguous"
    assert decided(record(), no, yes, no) == "ambiguous"
    assert decided(record(), no, no, no) == "no"
    assert decided(record(), yes, yes, yes) == "ambiguous"
    assert decided(record(ended_early=True), yes, yes, no) == "ambiguous"


@pytest.mark.parametrize(
    ("before", "asked", "moved"),
    [
        ({"control->n1": 1, "n2->n1": 1}, {"control->n1": 0, "n2->n1": 0}, True),
        ({"control->n1": 1, "n2->n1": 0}, {"control->n1": 0, "n2->n1": 0}, True),
        ({"control->n1": 0, "n2->n1": 0}, {"control->n1": 0, "n2->n1": 0}, False),
        ({"control->n1": 1, "n2->n1": 1}, {"control->n1": 0, "n2->n1": 1}, False),
    ],
    ids=["all fall silent", "one way was cut before", "no way was open before", "still answers"],
)
def test_who_is_silent_must_have_answered_somebody(
    before: dict[str, int], asked: dict[str, int], moved: bool
) -> None:
    signal = victim(record(asked_before=before), asked, {"n1": 3}, [])
    assert signal.moved is moved, signal.detail


def test_bystanders_that_answered_must_go_on() -> None:
    asked = {"control->n2": 0, "control->n3": 1}
    hit = record(asked_before={"control->n2": 1, "control->n3": 1})
    assert control(hit, asked, {}).moved
    answers = {"control->n2": 1, "control->n3": 1}
    assert not control(hit, answers, {"n2": (RUNS, RUNS)}).moved
    assert control(hit, answers, {"n2": (RUNS, FROZEN)}).moved
    cut_before = record(asked_before={"control->n2": 0, "control->n3": 1})
    assert not control(cut_before, asked, {}).moved


def test_what_ended_early_never_lands_again() -> None:
    was = msgspec.structs.replace(record(), landed="yes", landed_at=5)
    ended = demote(was, "gone")
    assert ended.landed == "ambiguous"
    assert ended.facts["ended_early"]
    assert demote(ended, "gone").notes == ["gone"]
    never = demote(record(), "gone")
    assert never.landed == "no"


@pytest.mark.parametrize(
    ("percent", "quota_us", "period_us"),
    [
        (200.0, 200_000, 100_000),
        (2.0, 2_000, 100_000),
        (1.0, 1_000, 100_000),
        (0.5, 1_000, 200_000),
        (0.1, 1_000, 1_000_000),
        (0.0, 1_000, 1_000_000),
    ],
)
def test_small_shares_of_a_processor(percent: float, quota_us: int, period_us: int) -> None:
    assert quota(percent) == (quota_us, period_us)


def test_plans() -> None:
    options = {key: option.default for key, option in KILL.options.items()}
    plans = KILL.plan(random.Random(1), NODES, 100.0, options)
    assert {plan.facts["scope"] for plan in plans[:5]} == set(SCOPES)
    given = KILL.plan(random.Random(1), NODES, 100.0, {**options, "targets": "n2, n3"})
    assert {tuple(plan.facts["targets"]) for plan in given} == {("n2", "n3")}
    with pytest.raises(ConfigError):
        KILL.plan(random.Random(1), NODES, 5.0, options)
