"""Once a second, what the kernel of the control host counts, into `host.jsonl` of the run.

A violation that shows while the host stood still, or while somebody set its clock, may be one of
the host. What is an event is decided when the run is judged (`dstest.judge.host_events`). All of it
is read in a thread, so that a disk that hangs holds nobody up.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import msgspec

from dstest.core import clock
from dstest.core.clock import RunClock
from dstest.judge.host_events import HOST, SAMPLE_S, HostSample
from dstest.store.layout import RunDir

GROUPS_EVERY: Final = 10
GROUPS_MAX: Final = 500
"""Control groups that are looked at, and after how many samples they are listed again."""

_CPU_GROUPS: Final = (Path("/sys/fs/cgroup/cpu"), Path("/sys/fs/cgroup"))
_TICKS_PER_S: Final = os.sysconf("SC_CLK_TCK")
_STEAL: Final = 7
"""Place of the stolen ticks in the first line of /proc/stat."""

_PAIRS: Final = 5


class HostSampler:
    """`run()` takes samples until it is cancelled."""

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
