"""The agent as a child of this process, over pipes: the same code and frames without a node."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import AsyncIterator
from pathlib import Path

from clusters.remote import bundle
from clusters.remote.agent_client import AgentClient

START_TIMEOUT_S = 10.0
END_TIMEOUT_S = 5.0


class _Pipes(asyncio.SubprocessProtocol):
    def __init__(self) -> None:
        self.client: AgentClient
        self.ended = asyncio.get_running_loop().create_future()

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        if fd == 1:
            self.client.feed(data)

    def process_exited(self) -> None:
        self.client.lost("the agent ended")
        if not self.ended.done():
            self.ended.set_result(None)


@contextlib.asynccontextmanager
async def local_agent(
    lab_id: str, *, run: Path, marker: Path
) -> AsyncIterator[tuple[AgentClient, int]]:
    """A client of a local agent, and the agent's pid. Its janitor outlives it, as on a node.

    `run` and `marker` stand for /run/dstest and /etc/dstest-lab.
    """
    transport, pipes = await asyncio.get_running_loop().subprocess_exec(
        _Pipes, *bundle.start_argv(), stderr=None
    )
    stdin = transport.get_pipe_transport(0)
    assert isinstance(stdin, asyncio.WriteTransport)
    pipes.client = AgentClient("local", stdin.write)
    try:
        async with asyncio.timeout(START_TIMEOUT_S):
            await pipes.client.start(lab_id, run=str(run), marker=str(marker))
        yield pipes.client, transport.get_pid()
    finally:
        stdin.close()
        try:
            async with asyncio.timeout(END_TIMEOUT_S):
                await pipes.ended
        except TimeoutError:
            transport.kill()
        transport.close()


def end_janitors(run: Path) -> None:
    """Kill the janitors of a run directory: on this host nothing else ever ends them."""
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            words = entry.read_bytes().decode(errors="replace").split("\0")
            if "clusters.remote.agent_janitor" in words and str(run) in words:
                os.kill(int(entry.parent.name), signal.SIGKILL)
