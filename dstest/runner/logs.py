"""The system's logs, settings and core files: fetched from the nodes, with what was kept of them
written down; and logs that were kept, read for their alarms and for what is missing of them.

A log that is missing, empty, cut, changed since it was fetched, of another time, or that tells of
fewer starts than were seen (`SystemLogs.start`) is missing evidence. A gap in it is none: a server
may be silent for minutes when all is well.
"""

from __future__ import annotations

import asyncio
import base64
import gzip
import re
import zlib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec

from dstest.core import registry
from dstest.core.answers import check_log_files
from dstest.core.errors import ConfigError, DstestError
from dstest.core.implements import implements
from dstest.core.log_lines import LOG_MB, LOG_OPTION, PACKED, kept_as, kept_name, run_time_ns
from dstest.core.node import LabInfo
from dstest.core.protocols import Deployment, LocalFile, LogFiles, System
from dstest.core.residue import RUN_NOTE
from dstest.core.run_record import KeptLog, Logs, RunMeta, RunSpec
from dstest.history.layout import RunDir, opened_log
from dstest.judge.audit_rows import DISCONNECT, kind_of
from dstest.judge.facts import Alarm, ProcessFacts
from dstest.runner.adoption import alone

ALARMS_PER_SECOND_MAX: Final = 20
"""Of one kind and node: more of them in the same second say nothing new."""

ALARMS_MAX: Final = 20_000
LINE_MAX: Final = 300
SPAN_S: Final = 900.0
"""A log without any line from the time of the run, give or take this much, is of another run."""

NAMELESS: Final = "log"
"""Of a system that has logs, in a run that died before it said which: it is missed."""

LATEST_NS: Final = 1 << 62
EXCEPTION: Final = "exception"

APART_MAX: Final = 200
"""Lines of others between the beginning of a traceback and its end."""

_TRACEBACK: Final = re.compile(r"traceback \(most recent call last\)", re.IGNORECASE)
_FRAME: Final = re.compile(r'\s+File ".*", line \d+')

_RAISED: Final = re.compile(r"(?:[A-Za-z_]\w*\.)*_?[A-Z]\w*[a-z]\w*(?::\s|:?$)")
"""The end of a traceback: the exception, with its text or without; `INFO:` of a log is none."""

_CHAINED: Final = re.compile(
    r"During handling of the above exception|The above exception was the direct cause"
)

PLAIN_BYTES_MAX: Final = 8 << 20
"""A log that is longer is kept compressed."""

PART_BYTES: Final = 4 << 20

SETTINGS_BYTES_MAX: Final = 1 << 20

CORE_BYTES_MAX: Final = 64 << 20
"""A part of a core file is of no use: one that is larger stays on its node, with the node."""

CORES_MAX: Final = 1
"""Of each node, the first by name; the others are likely to be of the same crash."""


class LogFacts(msgspec.Struct, kw_only=True):
    """`lines` per node, None where the system offers no logs; `gaps` are sentences; `none` are the
    members that have no log."""

    lines: dict[str, int] | None = None
    alarms: list[Alarm] = msgspec.field(default_factory=list)
    gaps: list[str] = msgspec.field(default_factory=list)
    none: frozenset[str] = frozenset()


def log_names(system: Any, meta: RunMeta) -> dict[str, list[str]]:
    """Per member the names of the files that it has to offer; {} for a system without logs.

    The deployment has said which when it had its nodes.
    """
    if not implements(system.deployment, LogFiles):
        return {}
    told = meta.log_files
    if isinstance(told, dict):
        return {member: sorted(kept_as(paths).values()) for member, paths in told.items()}
    if told is not None:
        names = sorted({path.rsplit("/", 1)[-1] for path in told})
    else:
        logs = meta.logs or Logs()
        kept = [*logs.files, *logs.lost]
        names = sorted({name.partition("/")[2] for name in kept}) or [NAMELESS]
    members = meta.members or meta.nodes
    return {member: list(names) for member in members} if names else {}


class _Reader:
    """One log: lines, starts, alarms. A line without a stamp of its own, such as a runtime's last
    words, is of the time of the last line before it that has one."""

    def __init__(self, node: str, system: System, meta: RunMeta) -> None:
        self.node = node
        self.meta = meta
        self.logs = system.logs
        self.version = re.compile(self.logs.version) if self.logs.version else None
        self.versions: set[str] = set()
        self.lines = self.starts = self.stamped = self.in_time = 0
        self.alarms: list[Alarm] = []
        self.broken = ""
        self._ts: int | None = None
        self._undated: list[int] = []
        self._tracebacks: list[str] = []
        self._since = 0
        self._source = self._handled = False
        self._dense: dict[tuple[str, int], int] = {}

    def read(self, path: Path) -> None:
        try:
            with opened_log(path) as file:
                for line in file:
                    self._line(line)
        except (EOFError, OSError, zlib.error) as error:
            self.broken = f"{path.name} cannot be read to its end: {error}"
        self._give_up()

    def _line(self, line: str) -> None:
        self.lines += 1
        ts = run_time_ns(line, self.meta)
        if ts is not None:
            self._ts = ts
            for at in self._undated:
                self.alarms[at] = msgspec.structs.replace(self.alarms[at], until=ts)
            self._undated.clear()
            self.stamped += 1
            end_ns = int((self.meta.load_s or 0.0) * 1e9)
            self.in_time += -SPAN_S * 1e9 <= ts <= end_ns + SPAN_S * 1e9
        if self.logs.start and self.logs.start in line:
            self.starts += 1
        if self.version is not None and (told := self.version.search(line)):
            self.versions.add(told[1])
        if self._tracebacks and self._within(line):
            return
        if self._handled:
            self._chained(line)
        alarm = kind_of(line, self.logs.alarms, self.logs.harmless)
        if alarm is None:
            return
        if alarm == (EXCEPTION, False) and _TRACEBACK.search(line):
            self._tracebacks.append(line)
            self._since, self._source = 0, False
        else:
            self._alarm(line, alarm, dated=ts is not None)

    def _within(self, line: str) -> bool:
        """Is the line part of a traceback that is open? It ends with the exception, which tells
        what it was. Threads write theirs into one another."""
        said = line.strip()
        if _FRAME.match(line):
            self._source = True
            return True
        if line[:1].isspace() and (self._source or not said.strip("~^")):
            self._source = False
            return True
        if not _RAISED.match(said):
            self._since += 1
            if self._since > APART_MAX:
                self._give_up()
            return False
        first = self._tracebacks.pop()
        if any(text.lower() in said.lower() for text in self.logs.harmless):
            return True
        itself = kind_of(said, self.logs.alarms, ())
        if itself is not None and itself[0] not in (EXCEPTION, DISCONNECT):
            self._alarm(said, itself, dated=False)
            return True
        told = f"{first.strip()} ... {said}"
        alarm = kind_of(told, self.logs.alarms, ()) or (EXCEPTION, False)
        before = len(self.alarms)
        self._alarm(told, alarm, dated=False)
        self._handled = len(self.alarms) > before and alarm == (EXCEPTION, False)
        return True

    def _give_up(self) -> None:
        """Of tracebacks whose ends are nowhere the first line is all there is to tell."""
        while self._tracebacks:
            self._alarm(self._tracebacks.pop(), (EXCEPTION, False), dated=False)

    def _chained(self, line: str) -> None:
        """What a server was handling when it raised another exception is told by that one; but not
        a crash."""
        if self._handled and _CHAINED.match(line):
            self.alarms.pop()
            self._undated = [at for at in self._undated if at < len(self.alarms)]
        self._handled = self._handled and not line.strip()

    def _alarm(self, line: str, alarm: tuple[str, bool], *, dated: bool) -> None:
        second = (alarm[0], (self._ts or 0) // 1_000_000_000)
        self._dense[second] = self._dense.get(second, 0) + 1
        if self._dense[second] <= ALARMS_PER_SECOND_MAX and len(self.alarms) < ALARMS_MAX:
            kind, certain = alarm
            text = line.strip()[:LINE_MAX]
            until = None if dated else LATEST_NS
            if not dated:
                self._undated.append(len(self.alarms))
            self.alarms.append(
                Alarm(
                    node=self.node, line=text, ts=self._ts, until=until, kind=kind, certain=certain
                )
            )


def scan_logs(
    run: RunDir,
    system: Any,
    names: Mapping[str, Sequence[str]],
    meta: RunMeta,
    processes: ProcessFacts | None = None,
) -> LogFacts:
    """Alarms and gaps of the logs that each member has by `names`, and of any other file kept
    beside them."""
    expected = {node: [run.nodes / node / name for name in own] for node, own in names.items()}
    # Beside the logs there are folders, of settings and core files.
    paths_kept = sorted(path for path in run.nodes.glob("*/*") if path.is_file())
    if not any(names.values()) and not paths_kept:
        return LogFacts()
    lines = {node: 0 for node, own in names.items() if own}
    none = frozenset(node for node, own in names.items() if not own)
    result = LogFacts(lines=lines, none=none)
    readers: dict[Path, _Reader] = {}
    for path in paths_kept:
        node = path.parent.name
        reader = readers[path.with_name(kept_name(path.name))] = _Reader(node, system, meta)
        reader.read(path)
        lines[node] = lines.get(node, 0) + reader.lines
        result.alarms += reader.alarms
        if len(reader.alarms) >= ALARMS_MAX:
            result.gaps.append(f"{node}: {path.name} has more alarms than can be kept")
    recorded = meta.logs or Logs()
    result.gaps += _of_other_versions(readers, meta)
    for node, paths in expected.items():
        for path in paths:
            gap = _gap(path, readers.get(path), recorded, node, processes)
            result.gaps += [f"{node}: {gap}"] if gap else []
    return result


def _of_other_versions(readers: Mapping[Path, _Reader], meta: RunMeta) -> Iterator[str]:
    """Logs of servers of another version than the run says. Where several builds are tried, servers
    come that were not there when the members were asked."""
    said = meta.system_version
    if said is None or meta.spec.get("builds"):
        return
    for path, reader in readers.items():
        named = {*re.findall(r"[^\s,()]+", said)}
        if reader.versions and not {*reader.versions} & {*named, *(n.lstrip("v") for n in named)}:
            yield (
                f"{reader.node}: {path.name} is of version {', '.join(sorted(reader.versions))}, "
                f"and the run is said to be of {said}"
            )


def _gap(
    path: Path,
    reader: _Reader | None,
    recorded: Logs,
    node: str,
    processes: ProcessFacts | None,
) -> str | None:
    """What is missing of one log, None where it is whole."""
    key = f"{node}/{path.name}"
    if reader is None:
        why = recorded.lost.get(key, "")
        return f"no {path.name} was kept" + (f" ({why})" if why else "")
    if reader.broken or not reader.lines:
        return reader.broken or f"{path.name} is empty"
    sizes = recorded.files.get(key)
    if sizes is None:
        return f"whether all of {path.name} was kept is not recorded"
    if sizes.kept < sizes.bytes:
        return (
            f"{path.name} was cut: {sizes.kept:,} of {sizes.bytes:,} bytes were kept"
            f" (-o {LOG_OPTION} says how many MiB)"
        )
    if path.is_file() and path.stat().st_size != sizes.kept:
        return f"{path.name} has {path.stat().st_size:,} bytes, {sizes.kept:,} were fetched"
    if reader.stamped and not reader.in_time:
        return f"no line of {path.name} is of the time of this run"
    lives = 0
    if processes is not None:
        told = processes.lives_by_log.get(node, {})
        lives = told.get(path.name, processes.lives.get(node, 0))
    if reader.logs.start and reader.starts < max(1, lives):
        return (
            f"{path.name} is silent: it tells of {reader.starts} starts of a server, "
            f"{max(1, lives)} were seen"
        )
    return None


def note_of(meta: RunMeta) -> bytes:
    """What a run writes into `RUN_NOTE`, by its run.json."""
    return f"{meta.started} {meta.pid}\n".encode()


def fetch_left(run: RunDir, meta: RunMeta) -> str:
    """Of a run whose control node died: fetch the logs and settings that its nodes still have, as
    the end of the run would have, into `meta` and the directory. What came of it, in words; empty
    where there is nothing to be had. Nodes on which another run has begun since are left alone."""
    if meta.logs is not None or meta.started is None:
        return ""
    spec = msgspec.convert(meta.spec, RunSpec)
    if spec.attach:
        return ""  # the logs of such servers are not ours to fetch
    try:
        lab = registry.load("labs", meta.lab or spec.lab)
        info = None if meta.lab_id is None else lab.status(meta.lab_id)
        if info is None or lab.transport != "network":
            return ""
        wanted = [node for node in info.nodes if node.name in meta.nodes]
        with alone(info):
            return asyncio.run(_left(run, meta, spec, msgspec.structs.replace(info, nodes=wanted)))
    except ConfigError:
        return ""  # it cannot be judged here, which is said then
    except DstestError as error:
        return f"the logs that its nodes may still have were not fetched: {error.message}"
    except Exception as error:  # of a system's own file, which is asked what it would deploy
        what = f"{type(error).__name__}: {error}"
        return f"the logs that its nodes may still have were not fetched: {what}"


async def _left(run: RunDir, meta: RunMeta, spec: RunSpec, info: LabInfo) -> str:
    from clusters.remote import connect_all

    nodes = await connect_all(info)
    try:
        system = registry.load("systems", spec.system)
        names = meta.members or system.members(list(nodes), spec.options)
        members = {name: nodes[name] for name in names if name in nodes}
        deployment = system.deploy(list(members.values()), spec.options)
        argv = ["sh", "-c", f"cat {RUN_NOTE} 2>/dev/null"]
        for name, node in members.items():
            if (await node.run(argv, check=False)).stdout.encode() != note_of(meta):
                return f"its nodes have no logs of it any more: another run has begun on {name}"
        meta.members = list(members)
        if isinstance(deployment, LogFiles):
            meta.log_files = check_log_files(deployment, deployment.log_files())
        meta.logs = await fetch_logs(run, members, deployment, **log_settings(spec, system))
        meta.other_files = await fetch_settings_and_cores(run, members, deployment, {})
    finally:
        await asyncio.gather(*(node.close() for node in nodes.values()))
    fetched = len(meta.logs.files) if meta.logs is not None else 0
    return f"{fetched} logs of its servers were fetched from lab {info.lab_id}"


def log_settings(spec: RunSpec, system: Any) -> dict[str, Any]:
    """How `fetch_logs` keeps the logs of a run; what others read by its name stays plain."""
    return {
        "bytes_max": int(spec.options.get(LOG_OPTION, LOG_MB)) << 20,
        "plain": set(system.journals.names),
    }


async def fetch_logs(
    run: RunDir,
    nodes: Mapping[str, Any],
    deployment: Deployment | None,
    *,
    bytes_max: int = LOG_MB << 20,
    plain: Collection[str] = (),
) -> Logs | None:
    """Copy each member's logs to `nodes/NODE/NAME`, large ones compressed; what became of them,
    None of a system without logs. Of a longer one than `bytes_max` half of that is its beginning
    and half its end: what a server says first is what all else follows from. That it was longer is
    recorded and counts as missing evidence. Names that are in `plain` are never compressed."""
    if not isinstance(deployment, LogFiles):
        return None
    wanted = [
        (member, path, f"{member}/{name}")
        for member, paths in deployment.log_files().items()
        for path, name in kept_as(paths).items()
    ]
    kept = Logs()

    async def fetch(node: Any, path: str, name: str) -> None:
        try:
            size = int((await node.call("stat", path=path)).get("size", 0))
            small = min(size, bytes_max) <= PLAIN_BYTES_MAX
            if small or name.partition("/")[2] in plain:
                kept.files[name] = await _plain(run, node, path, name, size, bytes_max)
            else:
                kept.files[name] = await _packed(run, node, path, name, size, bytes_max)
        except DstestError as error:
            kept.lost[name] = error.message

    await asyncio.gather(*(fetch(nodes[node], path, name) for node, path, name in wanted))
    return kept


async def _plain(
    run: RunDir, node: Any, path: str, name: str, size: int, bytes_max: int
) -> KeptLog:
    data, hole_at = await _ends(node, path, bytes_max) if size > bytes_max else (b"", None)
    if hole_at is None:
        data = await node.get(path, bytes_max=bytes_max)
        size = max(size, len(data))
    run.write(f"nodes/{name}", data)
    return KeptLog(bytes=size, kept=len(data), hole_at=hole_at)


async def _packed(
    run: RunDir, node: Any, path: str, name: str, size: int, bytes_max: int
) -> KeptLog:
    """Part by part, so that no log has to be in memory."""
    whole = size <= bytes_max
    ends = [(0, size)] if whole else [(0, bytes_max // 2), (size - bytes_max // 2, size)]
    target = run.path / "nodes" / f"{name}{PACKED}"
    target.parent.mkdir(parents=True, exist_ok=True)
    kept, hole_at = 0, None
    with gzip.open(target, "wb", compresslevel=3) as out:
        for begin, end in ends:
            rest = b""
            for at in range(begin, end, PART_BYTES):
                wanted = min(PART_BYTES, end - at)
                row = await node.call("read", path=path, offset=at, bytes_max=wanted)
                data = base64.b64decode(row["data"])
                if begin and at == begin:
                    data = data[data.find(b"\n") + 1 :]
                lines, newline, rest_now = (rest + data).rpartition(b"\n")
                kept += out.write(lines + newline)
                rest = rest_now
            if end == size:  # its last line may have no end yet
                kept += out.write(rest)
            if not whole and hole_at is None:
                hole_at = kept
    return KeptLog(bytes=size, kept=kept, hole_at=hole_at)


async def fetch_settings_and_cores(
    run: RunDir,
    nodes: Mapping[str, Any],
    deployment: Deployment,
    cores: Mapping[str, Iterable[str]],
) -> Logs:
    """Copy the files that servers were started with to `nodes/NODE/config.d/`, and core files to
    `nodes/NODE/core.d/`; what became of them."""
    settings = {
        name: [
            path
            for service in member.services
            for path, what in service.files.items()
            if not isinstance(what, LocalFile)  # a program, and no setting
        ]
        for name, member in deployment.members.items()
    }
    found = await _fetch(run, nodes, _below("config.d", settings), SETTINGS_BYTES_MAX)
    wanted = {name: sorted(paths)[:CORES_MAX] for name, paths in cores.items()}
    dumped = await _fetch(run, nodes, _below("core.d", wanted), CORE_BYTES_MAX)
    return Logs(files={**found.files, **dumped.files}, lost={**found.lost, **dumped.lost})


def _below(folder: str, paths_of: Mapping[str, Iterable[str]]) -> list[tuple[str, str, str]]:
    return [
        (node, path, f"{node}/{folder}/{name}")
        for node, paths in paths_of.items()
        for path, name in kept_as(paths).items()
    ]


async def _fetch(
    run: RunDir, nodes: Mapping[str, Any], wanted: Iterable[tuple[str, str, str]], bytes_max: int
) -> Logs:
    """Copy files, given as (node, path, name): all of each, or nothing."""
    kept = Logs()

    async def fetch(node: Any, path: str, name: str) -> None:
        try:
            size = int((await node.call("stat", path=path)).get("size", 0))
            if size > bytes_max:
                kept.lost[name] = f"{path} has {size:,} bytes; at most {bytes_max:,} are fetched"
                return
            data = await node.get(path, bytes_max=bytes_max + 1)
            if len(data) > bytes_max:
                kept.lost[name] = f"{path} grew while it was fetched"
                return
        except DstestError as error:
            kept.lost[name] = error.message
            return
        run.write(f"nodes/{name}", data)
        kept.files[name] = KeptLog(bytes=max(size, len(data)), kept=len(data))

    await asyncio.gather(*(fetch(nodes[node], path, name) for node, path, name in wanted))
    return kept


async def _ends(node: Any, path: str, bytes_max: int) -> tuple[bytes, int]:
    """Whole lines of the beginning and of the end of a file, and how many bytes the first are."""
    half = bytes_max // 2
    head = await node.get(path, bytes_max=half, from_start=True)
    head = head[: head.rfind(b"\n") + 1]
    tail = await node.get(path, bytes_max=half)
    return head + tail[tail.find(b"\n") + 1 :], len(head)
