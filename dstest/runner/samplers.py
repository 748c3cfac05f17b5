"""What is looked at for the whole of a run, every second or two, whatever the faults do: the kernel
of the control host (`host.jsonl`), what nodes have sampled of themselves, and the system's
processes.

Nothing here ends a run, whatever a node does. What counts as an event is decided when the run is
judged (`dstest.judge.host_events`).
"""

from __future__ import annotations

import asyncio
import os
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec

from dstest.core import clock
from dstest.core.clock import RunClock
from dstest.core.errors import DstestError
from dstest.core.log_lines import kept_as
from dstest.core.protocols import (
    Attached,
    DataDir,
    Deployment,
    LogFiles,
    Process,
    Processes,
    Service,
)
from dstest.core.protocols.systems import Asks
from dstest.debug.monitor.client import NODES, Sample, encode_rows, unit_of
from dstest.history.layout import RunDir
from dstest.judge.facts import ProcessEvent, ProcessFacts
from dstest.judge.host_events import HOST, SAMPLE_S, HostSample

GROUPS_EVERY: Final = 10
GROUPS_MAX: Final = 500
"""Control groups that are looked at, and after how many samples they are listed again."""

_CPU_GROUPS: Final = (Path("/sys/fs/cgroup/cpu"), Path("/sys/fs/cgroup"))
_TICKS_PER_S: Final = os.sysconf("SC_CLK_TCK")
_STEAL: Final = 7
"""Place of the stolen ticks in the first line of /proc/stat."""

_PAIRS: Final = 5

FETCH_S: Final = 2.0
CALL_TIMEOUT_S: Final = 3.0
FINISH_S: Final = 10.0
FETCHES_MAX: Final = 40

LOOKS: Final = 30
"""Answers among which the quickest tells where a node's clock stands: clocks drift."""

SAMPLES_MAX: Final = 3600
"""Of each node: a run of more than an hour is sampled less often than once a second."""

LOOK_S: Final = 1.0
LOOK_TIMEOUT_S: Final = 4.0

UNSEEN_S: Final = 12.0
"""A node that could not be asked for so long may have lost a process and got it back."""

OOM_EVERY: Final = 5

_CORES: Final = """\
pattern=$(cat /proc/sys/kernel/core_pattern)
case $pattern in
'|'*) echo '|'; exit 0 ;;
/*) folders=${pattern%/*}; name=${pattern##*/} ;;
*) folders=$(for pid in $1; do readlink /proc/$pid/cwd; done; echo "$2"); name=$pattern ;;
esac
for folder in $folders; do
    find "$folder" -maxdepth 1 -type f -name "$(printf %s "$name" | sed 's/%./*/g')" \
        -newermt "@$0" 2>/dev/null
done | sort -u
"""


class HostSampler:
    """`run()` takes samples until it is cancelled.

    A violation that shows while the host stood still, or while somebody set its clock, may be one
    of the host. All of it is read in a thread, so that a disk that hangs holds nobody up.
    """

    def __init__(self, run: RunDir, run_clock: RunClock, proc: Path = Path("/proc")) -> None:
        self._path = run.path / HOST
        self._clock = run_clock
        self._proc = proc
        self._groups: list[Path] = []
        self._taken = 0

    async def run(self) -> None:
        """For ever; a disk that refuses ends it, and the run is judged without."""
        due_ns = self._clock.now_ns()
        try:
            with self._path.open("ab", buffering=0) as file:
                while True:
                    late_ns = max(0, self._clock.now_ns() - due_ns)
                    await asyncio.to_thread(self._note, file.fileno(), late_ns)
                    due_ns = max(due_ns, self._clock.now_ns()) + int(SAMPLE_S * 1e9)
                    await self._clock.until(due_ns)
        except OSError:
            return

    def _note(self, fd: int, late_ns: int) -> None:
        began_ns = clock.monotonic_ns()
        os.fsync(fd)
        fsync_ns = clock.monotonic_ns() - began_ns
        sample = self.sample(late_ns, fsync_ns)
        os.write(fd, msgspec.json.encode(sample) + b"\n")

    def sample(self, late_ns: int = 0, fsync_ns: int | None = None) -> HostSample:
        """What the host says now. What it does not say is None."""
        if self._taken % GROUPS_EVERY == 0:
            self._groups = list(_groups())
        self._taken += 1
        ticks = [int(word) for word in self._words("stat", "cpu ")]
        counted = self._vmstat()
        swap = [counted[name] for name in ("pswpin", "pswpout") if name in counted]
        return HostSample(
            time_ns=self._clock.now_ns(),
            wall_minus_mono_ns=_wall_minus_mono_ns(),
            late_ns=late_ns,
            steal=ticks[_STEAL] / _TICKS_PER_S if len(ticks) > _STEAL else None,
            cpu=sum(ticks[: _STEAL + 1]) / _TICKS_PER_S if ticks else None,
            oom_kills=counted.get("oom_kill"),
            swapped=sum(swap) if swap else None,
            stalled=self._stalled(),
            throttled=dict(_throttled(self._groups)),
            fsync_ns=fsync_ns,
            free_bytes=_free_bytes(self._path.parent),
        )

    def _words(self, name: str, start: str) -> list[str]:
        """What follows `start` in the line of a file that begins with it."""
        for line in _lines(self._proc / name):
            if line.startswith(start):
                return line[len(start) :].split()
        return []

    def _vmstat(self) -> dict[str, int]:
        rows = (line.split() for line in _lines(self._proc / "vmstat"))
        return {row[0]: int(row[1]) for row in rows if len(row) == 2 and row[1].isdigit()}

    def _stalled(self) -> dict[str, float]:
        """Seconds, of /proc/pressure: all waited, for the CPU some."""
        found = {}
        for name, who in (("cpu", "some "), ("io", "full "), ("memory", "full ")):
            for word in self._words(f"pressure/{name}", who):
                if word.startswith("total="):
                    found[name] = int(word.removeprefix("total=")) / 1e6
        return found


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text(errors="replace").splitlines()
    except OSError:
        return []


def _wall_minus_mono_ns() -> int:
    """As read with the least time between the two clocks: who is put aside in between sees a step
    that there was not."""
    pairs = []
    for _ in range(_PAIRS):
        before_ns = clock.monotonic_ns()
        wall_ns = clock.wall_ns()
        after_ns = clock.monotonic_ns()
        pairs.append((after_ns - before_ns, wall_ns - (before_ns + after_ns) // 2))
    return min(pairs)[1]


def _free_bytes(path: Path) -> int | None:
    try:
        found = os.statvfs(path)
    except OSError:
        return None
    return found.f_bavail * found.f_frsize


def _groups() -> Iterator[Path]:
    """The `cpu.stat` of control groups of this host, nodes' among them where they are its own."""
    root = next((path for path in _CPU_GROUPS if (path / "cpu.stat").is_file()), None)
    if root is None:
        return
    found = 0
    for directory, _, files in os.walk(root):
        if "cpu.stat" in files:
            yield Path(directory, "cpu.stat")
            found += 1
        if found >= GROUPS_MAX:
            return


def _throttled(groups: list[Path]) -> Iterator[tuple[str, float]]:
    """(group, seconds) of those that were ever throttled; version 1 counts ns, version 2 µs."""
    for path in groups:
        for line in _lines(path):
            name, _, value = line.partition(" ")
            per_s = {"throttled_time": 1e9, "throttled_usec": 1e6}.get(name)
            if per_s is not None and value not in ("", "0"):
                yield path.parent.as_posix(), int(value) / per_s


def every_s(time_limit_s: float) -> float:
    """Between two samples of a run that lasts so long."""
    return max(1.0, time_limit_s / SAMPLES_MAX)


def metrics_file(run: RunDir) -> Path:
    """Where samples go; its directory is made."""
    path = run.path / NODES
    path.parent.mkdir(exist_ok=True)
    return path


def rows_of(ask: Asks) -> list[list[Any]]:
    """Its readings as `clusters.remote.agent_readings` takes them."""
    return [[r.name, r.kind, r.scale, r.at, r.over] for r in ask.readings]


class _SampledNode:
    """What is known of one node's sampling, and of its clock."""

    def __init__(self, node: Any, config: dict[str, Any], units: Mapping[str, str]) -> None:
        self.node = node
        self.name: str = node.name
        self.config = config
        self.units = units
        self.life = ""
        self.after = 0
        self.looks: deque[tuple[int, int]] = deque(maxlen=LOOKS)
        self.samples = 0
        self.lost = 0
        self.lives = 0
        self.sampler: list[float] = []
        self.problem = ""

    def rows(self, said: Mapping[str, Any], asked_ns: int, took_ns: int) -> list[Sample]:
        """What a node has said, on the clock of the run; `asked_ns` is run time."""
        self.looks.append((took_ns, asked_ns + took_ns // 2 - int(said["monotonic_ns"])))
        offset_ns = min(self.looks)[1]
        self.lost += int(said["lost"])
        found = []
        for number, time_ns, values in said["rows"]:
            self.after = max(self.after, number)
            self.samples += 1
            if "sampler" in values:
                self.sampler.append(values["sampler"])
            at_ns = time_ns + offset_ns
            found += [
                Sample(
                    time_ns=at_ns,
                    node=self.name,
                    name=name,
                    value=round(value, 6),
                    unit=self.units.get(name) or unit_of(name),
                )
                for name, value in values.items()
            ]
        return found

    async def fetch(self, run_clock: RunClock) -> tuple[list[Sample], bool]:
        """What waits there, and whether there is more."""
        if self.node.away:
            return [], False
        if not self.life:
            told = await self.node.call("samples_start", timeout_s=CALL_TIMEOUT_S, **self.config)
            self.life, self.after = told["life"], 0
            self.looks.clear()
            self.lives += 1
        asked_ns = run_clock.now_ns()
        said = await self.node.call("samples", after=self.after, timeout_s=CALL_TIMEOUT_S)
        took_ns = run_clock.now_ns() - asked_ns
        if said["life"] != self.life:
            # Another agent serves this node: it was restarted, and its samples begin anew.
            self.life = ""
            return [], True
        return self.rows(said, asked_ns, took_ns), bool(said["rows"])


class NodeSampler:
    """`run()` fetches until it is cancelled, `finish()` what is left; then it tells how it went.

    Nodes sample on their own (`clusters.remote.agent_samples`), so a node that cannot be asked
    loses nothing: what waits there is fetched later. What comes is put on the run's clock at once,
    by where the node's monotonic clock stood when it answered; of its answers of the last minute
    the quickest tells that best.
    """

    def __init__(
        self,
        run: RunDir,
        run_clock: RunClock,
        members: Mapping[str, Any],
        deployment: Deployment,
        asks: Sequence[Asks],
        time_limit_s: float,
    ) -> None:
        self._clock = run_clock
        self._file = metrics_file(run)
        self._every_s = every_s(time_limit_s)
        units = {r.name: r.unit for ask in asks for r in ask.readings}
        disk = deployment.data_dir() if isinstance(deployment, DataDir) else ""
        self._nodes = [
            _SampledNode(node, _config(node, deployment, asks, disk, self._every_s), units)
            for name, node in members.items()
            if name in deployment.members
        ]
        self.refused = ""
        self._turn = asyncio.Lock()

    async def run(self) -> None:
        """For ever."""
        while True:
            await self._all()
            await asyncio.sleep(FETCH_S)

    async def _all(self) -> bool:
        """Is there more on any node?"""
        return any(await asyncio.gather(*map(self._one, self._nodes)))

    async def _one(self, one: _SampledNode) -> bool:
        try:
            rows, more = await one.fetch(self._clock)
        except DstestError as error:
            one.problem = error.message
            return False
        one.problem = ""
        if rows and not self.refused:
            async with self._turn:
                await asyncio.to_thread(self._write, encode_rows(rows))
        return more

    def _write(self, lines: bytes) -> None:
        """One write, so that a run that dies leaves whole lines but for the last one. After a disk
        has refused nothing is written any more: what follows a torn line could not be read."""
        try:
            fd = os.open(self._file, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
            try:
                written = os.write(fd, lines)
                if written < len(lines):
                    self.refused = "no space left"
            finally:
                os.close(fd)
        except OSError as error:
            self.refused = str(error.strerror)

    async def finish(self) -> dict[str, Any]:
        """For run.json: how often was sampled, what it cost, what is missing."""
        until_ns = clock.monotonic_ns() + int(FINISH_S * 1e9)
        for _ in range(FETCHES_MAX):
            if not await self._all() or clock.monotonic_ns() > until_ns:
                break
        told: dict[str, Any] = {"every_s": self._every_s, "nodes": {}}
        for one in self._nodes:
            row: dict[str, Any] = {"samples": one.samples, "lost": one.lost}
            if one.sampler:
                mean = sum(one.sampler) / len(one.sampler)
                row |= {
                    "cpu_percent": round(mean, 3),
                    "cpu_percent_max": round(max(one.sampler), 3),
                }
            if one.looks:
                row["clock_doubt_ns"] = min(one.looks)[0] // 2
            if one.lives > 1:
                row["agents"] = one.lives
            if one.problem:
                row["problem"] = one.problem
            told["nodes"][one.name] = row
        if self.refused:
            told["refused"] = self.refused
        return told


def _config(
    node: Any, deployment: Deployment, asks: Sequence[Asks], disk: str, wait_s: float
) -> dict[str, Any]:
    """Arguments of the verb `samples_start`."""
    member = deployment.members[node.name]
    return {
        # Control groups of services that others have started are not known there.
        "services": []
        if isinstance(deployment, Attached)
        else [service.name for service in member.services],
        "every_s": wait_s,
        "disk": disk,
        "asks": [
            {
                "address": node.info.address,
                "port": ask.port,
                "send": ask.send,
                "form": ask.form,
                "every_s": ask.every_s,
                "values": rows_of(ask),
            }
            for ask in asks
        ],
    }


class _NodeProcesses:
    """What is known of one node; the deployment is that of all of them."""

    def __init__(self, node: Any, deployment: Deployment) -> None:
        self.node = node
        member = deployment.members.get(node.name)
        self.services: Sequence[Service] = member.services if member else ()
        paths = [service.log for service in self.services]
        if isinstance(deployment, LogFiles):
            paths = deployment.log_files().get(node.name, [])
        self.log_names = kept_as(paths)
        self.servers = deployment if isinstance(deployment, Processes) else None
        self.mains: set[Process] = set()
        self.seen_ns: int | None = None
        self.looks = 0
        self.folder = ""
        self.lives: set[Process] = set()
        self.oom: dict[str, int] | None = None
        self.oom_ns = 0


class ProcessWatch:
    """`run()` looks until it is cancelled; `finish()` gives what was seen.

    Which process serves on a node is asked of the deployment that it is given; who ended is told
    by pid and start time. The kernel's count of processes that it killed for lack of memory, and
    core files, are read beside that.
    """

    def __init__(self, whole: Deployment, nodes: Mapping[str, Any], run: RunClock) -> None:
        self._nodes = [_NodeProcesses(node, whole) for node in nodes.values()]
        self.offered = all(one.servers is not None for one in self._nodes)
        self._clock = run
        self._began_s = clock.wall_ns() // 1_000_000_000
        self._ends: list[ProcessEvent] = []
        self._unseen: list[ProcessEvent] = []
        self._oom: list[ProcessEvent] = []
        self._untaken: dict[str, str] = {}
        self._cores_elsewhere: list[str] = []

    async def run(self) -> None:
        """For ever."""
        turn = 0
        while True:
            await asyncio.gather(*(self._look(one, turn % OOM_EVERY == 0) for one in self._nodes))
            turn += 1
            await asyncio.sleep(LOOK_S)

    async def _look(self, one: _NodeProcesses, with_oom: bool) -> None:
        if one.node.away:
            return
        try:
            async with asyncio.timeout(LOOK_TIMEOUT_S):
                if self.offered and one.servers is not None:
                    running = await one.servers.processes([one.node.name])
                    self._note(one, running.get(one.node.name, []))
                if with_oom:
                    await self._count_kills(one)
        except (Exception, SystemExit):  # a plug-in may have had a hand in it
            return

    def _note(self, one: _NodeProcesses, found: list[Process]) -> None:
        now_ns, name = self._clock.now_ns(), one.node.name
        last_ns = now_ns if one.seen_ns is None else one.seen_ns
        if now_ns - last_ns > UNSEEN_S * 1e9:
            self._unseen.append(
                ProcessEvent(node=name, what="no look", after_ns=last_ns, before_ns=now_ns)
            )
        mains = {process for process in found if process.main}
        for ended in sorted(one.mains - mains, key=lambda process: process.pid):
            what = f"process {ended.pid}"
            self._ends.append(
                ProcessEvent(node=name, what=what, after_ns=last_ns, before_ns=now_ns)
            )
        one.lives |= mains
        one.mains, one.seen_ns = mains, now_ns
        one.looks += 1

    async def _count_kills(self, one: _NodeProcesses) -> None:
        now: dict[str, int] = await one.node.call("memory_kills", timeout_s=LOOK_TIMEOUT_S)
        if not now:
            message = "the kernel's kills for lack of memory were not counted"
            self._untaken[f"{one.node.name} oom"] = f"{one.node.name}: {message}"
            return
        now_ns, before = self._clock.now_ns(), one.oom
        if before is not None:
            count = sum(max(0, n - before.get(path, 0)) for path, n in now.items())
            if count:
                what = f"{count} processes killed by the kernel for lack of memory"
                self._oom.append(
                    ProcessEvent(
                        node=one.node.name, what=what, after_ns=one.oom_ns, before_ns=now_ns
                    )
                )
        one.oom, one.oom_ns = now, now_ns
        if one.mains and not one.folder:
            argv = ["readlink", f"/proc/{min(p.pid for p in one.mains)}/cwd"]
            answer = await one.node.run(argv, timeout_s=LOOK_TIMEOUT_S, check=False)
            one.folder = answer.stdout.strip()

    async def finish(self) -> ProcessFacts:
        """A last look; then what was seen."""
        await asyncio.gather(*(self._look(one, True) for one in self._nodes))
        cores = await asyncio.gather(*map(self._cores, self._nodes))
        names = [one.node.name for one in self._nodes]
        return ProcessFacts(
            offered=self.offered,
            looks={one.node.name: one.looks for one in self._nodes},
            lives={one.node.name: _longest(one.lives) for one in self._nodes},
            lives_by_log={one.node.name: _lives_by_log(one) for one in self._nodes if one.services},
            ends=self._ends,
            unseen=self._unseen + self._not_at_the_end(),
            oom_kills=self._oom,
            cores={name: row for name, row in zip(names, cores, strict=True) if row},
            untaken=list(self._untaken.values()),
            cores_elsewhere=self._cores_elsewhere,
            until_ns=self._clock.now_ns(),
        )

    def _not_at_the_end(self) -> list[ProcessEvent]:
        now_ns = self._clock.now_ns()
        return [
            ProcessEvent(node=one.node.name, what="no look", after_ns=one.seen_ns, before_ns=now_ns)
            for one in self._nodes
            if one.seen_ns is not None and now_ns - one.seen_ns > UNSEEN_S * 1e9
        ]

    async def _cores(self, one: _NodeProcesses) -> list[str]:
        pids = " ".join(str(process.pid) for process in one.lives)
        argv = ["sh", "-c", _CORES, str(self._began_s), pids, one.folder or "/nonexistent"]
        try:
            done = await one.node.run(argv, timeout_s=LOOK_TIMEOUT_S, check=False)
        except (DstestError, OSError):
            done = None
        if done is None or done.status != 0:
            self._untaken[f"{one.node.name} cores"] = f"{one.node.name}: no look for core files"
            return []
        cores: list[str] = done.stdout.split()
        if cores == ["|"]:
            self._cores_elsewhere.append(one.node.name)
            return []
        return cores


def _longest(lives: set[Process]) -> int:
    """Of how many main processes, one after the other, the service with the most consisted."""
    services = [process.service for process in lives]
    return max((services.count(name) for name in services), default=0)


def _lives_by_log(one: _NodeProcesses) -> dict[str, int]:
    """Main processes, one after the other, of the services that write each log."""
    seen = [process.service for process in one.lives]
    found = dict.fromkeys(one.log_names.values(), 0)
    for service in one.services:
        if service.log in one.log_names:
            found[one.log_names[service.log]] += seen.count(service.name)
    return found


def as_facts(seen: ProcessFacts) -> dict[str, Any]:
    """For run.json."""
    found: dict[str, Any] = msgspec.to_builtins(seen)
    return found
