"""Shared memory between the control process and its load workers.

One preallocated file of 64-bit integers, mapped by all. The control process writes the phase and
the fault windows; each worker writes only its own block of counters. Nothing is ever sent to a
worker while it loads, and live figures cost no message.

Layout (in int64 slots): state, origin_ns, window count, then `WINDOWS_MAX` pairs (start, end),
then per worker: heartbeat_ns, trouble, lateness_max_ns, late count, lag_max_ns, offered, cpu_ms,
and per node to whose endpoint a client belongs: invoked, ok, fail, unknown, and the same three of
operations that went to another node.
"""

from __future__ import annotations

import mmap
import os
from pathlib import Path
from typing import Final

from dstest.core.op import Outcome

WAITING: Final = 0
LOADING: Final = 1
STOPPING: Final = 2
FINISHING: Final = 3

TROUBLE_DISK: Final = 1
TROUBLE_CRASH: Final = 2

WINDOWS_MAX: Final = 4096
OPEN_END: Final = (1 << 63) - 1

_HEAD: Final = 8
_WORKER: Final = 8
_NODE: Final = 7
_HEARTBEAT, _TROUBLE, _LATE_MAX, _LATE, _LAG_MAX, _OFFERED, _CPU = range(7)
_COUNTED: Final = (
    *("invoked", "ok", "fail", "unknown"),
    *("ok_elsewhere", "fail_elsewhere", "unknown_elsewhere"),
)
_AT: Final = {name: index for index, name in enumerate(_COUNTED)}
_INVOKED: Final = _AT["invoked"]
_ELSEWHERE: Final = _AT["ok_elsewhere"] - _AT["ok"]


class Board:
    """The mapped integers. `node` and `worker` arguments are indexes."""

    def __init__(self, path: Path, workers: int, nodes: int, *, create: bool) -> None:
        self._nodes = nodes
        self._workers = workers
        self._over = 0
        self._block = _WORKER + _NODE * nodes
        self._base = _HEAD + 2 * WINDOWS_MAX
        size = 8 * (self._base + workers * self._block)
        fd = os.open(path, os.O_RDWR | (os.O_CREAT | os.O_EXCL if create else 0), 0o600)
        try:
            if create:
                # Allocated now: a full disk must not become a SIGBUS later.
                os.posix_fallocate(fd, 0, size)
            self._map = mmap.mmap(fd, size)
        finally:
            os.close(fd)
        self._slots = memoryview(self._map).cast("q")

    def close(self) -> None:
        self._slots.release()
        self._map.close()

    @property
    def state(self) -> int:
        return self._slots[0]

    @state.setter
    def state(self, value: int) -> None:
        self._slots[0] = value

    @property
    def origin_ns(self) -> int:
        return self._slots[1]

    @origin_ns.setter
    def origin_ns(self, value: int) -> None:
        self._slots[1] = value

    def open_window(self, start_ns: int) -> int:
        """Announce a fault window from `start_ns` (a little in the future); returns its index."""
        index = self._slots[2]
        if index >= WINDOWS_MAX:
            raise ValueError(f"more than {WINDOWS_MAX} fault windows in one run")
        self._slots[_HEAD + 2 * index] = start_ns
        self._slots[_HEAD + 2 * index + 1] = OPEN_END
        self._slots[2] = index + 1
        return index

    def close_window(self, index: int, end_ns: int) -> None:
        """Announce the end of a window (a little in the future)."""
        self._slots[_HEAD + 2 * index + 1] = end_ns

    def forget_before(self, ns: int) -> None:
        """Nobody will ask about what was before this time: windows that had ended are left out."""
        slots = self._slots
        while self._over < slots[2] and slots[_HEAD + 2 * self._over + 1] < ns:
            self._over += 1

    def first_window(self, from_ns: int, to_ns: int) -> int | None:
        """Index of the first window that `[from_ns, to_ns]` overlaps."""
        slots = self._slots
        for index in range(self._over, slots[2]):
            at = _HEAD + 2 * index
            if from_ns <= slots[at + 1] and to_ns >= slots[at]:
                return index
        return None

    def _at(self, worker: int) -> int:
        return self._base + worker * self._block

    def beat(self, worker: int, now_ns: int, lag_ns: int, cpu_ms: int) -> None:
        """A worker's sign of life, how late its event loop woke it, and its CPU time so far."""
        at = self._at(worker)
        self._slots[at + _CPU] = cpu_ms
        self._slots[at + _HEARTBEAT] = now_ns
        if lag_ns > self._slots[at + _LAG_MAX]:
            self._slots[at + _LAG_MAX] = lag_ns

    def done(self, worker: int) -> None:
        """A worker has nothing more to do than to end; it gives no more signs of life."""
        self._slots[self._at(worker) + _HEARTBEAT] = OPEN_END

    def invoked(self, worker: int, node: int, lateness_ns: int) -> None:
        """An operation is about to leave, `lateness_ns` after it was due."""
        at = self._at(worker)
        slots = self._slots
        slots[at + _OFFERED] += 1
        slots[at + _WORKER + _NODE * node + _INVOKED] += 1
        if lateness_ns > 1_000_000:
            slots[at + _LATE] += 1
            if lateness_ns > slots[at + _LATE_MAX]:
                slots[at + _LATE_MAX] = lateness_ns

    def completed(self, worker: int, node: int, outcome: Outcome, *, elsewhere: bool) -> None:
        """An operation ended; it may have gone `elsewhere` than to its client's node."""
        counter = _AT[outcome] + (_ELSEWHERE if elsewhere else 0)
        self._slots[self._at(worker) + _WORKER + _NODE * node + counter] += 1

    def trouble(self, worker: int, code: int) -> None:
        """A worker cannot go on."""
        self._slots[self._at(worker) + _TROUBLE] = code

    def troubles(self) -> list[int]:
        """Each worker's trouble code, 0 = none."""
        return [self._slots[self._at(w) + _TROUBLE] for w in range(self._workers)]

    def heartbeats(self) -> list[int]:
        """Each worker's last sign of life, run time in ns, 0 = none yet."""
        return [self._slots[self._at(w) + _HEARTBEAT] for w in range(self._workers)]

    def lateness(self) -> dict[str, int]:
        """Over all workers: offered, late (by more than 1 ms), worst, loop lag, CPU time."""
        rows = [self._at(w) for w in range(self._workers)]
        slots = self._slots
        return {
            "offered": sum(slots[r + _OFFERED] for r in rows),
            "late": sum(slots[r + _LATE] for r in rows),
            "lateness_max_ns": max(slots[r + _LATE_MAX] for r in rows),
            "loop_lag_max_ns": max(slots[r + _LAG_MAX] for r in rows),
            "cpu_ms": sum(slots[r + _CPU] for r in rows),
        }

    def by_node(self) -> list[dict[str, int]]:
        """Per node, over all workers."""
        out = []
        for node in range(self._nodes):
            at = [self._at(w) + _WORKER + _NODE * node for w in range(self._workers)]
            out.append({name: sum(self._slots[a + i] for a in at) for name, i in _AT.items()})
        return out
