"""`list-append` and `rw-register`: transactions over a few live keys, for isolation checkers.

A transaction is a list of micro-ops, `["append", k, v]`, `["w", k, v]` or `["r", k, null]`; its
output is the same list with the results of reads filled in. Values are unique per key. Keys are
chosen exponentially or uniformly from the live ones; a key that took its share of writes is retired
for a fresh one, so that lists stay short. Some reads go back to retired keys: what was committed
before a fault must still be there after it. The other knobs are those of Jepsen's generator.

Keys are integers, `worker + workers_max * sequence`: a key belongs to one worker, whose processes
are spread over all nodes.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping
from typing import Any, Final

from dstest.core import rng
from dstest.core.check import Fields
from dstest.core.protocols import OpDraft, Option, Workload
from workloads._workload import RETIRED_MAX, WORKERS_MAX, revisit_ratio

_KEY_DIST_BASE: Final = 2.0
"""Each live key is chosen half as often as the one before, as in Jepsen."""

_OPTIONS: Final[Mapping[str, Option]] = {
    "key_count": Option(
        type=int, default=5, least=1, most=100_000, help="keys live at a time, per load worker"
    ),
    "key_dist": Option(
        type=str,
        default="exponential",
        choices=("exponential", "uniform"),
        help="how a micro-op chooses among the live keys",
    ),
    "txn_length_min": Option(
        type=int, default=1, least=1, most=10_000, help="micro-ops per transaction, at least"
    ),
    "txn_length_max": Option(
        type=int, default=4, least=1, most=10_000, help="micro-ops per transaction, at most"
    ),
    "writes_per_key": Option(
        type=int, default=32, least=1, most=10_000_000, help="writes to a key before it is retired"
    ),
    "revisit_ratio": revisit_ratio("micro-ops"),
    "write_ratio": Option(
        type=float, default=0.5, least=0, most=1, help="share of micro-ops that write"
    ),
}


class TxnGenerator:
    """One worker's stream. Transaction k depends on seed, worker and k alone."""

    def __init__(
        self, seed: int, worker: int, name: str, write: str, options: Mapping[str, Any]
    ) -> None:
        self._rng = rng.stream(seed, "workload", name, worker)
        self._write = write
        self._worker = worker
        self._next_key = 0
        self._revisit_ratio = float(options["revisit_ratio"])
        self._retired: deque[int] = deque(maxlen=RETIRED_MAX)
        self._writes_per_key = max(1, int(options["writes_per_key"]))
        self._ratio = float(options["write_ratio"])
        self._length = (int(options["txn_length_min"]), int(options["txn_length_max"]))
        self._exponential = options["key_dist"] == "exponential"
        # [key, next value]: values count from 1 within each key.
        self._live = [self._fresh() for _ in range(max(1, int(options["key_count"])))]

    def _fresh(self) -> list[int]:
        key = self._worker + WORKERS_MAX * self._next_key
        self._next_key += 1
        return [key, 1]

    def _choose(self) -> int:
        n = len(self._live)
        if not self._exponential:
            return self._rng.randrange(n)
        # Inverse of the geometric distribution cut off at n keys.
        share = self._rng.random() * (1 - _KEY_DIST_BASE**-n)
        return min(n - 1, int(-math.log2(1 - share)))

    def _micro_op(self) -> list[Any]:
        if self._retired and self._rng.random() < self._revisit_ratio:
            return ["r", self._rng.choice(self._retired), None]
        at = self._choose()
        slot = self._live[at]
        if self._rng.random() >= self._ratio:
            return ["r", slot[0], None]
        key, value = slot
        slot[1] += 1
        if value >= self._writes_per_key:
            self._retired.append(key)
            self._live[at] = self._fresh()
        return [self._write, key, value]

    def next(self) -> OpDraft:
        """The next transaction; the stream never ends."""
        low, high = self._length
        count = self._rng.randint(low, max(low, high))
        return OpDraft("txn", None, [self._micro_op() for _ in range(count)])


class TxnWorkload(Workload):
    """`list-append` or `rw-register`."""

    model = "strict-serializable"
    claims = frozenset({"isolation"})
    fields = Fields()
    minimum: Mapping[str, int] = {"txn": 100}
    op_types = frozenset({"txn"})
    options = _OPTIONS

    def __init__(self, name: str, capability: str, write: str, doc: str) -> None:
        self.name = name
        self.capability = capability
        self.checkers: tuple[str, ...] = (name,)
        self.doc = doc
        self._write = write

    def generator(
        self, seed: int, worker: int, processes: int, options: Mapping[str, Any]
    ) -> TxnGenerator:
        return TxnGenerator(seed, worker, self.name, self._write, options)


LIST_APPEND = TxnWorkload(
    "list-append", "txn-append", "append", "transactions that append to lists and read them"
)
RW_REGISTER = TxnWorkload(
    "rw-register", "txn-register", "w", "transactions that write registers and read them"
)
