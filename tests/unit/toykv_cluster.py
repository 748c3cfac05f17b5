"""Servers of toykv without a lab: as processes on this machine, or within one loop."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Any

from clusters.systems.toykv.agents.consensus import Consensus
from clusters.systems.toykv.agents.main import real_around
from clusters.systems.toykv.agents.server import Front, first_id
from clusters.systems.toykv.agents.storage import Disk
from clusters.systems.toykv.agents.wire import NotSent

__all__ = ["Inside", "Processes", "until"]

ROOT = Path(__file__).resolve().parents[2]
NAMES = ("n1", "n2", "n3")


async def until(ask: Callable[[], Awaitable[Any]], wait_s: float = 15.0) -> Any:
    """What `ask` gives as soon as it is something."""
    async with asyncio.timeout(wait_s):
        while True:
            found = await ask()
            if found:
                return found
            await asyncio.sleep(0.05)


def free_ports(count: int) -> list[int]:
    socks = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [sock.getsockname()[1] for sock in socks]
    for sock in socks:
        sock.close()
    return ports


class Processes:
    """A server per name; killed at the end."""

    def __init__(self, where: Path, bug: str = "none") -> None:
        self.where, self.bug = where, bug
        ports = free_ports(2 * len(NAMES))
        self.ports = dict(zip(NAMES, ports[::2], strict=True))
        peers = zip(NAMES, ports[1::2], strict=True)
        self.cluster = ",".join(f"{name}=127.0.0.1:{port}" for name, port in peers)
        self.running: dict[str, subprocess.Popen[bytes]] = {}

    def start(self, name: str, *more: str) -> None:
        argv = [sys.executable, "-m", "clusters.systems.toykv.agents.main"]
        argv += ["--name", name, "--cluster", self.cluster, "--address", "127.0.0.1"]
        argv += ["--client-port", str(self.ports[name]), "--data", str(self.where / name)]
        argv += ["--bug", self.bug, "--audit", str(self.where / f"{name}.jsonl"), *more]
        with (self.where / f"{name}.log").open("ab") as log:
            self.running[name] = subprocess.Popen(
                argv, stdout=log, stderr=log, cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)}
            )

    def signal(self, name: str, number: signal.Signals) -> None:
        self.running[name].send_signal(number)

    def kill(self, name: str) -> None:
        process = self.running.pop(name)
        process.kill()
        process.wait(60)

    def __enter__(self) -> Processes:
        for name in NAMES:
            self.start(name, "--bootstrap")
        return self

    def __exit__(self, *_: object) -> None:
        for name in list(self.running):
            self.kill(name)

    async def ask(self, name: str, op: str, wait_s: float = 5.0, **given: Any) -> dict[str, Any]:
        """What a server answers as soon as it knows a leader; empty where it does not."""
        line = json.dumps({"op": op, **given}).encode() + b"\n"
        try:
            async with asyncio.timeout(wait_s):
                while True:
                    said = await self._line(name, line)
                    if said.get("no") != "no-leader":
                        return said
                    await asyncio.sleep(0.05)
        except (OSError, TimeoutError):
            return {}

    async def _line(self, name: str, line: bytes) -> dict[str, Any]:
        reader, writer = await asyncio.open_connection("127.0.0.1", self.ports[name])
        try:
            writer.write(line)
            found: dict[str, Any] = json.loads(await reader.readline() or b"{}")
            return found
        finally:
            writer.close()

    async def leader(self, *among: str) -> str:
        """Who leads, as soon as one does that serves a read."""

        async def ask() -> str | None:
            for name in among or NAMES:
                said = (await self.ask(name, "status")).get("ok", {})
                if said.get("leads") and "ok" in await self.ask(name, "read", key="?"):
                    return name
            return None

        found: str = await until(ask)
        return found


class Through:
    """A peer within the same loop; nothing passes where the path is cut."""

    def __init__(self, net: Inside, source: str, to: str) -> None:
        self._net, self._source, self._to = net, source, to

    def give_up(self, why: str) -> None:
        """Nothing is under way for long here."""

    async def ask(
        self, message: dict[str, Any], wait_s: float, parent: object = None
    ) -> dict[str, Any]:
        path = (self._source, self._to)
        if path in self._net.cut:
            raise NotSent("cut")
        said = await self._net.fronts[self._to].answer_server(json.loads(json.dumps(message)))
        if path[::-1] in self._net.cut:
            raise ConnectionError("cut")
        answer: dict[str, Any] = json.loads(json.dumps(said))
        return answer


class Inside:
    """Servers in this loop, with paths that can be cut."""

    def __init__(self, where: Path, bug: str, names: tuple[str, ...] = NAMES) -> None:
        self.names = names
        self.cut: set[tuple[str, str]] = set()
        self.fronts: dict[str, Front] = {}
        self.servers: dict[str, Consensus] = {}
        members = [[first_id(name), name, name, True] for name in names]
        for name in names:
            around = real_around(where / name)
            disk = Disk(around, bug)
            if disk.fresh:
                disk.append((0, 0, {"op": "config", "value": members}))
                disk.save_meta(id=first_id(name))
            server = Consensus(disk, around, name, bug)
            server.peer = partial(Through, self, name)  # type: ignore[method-assign, assignment]
            self.servers[name], self.fronts[name] = server, Front(server)
            server.run()

    def isolate(self, *names: str) -> None:
        """Cut these off from the others."""
        others = [n for n in self.names if n not in names]
        self.cut = {path for a in names for b in others for path in ((a, b), (b, a))}

    async def ask(self, name: str, op: str, wait_s: float = 3.0, **given: Any) -> dict[str, Any]:
        """What a server answers; empty where it does not in time."""
        try:
            async with asyncio.timeout(wait_s):
                return await self.fronts[name].answer({"op": op, **given})
        except TimeoutError:
            return {}

    async def leader(self, *among: str) -> str:
        """Who leads, as soon as one does that serves."""

        async def ask() -> str | None:
            for name in among or self.names:
                if self.servers[name].leading and "ok" in await self.ask(name, "cas", **_NOTHING):
                    return name
            return None

        found: str = await until(ask)
        return found


_NOTHING: dict[str, Any] = {"key": "?", "value": [1, 2]}
