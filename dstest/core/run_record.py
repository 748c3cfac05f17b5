"""What a run writes down about itself, apart from its record: `RunMeta`, the content of run.json,
with `RunSpec`, all that determines the run. The runner fills it in as it goes; who judges, reports
or repeats a run reads it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, Final, Self

import msgspec
from msgspec import UNSET, UnsetType

from dstest.core.evidence import Rerun, Tier, Transport
from dstest.core.history import ClockSource, Recovery
from dstest.core.protocols import Endpoint, RunningServer

SCHEMA: Final = 2
"""Of the run directories that this version makes."""


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
    `members_at` is who was a member as each fault was injected. `attached` are by node the servers
    that ran before the run.

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
    attached: dict[str, RunningServer] | None = None

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
    `attach`: the system runs already, and is left as it was.
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
    attach: bool = False
    options: dict[str, Any] = msgspec.field(default_factory=dict)
