"""Connections that fail: how many a minute between which two, and so who reaches whom."""

from __future__ import annotations

from collections import deque
from typing import Any, Final

from dstest.logs.findings import Finding, Outcome, Row
from dstest.logs.scene import Check, Line
from dstest.logs.windows import Expected

RATE_MOST: Final = 10
"""Failures between two nodes within one minute; more are a finding. Source: discipline 7.2 (a)."""

SECOND_NS: Final = 1_000_000_000
MINUTE_S: Final = 60

PAIRS_MAX: Final = 4000
ROWS_MAX: Final = 5


class _Pair:
    """`most` failures lay within one minute; those without a stamp count as within one. They are
    counted by seconds, so that what is kept does not grow with them."""

    def __init__(self, said: Expected) -> None:
        self.said = said
        self.count = self.most = self.stampless = 0
        self.rows: list[Row] = []
        self._recent: deque[list[int]] = deque()
        self._within = 0

    def add(self, line: Line) -> None:
        self.count += 1
        if len(self.rows) < ROWS_MAX:
            self.rows.append(line.row)
        if line.time_ns is None:
            self.stampless += 1
            self.most = max(self.most, self.stampless)
            return
        second = line.time_ns // SECOND_NS
        if not self._recent or self._recent[-1][0] != second:
            self._recent.append([second, 0])
        self._recent[-1][1] += 1
        self._within += 1
        while abs(second - self._recent[0][0]) >= MINUTE_S:
            self._within -= self._recent.popleft()[1]
        self.most = max(self.most, self._within)


class Connections(Check):
    """Refused, reset, timed out, unreachable: by minute and by pair."""

    name, group = "connection_failures", "network-partition"
    asks = f"more than {RATE_MOST} failed connections a minute between two nodes"

    def __init__(self, *given: object) -> None:
        super().__init__(*given)  # type: ignore[arg-type]
        self._pairs: dict[tuple[str, str, str, bool], _Pair] = {}
        self._lines = self._lost = 0

    def line(self, line: Line) -> None:
        self._lines += 1
        if "connection" not in line.topics:
            return
        record = line.record
        peer = self.scene.member(record.peer) or self.scene.peer_in(record.message, line.node)
        said = self.scene.judged(line, peer)
        key = (line.node, peer, said.window, said.expected)
        pair = self._pairs.get(key)
        if pair is None:
            if len(self._pairs) >= PAIRS_MAX:
                self._lost += 1
                return
            pair = self._pairs[key] = _Pair(said)
        pair.add(line)

    def end(self) -> Outcome:
        if not self._lines:
            return Outcome(check=self.name, not_evaluated="no line was read")
        found = [
            self._finding(node, peer, pair)
            for (node, peer, _, _), pair in self._pairs.items()
            if pair.most > RATE_MOST
        ]
        notes = [f"{self._lost:,} failures of further pairs"] if self._lost else []
        total = sum(pair.count for pair in self._pairs.values())
        outcome = Outcome(
            check=self.name,
            findings=found,
            looked=f"{total:,} failed connections in {self._lines:,} lines",
            notes=notes,
        )
        outcome.facts = {"reachability": self._matrix()}
        return outcome

    def _matrix(self) -> list[dict[str, Any]]:
        """Every pair of which one has failed to reach the other, with when; the others have not
        said that they failed."""
        return [
            {
                "from": node,
                "to": peer or None,
                "window": window,
                "expected": expected,
                "failures": pair.count,
                "most_a_minute": pair.most,
            }
            for (node, peer, window, expected), pair in sorted(self._pairs.items())
        ]

    def _finding(self, node: str, peer: str, pair: _Pair) -> Finding:
        return Finding(
            check=self.name,
            severity="high",
            nodes=[node, peer] if peer else [node],
            window=pair.said.window,
            expected=pair.said.expected,
            why=pair.said.why,
            said=f"{pair.most} failed connections within a minute",
            count=pair.count,
            rows=pair.rows,
            todo="is the other end up, and does it listen where this one asks?",
        )
