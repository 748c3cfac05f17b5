"""Whom `slow-follower` takes for a follower, and how far behind it is: of one group or several."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest
from third_party import context

from dstest.core.evidence import LandingRecord
from dstest.core.protocols import FaultPlan, LeaderView, Member, Process, Timing, Unit
from nemeses.base.driver import Choice
from nemeses.observe.servers import SILENT, lags, only_log
from nemeses.process import slow_follower

pytestmark = pytest.mark.slow

NODES = ["n1", "n2", "n3", "n4"]
SHARDS = {
    "n1": {"a": 9_000_000}, "n2": {"a": 8_999_999}, "n3": {"b": 10}, "n4": {"b": 8},
}  # fmt: skip


class Sharded:
    """Two groups of two members."""

    timing = Timing(failover_s=0.1)
    replication_unit = Unit("bytes", 1 << 16)
    members = dict.fromkeys(NODES, Member("any", ()))

    def __init__(self, *leaders: str) -> None:
        self.led = leaders

    async def progress(self) -> dict[str, dict[str, int] | None]:
        return {**SHARDS}

    async def leaders(self) -> list[LeaderView]:
        return [LeaderView(member=n, leader=n, group=f"of {n}", epoch=1) for n in self.led]

    async def processes(self) -> dict[str, list[Process]]:
        return {n: [Process("db", 10, 1)] for n in NODES}


def chosen(seed: int, *leaders: str) -> Choice:
    facts = {"seed": seed, "scope": "one", "targets": ""}
    plan = FaultPlan(fault_id="f", nemesis="s", start_ns=0, duration_ns=1, facts=facts)
    clock = SimpleNamespace(now_ns=lambda: 0)
    ctx: Any = context(Sharded(*leaders), nodes=dict.fromkeys(NODES), clock=clock)
    return asyncio.run(slow_follower.NEMESIS.choose(ctx, plan))


def test_leaders_of_other_groups_are_no_followers() -> None:
    found = {tuple(chosen(seed, "n1", "n3").targets or ()) for seed in range(20)}
    assert found == {("n2",), ("n4",)}
    assert chosen(1, *NODES).why_not == "every member leads a group"


def test_members_are_compared_within_their_group(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slow_follower, "SAMPLE_GAP_S", 0)
    ctx: Any = context(Sharded(), nodes=dict.fromkeys(NODES))
    assert asyncio.run(slow_follower._behind(ctx)) == {"n1": 0, "n2": 1, "n3": 0, "n4": 2}


def test_who_is_in_several_groups_is_as_far_behind_as_in_the_worst() -> None:
    at = {"n1": {"a": 5, "b": 9}, "n2": {"a": 7, "b": 2}, "n3": None}
    assert lags(at) == {"n1": 2, "n2": 7, "n3": SILENT}
    assert only_log({**at, "n4": {"": 3}}) == {"n1": None, "n2": None, "n3": None, "n4": 3}


def test_one_that_says_nothing_has_no_figure() -> None:
    record = LandingRecord(
        fault_id="f", nemesis="s", targets=["n1"], scheduled_at=0, epoch="f", facts={}
    )
    behind = {"n1": SILENT, "n2": 4}
    seen = slow_follower._victim(record, behind, [], Unit("entries", 100))
    assert (seen.moved, seen.during, seen.detail) == (True, {"n1": "silent"}, "n1 is silent")
