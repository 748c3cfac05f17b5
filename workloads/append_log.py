"""`append-log`: records are sent to a few logs and polled from an offset on, as with Kafka.

A poller goes on behind the last offset that it was told about. A log is retired after so many
operations, because etcd looks at all of it for each poll. After the load each log is polled to its
end, the youngest at every node.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from dstest.core import rng
from dstest.core.check import Fields
from dstest.core.protocols import Answer, OpDraft, Option
from workloads._workload import ObjectWorkload, RotatingKeys

_EVERYWHERE: Final = 8
"""The youngest logs are polled at each node at the end, the others at the first one."""

_OPTIONS: Final[Mapping[str, Option]] = {
    "keys": Option(
        type=int, default=3, least=1, most=100_000, help="logs live at a time, per load worker"
    ),
    "ops_per_key": Option(
        type=int,
        default=1000,
        least=1,
        most=10_000_000,
        help="operations on a log before it is retired",
    ),
    "pollers": Option(
        type=int, default=3, least=2, most=10_000, help="every so many-th process polls"
    ),
    "page": Option(
        type=int, default=500, least=1, most=1_000_000, help="records in one poll, at most"
    ),
}


class AppendLogGenerator:
    """One worker's processes. Values are unique per log."""

    def __init__(self, seed: int, worker: int, processes: int, options: Mapping[str, Any]) -> None:
        self._rng = rng.stream(seed, "workload", "append-log", worker)
        self._keys = RotatingKeys(worker, int(options["keys"]), int(options["ops_per_key"]))
        self._every = max(2, int(options["pollers"]))
        self._page = int(options["page"])
        self._value = 0
        self._next: dict[tuple[int, str], int] = {}
        self._left: dict[int, list[list[Any]]] = {}

    def next(self) -> OpDraft:
        """A record of a new value."""
        self._value += 1
        return OpDraft("send", self._keys.pick(self._rng), self._value)

    def _poll(self, key: str, start: int) -> OpDraft:
        return OpDraft("poll", key, {"from": start, "limit": self._page})

    def next_for(self, slot: int, last: Answer | None) -> OpDraft:
        """A poller goes on where it stopped; the others send."""
        if slot % self._every:
            return self.next()
        if last is not None and last.kind == "ok":
            self._next[slot, str(last.draft.key)] = last.output["to"] + 1
        key = self._keys.pick(self._rng)
        return self._poll(key, self._next.get((slot, key), 0))

    def final(self, node: int, last: Answer | None) -> OpDraft | None:
        """Each log from where its furthest poller stopped to its end."""
        if node not in self._left:
            keys = self._keys.used if node == 0 else self._keys.used[-_EVERYWHERE:]
            ends: dict[str, int] = dict.fromkeys(keys, 0)
            for (_, key), start in self._next.items():
                if key in ends:
                    ends[key] = max(ends[key], start)
            self._left[node] = [[key, start] for key, start in ends.items()]
        left = self._left[node]
        if last is not None and last.kind == "ok" and left:
            left[0][1] = last.output["to"] + 1
            if len(last.output["records"]) < self._page and not last.output.get("more"):
                left.pop(0)
        return self._poll(*left[0]) if left else None


APPEND_LOG: Final = ObjectWorkload(
    name="append-log",
    doc="records with offsets, sent to logs and polled",
    capability="log",
    model="linearizable",
    checkers=("kafka",),
    op_types=frozenset({"send", "poll"}),
    make=AppendLogGenerator,
    options=_OPTIONS,
    minimum={"send": 100, "poll": 50},
    claims=frozenset({"safety", "ordering", "durability"}),
    fields=Fields(family="log"),
)
