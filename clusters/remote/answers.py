"""What an agent may answer, by verb: whatever else comes from a node is no answer.

A node is the thing under test. It may be broken, and somebody else may have it: what it says is
looked at before anybody believes it.
"""

from __future__ import annotations

from typing import Annotated, Any, Final, NotRequired, TypedDict

import msgspec

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
