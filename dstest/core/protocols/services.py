"""What a system consists of on its nodes: members, their services, and where clients connect.

A *node* is a machine of the lab, a *member* is the system on one node, a *service* is one program
of a member with all the processes that it forks, an *endpoint* is where a client connects.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from signal import SIGTERM
from typing import Any, Final, Literal

import msgspec

EndpointKind = Literal["any", "primary", "replica", "proxy", "seed"]
PINNED_KINDS: Final[frozenset[EndpointKind]] = frozenset({"any", "primary", "replica"})
"""What a client sees at such an endpoint is the word of its node."""


class Probe(msgspec.Struct, frozen=True):
    """How to ask a service whether it is there: without its peers' help, without authentication.

    `send` goes to the TCP port, and what comes back has to begin with `expect`; any byte will do
    where that is empty. A server that speaks first is sent nothing.
    """

    port: int
    send: bytes = b""
    expect: bytes = b""


class LogWords(msgspec.Struct, frozen=True, kw_only=True):
    """Texts in a service's log. An orderly end leaves all of `shutdown`; `corruption` are lines
    about files that are not what was written; `no_files` tells of a process without descriptors.
    """

    shutdown: tuple[str, ...] = ()
    corruption: tuple[str, ...] = ()
    no_files: tuple[str, ...] = ("too many open files",)


class Ending(msgspec.Struct, frozen=True, kw_only=True):
    """How a service ends in good order: the signal that its main process is sent, and the statuses
    with which that ends then; a negative one is a signal.

    Many servers restore the default action of the signal when they have cleaned up, and send it to
    themselves.
    """

    signal: int = SIGTERM.value
    statuses: tuple[int, ...] = (0, -SIGTERM.value)


class LocalFile(msgspec.Struct, frozen=True):
    """A file of the control host that is laid on a node as it is, such as a program: its `path`
    here, a `Path` or text, best as `Path(__file__).with_name("mydb")`; its `mode` there."""

    path: Any
    mode: int = 0o755

    def __post_init__(self) -> None:
        msgspec.structs.force_setattr(self, "path", str(self.path))


class Service(msgspec.Struct, frozen=True, kw_only=True):
    """One supervised program of a member. Paths are absolute, on the node.

    `files` and `directories` are made before every start and belong to `user`; what is given as
    bytes can be read by all, and executed by nobody. `prepare` are
    commands for empty data, run once, in order; files within `data` are laid after them, over what
    they have made. `data` is what must survive a restart. `ports` are
    further ports by their purpose (`client`, `peer`). A service starts when those in `after` have.
    One that is `stuck_after` a write or a sync that failed serves again only when it is started
    again: so ends a fault of its disk. One that is `silent_without_majority` answers nobody while
    most members are away.
    """

    name: str
    argv: tuple[str, ...]
    probe: Probe
    user: str = "root"
    env: Mapping[str, str] = {}
    cwd: str = "/"
    files: Mapping[str, bytes | LocalFile] = {}
    directories: tuple[str, ...] = ()
    prepare: tuple[tuple[str, ...], ...] = ()
    data: tuple[str, ...] = ()
    log: str
    ports: Mapping[str, int] = {}
    after: tuple[str, ...] = ()
    words: LogWords = LogWords()
    ending: Ending = Ending()
    stuck_after: tuple[Literal["write", "sync"], ...] = ()
    silent_without_majority: bool = False


class Member(msgspec.Struct, frozen=True):
    """The system on one node. A member that does not `votes` is no part of a majority."""

    node: str
    services: Sequence[Service]
    votes: bool = True


class Endpoint(msgspec.Struct, frozen=True, kw_only=True):
    """Where clients connect.

    `any`: the member answers for itself, whatever its role. `primary`, `replica`: its role is
    fixed. `proxy`: it forwards. `seed`: a client asks it where to go, so that what is done to its
    node need not show in what the client sees. Where `dial` is given, a client that counts its
    calls connects to the system's `client_port` at that address instead of the node's.
    """

    node: str
    address: str
    port: int
    kind: EndpointKind = "any"
    dial: str = ""

    @property
    def pinned(self) -> bool:
        """Is what a client sees here the word of this node?"""
        return self.kind in PINNED_KINDS


class Timing(msgspec.Struct, frozen=True, kw_only=True):
    """How long healthy members of a system take, at most, on a busy small machine.

    `slowness` is set by the runner where nodes are slower than that, and the times with it.
    """

    start_s: float = 45.0
    answer_s: float = 1.0
    keepalive_s: float = 2.0
    """Between two messages of members that have nothing to say."""
    failover_s: float = 20.0
    rejoin_s: float = 15.0
    """From a member's process serving to its being part of the cluster again."""
    restart_s: float = 30.0
    stop_s: float = 20.0
    slowness: float = 1.0

    def slower(self, times: float) -> Timing:
        """The same on nodes so many times slower. What is up to timeouts of the system, and not to
        how fast it works, stays: `keepalive_s`, `failover_s`."""
        names = ("start_s", "answer_s", "rejoin_s", "restart_s", "stop_s")
        changed = {n: getattr(self, n) * times for n in names}
        return msgspec.structs.replace(self, **changed, slowness=times)


class Process(msgspec.Struct, frozen=True, array_like=True):
    """A process of a service; `start_time` is in clock ticks since the node booted.

    `main` is the one that was started; the others are what it has forked.
    """

    service: str
    pid: int
    start_time: int
    main: bool = True
