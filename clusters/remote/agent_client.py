"""The control host's end of an agent: requests out, answers in, each matched by its id.

Nothing is ever sent twice. When the connection is lost every open call fails with `RemoteLost`; a
call that misses its deadline fails with `RemoteTimeout` and its late answer is dropped. A node is
the thing under test and may be broken, or somebody else may have it: what it says is no answer
unless it has the types of its verb.
"""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Callable
from typing import Annotated, Any, Final, NotRequired, TypedDict

import msgspec

from clusters.remote import bundle
from dstest.core import limits
from dstest.core.errors import (
    LabError,
    NotALabNode,
    RemoteError,
    RemoteLost,
    RemoteTimeout,
    reason_of,
)

Count = Annotated[int, msgspec.Meta(ge=0, le=1 << 62)]


class Error(msgspec.Struct, frozen=True):
    """Why a request was not carried out."""

    kind: str = ""
    message: str = ""
    errno: int = 0


class Hello(TypedDict):
    """The first word of an agent."""

    version: str
    lab_id: str
    hostname: str
    pid: int


class Message(msgspec.Struct, frozen=True, kw_only=True):
    """One frame of an agent: its hello, a host's word that it is no node, or an answer."""

    id: int | None = None
    ok: Any = msgspec.UNSET
    error: Error | msgspec.UnsetType = msgspec.UNSET
    hello: dict[str, Any] | msgspec.UnsetType = msgspec.UNSET
    not_a_lab_node: str | msgspec.UnsetType | None = msgspec.UNSET


class _Ping(TypedDict):
    monotonic_ns: int
    wall_ns: int


class _Marker(TypedDict):
    lab_id: str | None
    hostname: str
    boot_id: str


class _Process(TypedDict):
    alive: bool
    state: str | None
    start_time: int | None
    comm: NotRequired[str]
    ppid: NotRequired[int]
    utime: NotRequired[int]
    stime: NotRequired[int]
    rss_bytes: NotRequired[int]


class _Stat(TypedDict):
    exists: bool
    size: NotRequired[Count]
    mode: NotRequired[int]
    uid: NotRequired[int]
    inode: NotRequired[int]
    mtime_ns: NotRequired[int]


class _Sizes(TypedDict):
    size: Count
    free: Count
    available: Count
    inodes_free: Count


class _Listening(TypedDict):
    port: int
    families: list[str]


class _Arrivals(TypedDict):
    came: Count
    different: Count
    late: Count


class _Sent(TypedDict):
    sent: Count
    errors: dict[str, Count]


class _Renewed(TypedDict):
    renewed: list[str]
    lost: list[str]


class _Released(TypedDict):
    released: bool
    fired: bool


class _Leases(TypedDict):
    armed: list[str]
    firing: list[str]
    healed: dict[str, Any]
    janitor: bool


class _Done(TypedDict):
    status: int
    stdout: str
    stderr: str
    duration_ns: Count
    dropped: Count


class _Spawned(TypedDict):
    pid: int
    start_time: int | None


class _Read(TypedDict):
    data: str
    size: Count


class _Written(TypedDict):
    bytes: Count


class _Look(TypedDict):
    alive: bool
    running: Count
    ticks: Count
    frozen: str


class _Samples(TypedDict):
    life: str
    monotonic_ns: Count
    lost: Count
    rows: list[tuple[int, int, dict[str, float]]]


_VERBS: Final[dict[str, Any]] = {
    "ping": _Ping,
    "marker": _Marker,
    "procinfo": _Process,
    "stat": _Stat,
    "statvfs": _Sizes,
    "counters": dict[str, dict[str, int]],
    "probe_listen": _Listening,
    "probe_counts": dict[str, Count],
    "probe_arrivals": dict[str, _Arrivals],
    "probe_ask": bool,
    "probe_send": dict[str, _Sent],
    "probe_round_trips": dict[str, list[int]],
    "probe_connect": dict[str, str],
    "lease_arm": dict[str, str],
    "lease_renew": _Renewed,
    "lease_release": _Released,
    "lease_list": _Leases,
    "exec": _Done,
    "spawn": _Spawned,
    "read": _Read,
    "write": _Written,
    "processes": list[_Look],
    "memory_kills": dict[str, Count],
    "samples_start": dict[str, str],
    "samples": _Samples,
}

_MESSAGE: Final = msgspec.json.Decoder(Message)


def message_of(frame: bytes) -> Message:
    """One frame. Raises ValueError with what is wrong with it."""
    try:
        return _MESSAGE.decode(frame)
    except RecursionError:
        raise ValueError("nested too deeply") from None


def answer_of(verb: str, value: Any) -> Any:
    """The answer to this verb, of the types that whoever asked relies on. Raises ValueError."""
    if value is msgspec.UNSET:
        raise ValueError("it says neither what came of it nor why nothing did")
    return msgspec.convert(value, _VERBS.get(verb, Any))


def hello_of(value: Any) -> dict[str, Any]:
    """The first word of an agent, with what everybody relies on. Raises ValueError."""
    msgspec.convert(value, Hello)
    return dict(value)


TOLD_MAX: Final = 500
"""Of what a node says in a message of ours."""

LATE_MAX: Final = 10_000
"""An agent that is only slow has answered far fewer after their deadlines."""


class AgentClient:
    """One agent. `write` sends bytes; the transport calls `feed` and `lost`."""

    def __init__(self, node: str, write: Callable[[bytes], None]) -> None:
        self._node = node
        self._write = write
        self._pending: dict[int, asyncio.Future[Message]] = {}
        self._next_id = 1
        self._buffer = bytearray()
        self._lost: str | None = None
        self._hello: asyncio.Future[Message] = asyncio.get_running_loop().create_future()
        self.late_answers = 0

    async def start(self, lab_id: str, **more: Any) -> dict[str, Any]:
        """Send the agent over and return its hello. Raises NotALabNode, RemoteLost, LabError."""
        self._send(bundle.first_frame(lab_id, **more))
        first = await self._hello
        if first.hello is msgspec.UNSET:
            marker = first.not_a_lab_node
            says = f"belongs to lab {marker!r}" if marker else "carries no lab marker"
            raise NotALabNode(
                f"{self._node} {says[:TOLD_MAX]}, not to lab {lab_id!r}; nothing was done there",
                remedy="check the address; faults are only made on nodes of the lab under test",
            )
        version = str(first.hello.get("version"))
        if version != bundle.version():
            raise LabError(f"{self._node}: agent has version {version:.40}, not ours")
        try:
            hello = hello_of(first.hello)
        except ValueError as error:
            raise LabError(
                f"{self._node}: the agent's first word makes no sense: {error}"
            ) from None
        return hello

    async def call(self, verb: str, args: dict[str, Any], timeout_s: float) -> Any:
        """One request. Raises RemoteTimeout, RemoteLost, RemoteError (errno), LabError."""
        number = self._next_id
        self._next_id += 1
        frame = bundle.pack({"id": number, "verb": verb, "args": args})
        if len(frame) > limits.AGENT_FRAME_BYTES_MAX:
            raise LabError(
                f"{self._node}: a {verb} request of {len(frame)} bytes does not fit into a frame"
            )
        answer: asyncio.Future[Message] = asyncio.get_running_loop().create_future()
        self._pending[number] = answer
        try:
            self._send(frame)
            async with asyncio.timeout(timeout_s):
                message = await answer
        except TimeoutError:
            raise RemoteTimeout(
                f"{self._node}: no answer to {verb} within {timeout_s:g} s; perhaps it was done"
            ) from None
        finally:
            self._pending.pop(number, None)
        if message.error is not msgspec.UNSET:
            raise self._error(verb, message.error)
        try:
            return answer_of(verb, message.ok)
        except ValueError as error:
            raise LabError(f"{self._node}: its answer to {verb} makes no sense: {error}") from None

    def _error(self, verb: str, error: Error) -> LabError:
        text = error.message[:TOLD_MAX]
        if error.kind == "timeout":
            return RemoteTimeout(f"{self._node}: {text}")
        if error.kind == "os":
            return RemoteError(self._node, verb, error.errno, text)
        return LabError(f"{self._node}: {verb} {error.kind[:TOLD_MAX]}: {text}")

    def _send(self, frame: bytes) -> None:
        if self._lost is not None:
            raise RemoteLost(f"{self._node}: {self._lost}")
        try:
            self._write(frame)
        except OSError as error:
            self.lost(str(error))
            raise RemoteLost(f"{self._node}: {reason_of(error)}") from None

    def feed(self, data: bytes) -> None:
        """Take what arrived. A stream that is not made of frames counts as a lost connection."""
        if self._lost is not None:
            return
        buffer = self._buffer
        buffer += data
        while len(buffer) >= 4:
            (size,) = struct.unpack_from(">I", buffer)
            if size > limits.AGENT_FRAME_BYTES_MAX:
                self.lost(
                    f"the agent's stream is broken: a frame of {size} bytes, or a shell there that"
                    " prints something of its own"
                )
                return
            if len(buffer) < 4 + size:
                return
            frame = bytes(buffer[4 : 4 + size])
            del buffer[: 4 + size]
            try:
                message = message_of(frame)
            except ValueError as error:
                self.lost(f"the agent's stream is broken: {reason_of(error)}")
                return
            self._dispatch(message)
            if self.late_answers > LATE_MAX:
                self.lost(f"the agent answers what nobody asks, {LATE_MAX:,} times by now")
                return

    def _dispatch(self, message: Message) -> None:
        first = message.hello is not msgspec.UNSET or message.not_a_lab_node is not msgspec.UNSET
        if message.id is None and message.error is not msgspec.UNSET:
            self.lost(f"the agent gave up: {message.error.message[:TOLD_MAX]}")
            return
        waiting = None if message.id is None else self._pending.get(message.id)
        if message.id is None and first and not self._hello.done():
            self._hello.set_result(message)
        elif waiting is None or waiting.done():
            self.late_answers += 1
        else:
            waiting.set_result(message)

    def lost(self, reason: str) -> None:
        """The connection is gone: fail all open calls and every later one."""
        if self._lost is not None:
            return
        self._lost = reason
        error = f"{self._node}: connection lost: {reason}"
        for waiting in [*self._pending.values(), self._hello]:
            if not waiting.done():
                waiting.set_exception(RemoteLost(error))
                # Nobody may be waiting for it any more.
                waiting.exception()
