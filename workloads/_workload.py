"""What the workloads of single objects share: their record, rotating keys, final reads."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from dstest.core.check import Fields
from dstest.core.protocols import Answer, Generator, OpDraft, Option, Workload

WORKERS_MAX: Final = 64
"""Load workers among which numbers are dealt."""

RETIRED_MAX: Final = 400
"""Retired keys that are still read: those of the last minute or so."""

_LATEST_MAX: Final = 64
"""Keys that are gone back to: old enough to be older than a fault."""

READ_AGAIN: Final = 0.1
"""Share of reads that go back to any of them."""


def revisit_ratio(of: str) -> Option:
    """How often what was committed before a fault is read after it; `of` are those that read."""
    doc = f"share of {of} that read a retired key again"
    return Option(type=float, default=0.1, least=0, most=1, help=doc)


Make = Callable[[int, int, int, Mapping[str, Any]], Generator]


@dataclass(frozen=True, slots=True)
class ObjectWorkload(Workload):
    """A workload as data. `make(seed, worker, processes, options)` gives a worker's generator;
    `minimum` says how many good operations of each type a run needs to prove anything."""

    name: str
    doc: str
    capability: str
    model: str
    checkers: tuple[str, ...]
    op_types: frozenset[str]
    make: Make
    options: Mapping[str, Option] = field(default_factory=dict)
    minimum: Mapping[str, int] = field(default_factory=dict)
    claims: frozenset[str] = frozenset({"safety"})
    fields: Fields = field(default_factory=Fields)
    final_s: float = Workload().final_s

    def generator(
        self, seed: int, worker: int, processes: int, options: Mapping[str, Any]
    ) -> Generator:
        return self.make(seed, worker, processes, options)


class RotatingKeys:
    """A few live keys, each retired for a fresh one after so many operations. Keys are called
    `<worker>-<sequence>`: a key belongs to one worker, whose processes are spread over all nodes.
    """

    def __init__(self, worker: int, live: int, ops_per_key: int) -> None:
        self._worker = worker
        self._ops_per_key = max(1, ops_per_key)
        self.used: list[str] = []
        # Staggered ages keep the live keys from retiring all at once.
        live = max(1, live)
        self._live = [[self._fresh(), age * self._ops_per_key // live] for age in range(live)]

    def _fresh(self) -> str:
        self.used.append(f"{self._worker}-{len(self.used) + 1}")
        return self.used[-1]

    def read_again(self, dice: Any) -> str:
        """A live or retired key: what was acknowledged there must still be there."""
        return str(dice.choice(self.used[-_LATEST_MAX:]))

    def pick(self, dice: Any) -> str:
        """One of the live keys, for one more operation."""
        at = dice.randrange(len(self._live))
        slot = self._live[at]
        key = str(slot[0])
        slot[1] += 1
        if slot[1] >= self._ops_per_key:
            self._live[at] = [self._fresh(), 0]
        return key


class FinalReads:
    """Final operations per node, each asked again until it succeeds."""

    def __init__(self, of_node: Callable[[int], list[OpDraft]]) -> None:
        self._of_node = of_node
        self._left: dict[int, list[OpDraft]] = {}

    def next(self, node: int, last: Answer | None) -> OpDraft | None:
        """The next one at this node, None when all are done."""
        left = self._left.get(node)
        if left is None:
            left = self._left[node] = list(reversed(self._of_node(node)))
        elif last is not None and last.kind == "ok":
            left.pop()
        return left[-1] if left else None
