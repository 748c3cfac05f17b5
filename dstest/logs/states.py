"""Replicas: the hash of each node's state at the same applied index."""

from __future__ import annotations

from typing import Final

from dstest.logs.findings import Finding, Outcome, row_of
from dstest.logs.scene import Check, Line
from dstest.logs.windows import NO_FAULT

__all__ = ["Divergence"]

INDICES_MAX: Final = 200_000
"""Indices that are remembered at a time, of those that not all nodes have told yet."""


class Divergence(Check):
    """Two nodes that applied the same entries and are not in the same state: no fault may do that,
    and a replica that is behind is at another index."""

    name, group = "state_divergence", "state-sync"
    asks = "different states at the same applied index"

    def __init__(self, *given: object) -> None:
        super().__init__(*given)  # type: ignore[arg-type]
        self._open: dict[int, dict[str, tuple[str, Line]]] = {}
        self._found: dict[tuple[str, ...], Finding] = {}
        self._hashes = self._compared = self._lost = 0
        self._nodes: set[str] = set()

    def line(self, line: Line) -> None:
        record = line.record
        if record.applied is None or not record.state:
            return
        self._hashes += 1
        self._nodes.add(line.node)
        told = self._open.setdefault(record.applied, {})
        for node, (state, other) in told.items():
            self._compared += node != line.node
            if state != record.state:
                self._differ(record.applied, other, line)
        told.setdefault(line.node, (record.state, line))
        if len(told) >= max(2, len(self.scene.declared)) and self._alike(told):
            del self._open[record.applied]
        elif len(self._open) > INDICES_MAX:
            self._open.pop(next(iter(self._open)))
            self._lost += 1

    @staticmethod
    def _alike(told: dict[str, tuple[str, Line]]) -> bool:
        return len({state for state, _ in told.values()}) == 1

    def _differ(self, index: int, one: Line, other: Line) -> None:
        nodes = tuple(sorted({one.node, other.node}))
        found = self._found.get(nodes)
        if found is not None:
            found.count += 1
            return
        rows = [
            row_of(line.place, line.time_ns, f"index {index}: {line.record.state}")
            for line in (one, other)
        ]
        said = self.scene.judged(other)
        self._found[nodes] = Finding(
            check=self.name,
            severity="high",
            nodes=list(nodes),
            window=said.window if said.expected else NO_FAULT,
            expected=False,
            why="no fault makes replicas differ that have applied the same entries",
            said=f"the states differ from applied index {index} on",
            count=1,
            rows=rows,
            todo="apply the entries before this index again, and compare after each",
        )

    def end(self) -> Outcome:
        if not self._hashes:
            return Outcome(
                check=self.name,
                not_evaluated="no line has the hash of a state with its applied index",
            )
        if not self._compared and not self._found:
            why = f"{self._hashes:,} hashes, and no two nodes told one of the same index"
            return Outcome(check=self.name, not_evaluated=why)
        notes = [f"{self._lost:,} indices were told of too far apart"] if self._lost else []
        looked = f"{self._hashes:,} hashes of {len(self._nodes)} nodes, {self._compared:,} compared"
        findings = list(self._found.values())
        return Outcome(check=self.name, findings=findings, looked=looked, notes=notes)
