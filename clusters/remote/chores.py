"""Chores of people on nodes, by fabric: commands with limits of time and output, never in a run.

A node is answered for whatever it does: it may be gone, hang, or say more than anybody reads.
"""

from __future__ import annotations

import select
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import chain
from typing import Any, Final, Protocol, TypeVar

import msgspec
from paramiko import SSHException  # type: ignore[import-untyped]

from clusters.remote import agent_chore
from clusters.remote.bundle import piped, piped_argv
from clusters.remote.fabric_login import logged_in
from clusters.remote.sudo import Sudo
from dstest.core import clock
from dstest.core.errors import LabError
from dstest.core.node import NodeInfo

PARALLEL: Final = 16
CONNECT_S: Final = 10.0
OUTPUT_BYTES_MAX: Final = 1 << 20
"""Of what one node says on standard output, and again on standard error."""

GRACE_S: Final = 3.0
"""The node itself ends a command in time; this much later we stop waiting for its word."""

LATE_S: Final = 0.3
"""After the end of a command, for the last of its output: what it left running may hold that."""

CHORE_ARGV: Final = ("timeout", "--kill-after=1")
"""What each command of a chore begins with, its seconds and its own words after that."""

POLL_S: Final = 0.1
PART_BYTES: Final = 1 << 16
TIMED_OUT: Final = (agent_chore.TIMED_OUT, agent_chore.LEFT, 137)
"""Statuses where the command did not end: of `agent_chore` and `timeout`, and of one that had to be
killed."""

WATCH_S: Final = 3.0
"""After its time a command is ended by `agent_chore` with all that it has started; this much later
`timeout` ends that."""

T = TypeVar("T")


class Said(msgspec.Struct, frozen=True, kw_only=True):
    """How a command went on one node. `status` is None where it did not end, and `error` says why.

    Bytes that are no UTF-8 are replaced; `cut_bytes` of output were left out, from its end.
    """

    status: int | None
    stdout: str = ""
    stderr: str = ""
    cut_bytes: int = 0
    error: str | None = None
    seconds: float = 0.0

    @property
    def ok(self) -> bool:
        return self.status == 0 and self.error is None


class Result(Protocol):
    """What a chore makes of one node."""

    @property
    def ok(self) -> bool: ...


Stop = threading.Event
Chore = Callable[[NodeInfo, Stop], T]


class _Kept:
    """Output up to a limit; the rest is counted."""

    def __init__(self, bytes_max: int) -> None:
        self._left = bytes_max
        self._parts: list[bytes] = []
        self.cut = 0

    def add(self, data: bytes) -> None:
        kept = data[: self._left]
        if kept:
            self._parts.append(kept)
        self._left -= len(kept)
        self.cut += len(data) - len(kept)

    def text(self) -> str:
        return b"".join(self._parts).decode(errors="replace")


def on_each(nodes: Sequence[NodeInfo], chore: Chore[T]) -> dict[str, T]:
    """Do the chore on all nodes at once: node name -> what it came to. Ctrl-C ends all of them."""
    stop = Stop()
    with ThreadPoolExecutor(PARALLEL) as pool:
        waiting = {info.name: pool.submit(chore, info, stop) for info in nodes}
        try:
            return {name: future.result() for name, future in waiting.items()}
        except BaseException:
            stop.set()
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def run_on(
    info: NodeInfo,
    argv: Sequence[str],
    stop: Stop,
    *,
    timeout_s: float,
    bytes_max: int = OUTPUT_BYTES_MAX,
    root: bool = True,
    watched: bool = False,
    env: Mapping[str, str] = {},
    stdin: Iterable[bytes] = (),
    take: Callable[[Iterable[bytes]], None] | None = None,
) -> Said:
    """Run a program on a node, as `root` or who we log in as. Nothing a node does is raised.

    Each login on the way may take as long as the program may, and 10 s at most. Of a `watched`
    program what it has started is ended as well after the time; where some of it still runs the
    error says so, and its standard error what. It gets `env` besides; nothing of all that stands in
    the list of processes there.

    `take` is given the standard output as it comes, in place of keeping it; what it raises as
    LabError ends the program and is the error.
    """
    started_ns = clock.monotonic_ns()
    out, err = _Kept(bytes_max), _Kept(bytes_max)
    status, error = None, None
    try:
        with logged_in(info, timeout_s=min(CONNECT_S, timeout_s)) as connection:
            channel = connection.transport.open_session(timeout=CONNECT_S)
            with channel:
                sudo = Sudo(info if root else msgspec.structs.replace(info, user="root"))
                later_s = WATCH_S if watched else 0.0
                stream = _Stream(channel, err, stop, timeout_s, later_s + GRACE_S)
                limited = [*CHORE_ARGV, f"{timeout_s + later_s:g}"]
                if watched:
                    words = [f"{timeout_s:g}", *argv]
                    stdin = chain([piped(agent_chore, words, env)], stdin)
                limited += piped_argv() if watched else argv
                channel.exec_command(sudo.command(limited))
                stream.passed(sudo)
                if all(map(stream.send, stdin)):
                    channel.shutdown_write()
                if take is not None:
                    take(stream)
                for part in stream:
                    out.add(part)
                status = stream.status()
        if status in TIMED_OUT and _seconds(started_ns) >= timeout_s:
            error = f"no end within {timeout_s:g} s"
            if watched and status == agent_chore.LEFT:
                error += ", and what it has started may still run there"
    except LabError as failure:
        error = failure.message
    except (SSHException, OSError, EOFError) as failure:
        error = f"{info.login.host}: {str(failure) or type(failure).__name__}"
    return Said(
        status=None if error else status,
        stdout=out.text(),
        stderr=err.text(),
        cut_bytes=out.cut + err.cut,
        error=error,
        seconds=round(_seconds(started_ns), 3),
    )


def _seconds(since_ns: int) -> float:
    return (clock.monotonic_ns() - since_ns) / 1e9


class _Stream:
    """Standard output of a command, part by part, until it ends. LabError at the deadline."""

    def __init__(
        self, channel: Any, err: _Kept, stop: Stop, within_s: float, grace_s: float = GRACE_S
    ) -> None:
        self._channel, self._err, self._stop = channel, err, stop
        self._within_s = within_s
        self._late_ns: int | None = None
        self._deadline_ns = clock.monotonic_ns() + int((within_s + grace_s) * 1e9)

    def _left_s(self) -> float:
        if self._stop.is_set():
            raise LabError("stopped")
        left_s = (self._deadline_ns - clock.monotonic_ns()) / 1e9
        if left_s <= 0:
            raise LabError(f"no end within {self._within_s:g} s, and no word since")
        return left_s

    def send(self, data: bytes) -> bool:
        """False where the program reads no more: what it says, and its status, tell why."""
        self._channel.settimeout(self._left_s())
        try:
            self._channel.sendall(data)
        except TimeoutError:
            self._left_s()
            raise
        except OSError:
            return False
        return True

    def passed(self, sudo: Sudo) -> None:
        """Returns once sudo lets the command run. LabError where it refuses."""
        while not sudo.through:
            self._left_s()
            over = self._over()
            if (data := sudo.due()) is not None:
                self.send(data)
            elif self._channel.recv_stderr_ready():
                sudo.heard(self._channel.recv_stderr(PART_BYTES))
            elif over:
                sudo.ended(sudo.said or "it says nothing")
            else:
                self._wait()
        self._err.add(sudo.rest)

    def __iter__(self) -> Any:
        while True:
            self._left_s()
            over = self._over()
            if self._channel.recv_stderr_ready():
                self._err.add(self._channel.recv_stderr(PART_BYTES))
            elif self._channel.recv_ready():
                yield self._channel.recv(PART_BYTES)
            elif over:
                return
            else:
                self._wait()

    def _over(self) -> bool:
        """Does nothing come any more? To be asked before a look at what has come by now."""
        if self._channel.closed or self._channel.eof_received:
            return True
        if not self._channel.exit_status_ready():
            return False
        now_ns = clock.monotonic_ns()
        self._late_ns = self._late_ns or now_ns + int(LATE_S * 1e9)
        return now_ns > self._late_ns

    def _wait(self) -> None:
        if self._late_ns is None:
            select.select([self._channel], [], [], POLL_S)
        else:
            clock.sleep_s(0.01)

    def status(self) -> int:
        """Of a command that has ended. LabError where the node did not say."""
        while not self._channel.exit_status_ready() and not self._channel.closed:
            self._left_s()
            clock.sleep_s(0.01)
        status = int(self._channel.recv_exit_status())
        if status < 0:
            raise LabError("the connection was lost before the command's end")
        return status
