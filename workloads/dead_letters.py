"""`dead-letters`: as `work-queue`; some elements are refused for good, and collected later.

What was refused needs a while to get to the dead letters, so the last collects wait
(`-o arrival_s`). What has not arrived by then counts as lost.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from msgspec.structs import replace

from dstest.core import rng
from dstest.core.check import Fields
from dstest.core.protocols import Answer, OpDraft, Option
from workloads._workload import ObjectWorkload
from workloads.queue import DRAIN_S

_OPTIONS: Final[Mapping[str, Option]] = {
    "keys": Option(type=int, default=4, least=1, most=100_000, help="queues, per load worker"),
    "write_ratio": Option(
        type=float, default=0.5, least=0, most=1, help="share of operations that enqueue"
    ),
    "reject_ratio": Option(
        type=float, default=0.3, least=0, most=1, help="share of the others that reject"
    ),
    "collect_ratio": Option(
        type=float, default=0.2, least=0, most=1, help="share of the others that collect"
    ),
    "arrival_s": Option(
        type=float,
        default=30.0,
        least=0,
        most=DRAIN_S / 2,
        help="how long the last collects wait for dead letters on their way; later is lost",
    ),
}


class DeadLettersGenerator:
    """One worker's stream. Operation k depends on seed, worker and k alone."""

    def __init__(self, seed: int, worker: int, processes: int, options: Mapping[str, Any]) -> None:
        self._rng = rng.stream(seed, "workload", "dead-letters", worker)
        self._keys = [f"{worker}-{i + 1}" for i in range(max(1, int(options["keys"])))]
        self._ratio = float(options["write_ratio"])
        self._reject = float(options["reject_ratio"])
        self._collect = float(options["collect_ratio"])
        self._arrival_ns = int(float(options["arrival_s"]) * 1e9)
        self._element = 0
        self._left: dict[int, list[OpDraft]] = {}
        self._waited = False

    def next(self) -> OpDraft:
        """The next operation; the stream never ends."""
        key, way = self._rng.choice(self._keys), self._rng.random()
        if self._rng.random() < self._ratio:
            self._element += 1
            return OpDraft("enqueue", key, self._element)
        if way < self._reject:
            return OpDraft("reject", key)
        return OpDraft("collect" if way < self._reject + self._collect else "dequeue", key)

    def final(self, node: int, last: Answer | None) -> OpDraft | None:
        """At every node: dequeue until each queue is seen empty, then collect likewise; the first
        of all collects waits for letters on their way."""
        if node not in self._left:
            kinds = ("dequeue", "collect")
            self._left[node] = [OpDraft(kind, key) for kind in kinds for key in self._keys]
        left = self._left[node]
        if last is not None and last.kind == "ok" and last.output is None:
            left.pop(0)
        if not left:
            return None
        if left[0].op_type == "collect" and not self._waited:
            self._waited = True
            return replace(left[0], after_ns=self._arrival_ns)
        return left[0]


DEAD_LETTERS: Final = ObjectWorkload(
    name="dead-letters",
    doc="elements into and out of queues, some of them refused, which go to the dead letters",
    capability="dead-letters",
    model="at-least-once",
    checkers=("dead-letters",),
    op_types=frozenset({"enqueue", "dequeue", "reject", "collect"}),
    make=DeadLettersGenerator,
    options=_OPTIONS,
    minimum={"enqueue": 100, "dequeue": 50, "reject": 50, "collect": 20},
    fields=Fields(family="queue"),
    final_s=DRAIN_S,
)
