"""Whose claims to lead are rivals, and for how long they are waited for."""

from __future__ import annotations

import asyncio
import time
from types import SimpleNamespace
from typing import Any

import pytest

from dstest.core.protocols import Timing
from nemeses.network import split_brain
from nemeses.network.split_brain import NEMESIS

pytestmark = pytest.mark.slow


class Groups:
    """Who leads which group, as each member says of itself."""

    def __init__(self, **led: tuple[str, ...]) -> None:
        self.led = led

    async def claims(self, name: str, group: str) -> bool:
        return name in self.led[group]


def watched(members: Any, failover_s: float = 0.3) -> Any:
    ctx: Any = SimpleNamespace(
        clock=SimpleNamespace(now_ns=time.monotonic_ns),
        nodes=["n1", "n2"],
        need=lambda kind: members,
        deployment=SimpleNamespace(timing=Timing(failover_s=failover_s, answer_s=0.1)),
    )
    return asyncio.run(NEMESIS._watch(ctx, "n1", "a"))


def test_leaders_of_two_groups_are_no_rivals() -> None:
    assert watched(Groups(a=("n1",), b=("n2",))) is None


def test_two_leaders_of_one_are() -> None:
    found = watched(Groups(a=("n1", "n2"), b=()))
    assert (found.old, found.new) == ("n1", "n2")


class Failover:
    """The old leader claims for a while; another is elected after `elected_s`."""

    def __init__(self, noticed_s: float, elected_s: float) -> None:
        self.began_s = time.monotonic()
        self.noticed_s, self.elected_s = noticed_s, elected_s

    async def claims(self, name: str, group: str) -> bool:
        passed_s = time.monotonic() - self.began_s
        return passed_s < self.noticed_s if name == "n1" else passed_s > self.elected_s


def test_rivals_are_waited_for_as_long_as_a_failover_takes() -> None:
    found = watched(Failover(noticed_s=60.0, elected_s=1.0), failover_s=30.0)
    assert (found.old, found.new) == ("n1", "n2")


def test_and_no_longer() -> None:
    assert watched(Failover(noticed_s=60.0, elected_s=1.0), failover_s=0.3) is None


def test_nor_once_the_old_leader_has_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(split_brain, "ROUND_LEAST_S", 0.5)
    began_s = time.monotonic()
    assert watched(Failover(noticed_s=0.3, elected_s=50.0), failover_s=60.0) is None
    assert time.monotonic() - began_s < 10.0


def test_an_old_leader_that_answers_late_at_first_has_not_noticed() -> None:
    class Late(Failover):
        async def claims(self, name: str, group: str) -> bool:
            if name == "n1" and time.monotonic() - self.began_s < 0.8:
                return False
            return await super().claims(name, group)

    found = watched(Late(noticed_s=60.0, elected_s=1.0), failover_s=30.0)
    assert (found.old, found.new) == ("n1", "n2")
