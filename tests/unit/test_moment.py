"""A fault of any nemesis that waits for its moment: what is asked for, what came, what was late."""

from __future__ import annotations

import asyncio
import json
import random
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from dstest.core import clock
from dstest.core.errors import ConfigError, LabError
from dstest.core.evidence import LandingRecord, Signal
from dstest.core.protocols import FaultPlan, NemesisContext
from dstest.core.run_record import RunSpec
from dstest.runner.plugins import resolve, schedule_of
from nemeses.base import moment
from nemeses.base.driver import Observed, with_signals
from nemeses.base.moment import Arrival, Moment, MomentSpec, Source
from nemeses.network.partition import NEMESIS as PARTITION
from nemeses.none import NEMESIS as NONE
from nemeses.process.aimed import NEMESIS as AIMED
from nemeses.process.kill import NEMESIS as KILL
from nemeses.tools import agent_log, aim


def values(at: str, **more: Any) -> dict[str, Any]:
    return {**{key: option.default for key, option in moment.OPTIONS.items()}, "at": at, **more}


@pytest.mark.parametrize(
    ("at", "hit"),
    [("function:a", 1), ("syscall:fsync:*.wal:3", 3), ("log:became leader", 1), ("a > b", 1)],
)
def test_what_can_be_waited_for(at: str, hit: int) -> None:
    wanted = moment.spec_of(values(at))
    assert (wanted.at, wanted.hit) == (at, hit)
    assert moment.spec_of(values(at, hit=7)).hit == 7


@pytest.mark.parametrize("at", ["any:a*", "log:", "log:(", "packet:00", "syscall:nonesuch"])
def test_what_cannot(at: str) -> None:
    with pytest.raises(ConfigError):
        moment.spec_of(values(at))


def test_options_are_those_of_the_nemesis_that_is_to_wait() -> None:
    parts: Any = [PARTITION, KILL]
    assert moment.options_of(parts, ["fault_s=4"]) == {}
    found = moment.options_of(parts, ["partition.at=function:a"])
    assert set(found) == {f"partition.{key}" for key in moment.OPTIONS}
    for unfit in (AIMED, NONE):
        with pytest.raises(ConfigError, match="waits for no moment"):
            moment.options_of([unfit], [f"{unfit.name}.at=function:a"])


def test_only_faults_of_that_nemesis_wait() -> None:
    plans = [
        FaultPlan(fault_id=f"f{i}", nemesis=name, start_ns=i, duration_ns=9)
        for i, name in enumerate(("kill", "partition"))
    ]
    options = {f"partition.{key}": value for key, value in values("function:a").items()}
    kill, partition = moment.with_moments(plans, [PARTITION, KILL], options)
    assert "moment" not in kill.facts and partition.facts["moment"]["at"] == "function:a"
    ctx: Any = None
    assert moment.moment_of(ctx, kill) is None
    assert moment.moment_of(ctx, partition) is not None


class Node:
    """Keeps its leases, and may be gone."""

    def __init__(self, name: str = "n1") -> None:
        self.name = name
        self.leases: list[str] = []

    async def arm_lease(self, lease: str, commands: Any, *, ttl_s: float) -> None:
        self.leases.append(lease)

    async def release_lease(self, lease: str) -> None:
        self.leases.remove(lease)


class Told(Source):
    """Says what it is told to, one look after the other."""

    def __init__(
        self, *looks: Arrival, why: str = "", held: bool = True, others_s: float = 0.0
    ) -> None:
        self.names: Sequence[str] = ["n1"]
        self.held, self.why, self.looks, self.released = held, why, [*looks], 0
        self.armed_ns: dict[str, int] = {}
        self.others_s = others_s

    async def arm(self) -> str:
        """Of other members it takes longer."""
        self.armed_ns["n1"] = clock.monotonic_ns()
        await asyncio.sleep(self.others_s)
        return self.why

    async def look(self) -> Arrival:
        return self.looks.pop(0) if len(self.looks) > 1 else self.looks[0]

    async def release(self) -> None:
        self.released += 1


CAME = Arrival(name="n1", pid=7, tid=9, hits={"n1": 1})
RECORD = LandingRecord(fault_id="f1", nemesis="kill", targets=["n1"], scheduled_at=0, epoch="f1")


def waited(
    monkeypatch: pytest.MonkeyPatch, source: Told, *, applied_s: float = 0.0, **more: Any
) -> tuple[LandingRecord, str, Node]:
    """(The record, why it was late, the node) of a fault that waited for `source`."""
    node = Node()
    monkeypatch.setattr(moment, "_Point", lambda *_: source)
    ctx: Any = SimpleNamespace(nodes={"n1": node}, node=lambda _: node)
    one = Moment(ctx, MomentSpec(**{"at": "function:a", "reach_s": 0.1, **more}))

    async def go() -> tuple[LandingRecord, str]:
        record = await one.wait(RECORD)
        if record.notes:
            return record, ""
        assert node.leases == ["f1-at"] and not source.released
        await asyncio.sleep(applied_s)
        return await one.let_go(record)

    record, late = asyncio.run(go())
    assert node.leases == [] and source.released == 1
    return record, late, node


def test_it_came_and_the_thread_stood_until_the_fault_had_begun(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    record, late, _ = waited(monkeypatch, Told(Arrival(hits={"n1": 0}), CAME))
    assert late == ""
    found = record.facts["moment"]
    assert found["held"] and found["begun_within_ms"] < 1000 and found["name"] == "n1"
    assert "thread 9 of process 7 came to function:a" in moment.sentence(found)


def test_a_fault_that_begins_when_the_thread_has_gone_on_is_late(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    record, late, _ = waited(monkeypatch, Told(CAME), applied_s=0.2, hold_ms=50.0)
    assert "stood for 50 ms" in late and not record.facts["moment"]["held"]


def test_a_member_that_came_before_the_others_were_armed_is_late(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    record, late, _ = waited(monkeypatch, Told(CAME, others_s=0.2), hold_ms=100.0)
    assert "stood for 100 ms, and the fault had begun" in late
    assert record.facts["moment"]["begun_within_ms"] >= 200


@pytest.mark.parametrize(
    "change",
    [{"hit": -1}, {"hit": 0}, {"reach_s": 1e9}, {"hold_ms": -5}, {"on": "nobody"}, {"more": 1},
     {"at": "log:()"}, {"at": "log:x*"}],
)  # fmt: skip
def test_a_schedule_says_no_moment_that_options_could_not(change: dict[str, Any]) -> None:
    facts = {"moment": {"at": "function:a", **change}}
    plan = FaultPlan(fault_id="f1", nemesis="kill", start_ns=0, duration_ns=1, facts=facts)
    with pytest.raises(ConfigError):
        moment.spec_in(plan)


def test_what_was_being_armed_when_another_member_failed_is_let_go(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    traced: set[str] = set()

    async def nothing(*_: Any) -> Any:
        return SimpleNamespace()

    async def start(node: Any, _: str) -> None:
        if node.name == "n1":
            raise LabError("n1: the program is not traced")
        await asyncio.sleep(0.05)
        traced.add(node.name)

    async def stop(node: Any) -> None:
        traced.discard(node.name)

    async def served(_: Any) -> Any:
        return {name: [SimpleNamespace(pid=7)] for name in nodes}

    for name, fake in {"install": nothing, "sight": nothing, "start": start, "stop": stop}.items():
        monkeypatch.setattr(aim, name, fake)
    monkeypatch.setattr(aim, "spec_of", lambda *_, **__: "")
    monkeypatch.setattr(moment, "running", served)
    nodes = {name: Node(name) for name in ("n1", "n2")}
    ctx: Any = SimpleNamespace(nodes=nodes, node=nodes.__getitem__)

    async def go() -> LandingRecord:
        record = await Moment(ctx, MomentSpec(at="function:a", on="all")).wait(RECORD)
        await asyncio.sleep(0.1)
        return record

    assert asyncio.run(go()).notes == ["nothing was injected: n1: the program is not traced"]
    assert traced == set()


def test_of_what_is_not_held_it_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    record, late, _ = waited(monkeypatch, Told(CAME, held=False), applied_s=0.1, hold_ms=1.0)
    assert late == "" and "which nothing held" in moment.sentence(record.facts["moment"])


@pytest.mark.parametrize(
    ("source", "why"),
    [
        (Told(Arrival(hits={"n1": 0})), "function:a: never reached in 0.1 s on n1"),
        (Told(Arrival(hits={"n1": 2})), "function:a: 2 of 1 hits in 0.1 s on n1"),
        (Told(CAME, why="n1: /x has 3 functions, and none is a"), "none is a"),
    ],
)
def test_nothing_is_injected_where_it_did_not_come(
    monkeypatch: pytest.MonkeyPatch, source: Told, why: str
) -> None:
    record, _, _ = waited(monkeypatch, source)
    (note,) = record.notes
    assert note.startswith("nothing was injected: ") and why in note
    assert record.landed == "no" and record.injected_at is None


def test_the_injector_tells_of_the_moment() -> None:
    signal = Signal(signal="packets", detail="9 dropped", moved=True)
    seen = Observed(injector=signal, victim=signal, control=signal)
    plain = with_signals(RECORD, seen)
    assert plain.injector == signal
    told = {**msgspec.to_builtins(MomentSpec(at="function:a")), **msgspec.to_builtins(CAME)}
    record = msgspec.structs.replace(RECORD, facts={"moment": told})
    found = with_signals(record, seen).injector
    assert found is not None and found.detail.startswith("9 dropped; at its moment: n1: thread 9")


def test_a_schedule_keeps_what_is_waited_for() -> None:
    plans = PARTITION.plan(random.Random(1), ["n1", "n2", "n3"], 30.0, _partition_options())
    options = {f"partition.{key}": value for key, value in values("function:a").items()}
    kept = moment.with_moments(plans, [PARTITION], options)
    assert json.loads(msgspec.json.encode(kept))[0]["facts"]["moment"]["at"] == "function:a"
    assert set(options) == moment.keys([PARTITION])


def _partition_options() -> dict[str, Any]:
    return {key: option.default for key, option in PARTITION.options.items()}


def _written(path: Path, *lines: str) -> threading.Thread:
    def write() -> None:
        time.sleep(0.3)
        for line in lines:
            with path.open("a") as file:
                file.write(line)
                file.flush()
            time.sleep(0.02)

    thread = threading.Thread(target=write)
    thread.start()
    return thread


def follow(path: Path, number: int, pattern: str, seconds: float = 5.0) -> str:
    words = [
        sys.executable,
        agent_log.__file__,
        __file__,
        str(seconds),
        str(number),
        pattern,
        str(path),
    ]
    return str(json.loads(subprocess.check_output(words, timeout=20)))


def test_a_line_counts_from_now_on_and_as_a_whole(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_text("became leader 1\n")
    thread = _written(path, "became ", "leader 2\n", "other\n", "became leader 3\n")
    assert agent_log.wait(__file__, 5.0, 2, "became leader", [str(path)]) == "became leader 3"
    thread.join()


def test_a_line_that_does_not_come(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_text("became leader\n")
    assert follow(path, 1, "became leader", 0.2) == ""
    assert follow(tmp_path / "nonesuch", 1, ".", 0.1) == ""


def test_nobody_waits_without_a_guard(tmp_path: Path) -> None:
    began = time.monotonic()
    assert agent_log.wait(str(tmp_path / "nonesuch"), 9.0, 1, ".", [str(tmp_path / "log")]) == ""
    assert time.monotonic() - began < 2


def test_a_log_that_is_replaced_is_read_from_its_beginning(tmp_path: Path) -> None:
    path, other = tmp_path / "log", tmp_path / "new"
    path.write_text("x" * 99 + "\n")

    def replace() -> None:
        time.sleep(0.3)
        other.write_text("became leader\n")
        other.rename(path)

    thread = threading.Thread(target=replace)
    thread.start()
    assert agent_log.wait(__file__, 5.0, 1, "became", [str(path)]) == "became leader"
    thread.join()


def spec(**more: Any) -> RunSpec:
    given = {"system": "etcd", "workload": "register", "nemesis": "kill", "time_limit_s": 30.0}
    return RunSpec(**{**given, "seed": 1, **more})


ASKED = ["kill.at=function:mvcc.(*store).Read", "kill.hold_ms=50"]


def test_a_run_plans_its_moments_and_can_be_made_again_by_its_schedule() -> None:
    plugins = resolve(spec(), ASKED)
    wanted = [plan.facts["moment"] for plan in plugins.plans]
    assert wanted and all(w["at"].endswith("Read") and w["hold_ms"] == 50.0 for w in wanted)
    kept = schedule_of(plugins)
    again = resolve(spec(), [], schedule=kept)
    assert again.plans == plugins.plans
    plain = resolve(spec(), [])
    assert not any("moment" in plan.facts for plan in plain.plans)
    assert not any(key.startswith("kill.") for key in plain.spec.options)


@pytest.mark.parametrize(
    ("more", "pairs", "why"),
    [
        ({}, ["partition.at=function:a"], "no such option"),
        ({}, ["kill.at=any:a*"], "of aimed alone"),
        ({}, ["kill.at=function:a", "kill.on=nobody"], "kill.on"),
        ({"system": "toykv", "lab": "sim"}, ["kill.at=function:a"], "simulated"),
    ],
)
def test_what_is_refused_before_there_is_a_node(
    more: dict[str, Any], pairs: list[str], why: str
) -> None:
    with pytest.raises(ConfigError, match=why):
        resolve(spec(**more), pairs)


class Own(type(KILL)):  # type: ignore[misc]
    """Injects by itself."""

    async def inject(self, ctx: NemesisContext, plan: FaultPlan) -> LandingRecord:
        raise NotImplementedError


def test_a_nemesis_that_would_not_wait_is_refused() -> None:
    with pytest.raises(ConfigError, match="inject\\(\\) of its own"):
        resolve(spec(), ASKED, nemesis=Own())
