"""`causal`: unique writes and reads of a few keys by processes that see each other's writes.

Causality crosses keys: who read x and then wrote y has told all readers of y about x. So a worker's
keys are few, and a process that has just read or written one goes on to another.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from dstest.core import rng
from dstest.core.protocols import Answer, OpDraft, Option
from workloads._workload import READ_AGAIN, FinalReads, ObjectWorkload, RotatingKeys

__all__ = ["CAUSAL", "CausalGenerator"]

_OPTIONS: Final[Mapping[str, Option]] = {
    "keys": Option(type=int, default=4, help="keys live at a time, per load worker"),
    "ops_per_key": Option(type=int, default=400, help="operations on a key before it is retired"),
    "write_ratio": Option(type=float, default=0.4, help="share of operations that write"),
}


class CausalGenerator:
    """One worker's stream. Operation k depends on seed, worker and k alone."""

    def __init__(self, seed: int, worker: int, processes: int, options: Mapping[str, Any]) -> None:
        self._rng = rng.stream(seed, "workload", "causal", worker)
        self._keys = RotatingKeys(worker, int(options["keys"]), int(options["ops_per_key"]))
        self._ratio = float(options["write_ratio"])
        self._value = 0
        self._finals = FinalReads(
            lambda node: [OpDraft("read", key) for key in self._keys.used] if node == 0 else []
        )

    def next(self) -> OpDraft:
        """The next operation; the stream never ends."""
        key = self._keys.pick(self._rng)
        if self._rng.random() >= self._ratio:
            again = self._rng.random() < READ_AGAIN
            return OpDraft("read", self._keys.read_again(self._rng) if again else key)
        self._value += 1
        return OpDraft("write", key, self._value)

    def final(self, node: int, last: Answer | None) -> OpDraft | None:
        """Every key once more, in one session, at the first node."""
        return self._finals.next(node, last)


CAUSAL: Final = ObjectWorkload(
    name="causal",
    doc="unique writes and reads over a few keys, for causal consistency",
    capability="register",
    model="causal",
    checkers=("causal",),
    op_types=frozenset({"read", "write"}),
    make=CausalGenerator,
    options=_OPTIONS,
    minimum={"read": 100, "write": 100},
)
