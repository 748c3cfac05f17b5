"""What a run writes down about itself, apart from its record: `RunMeta`, the content of run.json,
with `RunSpec`, all that determines the run; the names of the logs that it keeps, and the stamps of
their lines as run time; and `Live`, what it says of itself in live.json while it lasts.

The runner fills run.json in as it goes; who judges, reports or repeats a run reads it. live.json is
for people who watch and no evidence: it is in no check sum, gone before a run is sealed, and no
verdict reads it.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, ClassVar, Final, Literal, Self

import msgspec
from msgspec import UNSET, UnsetType

from dstest.core.evidence import Rerun, Tier, Transport
from dstest.core.history import ClockSource, Recovery
from dstest.core.protocols import Endpoint

SCHEMA: Final = 2
"""Of the run directories that this version makes."""

LOG_OPTION: Final = "log_mb"

LOG_MB: Final = 32
"""Mebibytes that a run keeps of each log where `-o log_mb` says nothing else."""

PACKED: Final = ".gz"
"""What the name of a large log ends with in a run directory, where it is kept compressed."""

_STRANGE: Final = re.compile(r"[^A-Za-z0-9._+=@,-]")
"""What no path of ours has: a node may name files as it likes."""

PART_MAX: Final = 100

_STAMP: Final = re.compile(
    r"(\d{4})[-/](\d\d)[-/](\d\d)[T ]([ \d]\d:\d\d:\d\d(?:[.,]\d{1,6})?)\d*(Z|[+-]\d\d:?\d\d)?"
)
"""Also as NATS writes it, with slashes, and as MariaDB does, with a space in front of an hour."""

_MONTHS: Final = (
    "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
)  # fmt: skip

_IN_WORDS: Final = re.compile(
    rf"(\d\d) ({'|'.join(_MONTHS)}) (\d{{4}}) (\d\d:\d\d:\d\d(?:\.\d{{1,6}})?)"
)
"""`23 Nov 2026 05:48:31.249`, as Redis writes it."""

_EPOCH: Final = re.compile(
    r"^\s*\[?(\d{10}(?:\.\d{1,9})?|\d{13})\]?\s"
    r"|[\"'](?:ts|t|time|timestamp|@timestamp|epoch|datetime)[\"']\s*:\s*"
    r"(\d{10}(?:\.\d+)?|\d\.\d+[eE]\+?0?9|\d{13}(?:\.\d+)?|\d{16}|\d{19})\s*[,}]"
)
"""Seconds since 1970, as zap writes them, or parts of seconds: at the beginning, or of a field."""

_SYSLOG: Final = re.compile(
    rf"^\s*(?:<\d{{1,3}}>)?({'|'.join(_MONTHS)}) {{1,2}}(\d{{1,2}})"
    r" (\d\d:\d\d:\d\d(?:\.\d{1,6})?)\s"
)
"""`Nov 28 12:00:01 host app[7]: ...`, as RFC 3164 has it: without a year."""

_DAY_NS: Final = 86_400_000_000_000

LIVE: Final = "live.json"
LIVE_PARTIAL: Final = ".live.json.partial"
LIVE_SCHEMA: Final = "dstest.live/1"

_BYTES_MAX: Final = 1_000_000
"""What a run says of itself is a few kB."""

RATES_MAX: Final = 60
"""Of so many looks, one a second, a run says how many operations went well."""

NodeState = Literal["answering", "refusing", "silent", "elsewhere", "idle"]


class Host(msgspec.Struct, frozen=True, kw_only=True):
    """The control host, and the versions of what ran on it."""

    dstest: str | None = None
    python: str | None = None
    kernel: str | None = None
    cpus: int | None = None
    libraries: dict[str, str] = msgspec.field(default_factory=dict)


class KeptLog(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Of a log on a node: its size, and how much of it was kept: its beginning up to `hole_at`, and
    its end, whole lines of both. Without a `hole_at` it is whole, or of an older version, which
    kept the end alone."""

    bytes: int
    kept: int
    hole_at: int | None = None


class Logs(msgspec.Struct, frozen=True, kw_only=True):
    """Files of the nodes by `NODE/NAME`: those that were fetched, and why the others were not."""

    files: dict[str, KeptLog] = msgspec.field(default_factory=dict)
    lost: dict[str, str] = msgspec.field(default_factory=dict)

    def gaps(self, only: Callable[[str], bool]) -> list[str]:
        """What was not kept of files whose name, as it is on a node, is one of these: a sentence
        each."""
        found = [
            f"{at}: {one.bytes - one.kept:,} of {one.bytes:,} bytes were not kept, "
            + ("its beginning" if one.hole_at is None else f"behind the first {one.hole_at:,}")
            for at, one in sorted(self.files.items())
            if one.kept < one.bytes and only(at.partition("/")[2])
        ]
        found += [
            f"{at} was not kept: {why}"
            for at, why in sorted(self.lost.items())
            if only(at.partition("/")[2])
        ]
        return found


class RunMeta(msgspec.Struct, kw_only=True, omit_defaults=True):
    """Filled in from top to bottom, as the phases of a run come. Times are run nanoseconds. None,
    and UNSET where None means something, stand for what the run did not come to write: such a key
    is not in the file. What another version wrote besides is in `other` and stays in the file.

    `schema` is the form of the run directory (`dstest.history.layout`); 1 did not say so.

    `spec` is the `RunSpec` as plain data, `options_given` the options as the user wrote them,
    `checkers` the names of the declared ones, `nodes` those of the lab, `claims` the workload's,
    `plugin_files` the digests of the user's own files. `pid` with its start time in clock ticks
    tells whether the run still lives. `clock_start_ns` and `clock_end_ns` are wall minus monotonic
    clock of the control host, those of the nodes are in `node_clocks_*`. `node_offsets_*` are by
    node its wall clock minus our monotonic one and the doubt of that, half of the shortest way
    there and back. `cleaned` is what earlier runs had left on the nodes. `transport` is the path
    that the lab and the system have declared.
    `members_at` is who was a member as each fault was injected.

    `stopped_by` is the violation that ended the load. `settled_ns` is since when the load went well
    after the last heal, `load_end_ns` when it was told to end. `healthy` is which members served
    then. `heal_problems` and `clean_up_problems` are what went wrong in the end, `residue` what was
    left on the nodes. `worker_exits` are the statuses of the load workers, `load` its figures,
    `traffic` the operations by node as the board counts them. `replicas` is each member's state at
    the end; `processes` the `ProcessFacts`, `logs` and `other_files` what was fetched of logs, and
    of settings and core files.

    `log_files` are the paths of the logs that each member has; a list, of older runs, is what each
    of all members has.

    Of a simulation, `events` counts what happened in it, `digest` is over all of that, and
    `failures` are ends of servers and errors that no fault had asked for.

    `monitor` is how the nodes were sampled: how often, how many samples of each, what it cost.

    `ended_by` is the error that ended the run early, None where it ended by itself; `rerun` is what
    its replays showed.
    """

    schema: int = 1
    spec: dict[str, Any]
    options_given: list[str] | None = None
    model: str
    checkers: list[str]
    nodes: list[str]
    faults_planned: int
    claims: list[str] | None = None
    plugin_files: dict[str, str] | None = None
    clock: ClockSource
    started: str | None = None
    pid: int | None = None
    pid_start_time: int | UnsetType | None = UNSET
    tier_wanted: Tier | None = None
    lab_id: str | None = None

    host: Host | None = None
    lab: str | None = None
    transport: Transport = "network"
    cleaned: dict[str, list[str]] | None = None
    system_version: str | None = None
    builds_in_use: dict[str, str] = msgspec.field(default_factory=dict)
    members: list[str] | None = None
    log_files: dict[str, list[str]] | list[str] | None = None
    endpoints: list[Endpoint] | None = None
    workers: int | None = None
    node_clocks_start_ns: dict[str, int] | None = None
    node_offsets_start_ns: dict[str, tuple[int, int]] | None = None
    clock_start_ns: int | None = None
    origin_ns: int | None = None
    members_at: dict[str, list[str]] | None = None

    stopped_by: str | None = None
    settled_ns: int | UnsetType | None = UNSET
    recoveries: list[Recovery] | None = None
    load_s: float | None = None
    healthy: dict[str, bool] | None = None
    load_end_ns: int | UnsetType | None = UNSET
    missing_capability: list[str] | None = None
    traceback: str | None = None

    heal_problems: list[str] | None = None
    residue: dict[str, list[str]] | None = None
    worker_exits: list[int | None] | None = None
    load: dict[str, int] | None = None
    traffic: dict[str, dict[str, int]] | None = None
    clock_end_ns: int | None = None
    node_clocks_end_ns: dict[str, int] | None = None
    node_offsets_end_ns: dict[str, tuple[int, int]] | None = None
    cpu_s: dict[str, float] | None = None
    replicas: dict[str, str | None] | None = None
    processes: dict[str, Any] | None = None
    logs: Logs | None = None
    other_files: Logs | None = None
    clean_up_problems: list[str] | None = None
    events: int | None = None
    digest: str | None = None
    failures: list[str] | None = None
    monitor: dict[str, Any] | None = None

    ended_by: str | UnsetType | None = UNSET
    rerun: Rerun | None = None
    other: dict[str, Any] = msgspec.field(default_factory=dict)

    AT_THE_END: ClassVar[frozenset[str]] = frozenset(
        {
            *("spec", "options_given", "model", "checkers", "nodes", "faults_planned", "claims"),
            *("clock", "started", "pid", "host", "lab", "tier_wanted", "system_version", "workers"),
            *("worker_exits", "clock_start_ns", "clock_end_ns", "origin_ns", "recoveries"),
            *("node_clocks_start_ns", "node_clocks_end_ns", "settled_ns", "load_s", "load_end_ns"),
            *("healthy", "residue", "load", "traffic", "cpu_s", "processes", "logs"),
            "cleaned",
        }
    )
    """What is written of a run that ended by itself."""

    OF_NODES: ClassVar[frozenset[str]] = frozenset(
        {"node_clocks_start_ns", "node_clocks_end_ns", "processes", "logs", "cleaned"}
    )
    """Of these, what is asked of nodes that are machines."""

    SIMULATED: ClassVar[frozenset[str]] = frozenset({"events", "digest", "failures"})
    """What is written besides where there were none."""

    def made_by(self, version: str) -> bool:
        """Did this version make it, as far as it says? Another one may word sentences, and headers
        of histories, differently."""
        return self.host is None or self.host.dstest in (None, version)

    @classmethod
    def of(cls, plain: Any) -> Self:
        """From the JSON object. Raises msgspec.ValidationError."""
        if not isinstance(plain, dict):
            raise msgspec.ValidationError("not an object")
        known = set(cls.__struct_fields__) - {"other"}
        other = {key: value for key, value in plain.items() if key not in known}
        return msgspec.convert({**plain, "other": other}, cls)

    @property
    def plain(self) -> dict[str, Any]:
        """As the JSON object."""
        rows: dict[str, Any] = msgspec.to_builtins(self)
        other = rows.pop("other", {})
        return {**rows, **other}


class RunSpec(msgspec.Struct, frozen=True, kw_only=True):
    """One run. `rate` is offered operations per second over all clients, None = closed loop.

    `schedule` is the file that the faults were taken from, None where they were planned by seed.
    `files` are absolute paths of plug-ins of the user's own (`core.plugin_files`), `builds` are
    names of builds of the system (`core.builds`) that the nodes have instead of Debian's.
    `checkers` are asked beside those of the workload. `monitor`: nodes are sampled.
    `options` holds every `-o key=value`, already typed by the plug-in that declares the key.
    """

    system: str = "etcd"
    workload: str = "register"
    nemesis: str = "partition"
    lab: str = "lxc"
    nodes: int = 5
    time_limit_s: float = 60.0
    rate: float | None = None
    concurrency: int = 20
    seed: int = 0
    model: str | None = None
    schedule: str | None = None
    stop_on_violation: bool = False
    monitor: bool = True
    files: tuple[str, ...] = ()
    builds: tuple[str, ...] = ()
    checkers: tuple[str, ...] = ()
    options: dict[str, Any] = msgspec.field(default_factory=dict)


def kept_as(paths: Iterable[str]) -> dict[str, str]:
    """Path -> name: the base name, with as many folders before it as no other path ends with.

    `/opt/db/log` and `/opt/proxy/log` are `db-log` and `proxy-log`.
    """
    ends = {path: _ends(path) for path in paths}
    found = {}
    for path, mine in ends.items():
        others = {end for other, theirs in ends.items() if other != path for end in theirs}
        found[path] = next((end for end in mine if end not in others), mine[-1])
    return found


def kept_name(name: str) -> str:
    """The name of a log, kept compressed or not."""
    return name.removesuffix(PACKED)


def _ends(path: str) -> list[str]:
    """The base name, that with its folder, and so on up to the whole path."""
    parts = [_STRANGE.sub("_", part).lstrip(".")[-PART_MAX:] for part in path.split("/")]
    parts = [part for part in parts if part] or ["unnamed"]
    return ["-".join(parts[at:]) for at in range(len(parts) - 1, -1, -1)]


def _of_epoch(text: str) -> int:
    whole, _, rest = text.partition(".")
    if "e" in text.lower():
        return round(float(text) * 1e6) * 1000
    unit_ns: int = 10 ** (19 - len(whole))  # 10 digits are seconds, 13 milliseconds, ...
    return int(whole) * unit_ns + int(float(f"0.{rest or 0}") * unit_ns)


def _of_syslog(found: re.Match[str], now_ns: int | None) -> int | None:
    """In the last year that ends with `now_ns`."""
    if now_ns is None:
        return None
    now = datetime.datetime.fromtimestamp(now_ns / 1e9, datetime.UTC)
    for year in (now.year + 1, now.year, now.year - 1):
        text = f"{year}-{_MONTHS.index(found[1]) + 1:02}-{int(found[2]):02}T{found[3]}+00:00"
        try:
            wall_ns = int(datetime.datetime.fromisoformat(text).timestamp() * 1e9)
        except ValueError:
            continue
        if wall_ns <= now_ns + _DAY_NS:
            return wall_ns
    return None


def _as_iso(found: re.Match[str]) -> str:
    return f"{found[3]}-{_MONTHS.index(found[2]) + 1:02}-{found[1]} {found[4]}"


def wall_time_ns(line: str, now_ns: int | None = None) -> int | None:
    """A line's own stamp (UTC unless it says otherwise), in nanoseconds since 1970; None where it
    has none. `now_ns` is when it was read: a stamp without a year is of the last one."""
    match = _STAMP.search(_IN_WORDS.sub(_as_iso, line, count=1))
    if match is None:
        if (epoch := _EPOCH.search(line)) is not None:
            return _of_epoch(epoch[1] or epoch[2])
        syslog = _SYSLOG.match(line)
        return None if syslog is None else _of_syslog(syslog, now_ns)
    year, month, day, time, zone = match.groups()
    time = time.replace(" ", "0").replace(",", ".") + (zone or "Z").replace("Z", "+00:00")
    try:
        stamp = datetime.datetime.fromisoformat(f"{year}-{month}-{day}T{time}")
    except ValueError:
        return None
    return int(stamp.timestamp() * 1e9)


def run_time_ns(line: str, meta: RunMeta) -> int | None:
    """A line's own stamp as run time; None where it has none."""
    if meta.origin_ns is None or meta.clock_start_ns is None:
        return None
    wall_ns = wall_time_ns(line, meta.clock_start_ns + meta.origin_ns)
    return None if wall_ns is None else wall_ns - meta.clock_start_ns - meta.origin_ns


class Ops(msgspec.Struct, frozen=True, kw_only=True):
    """Operations since the load began."""

    invoked: int = 0
    ok: int = 0
    fail: int = 0
    unknown: int = 0


class NodeNow(msgspec.Struct, frozen=True, kw_only=True):
    """How operations that a node's own clients sent to it ended in the last five seconds.

    `answering`: some went well. `refusing`: none did, some failed. `silent`: none did or failed,
    though some are under way or ended with an unknown outcome. `elsewhere`: what its clients ask
    goes to other nodes. `idle`: nobody asks it.
    """

    name: str
    ok: int = 0
    fail: int = 0
    unknown: int = 0
    state: NodeState = "idle"


class Counter(msgspec.Struct, frozen=True, kw_only=True):
    """A counter of what injects a fault, before it and as it was read `age_s` ago."""

    name: str
    before: int
    now: int
    age_s: float


class FaultNow(msgspec.Struct, frozen=True, kw_only=True):
    """A fault that is not healed yet. `since_s` counts from its injection, and is 0 before it.

    `counter` is None for faults that have no counter which can be read while they stand; `detail`
    is what the last look at the fault found.
    """

    id: str
    nemesis: str
    on: list[str]
    state: Literal["injecting", "landed", "in doubt", "not landed", "healing"]
    since_s: float = 0.0
    counter: Counter | None = None
    detail: str = ""


class NextFault(msgspec.Struct, frozen=True, kw_only=True):
    """The next planned fault; `in_s` is 0 where it waits for the cluster to recover."""

    id: str
    nemesis: str
    in_s: float


class Live(msgspec.Struct, frozen=True, kw_only=True):
    """A run at one moment. `at_ns` is unix time.

    `elapsed_s` counts from the start of the load, before that from the making of the run directory.
    `left_s` is what is left of the time of the load, None before it and after it; at 0 the load may
    go on until a recovery is measured. `rates` are operations that went well per second, one for
    each of the last looks, oldest first; the last one is `rate_per_s`. `unhealed` are faults
    that do not stand any more as far as their nemesis knows, and whose heal nothing has proven:
    `f1 partition`.
    """

    schema: str = LIVE_SCHEMA
    pid: int
    phase: str
    at_ns: int
    elapsed_s: float
    left_s: float | None = None
    ops: Ops = Ops()
    rate_per_s: float = 0.0
    nodes: list[NodeNow] = msgspec.field(default_factory=list)
    faults: list[FaultNow] = msgspec.field(default_factory=list)
    unhealed: list[str] = msgspec.field(default_factory=list)
    next_fault: NextFault | None = None
    faults_left: int = 0
    phases: list[str] = msgspec.field(default_factory=list)
    rates: list[float] = msgspec.field(default_factory=list)
    title: str = ""


def _places(run: Path) -> Iterator[Path]:
    return (run / name for name in (LIVE, LIVE_PARTIAL))


def forget_live(run: Path) -> None:
    """Remove what a run, or a process that died with it, has left of it. Raises OSError."""
    for path in _places(run):
        path.unlink(missing_ok=True)


def read_live(run: Path) -> Live | None:
    """What the run in this directory said last, None where it says nothing that can be read."""
    try:
        with (run / LIVE).open("rb") as file:
            data = file.read(_BYTES_MAX + 1)
        if len(data) > _BYTES_MAX:
            return None
        live = msgspec.json.decode(data, type=Live)
    except (OSError, ValueError, RecursionError):
        return None
    return live if live.schema == LIVE_SCHEMA else None
