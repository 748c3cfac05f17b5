"""Messages between nodes: answers before their requests, and messages that come twice.

A request and its response are paired by the id that they share, on each node by the order of its
own log, and between nodes by their times, which differ by what the clocks leave open, or by vector
clocks where both lines have one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Final, NamedTuple

from dstest.logs.findings import Finding, Outcome, Row, Tally
from dstest.logs.scene import Check, Line

IDS_MAX: Final = 500_000
"""Exchanges and messages that are remembered at a time."""

_TODO: Final = "follow this id through all logs: was the answer to an older request, or made up?"


def before(a: Mapping[str, int], b: Mapping[str, int]) -> bool:
    """Does the event with vector clock `a` happen before the one with `b`? Source: Fidge,
    "Timestamps in Message-Passing Systems" (1988)."""
    names = a.keys() | b.keys()
    return a != b and all(a.get(name, 0) <= b.get(name, 0) for name in names)


class _Open(NamedTuple):
    line: Line
    row: Row


class Ordering(Check):
    """Responses that have no request before them."""

    name, group = "causal_ordering_violation", "message-ordering"
    asks = "a response without its request, or before it"

    def __init__(self, *given: object) -> None:
        super().__init__(*given)  # type: ignore[arg-type]
        self._asked: dict[tuple[str, str], _Open] = {}
        self._answered: dict[tuple[str, str], _Open] = {}
        self._done: dict[tuple[str, str], _Open] = {}
        self._tally = {"before": Tally(), "alone": Tally(), "open": Tally()}
        self._seen = self._lost = self._idless = 0

    def line(self, line: Line) -> None:
        kind, id_ = line.record.kind, line.record.exchange
        if not kind:
            return
        if not id_:
            self._idless += 1
            return
        self._seen += 1
        key, one = (id_, line.node), _Open(line, line.row)
        if kind == "request":
            self._request(key, one)
        elif (asked := self._asked.pop(key, None)) is not None:
            self._closed(key, asked, one)
        elif (asked := self._done.get(key)) is None:
            self._keep(self._answered, key, one)

    def _request(self, key: tuple[str, str], one: _Open) -> None:
        early = self._answered.pop(key, None)
        if early is not None:  # on this node the answer stood before
            self._told("before", early, key)
            self._keep(self._done, key, one)
            return
        self._keep(self._asked, key, one)

    def _closed(self, key: tuple[str, str], asked: _Open, answer: _Open) -> None:
        a, b = asked.line.record.vector, answer.line.record.vector
        if a and b and before(b, a):
            self._told("before", answer, key)
        self._keep(self._done, key, asked)

    def _keep(self, where: dict[tuple[str, str], _Open], key: tuple[str, str], one: _Open) -> None:
        if len(where) >= IDS_MAX:
            where.pop(next(iter(where)))
            self._lost += where is not self._done
        where[key] = one

    def _told(self, what: str, one: _Open, key: tuple[str, str]) -> None:
        said = self.scene.judged(one.line)
        self._tally[what].add((key[1],), said, one.row)

    def _between_nodes(self) -> None:
        """Answers in one log to what was asked in another one's."""
        elsewhere: dict[str, _Open] = {}
        for (id_, _), asked in (*self._done.items(), *self._asked.items()):
            elsewhere.setdefault(id_, asked)
        for key, answer in self._answered.items():
            other = elsewhere.get(key[0])
            if other is None:
                self._told("alone", answer, key)
            elif _precedes(answer.line, other.line):
                self._told("before", answer, key)
        answered = {id_ for id_, _ in (*self._answered, *self._done)}
        for key, asked in self._asked.items():
            if key[0] not in answered:
                self._told("open", asked, key)

    def end(self) -> Outcome:
        if not self._seen:
            why = "no line tells of a request or a response"
            if self._idless:
                why = f"{self._idless:,} requests and responses have no id that pairs them"
            return Outcome(check=self.name, not_evaluated=why)
        self._between_nodes()
        rows = (
            ("before", "high", "a response stands before its request"),
            ("alone", "high", "a response, and no request that it could be to"),
            ("open", "medium", "a request that no line answers"),
        )
        found: list[Finding] = []
        notes: list[str] = []
        for key, severity, said in rows:
            found += self._tally[key].findings(self.name, severity, said, _TODO)  # type: ignore[arg-type]
            notes += self._tally[key].notes
        if self._lost:
            notes.append(f"{self._lost:,} exchanges were open for too long to be followed")
        if self._idless:
            notes.append(f"{self._idless:,} requests and responses without an id")
        looked = f"{self._seen:,} requests and responses, paired by id"
        return Outcome(check=self.name, findings=found, looked=looked, notes=notes)


def _precedes(answer: Line, asked: Line) -> bool:
    """Surely, for all that the clocks leave open."""
    a, b = answer.record.vector, asked.record.vector
    if a and b:
        return before(a, b)
    if answer.time_ns is None or asked.time_ns is None:
        return False
    return answer.time_ns + answer.doubt_ns + asked.doubt_ns < asked.time_ns


class Duplicates(Check):
    """The same message twice in the log of who sent it, or of who got it."""

    name, group = "duplicate_messages", "message-ordering"
    asks = "one message that a node has sent, or received, more than once"

    def __init__(self, *given: object) -> None:
        super().__init__(*given)  # type: ignore[arg-type]
        self._seen: dict[int, None] = {}
        self._tally = {"sent": Tally(), "received": Tally(), "": Tally()}
        self._lines = self._lost = 0
        self._sides: Counter[str] = Counter()

    def line(self, line: Line) -> None:
        record = line.record
        if not record.message_id:
            return
        self._lines += 1
        self._sides[record.side] += 1
        # What is sent to several members is one message to each.
        to = record.peer if record.side == "sent" else ""
        key = hash((record.message_id, line.node, record.side, record.kind, to))
        if key in self._seen:
            self._tally[record.side].add((line.node,), self.scene.judged(line), line.row)
            return
        if len(self._seen) >= IDS_MAX:
            self._seen.pop(next(iter(self._seen)))
            self._lost += 1
        self._seen[key] = None

    def end(self) -> Outcome:
        if not self._lines:
            return Outcome(check=self.name, not_evaluated="no line has the id of a message")
        said = {
            "sent": "a message was sent again under the same id",
            "received": "a message was received again",
            "": "a message is told of again, and not whether it was sent or received",
        }
        todo = "does who gets it twice do it once? A retry is harmless only then"
        found: list[Finding] = []
        for side, tally in self._tally.items():
            found += tally.findings(self.name, "medium", said[side], todo)
        notes = [note for tally in self._tally.values() for note in tally.notes]
        if self._lost:
            notes.append(f"of {self._lost:,} older ids a second one would not be noticed")
        sides = ", ".join(f"{n:,} {side or 'of neither side'}" for side, n in self._sides.items())
        return Outcome(check=self.name, findings=found, looked=f"message ids: {sides}", notes=notes)
