"""A member whose log is cut starts only once the others have acknowledged a write without it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from clusters.systems.etcd import deployment as files
from clusters.systems.etcd.deployment import EtcdDeployment
from clusters.systems.etcd.on_node import START, STOP
from dstest.core.errors import LabError
from dstest.core.protocols import Process


class Recording(EtcdDeployment):
    """Nodes that note down what is run on them; writes that succeed at the given tries."""

    def __init__(self, good: set[int]) -> None:
        self.did: list[str] = []
        self._good, self._tries = good, 0
        self.nodes: Any = {n: SimpleNamespace(run=self._run, name=n) for n in ("n1", "n2", "n3")}

    async def _run(self, argv: list[str], **_: Any) -> None:
        self.did.append("cut" if f"{STOP} &&" in argv[-1] else "start" * (argv == START.split()))

    async def _ask(self, node: Any, method: str, request: Any, timeout_s: float) -> Any:
        self._tries += 1
        self.did.append(f"{method} by {node.name}")
        await asyncio.sleep(0)
        return request if self._tries in self._good else None

    async def member_id(self, name: str) -> int:
        return 7

    async def processes(self, names: Sequence[str] = ()) -> dict[str, list[Process]]:
        return {}


def test_the_others_acknowledge_a_write_first() -> None:
    deployment = Recording({3})
    asyncio.run(deployment.cut_log("n2", 0.5, "value"))
    assert deployment.did == ["cut", "put by n1", "put by n3", "put by n1", "start"]


def test_without_one_it_stays_down(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "COMMIT_S", 0.05)
    deployment = Recording(set())
    with pytest.raises(LabError, match="not started"):
        asyncio.run(deployment.cut_log("n2", 0.5, "value"))
    assert "start" not in deployment.did
    assert "put by n2" not in deployment.did
