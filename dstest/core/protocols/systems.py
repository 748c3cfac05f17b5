"""Systems under test: what they consist of, what every deployment of one can do, and how it is
read: the questions that `dstest monitor` asks servers, the lines of their logs, and their effects.

A *node* is a machine of the lab, a *member* is the system on one node, a *service* is one program
of a member with all the processes that it forks, an *endpoint* is where a client connects.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from signal import SIGTERM
from types import MappingProxyType
from typing import Any, Final, Literal, Protocol, runtime_checkable

import msgspec

from dstest.core.node import heard_at
from dstest.core.op import Op

EndpointKind = Literal["any", "primary", "replica", "proxy", "seed"]
PINNED_KINDS: Final[frozenset[EndpointKind]] = frozenset({"any", "primary", "replica"})
"""What a client sees at such an endpoint is the word of its node."""

Topic = Literal["consensus-timeout", "conflict", "cut-off", "connection", "oom", "calm"]
"""What a line is about: a decision that came too late; writes at odds; members that do not see one
another; one connection that failed; no memory. `calm`: nothing of these, whatever its words are."""

Vote = Literal["", "granted", "rejected"]
Side = Literal["", "sent", "received"]
Kind = Literal["", "request", "response"]
Role = Literal["", "primary", "replica"]

_NONE: Final[Mapping[str, int]] = MappingProxyType({})
_NO_NAMES: Final[Mapping[str, str]] = MappingProxyType({})


class Probe(msgspec.Struct, frozen=True):
    """How to ask a service whether it is there: without its peers' help, without authentication.

    `send` goes to the TCP port, and what comes back has to begin with `expect`; any byte will do
    where that is empty. A server that speaks first is sent nothing. Who listens at that port of
    another address than those of `at` is somebody else; empty: whoever listens there is meant.
    """

    port: int
    send: bytes = b""
    expect: bytes = b""
    at: tuple[str, ...] = ()

    def asks_at(self, local: str) -> bool:
        """Is this who listens there? `local` is an address with its port, as `ss` writes it."""
        address, port = heard_at(local)
        return port == self.port and (not self.at or address in self.at)


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
    calls connects to the system's `client_port` at that address instead of the node's. Where a
    `prefix` is given, servers hold what is not ours: all keys of clients begin with it.
    """

    node: str
    address: str
    port: int
    kind: EndpointKind = "any"
    dial: str = ""
    prefix: str = ""

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


class Relaxation(msgspec.Struct, frozen=True, kw_only=True):
    """What a system promises instead of more: this `model`, and `source` is where it says so. Where
    `option` is not empty, only with this `value` of it."""

    model: str
    source: str
    option: str = ""
    value: Any = None

    def holds(self, options: Mapping[str, Any]) -> bool:
        """Does it count in a run with these options?"""
        return not self.option or options.get(self.option) == self.value


class Caution(msgspec.Struct, frozen=True, kw_only=True):
    """What the documentation of a system warns of, and a reader of its failure has to know: what it
    `says`, as the end of "NAME documents that ...", and `source` is where. Only in runs whose
    options have one of the values `when`, and none of those `unless`, given or by default; where
    it is about `power`, only in those whose faults take what was not synced. `instead` are options
    with which it does not hold, or holds for less."""

    says: str
    source: str
    when: Mapping[str, tuple[Any, ...]] = {}
    unless: Mapping[str, tuple[Any, ...]] = {}
    power: bool = False
    instead: Mapping[str, Any] = {}

    def holds(self, options: Mapping[str, Any]) -> bool:
        """Does it count in a run with these options?"""
        return all(options.get(name) in values for name, values in self.when.items()) and not any(
            name not in options or options[name] in values for name, values in self.unless.items()
        )


class Deployment(Protocol):
    """A system on the nodes of one lab.

    `members` are called as their nodes. What it can do besides are capabilities: it has the methods
    of those that it offers. A class that names a capability among its bases must have all of its
    methods.
    """

    timing: Timing

    @property
    def members(self) -> Mapping[str, Member]: ...

    def endpoints(self) -> list[Endpoint]:
        """Where clients connect."""
        ...

    async def install(self) -> None: ...

    async def start(self) -> None:
        """Start all members with empty data and return when every one of them serves."""
        ...

    async def stop(self) -> None: ...

    async def wipe(self) -> None: ...

    async def version(self) -> str: ...

    async def healthy(self) -> dict[str, bool]:
        """Per member: does it do, right now, what its role promises? Of one that serves clients
        that is a request which is answered by the cluster, not by a member that was left alone."""
        ...


class RunningServer(msgspec.Struct, frozen=True, kw_only=True):
    """A server that ran before us, as it was found on its node: the `port` at which clients ask it,
    its main process with its start time in clock ticks since the node booted, the file that it
    runs, its arguments; the `unit` of systemd that it is in, empty for none; its `version`."""

    port: int
    pid: int
    start_time: int
    program: str
    arguments: tuple[str, ...]
    unit: str = ""
    version: str = ""


@runtime_checkable
class Attached(Protocol):
    """Servers that others have started, and that are left as they were: looked for instead of
    deployed. `start` and `stop` neither start nor stop any; `stop` takes away what clients have
    written."""

    async def look(self) -> None:
        """Finds the server of each node; before anything else is asked. Raises LabError where there
        is none, or more than one could be meant, or where they are no cluster of these nodes."""
        ...

    def found(self) -> dict[str, RunningServer]:
        """By node, as it was when it was looked for."""
        ...

    def addresses(self, name: str) -> Sequence[str]:
        """Those of a node at which its server may be asked, as `ss` writes them."""
        ...

    async def remarks(self) -> list[str]:
        """What a person ought to know of the servers, in sentences."""
        ...

    def lacks(self) -> Mapping[str, str]:
        """By the name of a capability that the class has: why these servers do not have it."""
        ...


class Reading(msgspec.Struct, frozen=True, kw_only=True):
    """One number of an answer. `at` is its place: of JSON a path of keys, as `ok.term`, of a page
    of text the name of a metric, whose series are added up.

    `gauge` is the number itself, `less` that at `at` without that at `over`; `rate` is by how much
    it grew per second, `mean` by how much it grew per one that `over` grew. All times `scale`.
    """

    name: str
    unit: str
    at: str
    over: str = ""
    kind: Literal["gauge", "less", "rate", "mean"] = "gauge"
    scale: float = 1.0


class Asks(msgspec.Struct, frozen=True, kw_only=True):
    """A question that each member is asked by its own node, at the node's address and this port:
    without its peers' help, without authentication, and so cheap that it changes nothing.

    `json`: the answer is one line; `text`: a page, until the server closes.
    """

    port: int
    send: str
    form: Literal["json", "text"]
    readings: tuple[Reading, ...]
    every_s: float = 1.0


class LogRecord(msgspec.Struct, frozen=True, kw_only=True):
    """One line of a log, in words that are the same for all systems. What it does not say is empty
    or None.

    `level` is debug, info, warning, error or critical. `node` is who says it, where the line names
    somebody else than the owner of the log; `peer` is the other member that it is about, by name,
    address or id, and `aliases` are names of members by such ids, empty for the owner of the log
    itself. `operation` with `operation_id` is a request of a client and `failed` what it came to;
    `duration_ms` how long it took, of a log that tells of every operation and not of slow ones
    alone. A `vote` is `voter`'s (else the node's) in `ballot`. `message_id` names one message
    between members, `exchange` is what a request and its response share, `kind` says which of them
    it is and `side` whether this node sent or received it. `applied` is the index up to which the
    state has been applied whose hash is `state`. `vector` is a vector clock. `role` is what the
    server that wrote the line is at that moment, by its own word; where it has just `turned` into
    that, a replica is `peer`'s, and one without a role has begun anew. `topics` are what the line
    is about where its words alone do not say so.
    """

    message: str
    level: str = ""
    node: str = ""
    peer: str = ""
    aliases: Mapping[str, str] = _NO_NAMES
    operation: str = ""
    operation_id: str = ""
    failed: bool | None = None
    duration_ms: float | None = None
    vote: Vote = ""
    voter: str = ""
    ballot: str = ""
    message_id: str = ""
    exchange: str = ""
    kind: Kind = ""
    side: Side = ""
    applied: int | None = None
    state: str = ""
    vector: Mapping[str, int] = _NONE
    role: Role = ""
    turned: bool = False
    topics: frozenset[Topic] = frozenset()


@runtime_checkable
class LogReader(Protocol):
    """How the lines of a system's logs are read. `form` is what it calls them, for people."""

    form: str

    def record_of(self, line: str) -> LogRecord | None:
        """What a line says; None where it is not of this form, and is read as any other log is."""
        ...


class Effect(msgspec.Struct, frozen=True, kw_only=True):
    """One operation as a member applied it, in the words of the client history.

    `index` is its place in the order of all effects of the cluster, the same on each member.
    `request` names what asked for it where that may be sent again; `again`: the member knew the
    request, and nothing was done. `refused`: it came to nothing, as the client was told.
    `replayed`: it was read from disk when the member started.
    """

    index: int
    op_type: str
    key: Any
    input: Any
    result: Any
    term: int | None = None
    request: str = ""
    again: bool = False
    refused: bool = False
    replayed: bool = False


END: Final = b'{"end": true}\n'
"""The last line of a member that has told all that it has applied."""


@runtime_checkable
class EffectLog(Protocol):
    """`file` is the name of the file among a member's logs, a JSON object per line, `first` the
    place of the first entry in the order of all. `types_of` has the operations of a workload whose
    effects stand in it, with all that was asked; reads need not. `asked` is an operation in the
    words of its effect, and with `fail` if it was told that it has none. `objects` has by type the
    object in plain Python (`checkers.second.objects`) that does such operations again. `effect_of`
    reads a line: the place, and None for an entry that no client asked for. ValueError, KeyError
    or TypeError for what is no such line. `at_end`: members tell it when the load is over, with
    `END` where it is all, of a store in which others may have keys as well; else as they go, and
    the last of it may be missing.

    A member writes an effect down before it answers, and one that it has kept on disk again when it
    starts: otherwise an effect that is missing at the end of the order would prove nothing.
    """

    file: str
    first: int
    objects: Mapping[str, str]
    at_end: bool

    def types_of(self, workload: str) -> frozenset[str]: ...

    def asked(self, op: Op) -> Op: ...

    def effect_of(self, record: dict[str, Any]) -> tuple[int, Effect | None]: ...


class SystemLogs(msgspec.Struct, frozen=True, kw_only=True):
    """What the logs of a system's servers say. Each text is a part of a line."""

    alarms: tuple[str, ...] = ()
    """Of lines that tell of damage, besides those of any system: what no healthy server writes that
    has lost a peer or a client."""

    harmless: tuple[str, ...] = ()
    """Of healthy lines that look like alarms."""

    start: str = ""
    """What each start writes once."""

    version: str = ""
    """A regular expression whose group is the version that a server names."""

    reader: LogReader | None = None
    """What a line says; without one they are read as any text is (docs/reference/explain.md)."""


@runtime_checkable
class AppliedOrder(Protocol):
    """Can tell at the end of a run what its members have applied, in their order, where no file of
    theirs does: lines of the system's `EffectLog`. `audited`: somebody has asked for that."""

    @property
    def audited(self) -> bool: ...

    def applied(self, name: str) -> AsyncIterator[bytes]:
        """A member's lines. Raises LabError where it does not tell all."""
        ...


class Journals(msgspec.Struct, frozen=True, kw_only=True):
    """Files that servers write for us beside their logs: how that of their `effects` is read, the
    name of that of their `spans`, the names of those with the steps of their `protocol`."""

    effects: EffectLog | None = None
    spans: str = ""
    protocol: frozenset[str] = frozenset()

    @property
    def names(self) -> frozenset[str]:
        """Of all of them."""
        one = {self.spans, "" if self.effects is None else self.effects.file} - {""}
        return self.protocol | one
