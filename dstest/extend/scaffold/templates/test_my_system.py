"""`my-system` without nodes: its client, and a server of this machine.

Where its program is not on this machine, the tests of the server are skipped. With another client
change `CAPABILITY`, `WRITE`, `READ`, what the test with the kill expects of them, and how many
requests they are in the test that counts.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from clusters.supervise.member_set import spec
from dstest.core.protocols import Definite, Endpoint, LocalFile, OpDraft, Tapped
from dstest.core.registry import offered
from dstest.runner.tap import Tap

SYSTEM: Any = offered(Path(__file__).with_name("my_system.py"))["systems"]
PYTHON = shutil.which("python3", path="/usr/bin:/bin") or sys.executable
"""That of a node, which has what the packages of the system bring; not that of the tests."""

ADDRESS = f"127.{os.getpid() >> 14 & 127 | 128}.{os.getpid() >> 7 & 127}.{os.getpid() & 127 | 128}"
"""This machine, at an address that no other test uses."""

OPTIONS = {"op_timeout_s": 2.0, **{n: option.default for n, option in SYSTEM.options.items()}}
NODE = SimpleNamespace(name="n1", info=SimpleNamespace(address=ADDRESS))
DEPLOYMENT = SYSTEM.deploy([NODE], OPTIONS)
END: Any = DEPLOYMENT.endpoints()[0]
CAPABILITY = "register"
WRITE, READ = OpDraft("write", "k", 7), OpDraft("read", "k")


class Server:
    """The first service of the node, with its files in a folder of this test."""

    def __init__(self, folder: Path) -> None:
        self._service = DEPLOYMENT.members["n1"].services[0]
        self._folder = folder
        for path, what in self._service.files.items():
            self._place(path).parent.mkdir(parents=True, exist_ok=True)
            if isinstance(what, LocalFile):
                shutil.copy(what.path, self._place(path))
                self._place(path).chmod(what.mode)
            else:
                self._place(path).write_bytes(what)
        for path in self._service.data:
            self._place(path).mkdir(parents=True, exist_ok=True)

    def _place(self, path: str) -> Path:
        return self._folder / path.lstrip("/")

    def start(self) -> None:
        argv = [str(self._place(w)) if w.startswith("/") else w for w in self._service.argv]
        program = PYTHON if argv[0] == "python3" else argv[0]
        if shutil.which(program) is None:
            if self._service.argv[0] in self._service.files:
                pytest.fail(f"{program} is laid without the right to execute it: LocalFile has it")
            pytest.skip(f"{program} is not on this machine: install it here as on the nodes")
        log = self._folder / "output"
        with log.open("ab") as output:
            self._process = subprocess.Popen(
                [program, *argv[1:]],
                env={**os.environ, **self._service.env},
                stdout=output,
                stderr=output,
            )
        for _ in range(200):
            if (status := self._process.poll()) is not None:
                pytest.fail(f"{argv} ended at once, with {status}: {log.read_text()[-2000:]}")
            if asyncio.run(DEPLOYMENT.healthy()) == {"n1": True}:
                return
            time.sleep(0.05)
        self.kill()
        pytest.fail(f"the server does not become healthy: {log.read_text()[-2000:]}")

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    made = Server(tmp_path)
    made.start()
    yield made
    made.kill()


def with_client(ask: Callable[[Any], Awaitable[Any]], end: Endpoint = END) -> Any:
    async def go() -> Any:
        client = SYSTEM.client(CAPABILITY, end, [end], OPTIONS)
        await client.open()
        try:
            return await ask(client)
        finally:
            await client.close()

    return asyncio.run(go())


def test_what_is_to_run_can_be_sent_to_a_node() -> None:
    member = DEPLOYMENT.members["n1"]
    assert tuple(service.name for service in member.services) == SYSTEM.services
    rows = msgspec.json.decode(spec(member.services))["services"]
    assert all(row["argv"] and row["log"].startswith("/") for row in rows)


def test_a_server_answers_its_probe(server: Server) -> None:
    probe = DEPLOYMENT.members["n1"].services[0].probe
    node = DEPLOYMENT.nodes["n1"]
    assert asyncio.run(DEPLOYMENT.line(node, probe.port, probe.send)).startswith(probe.expect)


def test_what_is_written_is_read_again_after_a_kill(server: Server) -> None:
    async def write(client: Any) -> Any:
        before = await client.invoke(READ, 2.0)
        await client.invoke(WRITE, 2.0)
        return before.output, (await client.invoke(READ, 2.0)).output

    async def read(client: Any) -> Any:
        return (await client.invoke(READ, 2.0)).output

    assert with_client(write) == (None, 7)
    server.kill()
    server.start()
    assert with_client(read) == 7


def test_the_client_sends_what_it_counts(server: Server) -> None:
    async def go() -> tuple[int, int, bool]:
        tap = Tap(END.address, SYSTEM.client_port, SYSTEM.request_counter)
        end = msgspec.structs.replace(END, dial=await tap.open(0))
        client = SYSTEM.client(CAPABILITY, end, [end], OPTIONS)
        await client.open()
        for op in (WRITE, READ, READ):
            await client.invoke(op, 2.0)
        await client.close()
        await tap.close()
        return client.calls, tap.requests, tap.known

    if not isinstance(SYSTEM, Tapped):
        pytest.fail(
            "without client_port and request_counter no run is better than PARTIAL (WO8): see"
            " HttpRequests, LineRequests and FramedRequests of clusters.supervise"
        )
    calls, requests, known = asyncio.run(go())
    assert known, "request_counter cannot read what the client sends"
    assert requests, "the client must connect to `to.dial or to.address`, where it is counted"
    assert (calls, requests) == (3, 3)


def test_without_a_server_an_operation_fails_for_certain() -> None:
    async def fails(client: Any) -> None:
        with pytest.raises(Definite) as caught:
            await client.invoke(WRITE, 2.0)
        assert caught.value.code in SYSTEM.definite_errors

    with_client(fails)
    assert asyncio.run(DEPLOYMENT.healthy()) == {"n1": False}
