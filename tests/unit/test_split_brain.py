"""Two leaders of different groups are no rivals."""

from __future__ import annotations

import asyncio
import time
from types import SimpleNamespace
from typing import Any

import pytest

from nemeses.network import split_brain
from nemeses.network.split_brain import NEMESIS


class Groups:
    """Who leads which group, as each member says of itself."""

    def __init__(self, **led: tuple[str, ...]) -> None:
        self.led = led

    async def claims(self, name: str, group: str) -> bool:
        return name in self.led[group]


def watched(members: Groups, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(split_brain, "ROUND_S", 0.3)
    ctx: Any = SimpleNamespace(
        clock=SimpleNamespace(now_ns=time.monotonic_ns),
        nodes=["n1", "n2"],
        need=lambda kind: members,
    )
    return asyncio.run(NEMESIS._watch(ctx, "n1", "a"))


def test_leaders_of_two_groups_are_no_rivals(monkeypatch: pytest.MonkeyPatch) -> None:
    assert watched(Groups(a=("n1",), b=("n2",)), monkeypatch) is None


def test_two_leaders_of_one_are(monkeypatch: pytest.MonkeyPatch) -> None:
    found = watched(Groups(a=("n1", "n2"), b=()), monkeypatch)
    assert (found.old, found.new) == ("n1", "n2")
