"""What the nodes of a run have sampled of themselves, fetched every two seconds and written down.

Nodes sample on their own (`clusters.remote.agent_samples`), so a node that cannot be asked loses
nothing: what waits there is fetched later. What comes is put on the run's clock at once, by where
the node's monotonic clock stood when it answered; of its answers of the last minute the quickest
tells that best. Nothing here ends a run, whatever a node does.
"""

from __future__ import annotations

import asyncio
import os
from collections import deque
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from dstest.core import clock
from dstest.core.clock import RunClock
from dstest.core.errors import DstestError
from dstest.core.protocols import DataDir, Deployment
from dstest.core.protocols.sampling import Asks
from dstest.monitor.rows import NODES, Row, encoded, unit_of
from dstest.store.layout import RunDir

FETCH_S: Final = 2.0
CALL_TIMEOUT_S: Final = 3.0
FINISH_S: Final = 10.0
FETCHES_MAX: Final = 40
LOOKS: Final = 30
"""Answers among which the quickest tells where a node's clock stands: clocks drift."""

SAMPLES_MAX: Final = 3600
"""Of each node: a run of more than an hour is sampled less often than once a second."""


def every_s(time_limit_s: float) -> float:
    """Between two samples of a run that lasts so long."""
    return max(1.0, time_limit_s / SAMPLES_MAX)


def metrics_file(run: RunDir) -> Path:
    """Where samples go; its directory is made."""
    path = run.path / NODES
    path.parent.mkdir(exist_ok=True)
    return path


def rows_of(ask: Asks) -> list[list[Any]]:
    """Its readings as `clusters.remote.agent_readings` takes them."""
    return [[r.name, r.kind, r.scale, r.at, r.over] for r in ask.readings]


class _Node:
    """What is known of one node's sampling, and of its clock."""

    def __init__(self, node: Any, config: dict[str, Any], units: Mapping[str, str]) -> None:
        self.node = node
        self.name: str = node.name
        self.config = config
        self.units = units
        self.life = ""
        self.after = 0
        self.looks: deque[tuple[int, int]] = deque(maxlen=LOOKS)
        self.samples = 0
        self.lost = 0
        self.lives = 0
        self.sampler: list[float] = []
        self.problem = ""

    def rows(self, said: Mapping[str, Any], asked_ns: int, took_ns: int) -> list[Row]:
        """What a node has said, on the clock of the run; `asked_ns` is run time."""
        self.looks.append((took_ns, asked_ns + took_ns // 2 - int(said["monotonic_ns"])))
        offset_ns = min(self.looks)[1]
        self.lost += int(said["lost"])
        found = []
        for number, time_ns, values in said["rows"]:
            self.after = max(self.after, number)
            self.samples += 1
            if "sampler" in values:
                self.sampler.append(values["sampler"])
            at_ns = time_ns + offset_ns
            found += [
                Row(
                    time_ns=at_ns,
                    node=self.name,
                    name=name,
                    value=round(value, 6),
                    unit=self.units.get(name) or unit_of(name),
                )
                for name, value in values.items()
            ]
        return found

    async def fetch(self, run_clock: RunClock) -> tuple[list[Row], bool]:
        """What waits there, and whether there is more."""
        if self.node.away:
            return [], False
        if not self.life:
            told = await self.node.call("samples_start", timeout_s=CALL_TIMEOUT_S, **self.config)
            self.life, self.after = told["life"], 0
            self.looks.clear()
            self.lives += 1
        asked_ns = run_clock.now_ns()
        said = await self.node.call("samples", after=self.after, timeout_s=CALL_TIMEOUT_S)
        took_ns = run_clock.now_ns() - asked_ns
        if said["life"] != self.life:
            # Another agent serves this node: it was restarted, and its samples begin anew.
            self.life = ""
            return [], True
        return self.rows(said, asked_ns, took_ns), bool(said["rows"])


class NodeSampler:
    """`run()` fetches until it is cancelled, `finish()` what is left; then it tells how it went."""

    def __init__(
        self,
        run: RunDir,
        run_clock: RunClock,
        members: Mapping[str, Any],
        deployment: Deployment,
        asks: Sequence[Asks],
        time_limit_s: float,
    ) -> None:
        self._clock = run_clock
        self._file = metrics_file(run)
        self._every_s = every_s(time_limit_s)
        units = {r.name: r.unit for ask in asks for r in ask.readings}
        disk = deployment.data_dir() if isinstance(deployment, DataDir) else ""
        self._nodes = [
            _Node(node, _config(node, deployment, asks, disk, self._every_s), units)
            for name, node in members.items()
            if name in deployment.members
        ]
        self.refused = ""
        self._turn = asyncio.Lock()

    async def run(self) -> None:
        """For ever."""
        while True:
            await self._all()
            await asyncio.sleep(FETCH_S)

    async def _all(self) -> bool:
        """Is there more on any node?"""
        return any(await asyncio.gather(*map(self._one, self._nodes)))

    async def _one(self, one: _Node) -> bool:
        try:
            rows, more = await one.fetch(self._clock)
        except DstestError as error:
            one.problem = error.message
            return False
        one.problem = ""
        if rows and not self.refused:
            async with self._turn:
                await asyncio.to_thread(self._write, encoded(rows))
        return more

    def _write(self, lines: bytes) -> None:
        """One write, so that a run that dies leaves whole lines but for the last one. After a disk
        has refused nothing is written any more: what follows a torn line could not be read."""
        try:
            fd = os.open(self._file, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
            try:
                written = os.write(fd, lines)
                if written < len(lines):
                    self.refused = "no space left"
            finally:
                os.close(fd)
        except OSError as error:
            self.refused = str(error.strerror)

    async def finish(self) -> dict[str, Any]:
        """For run.json: how often was sampled, what it cost, what is missing."""
        until_ns = clock.monotonic_ns() + int(FINISH_S * 1e9)
        for _ in range(FETCHES_MAX):
            if not await self._all() or clock.monotonic_ns() > until_ns:
                break
        told: dict[str, Any] = {"every_s": self._every_s, "nodes": {}}
        for one in self._nodes:
            row: dict[str, Any] = {"samples": one.samples, "lost": one.lost}
            if one.sampler:
                mean = sum(one.sampler) / len(one.sampler)
                row |= {
                    "cpu_percent": round(mean, 3),
                    "cpu_percent_max": round(max(one.sampler), 3),
                }
            if one.looks:
                row["clock_doubt_ns"] = min(one.looks)[0] // 2
            if one.lives > 1:
                row["agents"] = one.lives
            if one.problem:
                row["problem"] = one.problem
            told["nodes"][one.name] = row
        if self.refused:
            told["refused"] = self.refused
        return told


def _config(
    node: Any, deployment: Deployment, asks: Sequence[Asks], disk: str, wait_s: float
) -> dict[str, Any]:
    """Arguments of the verb `samples_start`."""
    member = deployment.members[node.name]
    return {
        "services": [service.name for service in member.services],
        "every_s": wait_s,
        "disk": disk,
        "asks": [
            {
                "address": node.info.address,
                "port": ask.port,
                "send": ask.send,
                "form": ask.form,
                "every_s": ask.every_s,
                "values": rows_of(ask),
            }
            for ask in asks
        ],
    }
