"""Replicas: the hash of each node's state at the same applied index."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from dstest.logs.findings import Finding, Outcome, row_of
from dstest.logs.scene import Check, Line
from dstest.logs.windows import NO_FAULT

INDICES_MAX: Final = 200_000
"""Indices that are remembered at a time, of those that not all nodes have told yet; and so many of
those at which states differ."""

ROWS_MAX: Final = 9


class Divergence(Check):
    """Two nodes that applied the same entries and are not in the same state: no fault may do that,
    and a replica that is behind is at another index."""

    name, group = "state_divergence", "state-sync"
    asks = "different states at the same applied index"

    def __init__(self, *given: object) -> None:
        super().__init__(*given)  # type: ignore[arg-type]
        self._open: dict[int, dict[str, tuple[str, Line]]] = {}
        self._differing: dict[int, dict[str, tuple[str, Line]]] = {}
        self._hashes = self._compared = self._lost = 0
        self._nodes: set[str] = set()

    def line(self, line: Line) -> None:
        record = line.record
        if record.applied is None or not record.state:
            return
        self._hashes += 1
        self._nodes.add(line.node)
        told = self._open.setdefault(record.applied, {})
        self._compared += sum(node != line.node for node in told)
        alone = told.setdefault(line.node, (record.state, line))
        if any(state != record.state for state, _ in told.values()):
            if alone[0] != record.state:  # one node told two states of one index
                told[f"{line.node} again"] = (record.state, line)
            if len(self._differing) < INDICES_MAX:
                self._differing[record.applied] = told
        if len(told) >= max(2, len(self.scene.declared)) and self._alike(told):
            del self._open[record.applied]
        elif len(self._open) > INDICES_MAX:
            self._open.pop(next(iter(self._open)))
            self._lost += 1

    @staticmethod
    def _alike(told: dict[str, tuple[str, Line]]) -> bool:
        return len({state for state, _ in told.values()}) == 1

    def _found(self) -> Iterator[Finding]:
        """One for each set of nodes that is in another state than most, and was not before."""
        odd_before: set[str] = set()
        for index, told in sorted(self._differing.items()):
            odd, groups = _odd_of(told)
            if odd <= odd_before:
                continue
            odd_before |= odd
            yield self._finding(index, odd, groups, told)

    def _finding(
        self,
        index: int,
        odd: set[str],
        groups: list[list[str]],
        told: dict[str, tuple[str, Line]],
    ) -> Finding:
        at = "at the end" if index < 0 else f"at applied index {index}"
        said = self.scene.judged(max((line for _, line in told.values()), key=_when))
        rows = [
            row_of(line.place, line.time_ns, f"{node}, {at}: {line.record.state}")
            for node, (_, line) in sorted(told.items())
        ]
        later = sum(one > index for one in self._differing)
        return Finding(
            check=self.name,
            severity="high",
            nodes=sorted(odd),
            window=said.window if said.expected else NO_FAULT,
            expected=False,
            why="no fault makes replicas differ that have applied the same entries",
            said=f"{at} the states differ: {'; '.join(', '.join(nodes) for nodes in groups)}",
            count=1 + later,
            rows=rows[:ROWS_MAX],
            todo="compare what the nodes have applied, entry by entry"
            if index < 0
            else "apply the entries before this index again, and compare after each",
        )

    def end(self) -> Outcome:
        if not self._hashes:
            return Outcome(
                check=self.name,
                not_evaluated="no line has the hash of a state with its applied index",
            )
        if not self._compared and not self._differing:
            why = f"{self._hashes:,} hashes, and no two nodes told one of the same index"
            return Outcome(check=self.name, not_evaluated=why)
        notes = [f"{self._lost:,} indices were told of too far apart"] if self._lost else []
        looked = f"{self._hashes:,} hashes of {len(self._nodes)} nodes, {self._compared:,} compared"
        findings = list(self._found())
        return Outcome(check=self.name, findings=findings, looked=looked, notes=notes)


def _when(line: Line) -> int:
    return -1 if line.time_ns is None else line.time_ns


def _odd_of(told: dict[str, tuple[str, Line]]) -> tuple[set[str], list[list[str]]]:
    """Nodes that are not in the most common state, all where several are; and the nodes of each
    state, the most common one first."""
    by: dict[str, list[str]] = {}
    for node, (state, _) in sorted(told.items()):
        by.setdefault(state, []).append(node)
    groups = sorted(by.values(), key=lambda nodes: (-len(nodes), nodes))
    one = len(groups[0]) > len(groups[1])
    return {node for nodes in groups[one:] for node in nodes}, groups
