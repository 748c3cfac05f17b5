"""`closed-predicate`: transactions on the rows of a group that read by predicates.

A group has a few keys. Half of them are written, which makes their rows; each of the others is
inserted once and deleted at most once for good. Its transactions read single rows, all rows, and
those that a predicate holds of; each row that such a read does not return had a version that did
not match. A group is retired after some transactions, since any of its versions may be the one that
was seen. Source: Elle's `closed-predicate`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import Any, Final

from dstest.core import rng
from dstest.core.protocols import OpDraft, Option
from workloads._workload import RETIRED_MAX, ObjectWorkload, revisit_ratio

_OPTIONS: Final[Mapping[str, Option]] = {
    "keys": Option(
        type=int, default=2, least=1, most=1000, help="groups live at a time, per load worker"
    ),
    "group_size": Option(type=int, default=6, least=2, most=100, help="keys of a group"),
    "txns_per_key": Option(
        type=int, default=30, least=2, most=1000, help="transactions before a group is retired"
    ),
    "txn_length_max": Option(
        type=int, default=4, least=2, most=100, help="micro-ops per transaction, at most"
    ),
    "revisit_ratio": revisit_ratio("transactions"),
    "predicate_ratio": Option(
        type=float, default=0.5, least=0, most=1, help="share of reads that are by predicate"
    ),
    "write_ratio": Option(
        type=float, default=0.5, least=0, most=1, help="share of micro-ops that write"
    ),
}

_INSERTS: Final = 0.3
_DELETES: Final = 0.15
"""Shares of writes."""


class _Group:
    """Rows that are only written; and `unborn` ones, each inserted once and deleted once.

    A row that is made again after it was deleted is a new object (Adya 1999, section 4.1.1), and
    one key would stand for both; one whose insert failed would take later writes along."""

    def __init__(self, name: str, size: int) -> None:
        self.name = name
        self.written = max(1, size // 2)
        self.unborn = list(range(self.written, size))
        self.alive: list[int] = []
        self.values = 0
        self.txns = 0


class PredicateGenerator:
    """One worker's stream. Operation k depends on seed, worker and k alone."""

    def __init__(self, seed: int, worker: int, processes: int, options: Mapping[str, Any]) -> None:
        self._rng = rng.stream(seed, "workload", "closed-predicate", worker)
        self._worker, self._groups = worker, 0
        self._size = int(options["group_size"])
        self._txns = int(options["txns_per_key"])
        self._longest = int(options["txn_length_max"])
        self._predicates = float(options["predicate_ratio"])
        self._writes = float(options["write_ratio"])
        self._revisit = float(options["revisit_ratio"])
        self._retired: deque[str] = deque(maxlen=RETIRED_MAX)
        self._live = [self._fresh() for _ in range(int(options["keys"]))]

    def _fresh(self) -> _Group:
        self._groups += 1
        return _Group(f"{self._worker}-{self._groups}", self._size)

    def _read(self, group: _Group) -> list[Any]:
        if self._rng.random() >= self._predicates:
            return ["r", self._rng.randrange(self._size)]
        parity = ["mod", 2, self._rng.randrange(2)]
        recent = ["=", max(1, group.values - self._rng.randrange(self._size))]
        return ["rp", self._rng.choice([True, parity, parity, parity, recent, recent])]

    def _write(self, group: _Group) -> list[Any]:
        group.values += 1
        dice = self._rng.random()
        if dice < _INSERTS and group.unborn:
            group.alive.append(group.unborn.pop(0))
            return ["insert", group.alive[-1], group.values]
        if dice > 1 - _DELETES and group.alive:
            return ["delete", group.alive.pop(self._rng.randrange(len(group.alive)))]
        return ["w", self._rng.randrange(group.written), group.values]

    def next(self) -> OpDraft:
        """The next transaction; the stream never ends."""
        if self._retired and self._rng.random() < self._revisit:
            return OpDraft("txn", self._rng.choice(self._retired), [["rp", True]])
        at = self._rng.randrange(len(self._live))
        group = self._live[at]
        steps = [
            self._write(group) if self._rng.random() < self._writes else self._read(group)
            for _ in range(self._rng.randint(2, self._longest))
        ]
        group.txns += 1
        if group.txns >= self._txns:
            self._retired.append(group.name)
            self._live[at] = self._fresh()
        return OpDraft("txn", group.name, steps)


CLOSED_PREDICATE: Final = ObjectWorkload(
    name="closed-predicate",
    doc="transactions on groups of rows that read by predicates",
    capability="predicates",
    model="serializable",
    checkers=("closed-predicate",),
    op_types=frozenset({"txn"}),
    make=PredicateGenerator,
    options=_OPTIONS,
    minimum={"txn": 100},
    claims=frozenset({"isolation"}),
)
