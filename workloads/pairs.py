"""`g2`: inserts of which each has read by a predicate that there is nothing yet.

An `insert` looks for rows of its key in two tables, those that a predicate holds of, and puts a row
into one of them where it finds none. Of all inserts of a key at most one may succeed, in whatever
order they ran. Most keys get two inserts, at once; some that had theirs get another one later. A
last `read` of each node looks for keys of which several rows stand.
Source: Adya, section 4.2 (G2, anti-dependency cycles by predicates); Jepsen's `tests.adya/g2`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from dstest.core import rng
from dstest.core.protocols import Answer, OpDraft, Option
from workloads._workload import WORKERS_MAX, FinalReads, ObjectWorkload, revisit_ratio

_SIDES: Final = ("a", "b")
_OPTIONS: Final[Mapping[str, Option]] = {"revisit_ratio": revisit_ratio("inserts")}


class PairGenerator:
    """One worker's stream. Operation k depends on seed, worker and k alone."""

    def __init__(self, seed: int, worker: int, processes: int, options: Mapping[str, Any]) -> None:
        self._rng = rng.stream(seed, "workload", "g2", worker)
        self._worker = worker
        self._revisit = float(options["revisit_ratio"])
        self._numbers = self._keys = 0
        self._waiting: list[OpDraft] = []
        looks = [OpDraft("read", None)] if worker == 0 else []
        self._finals = FinalReads(lambda node: looks)

    def _insert(self, key: int, side: str) -> OpDraft:
        self._numbers += 1
        number = self._worker + WORKERS_MAX * self._numbers
        return OpDraft("insert", f"{self._worker}-{key}", [side, number])

    def next(self) -> OpDraft:
        """The next insert; the stream never ends."""
        if self._waiting:
            return self._waiting.pop()
        if self._keys and self._rng.random() < self._revisit:
            return self._insert(self._rng.randint(1, self._keys), self._rng.choice(_SIDES))
        self._keys += 1
        self._waiting = [self._insert(self._keys, side) for side in _SIDES]
        self._rng.shuffle(self._waiting)
        return self._waiting.pop()

    def final(self, node: int, last: Answer | None) -> OpDraft | None:
        """One look at each node for keys of which several rows stand."""
        return self._finals.next(node, last)


G2: Final = ObjectWorkload(
    name="g2",
    doc="inserts of rows, each where a predicate has found none: at most one may succeed",
    capability="pairs",
    model="serializable",
    checkers=("g2",),
    op_types=frozenset({"insert", "read"}),
    make=PairGenerator,
    options=_OPTIONS,
    minimum={"insert": 100},
    claims=frozenset({"isolation"}),
)
