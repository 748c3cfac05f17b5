"""`causal`: unique writes and reads of a few keys by processes that see each other's writes.

Causality crosses keys: who read x and then wrote y has told all readers of y about x. So a worker's
keys are few, and each operation is on one of them at random: a process is soon on another key than
the one it has just read or written.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from dstest.core.protocols import Answer, OpDraft, Option
from workloads._workload import FinalReads, ObjectWorkload
from workloads.session import SessionGenerator

_OPTIONS: Final[Mapping[str, Option]] = {
    "keys": Option(
        type=int, default=4, least=1, most=100_000, help="keys live at a time, per load worker"
    ),
    "ops_per_key": Option(
        type=int,
        default=400,
        least=1,
        most=10_000_000,
        help="operations on a key before it is retired",
    ),
    "write_ratio": Option(
        type=float, default=0.4, least=0, most=1, help="share of operations that write"
    ),
}


class CausalGenerator(SessionGenerator):
    """One worker's stream: that of `session`, and at the end every key once more."""

    stream = "causal"

    def __init__(self, seed: int, worker: int, processes: int, options: Mapping[str, Any]) -> None:
        super().__init__(seed, worker, processes, options)
        self._finals = FinalReads(
            lambda node: [OpDraft("read", key) for key in self._keys.used] if node == 0 else []
        )

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
