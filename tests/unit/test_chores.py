"""Chores on machines that answer SSH on loopback: the way there, sudo, and all that goes wrong."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import shlex
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import asyncssh
import msgspec
import pytest
from hostile_server import Lies, hostile, silent_port
from paramiko import (  # type: ignore[import-untyped]
    AuthenticationException,
    ServiceRequestingTransport,
    Transport,
)
from paramiko.auth_strategy import (  # type: ignore[import-untyped]
    AuthFailure,
    SourceResult,
)

from clusters.remote.chores import (
    CommandResult,
    Stop,
    _Output,
    _refusal,
    _Stream,
    render,
    run_everywhere,
    run_on,
)
from clusters.remote.login import Sudo, ssh_argv
from clusters.remote.transfers import put
from dstest.core.node import NodeInfo

pytestmark = pytest.mark.slow

Process = asyncssh.SSHServerProcess[bytes]


class Place:
    """Servers in a loop of its own, each in a folder of its own."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._count = 0
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever)
        self._thread.start()
        self._stack = contextlib.AsyncExitStack()

    def _enter(self, context: Any, name: str) -> NodeInfo:
        entering = self._stack.enter_async_context(context)
        info: NodeInfo = asyncio.run_coroutine_threadsafe(entering, self._loop).result(60)
        return msgspec.structs.replace(info, name=name)

    def _own(self) -> Path:
        self._count += 1
        path = self._folder / str(self._count)
        path.mkdir()
        return path

    def machine(self, does: Lies, name: str = "n1", **more: Any) -> NodeInfo:
        return self._enter(hostile(self._own(), does, **more), name)

    def port(self, says: Any, name: str = "n1") -> NodeInfo:
        return self._enter(silent_port(self._own(), says), name)

    async def _close(self) -> None:
        await self._stack.aclose()
        left = asyncio.all_tasks() - {asyncio.current_task()}
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)

    def end(self) -> None:
        asyncio.run_coroutine_threadsafe(self._close(), self._loop).result(60)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(60)
        self._loop.close()


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    made = Place(tmp_path)
    yield made
    made.end()


async def well(process: Process) -> None:
    process.stdout.write(b"well\n")


async def hangs(process: Process) -> None:
    process.stdout.write(b"begun\n")
    await asyncio.sleep(60)


async def floods(process: Process) -> None:
    while True:
        process.stdout.write(b"y\n" * 8192)
        await process.stdout.drain()


async def breaks_off(process: Process) -> None:
    process.stdout.write(b"half")
    await process.stdout.drain()
    process.channel.get_connection().abort()


async def garbles(process: Process) -> None:
    process.stdout.write(b"a\xff\x1b[2J\tb\n")
    process.stderr.write(b"\xc2\x9b31m")
    process.exit(3)


def behind(place: Place, does: Lies, **jump: Any) -> NodeInfo:
    """A node behind a jump host, known to others under an address that leads nowhere."""
    info, way = place.machine(does), place.machine(well, "jump", **jump)
    return msgspec.structs.replace(
        info, ssh_host=info.address, address="192.0.2.9", jumps=(way.login,)
    )


def said_by(info: NodeInfo, **more: Any) -> CommandResult:
    return run_on(info, ["true"], Stop(), **{"timeout_s": 5.0, **more})


def test_each_is_answered_for_whatever_the_others_do(place: Place) -> None:
    async def silent(_: asyncio.StreamWriter) -> None:
        await asyncio.sleep(60)

    async def junk(writer: asyncio.StreamWriter) -> None:
        writer.write(b"SSH-2.0-x\r\n" + bytes(range(256)) * 4)
        await writer.drain()

    wrong = place.machine(well, "wrong")
    Path(wrong.known_hosts_path).write_text(
        re.sub(" .*", " " + public_key(), Path(wrong.known_hosts_path).read_text())
    )
    nodes = [
        place.machine(well, "well"),
        place.machine(hangs, "hangs"),
        place.machine(floods, "floods"),
        place.machine(breaks_off, "breaks-off"),
        place.machine(garbles, "garbles"),
        place.port(silent, "silent"),
        place.port(junk, "junk"),
        wrong,
        msgspec.structs.replace(wrong, name="unpinned", known_hosts_path=""),
        msgspec.structs.replace(wrong, name="gone", port=1),
        msgspec.structs.replace(wrong, name="no-key", key_path="/nowhere/key"),
    ]
    began = time.monotonic()
    said = run_everywhere(nodes, "true", timeout_s=6.0, bytes_max=1000)
    assert time.monotonic() - began < 40, "not one after the other"
    assert [name for name, one in said.items() if one.ok] == ["well"]
    assert said["well"].stdout == "well\n"
    for name in ("hangs", "floods"):
        assert "no end within 6 s" in str(said[name].error)
    assert said["hangs"].stdout == "begun\n"
    assert len(said["floods"].stdout) == 1000
    assert said["floods"].cut_bytes > 100_000
    assert "lost" in str(said["breaks-off"].error)
    assert (said["garbles"].status, said["garbles"].error) == (3, None)
    assert all(said[name].error for name in ("silent", "junk", "wrong", "gone", "no-key"))
    assert "no pinned host key" in str(said["unpinned"].error)
    text = render(said)
    assert "== garbles: status 3\na\ufffd\ufffd[2J" in text
    assert not {c for c in text if not c.isprintable()} - {"\n"}


def public_key() -> str:
    key = asyncssh.generate_private_key("ssh-ed25519")
    return key.export_public_key("openssh").decode().strip()


def test_through_jump_hosts_each_with_its_key(place: Place) -> None:
    node = behind(place, well, forwards=True)
    assert said_by(node).stdout == "well\n"
    second = msgspec.structs.replace(
        node, jumps=(*node.jumps, place.machine(well, "jump2", forwards=True).login)
    )
    assert said_by(second).stdout == "well\n"
    refused = behind(place, well, forwards=False)
    assert "its jump host cannot reach it" in str(said_by(refused).error)
    jump = msgspec.structs.replace(node.jumps[0], known_hosts_path=node.known_hosts_path)
    strange = msgspec.structs.replace(node, jumps=(jump,))
    assert str(jump.port) in str(said_by(strange).error)


def test_a_jump_host_that_never_connects_does_not_hold_us_up(place: Place) -> None:
    async def never() -> None:
        await asyncio.sleep(60)

    node = behind(place, well, forwards=never)
    began = time.monotonic()
    said = said_by(node, timeout_s=1)
    assert time.monotonic() - began < 8
    assert said.error


@pytest.mark.skipif(shutil.which("ssh") is None, reason="ssh is not installed")
def test_openssh_goes_the_same_way(place: Place) -> None:
    node = behind(place, well, forwards=True)
    for info in (node, msgspec.structs.replace(node, jumps=(*node.jumps, *node.jumps))):
        argv = ssh_argv(info, ["true"])
        # ssh ends its jumps by SIGHUP, which whoever has started the tests may have had ignored.
        done = subprocess.run(
            argv, capture_output=True, timeout=90, check=False,
            preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_DFL),
        )  # fmt: skip
        assert (done.returncode, done.stdout) == (0, b"well\n"), done.stderr


@pytest.fixture
def agent(tmp_path: Path) -> Iterator[tuple[str, str]]:
    """The socket of an ssh-agent with two keys, and the public part of the second one."""
    if shutil.which("ssh-agent") is None:
        pytest.skip("ssh-agent is not installed")
    path = tmp_path / "agent"
    started = subprocess.run(
        ["ssh-agent", "-a", str(path)], capture_output=True, text=True, check=True, timeout=60
    )
    pid = int(re.search(r"SSH_AGENT_PID=(\d+)", started.stdout)[1])  # type: ignore[index]
    try:
        for name in ("first", "second"):
            key = tmp_path / name
            asyncssh.generate_private_key("ssh-ed25519").write_private_key(str(key))
            key.chmod(0o600)
            subprocess.run(
                ["ssh-add", "-q", str(key)],
                env={**os.environ, "SSH_AUTH_SOCK": str(path)},
                check=True,
                timeout=60,
            )
        public = asyncssh.read_private_key(str(tmp_path / "second")).export_public_key("openssh")
        yield str(path), public.decode()
    finally:
        os.kill(pid, signal.SIGTERM)


def test_with_a_key_of_an_agent_that_is_not_the_environment_s(
    place: Place, agent: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SSH_AUTH_SOCK", raising=False)
    path, public = agent
    info = msgspec.structs.replace(
        place.machine(well, accepts=public), key_path="", agent_path=path
    )
    said = said_by(info, timeout_s=60.0)
    assert said.stdout == "well\n", said
    other = msgspec.structs.replace(
        place.machine(well, accepts=public_key()), key_path="", agent_path=path
    )
    assert "accepts no key of the agent" in str(said_by(other, timeout_s=60.0).error)


def test_an_answer_that_is_there_before_we_wait_is_heard(
    place: Place, agent: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def late(transport: Any, message: Any, send: Any = Transport._send_message) -> None:
        send(transport, message)
        time.sleep(0.2)

    monkeypatch.setattr(Transport, "_send_message", late)
    path, public = agent
    info = msgspec.structs.replace(
        place.machine(well, accepts=public), key_path="", agent_path=path
    )
    said = said_by(info, timeout_s=60.0)
    assert said.stdout == "well\n", said


def test_a_server_that_never_lets_a_login_begin_holds_nobody_up(
    place: Place, agent: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ServiceRequestingTransport, "_parse_service_accept", lambda *_: None)
    path, public = agent
    info = msgspec.structs.replace(
        place.machine(well, accepts=public), key_path="", agent_path=path
    )
    said = said_by(info, timeout_s=1.0)
    assert "no answer to a key of the agent" in str(said.error) and said.seconds < 10
    gone = msgspec.structs.replace(info, agent_path=f"{path}-none")
    assert said_by(gone).error


@pytest.mark.parametrize(
    ("results", "said"),
    [
        ([AuthenticationException("Authentication failed.")] * 2, "it accepts no key of the agent"),
        (
            [
                AuthenticationException("Authentication failed."),
                AuthenticationException("Authentication timeout."),
            ],
            "no answer to a key of the agent /run/agent within 5 s",
        ),
    ],
)
def test_an_answer_that_does_not_come_is_no_refusal(results: list[Exception], said: str) -> None:
    error = AuthFailure([SourceResult(None, one) for one in results])
    assert _refusal(error, "/run/agent", 5.0).startswith(said)


PASSWORD = "s3 cret"


def asks(right: str, seen: list[str], asked_max: int = 3) -> Lies:
    """A machine whose sudo asks."""

    async def serve(process: Process) -> None:
        command = str(process.command)
        seen.append(command)
        words = shlex.split(command)
        asking = words[words.index("-p") + 1].encode()
        ready = re.search(r"echo (\S+) >&2; exec ", words[-1])
        assert ready
        for _ in range(asked_max):
            process.stderr.write(b"the usual lecture\n" + asking)
            line = await process.stdin.readline()
            if line == right.encode() + b"\n":
                process.stderr.write(f"\n{ready[1]}\n".encode())
                process.stderr.write(b"warned\n")
                process.stdout.write(b"got " + await process.stdin.read())
                return
            process.stderr.write(b"Sorry, try again.\n")
        process.exit(1)

    return serve


def with_password(info: NodeInfo, folder: Path, mode: int = 0o600) -> NodeInfo:
    path = folder / "password"
    path.write_text(f"{PASSWORD}\n")
    path.chmod(mode)
    return msgspec.structs.replace(info, user="ops", sudo_password_path=str(path))


def test_sudo_is_told_the_password_when_it_asks(place: Place, tmp_path: Path) -> None:
    seen: list[str] = []
    info = with_password(place.machine(asks(PASSWORD, seen)), tmp_path)
    said = said_by(info, stdin=[b"its ", b"own"])
    assert (said.stdout, said.stderr, said.status) == ("got its own", "warned\n", 0)
    assert PASSWORD not in seen[0]
    assert not said_by(msgspec.structs.replace(info, sudo_password_path=""), timeout_s=1).ok


def test_a_password_that_is_refused_and_one_that_others_may_read(
    place: Place, tmp_path: Path
) -> None:
    info = with_password(place.machine(asks("another", [])), tmp_path)
    said = said_by(info)
    assert (said.error, said.status) == ("n1: sudo refuses the password", None)
    assert PASSWORD not in str(said)
    open_to_all = with_password(info, tmp_path, 0o644)
    assert "others may read it" in str(said_by(open_to_all).error)


def test_one_who_may_not_use_sudo(place: Place, tmp_path: Path) -> None:
    async def refuses(process: Process) -> None:
        process.stderr.write(b"ops is not in the sudoers file\n")
        process.exit(1)

    said = said_by(with_password(place.machine(refuses), tmp_path))
    assert said.error == "n1: sudo ends: ops is not in the sudoers file"


class JustNow:
    """A channel to which all comes while somebody looks for it, and finds nothing yet."""

    def __init__(self, out: bytes, err: bytes) -> None:
        self._out, self._err = out, err
        self.closed = self.eof_received = False
        self._looked = 0

    def recv_stderr_ready(self) -> bool:
        self._looked += 1
        return self._looked > 1 and bool(self._err)

    def recv_ready(self) -> bool:
        found = self._looked > 1 and bool(self._out)
        self.closed = self.eof_received = True
        return found

    def exit_status_ready(self) -> bool:
        self.closed = self.eof_received = self._looked > 0
        return self._looked > 0

    def recv(self, _: int) -> bytes:
        data, self._out = self._out, b""
        return data

    def recv_stderr(self, _: int) -> bytes:
        data, self._err = self._err, b""
        return data

    def fileno(self) -> int:
        return 0


def test_what_comes_with_the_end_is_not_lost() -> None:
    err = _Output(100)
    stream = _Stream(JustNow(b"out", b"err"), err, Stop(), 10)
    assert (b"".join(stream), err.text()) == (b"out", "err")


def test_who_is_through_sudo_and_done_at_once_was_through(tmp_path: Path) -> None:
    sudo = Sudo(with_password(NodeInfo(name="n1", address="192.0.2.1"), tmp_path))
    ready = re.search(r"echo (\S+) >&2", sudo.command(["true"]))
    assert ready
    err = _Output(100)
    _Stream(JustNow(b"", f"{ready[1]}\nmore".encode()), err, Stop(), 10).passed(sudo)
    assert err.text() == "more"


def test_without_root_nothing_is_asked_of_sudo(place: Place, tmp_path: Path) -> None:
    seen: list[str] = []

    async def tells(process: Process) -> None:
        seen.append(str(process.command))

    info = with_password(place.machine(tells), tmp_path, 0o644)
    assert said_by(info, root=False).ok
    assert seen == ["exec timeout --kill-after=1 5 true"]


def test_a_file_that_is_not_taken_is_told_with_the_reason(place: Place, tmp_path: Path) -> None:
    async def full(process: Process) -> None:
        process.stderr.write(b"no space left\n")
        process.exit(1)

    file = tmp_path / "file"
    file.write_bytes(bytes(8 << 20))
    said = put([place.machine(full)], file, "/x", timeout_s=5)["n1"]
    assert (said.status, said.stderr, said.error) == (1, "no space left\n", None)


def test_a_node_that_takes_nothing_does_not_hold_us_up(place: Place, tmp_path: Path) -> None:
    async def stands(process: Process) -> None:
        process.channel.pause_reading()
        await asyncio.sleep(60)

    file = tmp_path / "file"
    file.write_bytes(bytes(16 << 20))
    began = time.monotonic()
    said = put([place.machine(stands)], file, "/x", timeout_s=1)["n1"]
    assert time.monotonic() - began < 8
    assert "no end within 1 s" in str(said.error)
