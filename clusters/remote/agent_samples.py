"""Runs on a node: once a second, what its services use and what they say, kept until it is asked.

Samples wait in a ring of bounded length, so a node that nobody hears goes on sampling and gives all
of it later. Two threads: one reads /proc, which answers at once; the other asks servers and disks,
which may hang, so that nothing else is late then. What both cost is measured and is a sample too.
The wall clock is not read: samples carry the node's monotonic clock, and whoever collects them
compares that with his own. Standard library only; Python 3.9 or newer.
"""

from __future__ import annotations

import contextlib
import os
import socket
import threading
import time
from collections import deque
from pathlib import Path
from typing import Any

from clusters.remote.agent_groups import Groups
from clusters.remote.agent_readings import Readings, numbers_in
from clusters.remote.agent_services import HOME, Services

KEPT_MAX = 7200
"""Samples that wait, two hours of one thread at one a second."""

GIVEN_MAX = 400
"""Of these, how many go into one answer."""

DISK_EVERY_S = 5.0
ASK_S = 1.0
PAGE_BYTES_MAX = 4 << 20
TICKS_PER_S = os.sysconf("SC_CLK_TCK")
PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


class Sampling:
    """`start` begins it, `take` gives what has been sampled since; it ends with the agent."""

    def __init__(self, groups: Groups, home: Path = HOME) -> None:
        self._groups = groups
        self._home = home
        self._lock = threading.Lock()
        self._kept: deque[tuple[int, int, dict[str, float]]] = deque(maxlen=KEPT_MAX)
        self._count = 0
        self._life = ""
        self._spent_s = 0.0

    def start(
        self,
        services: list[str],
        every_s: float = 1.0,
        disk: str = "",
        asks: list[dict[str, Any]] | None = None,
    ) -> dict[str, str]:
        """Once; who asks again gets the same word, which is another one of another agent."""
        with self._lock:
            if not self._life:
                self._life = f"{os.getpid()}-{time.monotonic_ns()}"
                self._go("proc", _Proc(services, self._groups, self._home).look, every_s)
                self._go("asks", _Outside(disk, asks or [], every_s).look, every_s)
        return {"life": self._life}

    def _go(self, name: str, look: Any, every_s: float) -> None:
        threading.Thread(target=self._loop, args=(name, look, every_s), daemon=True).start()

    def _loop(self, name: str, look: Any, every_s: float) -> None:
        due_ns = before_ns = time.monotonic_ns()
        spent_s, told_s = time.thread_time(), 0.0
        while True:
            now_ns = time.monotonic_ns()
            found: dict[str, float] = {}
            with contextlib.suppress(OSError, ValueError, IndexError, KeyError, TypeError):
                found = look(now_ns)
            with self._lock:
                took_s, spent_s = time.thread_time() - spent_s, time.thread_time()
                self._spent_s += took_s
                if name == "proc":
                    if now_ns - before_ns > every_s * 5e8:
                        past_s = (now_ns - before_ns) / 1e9
                        found["sampler"] = 100 * (self._spent_s - told_s) / past_s
                    before_ns, told_s = now_ns, self._spent_s
                if found:
                    self._count += 1
                    self._kept.append((self._count, now_ns, found))
            due_ns = max(due_ns, time.monotonic_ns() - int(every_s * 1e9)) + int(every_s * 1e9)
            time.sleep(max(0.0, (due_ns - time.monotonic_ns()) / 1e9))

    def take(self, after: int = 0) -> dict[str, Any]:
        """Samples after this number, the oldest first. `life` is empty where nothing was begun;
        `lost` counts those that had to make room."""
        spent_s = time.thread_time()
        with self._lock:
            first = self._kept[0][0] if self._kept else self._count + 1
            rows = [row for row in self._kept if row[0] > after][:GIVEN_MAX]
            # What has been given is not needed again: who comes next asks for what follows it.
            while self._kept and self._kept[0][0] <= after:
                self._kept.popleft()
            self._spent_s += time.thread_time() - spent_s
            return {
                "life": self._life,
                "monotonic_ns": time.monotonic_ns(),
                "lost": max(0, first - after - 1) if self._life else 0,
                "rows": [[number, time_ns, found] for number, time_ns, found in rows],
            }


class _Proc:
    """What the kernel counts of the processes of services, and of the node."""

    def __init__(self, services: list[str], groups: Groups, home: Path) -> None:
        self._services = services
        self._groups = groups
        self._home = home
        self._cpus = len(os.sched_getaffinity(0))
        self._ticks: dict[tuple[int, int], int] = {}
        self._bytes: dict[tuple[int, int], tuple[int, int]] = {}
        self._net: tuple[int, int] | None = None
        self._before_ns = 0

    def look(self, now_ns: int) -> dict[str, float]:
        past_s = (now_ns - self._before_ns) / 1e9 if self._before_ns else 0.0
        self._before_ns = now_ns
        found: dict[str, float] = {}
        ticks: dict[tuple[int, int], int] = {}
        moved: dict[tuple[int, int], tuple[int, int]] = {}
        for service in self._services:
            sums = dict.fromkeys(("rss", "cpu", "fds", "threads", "processes"), 0.0)
            sums.update(dict.fromkeys(("read", "written"), 0.0))
            for pid in self._pids(service):
                self._add(pid, sums, ticks, moved)
            if not past_s:
                for name in ("cpu", "read", "written"):
                    del sums[name]
            for name in ("read", "written"):
                if name in sums:
                    sums[name] /= past_s
            if "cpu" in sums:
                sums["cpu"] *= 100 / TICKS_PER_S / past_s / self._cpus
            for name, value in sums.items():
                found[name] = found.get(name, 0.0) + value
                if len(self._services) > 1:
                    found[f"{name}.{service}"] = value
        self._ticks, self._bytes = ticks, moved
        found.update(_sockets())
        found.update(self._network(past_s))
        found.update(_machine())
        return found

    def _pids(self, service: str) -> list[int]:
        pids = self._groups.members(service)
        if pids is not None:
            return pids
        return [row[0] for row in Services(self._home, self._groups).all_of(service)]

    def _add(
        self,
        pid: int,
        sums: dict[str, float],
        ticks: dict[tuple[int, int], int],
        moved: dict[tuple[int, int], tuple[int, int]],
    ) -> None:
        try:
            with open(f"/proc/{pid}/stat", "rb", 0) as handle:
                fields = handle.read().rpartition(b")")[2].split()
        except OSError:
            return
        who = (pid, int(fields[19]))
        ticks[who] = int(fields[11]) + int(fields[12])
        # A process that is new since the last look has used all that it used since then.
        sums["cpu"] += ticks[who] - self._ticks.get(who, 0 if self._ticks else ticks[who])
        sums["threads"] += int(fields[17])
        sums["rss"] += int(fields[21]) * PAGE_BYTES
        sums["processes"] += 1
        with contextlib.suppress(OSError):
            sums["fds"] += os.stat(f"/proc/{pid}/fd").st_size or len(os.listdir(f"/proc/{pid}/fd"))
        with contextlib.suppress(OSError, ValueError, IndexError):
            with open(f"/proc/{pid}/io", "rb", 0) as handle:
                words = handle.read().split()
            moved[who] = (int(words[9]), int(words[11]))  # read_bytes, write_bytes: of the disk
            before = self._bytes.get(who, moved[who])
            sums["read"] += moved[who][0] - before[0]
            sums["written"] += moved[who][1] - before[1]

    def _network(self, past_s: float) -> dict[str, float]:
        """Bytes per second over all interfaces but the loopback."""
        received = sent = 0
        with open("/proc/net/dev", "rb", 0) as handle:
            for line in handle.read().splitlines()[2:]:
                name, _, rest = line.partition(b":")
                if name.strip() != b"lo":
                    words = rest.split()
                    received, sent = received + int(words[0]), sent + int(words[8])
        before, self._net = self._net, (received, sent)
        if before is None or not past_s:
            return {}
        return {
            "net_received": (received - before[0]) / past_s,
            "net_sent": (sent - before[1]) / past_s,
        }


def _sockets() -> dict[str, float]:
    """TCP sockets of this node in use, of both families, and those that wait out their time."""
    used = waiting = 0
    for path in ("/proc/net/sockstat", "/proc/net/sockstat6"):
        with contextlib.suppress(OSError), open(path, "rb", 0) as handle:
            for line in handle.read().splitlines():
                if line.startswith((b"TCP:", b"TCP6:")):
                    words = line.split()
                    pairs = dict(zip(words[1::2], map(int, words[2::2])))  # noqa: B905
                    used += pairs.get(b"inuse", 0)
                    waiting += pairs.get(b"tw", 0)
    return {"connections": used, "time_wait": waiting}


def _machine() -> dict[str, float]:
    """Of the machine: nodes that share a kernel say the same of it."""
    found: dict[str, float] = {}
    with contextlib.suppress(OSError, ValueError), open("/proc/loadavg", "rb", 0) as handle:
        found["load"] = float(handle.read().split()[0])
    with contextlib.suppress(OSError, ValueError), open("/proc/meminfo", "rb", 0) as handle:
        for line in handle.read().splitlines():
            if line.startswith(b"MemAvailable:"):
                found["memory_free"] = int(line.split()[1]) * 1024
                break
    return found


class _Outside:
    """What may keep whoever asks waiting: a file system, and servers."""

    def __init__(self, disk: str, asks: list[dict[str, Any]], every_s: float) -> None:
        self._disk = disk
        self._disk_ns = 0
        self._asks = [_Ask(ask, every_s) for ask in asks]

    def look(self, now_ns: int) -> dict[str, float]:
        found: dict[str, float] = {}
        if self._disk and now_ns >= self._disk_ns:
            self._disk_ns = now_ns + int(DISK_EVERY_S * 1e9)
            with contextlib.suppress(OSError):
                sizes = os.statvfs(self._disk)
                found["disk_free"] = sizes.f_bavail * sizes.f_frsize
        for ask in self._asks:
            found.update(ask.look(now_ns))
        return found


class _Ask:
    """One question to a server of this node; `values` are rows of `agent_readings`."""

    def __init__(self, ask: dict[str, Any], every_s: float) -> None:
        self._ask = ask
        self._every_ns = int(max(every_s, float(ask["every_s"])) * 1e9)
        self._due_ns = 0
        self._readings = Readings(ask["values"])

    def look(self, now_ns: int) -> dict[str, float]:
        """A server answers where it says anything at all, be it that it refuses."""
        if now_ns < self._due_ns:
            return {}
        self._due_ns = now_ns + self._every_ns - self._every_ns // 10
        asked_ns = time.monotonic_ns()
        said = _asked(self._ask)
        if not said:
            return {"answers": 0.0}
        took_ms = (time.monotonic_ns() - asked_ns) / 1e6
        numbers = numbers_in(said, self._ask["form"], self._readings.places)
        return {"answers": 1.0, "answer_time": took_ms, **self._readings.of(numbers, now_ns)}


def _asked(ask: dict[str, Any]) -> bytes:
    """What came within the time that there is: a line of JSON, or all until the server closes.
    Nothing where nobody answered."""
    deadline = time.monotonic() + ASK_S
    said = bytearray()
    where = (ask["address"], ask["port"])
    with contextlib.suppress(OSError), socket.create_connection(where, ASK_S) as sock:
        sock.sendall(ask["send"].encode())
        while len(said) < PAGE_BYTES_MAX:
            left_s = deadline - time.monotonic()
            if left_s <= 0:
                break
            sock.settimeout(left_s)
            part = sock.recv(1 << 16)
            said += part
            if not part or (ask["form"] == "json" and said.endswith(b"\n")):
                break
    return bytes(said)
