"""`counter` and `unique-ids`: increments of a few counters; numbers that are given once."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from dstest.core import rng
from dstest.core.check import Fields
from dstest.core.protocols import Answer, OpDraft, Option
from workloads._workload import FinalReads, ObjectWorkload

_OPTIONS: Final[Mapping[str, Option]] = {
    "keys": Option(type=int, default=5, least=1, most=100_000, help="counters, per load worker"),
    "write_ratio": Option(
        type=float, default=0.6, least=0, most=1, help="share of operations that increment"
    ),
    "decrements": Option(type=bool, default=False, help="increments may be negative"),
}


class CounterGenerator:
    """One worker's stream. Operation k depends on seed, worker and k alone."""

    def __init__(self, seed: int, worker: int, processes: int, options: Mapping[str, Any]) -> None:
        self._rng = rng.stream(seed, "workload", "counter", worker)
        self._keys = [f"{worker}-{i + 1}" for i in range(max(1, int(options["keys"])))]
        self._ratio = float(options["write_ratio"])
        self._signs = (1, -1) if options["decrements"] else (1,)
        self._finals = FinalReads(lambda node: [OpDraft("read", key) for key in self._keys])

    def next(self) -> OpDraft:
        """The next operation; the stream never ends."""
        key = self._rng.choice(self._keys)
        if self._rng.random() >= self._ratio:
            return OpDraft("read", key)
        return OpDraft("inc", key, self._rng.choice(self._signs) * self._rng.randint(1, 5))

    def final(self, node: int, last: Answer | None) -> OpDraft | None:
        """Every counter once more, at every node."""
        return self._finals.next(node, last)


class IdGenerator:
    """Nothing but `generate`."""

    def __init__(self, seed: int, worker: int, processes: int, options: Mapping[str, Any]) -> None:
        self._draft = OpDraft("generate", None)

    def next(self) -> OpDraft:
        """The same operation for ever."""
        return self._draft


COUNTER: Final = ObjectWorkload(
    name="counter",
    doc="increments and reads of counters",
    capability="counter",
    model="counter-bounds",
    checkers=("counter-bounds",),
    op_types=frozenset({"inc", "read"}),
    make=CounterGenerator,
    options=_OPTIONS,
    minimum={"inc": 100, "read": 50},
    fields=Fields(family="counter"),
)
UNIQUE_IDS: Final = ObjectWorkload(
    name="unique-ids",
    doc="ids that must never be given twice",
    capability="unique-ids",
    model="increasing",
    checkers=("unique-ids",),
    op_types=frozenset({"generate"}),
    make=IdGenerator,
    minimum={"generate": 100},
)
