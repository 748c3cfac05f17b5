"""`set`: unique elements are added to grow-only sets, which are read as a whole.

A few sets are live at a time; each takes a bounded number of operations and is then retired, so
that reads stay small. After the load every set is read once more, the youngest at every node.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from dstest.core import rng
from dstest.core.protocols import Answer, OpDraft, Option
from workloads._workload import FinalReads, ObjectWorkload, RotatingKeys

_EVERYWHERE: Final = 8
"""The youngest sets are read at each node at the end, the others at the first one."""

_OPTIONS: Final[Mapping[str, Option]] = {
    "keys": Option(
        type=int, default=3, least=1, most=100_000, help="sets live at a time, per load worker"
    ),
    "ops_per_key": Option(
        type=int,
        default=200,
        least=1,
        most=10_000_000,
        help="operations on a set before it is retired",
    ),
    "write_ratio": Option(
        type=float, default=0.6, least=0, most=1, help="share of operations that add"
    ),
}


class SetGenerator:
    """One worker's stream. Operation k depends on seed, worker and k alone."""

    def __init__(self, seed: int, worker: int, processes: int, options: Mapping[str, Any]) -> None:
        self._rng = rng.stream(seed, "workload", "set", worker)
        self._keys = RotatingKeys(worker, int(options["keys"]), int(options["ops_per_key"]))
        self._ratio = float(options["write_ratio"])
        self._element = 0
        self._finals = FinalReads(self._final_reads)

    def next(self) -> OpDraft:
        """The next operation; the stream never ends."""
        key = self._keys.pick(self._rng)
        if self._rng.random() >= self._ratio:
            return OpDraft("read", key)
        self._element += 1
        return OpDraft("add", key, self._element)

    def _final_reads(self, node: int) -> list[OpDraft]:
        used = self._keys.used
        return [OpDraft("read", key) for key in (used if node == 0 else used[-_EVERYWHERE:])]

    def final(self, node: int, last: Answer | None) -> OpDraft | None:
        """Every set once more."""
        return self._finals.next(node, last)


SET: Final = ObjectWorkload(
    name="set",
    doc="adds of unique elements to sets, and reads of whole sets",
    capability="set",
    model="linearizable",
    checkers=("set-full", "no-lost-ack"),
    op_types=frozenset({"add", "read"}),
    make=SetGenerator,
    options=_OPTIONS,
    minimum={"add": 100, "read": 50},
    claims=frozenset({"safety", "durability"}),
)
