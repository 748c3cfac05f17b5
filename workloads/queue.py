"""`queue` and `work-queue`: unique elements go into a few queues and come out again; at the end all
are drained."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

import msgspec

from dstest.core import rng
from dstest.core.check import Fields
from dstest.core.protocols import Answer, OpDraft, Option
from workloads._workload import ObjectWorkload

DRAIN_S: Final = 120.0
"""The most that it takes to empty the queues, waits included: what is left in one is unknown.
Thousands of elements leave them one after the other."""

GIVEN_BACK_S: Final = 6.0
"""Before the first of the final looks: brokers notice by two or three heartbeats that a client is
gone, and then put what it had in hand back."""

_OPTIONS: Final[Mapping[str, Option]] = {
    "keys": Option(type=int, default=4, least=1, most=100_000, help="queues, per load worker"),
    "write_ratio": Option(
        type=float, default=0.5, least=0, most=1, help="share of operations that enqueue"
    ),
}


class QueueGenerator:
    """One worker's stream. Operation k depends on seed, worker and k alone."""

    def __init__(self, seed: int, worker: int, processes: int, options: Mapping[str, Any]) -> None:
        self._rng = rng.stream(seed, "workload", "queue", worker)
        self._keys = [f"{worker}-{i + 1}" for i in range(max(1, int(options["keys"])))]
        self._ratio = float(options["write_ratio"])
        self._element = 0
        self._left: dict[int, list[str]] = {}

    def next(self) -> OpDraft:
        """The next operation; the stream never ends."""
        key = self._rng.choice(self._keys)
        if self._rng.random() >= self._ratio:
            return OpDraft("dequeue", key)
        self._element += 1
        return OpDraft("enqueue", key, self._element)

    def final(self, node: int, last: Answer | None) -> OpDraft | None:
        """Dequeue until each queue is seen empty, at every node."""
        left = self._left.setdefault(node, list(self._keys))
        if last is not None and last.kind == "ok" and last.output is None:
            left.pop(0)
        return OpDraft("dequeue", left[0]) if left else None


class WorkQueueGenerator(QueueGenerator):
    """As for `queue`; the last looks begin when what failed takers held is in its queue again."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self._waited = False

    def final(self, node: int, last: Answer | None) -> OpDraft | None:
        look = super().final(node, last)
        if look is None or self._waited:
            return look
        self._waited = True
        return msgspec.structs.replace(look, after_ns=int(GIVEN_BACK_S * 1e9))


QUEUE: Final = ObjectWorkload(
    name="queue",
    doc="unique elements into and out of queues, which are drained at the end",
    capability="queue",
    model="exactly-once",
    checkers=("total-queue", "order"),
    op_types=frozenset({"enqueue", "dequeue"}),
    make=QueueGenerator,
    options=_OPTIONS,
    minimum={"enqueue": 100, "dequeue": 100},
    claims=frozenset({"safety", "ordering"}),
    fields=Fields(family="queue"),
    final_s=DRAIN_S,
)

WORK_QUEUE: Final = replace(
    QUEUE,
    name="work-queue",
    make=WorkQueueGenerator,
    doc="as queue, where an element may be handed out again and in any order, but never lost",
    model="at-least-once",
    checkers=("total-queue",),
    claims=frozenset({"safety"}),
)
