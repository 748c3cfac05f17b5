"""Members are copied only while all of them stand still."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from clusters.systems.etcd.deployment import STILL_TRIES, EtcdDeployment
from dstest.core.errors import LabError


class Stamped(EtcdDeployment):
    """Nodes that stand still and begin to copy at the given times, try after try."""

    def __init__(self, tries: list[dict[str, tuple[int, int]]]) -> None:
        self.holds_s: list[str] = []
        self.nodes: Any = {
            name: SimpleNamespace(name=name, run=self._runner([t[name] for t in tries]))
            for name in tries[0]
        }

    def _runner(self, stamps: list[tuple[int, int]]) -> Any:
        left = iter(stamps)

        async def run(argv: list[str], **_: Any) -> Any:
            self.holds_s.append(argv[-1])
            stopped, copying = next(left)
            return SimpleNamespace(stdout=f"{stopped} {copying}\nsum{copying} path\n")

        return run


APART = {"n1": (0, 5), "n2": (6, 9)}
TOGETHER = {"n1": (0, 5), "n2": (2, 6)}


def test_copies_of_one_instant() -> None:
    deployment = Stamped([TOGETHER])
    assert asyncio.run(deployment.back_up(["n1", "n2"])) == {"n1": "sum5", "n2": "sum6"}


def test_copies_one_after_the_other_are_made_again_with_more_time() -> None:
    deployment = Stamped([APART, TOGETHER])
    assert asyncio.run(deployment.back_up(["n1", "n2"])) == {"n1": "sum5", "n2": "sum6"}
    assert deployment.holds_s == ["0.2", "0.2", "0.4", "0.4"]


def test_copies_that_are_never_of_one_instant_are_refused() -> None:
    with pytest.raises(LabError, match="did not stand still together"):
        asyncio.run(Stamped([APART] * STILL_TRIES).back_up(["n1", "n2"]))


def test_one_member_waits_for_nobody() -> None:
    deployment = Stamped([{"n1": (3, 3)}])
    assert asyncio.run(deployment.back_up(["n1"])) == {"n1": "sum3"}
    assert deployment.holds_s == ["0"]
