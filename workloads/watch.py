"""`watch`: some processes write, the others follow all changes from where they last stopped.

A watcher that is cut off goes on from the revision after its last event, as a new process: that is
what makes its feed resumable. After the load each node is followed up to the newest revision.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from dstest.core import rng
from dstest.core.protocols import Answer, OpDraft, Option
from workloads._workload import WORKERS_MAX, ObjectWorkload

_OPTIONS: Final[Mapping[str, Option]] = {
    "keys": Option(type=int, default=8, least=1, most=100_000, help="keys, per load worker"),
    "watchers": Option(
        type=int, default=3, least=2, most=10_000, help="every so many-th process watches"
    ),
}


class WatchGenerator:
    """One worker's processes. Values are unique over all workers."""

    def __init__(self, seed: int, worker: int, processes: int, options: Mapping[str, Any]) -> None:
        self._rng = rng.stream(seed, "workload", "watch", worker)
        self._worker = worker
        self._keys = [f"{worker}-{i + 1}" for i in range(max(1, int(options["keys"])))]
        self._every = max(2, int(options["watchers"]))
        self._value = 0
        self._next: dict[int, int] = {}

    def next(self) -> OpDraft:
        """A write of a new value."""
        self._value += 1
        value = self._value * WORKERS_MAX + self._worker
        return OpDraft("write", self._rng.choice(self._keys), value)

    def next_for(self, slot: int, last: Answer | None) -> OpDraft:
        """A watcher goes on where it stopped; the others write."""
        if slot % self._every:
            return self.next()
        if last is not None and last.kind == "ok":
            self._next[slot] = last.output["to"] + 1
        return OpDraft("watch", None, {"from": self._next.get(slot, 1)})

    def final(self, node: int, last: Answer | None) -> OpDraft | None:
        """Up to the newest revision: at the first node from the very beginning, so that whatever
        was destroyed would show; at the others from where the furthest watcher stopped."""
        if last is not None and last.kind == "ok":
            return None
        start = 1 if node == 0 else max(self._next.values(), default=1)
        return OpDraft("watch", None, {"from": start, "until_now": True})


WATCH: Final = ObjectWorkload(
    name="watch",
    doc="writes, and watches that follow all of them",
    capability="watch",
    model="watch",
    checkers=("watch",),
    op_types=frozenset({"write", "watch"}),
    make=WatchGenerator,
    options=_OPTIONS,
    minimum={"write": 100, "watch": 50},
    claims=frozenset({"ordering"}),
)
