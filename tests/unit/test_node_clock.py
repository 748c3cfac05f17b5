"""The clock of a whole node: what proves a step and a pace, and whose clock is never set."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import msgspec
import pytest
from third_party import context

from dstest.core import registry
from dstest.core.errors import ConfigError, FaultRefused, LabError
from dstest.core.evidence import LandingRecord
from dstest.core.protocols import Timing
from dstest.runner import host
from dstest.runner.host import NodeClock
from dstest.runner.requirements import check_lab
from nemeses.clock.clock_steer import NEMESIS as STEER
from nemeses.clock.clock_step import NEMESIS as STEP
from nemeses.tools import agent_node_clock, node_clock
from nemeses.tools.node_clock import Reading

S = 1_000_000_000
BEFORE = Reading(boot="b", real_ns=1000 * S, raw_ns=10 * S, tick=10_000, freq=0)


def wrong(ahead_s: float, after_s: float = 1.0, **changed: Any) -> Reading:
    raw_ns = BEFORE.raw_ns + round(after_s * S)
    now = msgspec.structs.replace(
        BEFORE,
        raw_ns=raw_ns,
        real_ns=raw_ns + BEFORE.distance_ns + round(ahead_s * S),
        true_ns=BEFORE.distance_ns,
    )
    return msgspec.structs.replace(now, **changed)


def record(nemesis: str, **facts: Any) -> LandingRecord:
    return LandingRecord(
        fault_id="f1",
        nemesis=nemesis,
        scheduled_at=0,
        epoch="f1",
        targets=["n1"],
        landed="no",
        heal_verified=False,
        facts={"clock_before": {"n1": msgspec.to_builtins(BEFORE)}, **facts},
    )


@pytest.mark.parametrize(
    ("now", "why"),
    [
        (wrong(30.0), None),
        (wrong(30.0, after_s=500.0), None),
        (wrong(29.0), "moved by +29.000 s, +30 s asked for"),
        (wrong(0.0), "moved by +0.000 s"),
        (wrong(30.0, boot="c"), "has booted anew"),
        (wrong(30.0, true_ns=None), "was set right meanwhile"),
    ],
)
def test_a_step_is_seen_against_the_raw_clock(now: Reading, why: str | None) -> None:
    signal = STEP._injector(record("clock-step", skew_s=30.0, rate=1.0), {"n1": now})
    assert signal.moved is (why is None)
    assert (why or "") in signal.detail


@pytest.mark.parametrize(
    ("ahead_s", "why"), [(1.0, None), (0.9, "moved by +0.900 s since then"), (0.0, "+0.000 s")]
)
def test_a_pace_is_seen_against_the_raw_clock(ahead_s: float, why: str | None) -> None:
    applied = msgspec.to_builtins(wrong(0.0, after_s=0.0))
    steered = record("clock-steer", skew_s=0.0, rate=1.1, clock_applied={"n1": applied})
    signal = STEER._injector(steered, {"n1": wrong(ahead_s, after_s=10.0)})
    assert signal.moved is (why is None)
    assert (why or "") in signal.detail


class Node:
    """Says which kernel it has."""

    def __init__(self, name: str, boot: str) -> None:
        self.name, self.boot = name, boot

    async def call(self, verb: str, **_: Any) -> Any:
        return {"boot_id": self.boot}

    async def put(self, *_: Any, **__: Any) -> None:
        return


@pytest.mark.parametrize(
    ("boots", "whose"),
    [(("ours", "b"), "n1 is that of this machine"), (("b", "b"), "n1 is that of n2"), (None, None)],
)
def test_a_clock_that_is_not_the_nodes_alone_is_never_set(
    boots: tuple[str, str] | None, whose: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(node_clock, "control_boot_id", lambda: "ours")
    first, second = boots or ("a", "b")
    nodes = {"n1": Node("n1", first), "n2": Node("n2", second)}
    ctx: Any = context(SimpleNamespace(timing=Timing()), nodes=nodes, node=nodes.__getitem__)
    if whose is None:
        asyncio.run(STEP.ready(ctx))
        return
    with pytest.raises(FaultRefused, match=whose):
        asyncio.run(STEP.ready(ctx))


def test_it_is_undone_where_our_own_clock_moves_with_it(monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[str] = []

    async def right(_: Any, names: Any) -> None:
        done.extend(names)

    async def stepped(*_: Any) -> Reading:
        return wrong(30.0)

    nemesis = type(STEP)()
    monkeypatch.setattr(nemesis, "_right", lambda ctx, names: right(ctx, names))
    monkeypatch.setattr(nemesis, "wrong", stepped)
    ctx = cast(Any, SimpleNamespace(node=lambda name: name))
    hit = record("clock-step", skew_s=30.0, rate=1.0, ours_ns=-(10**18))
    with pytest.raises(LabError, match="clock of this machine moved"):
        asyncio.run(nemesis.apply(ctx, hit))
    assert done == ["n1"]


@pytest.mark.parametrize("nemesis", [STEP, STEER], ids=["step", "steer"])
def test_labs_that_share_a_clock_are_refused(nemesis: Any) -> None:
    for lab in ("lxc", "vagrant"):
        with pytest.raises(ConfigError, match=r"it lacks OwnClocks \(set_clocks\)"):
            check_lab(registry.load("labs", lab), nemesis)


def test_options() -> None:
    nodes = ["n1", "n2", "n3"]
    options = {name: option.default for name, option in STEP.options.items()}
    plan = STEP.plan(random.Random(1), nodes, 60.0, {**options, "step_s": -7.5})
    assert {p.facts["skew_s"] for p in plan} == {-7.5}
    with pytest.raises(ConfigError, match="at least a second"):
        STEP.plan(random.Random(1), nodes, 60.0, {**options, "step_s": 0.5})
    options = {name: option.default for name, option in STEER.options.items()}
    plan = STEER.plan(random.Random(1), nodes, 60.0, {**options, "steer_percent": -5.0})
    assert {p.facts["rate"] for p in plan} == {0.95}
    with pytest.raises(ConfigError, match="1 to 10"):
        STEER.plan(random.Random(1), nodes, 60.0, {**options, "steer_percent": 0.5})


def test_the_program_keeps_what_the_clock_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a clock of its own making: this machine's is read only."""
    ahead = {"ns": 0, "tick": 10_000}
    real = agent_node_clock._pair

    def pair() -> tuple[int, int]:
        now, raw = real()
        return now + ahead["ns"], raw

    def set_to(distance_ns: int) -> None:
        now, raw = real()
        ahead["ns"] = distance_ns - (now - raw)

    def adjtimex(modes: int = 0, *, freq: int = 0, tick: int = 0) -> Any:
        if modes & agent_node_clock.ADJ_TICK:
            ahead["tick"] = tick
        return SimpleNamespace(freq=0, tick=ahead["tick"])

    monkeypatch.setattr(agent_node_clock, "_pair", pair)
    monkeypatch.setattr(agent_node_clock, "_set", set_to)
    monkeypatch.setattr(agent_node_clock, "_adjtimex", adjtimex)
    path = str(tmp_path / "true.json")
    agent_node_clock.main(path, "step", [str(30 * S)])
    assert abs(ahead["ns"] - 30 * S) < S // 100
    agent_node_clock.main(path, "steer", ["50000"])
    assert ahead["tick"] == 10_500
    agent_node_clock.main(path, "back", [])
    assert abs(ahead["ns"]) < S // 100
    assert ahead["tick"] == 10_000
    assert not (tmp_path / "true.json").exists()
    agent_node_clock.main(path, "back", [])
    assert abs(ahead["ns"]) < S // 100


@pytest.mark.parametrize(
    ("end", "moved_ns"),
    [
        (NodeClock("a", 7, 90), 7),
        # Its kernel began anew, and its monotonic clock with it.
        (NodeClock("b", 10**15, 90), 90),
        # Its monotonic clock ran at another pace, its wall clock was set right.
        (NodeClock("a", -(10**10), 90), 90),
        # Somebody has set the clock.
        (NodeClock("a", 10**10, 10**10 + 90), 10**10),
    ],
)
def test_which_clock_a_nodes_is_compared_with(end: NodeClock, moved_ns: int) -> None:
    before, after = host.compared({"n1": NodeClock("a", 0, 0)}, {"n1": end})["n1"]
    assert after - before == moved_ns
    assert host.compared({}, {"n1": end}) == {}
