"""Log checks of messages between nodes: responses without a request, messages that come twice,
nodes that are silent or do not vote, votes that are refused, replicas that diverge.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from dstest.debug.logs.scene import (
    NO_FAULT,
    CheckOutcome,
    Finding,
    Line,
    LogRow,
    Rule,
    Scene,
    Tally,
    Watch,
    row_of,
)

IDS_MAX: Final = 500_000
"""Exchanges and messages that are remembered at a time."""

_TODO: Final = "follow this id through all logs: was the answer to an older request, or made up?"

SHARE_LEAST: Final = 0.5
"""Of the mean of all nodes: who votes less is silent."""

VOTES_LEAST: Final = 5
"""Of a node on the mean, before they are compared: where five are due to a node by chance, none
comes in one of 150 runs; where one is, in every third."""

REJECTED_MOST: Final = 0.3

BALLOTS_MAX: Final = 200_000
"""Votes that are remembered, so that one which is told of twice counts once."""

INDICES_MAX: Final = 200_000
"""Indices that are remembered at a time, of those that not all nodes have told yet; and so many of
those at which states differ."""

ROWS_MAX: Final = 9


def before(a: Mapping[str, int], b: Mapping[str, int]) -> bool:
    """Does the event with vector clock `a` happen before the one with `b`? Source: Fidge,
    "Timestamps in Message-Passing Systems" (1988)."""
    names = a.keys() | b.keys()
    return a != b and all(a.get(name, 0) <= b.get(name, 0) for name in names)


class _Open(NamedTuple):
    line: Line
    row: LogRow


class Ordering(Watch):
    """Responses that have no request before them.

    A request and its response are paired by the id that they share, on each node by the order of
    its own log, and between nodes by their times, which differ by what the clocks leave open, or by
    vector clocks where both lines have one.
    """

    def __init__(self, scene: Scene) -> None:
        super().__init__(scene)
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
        said = self.scene.explain(one.line)
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

    def end(self) -> CheckOutcome:
        if not self._seen:
            why = "no line tells of a request or a response"
            if self._idless:
                why = f"{self._idless:,} requests and responses have no id that pairs them"
            return CheckOutcome(not_evaluated=why)
        self._between_nodes()
        rows = (
            ("before", "high", "a response stands before its request"),
            ("alone", "high", "a response, and no request that it could be to"),
            ("open", "medium", "a request that no line answers"),
        )
        found: list[Finding] = []
        notes: list[str] = []
        for key, severity, said in rows:
            found += self._tally[key].findings(severity, said, _TODO)  # type: ignore[arg-type]
            notes += self._tally[key].notes
        if self._lost:
            notes.append(f"{self._lost:,} exchanges were open for too long to be followed")
        if self._idless:
            notes.append(f"{self._idless:,} requests and responses without an id")
        looked = f"{self._seen:,} requests and responses, paired by id"
        return CheckOutcome(findings=found, looked=looked, notes=notes)


def _precedes(answer: Line, asked: Line) -> bool:
    """Surely, for all that the clocks leave open."""
    a, b = answer.record.vector, asked.record.vector
    if a and b:
        return before(a, b)
    if answer.time_ns is None or asked.time_ns is None:
        return False
    return answer.time_ns + answer.doubt_ns + asked.doubt_ns < asked.time_ns


class Duplicates(Watch):
    """The same message twice in the log of who sent it, or of who got it."""

    def __init__(self, scene: Scene) -> None:
        super().__init__(scene)
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
            self._tally[record.side].add((line.node,), self.scene.explain(line), line.row)
            return
        if len(self._seen) >= IDS_MAX:
            self._seen.pop(next(iter(self._seen)))
            self._lost += 1
        self._seen[key] = None

    def end(self) -> CheckOutcome:
        if not self._lines:
            return CheckOutcome(not_evaluated="no line has the id of a message")
        said = {
            "sent": "a message was sent again under the same id",
            "received": "a message was received again",
            "": "a message is told of again, and not whether it was sent or received",
        }
        todo = "does who gets it twice do it once? A retry is harmless only then"
        found: list[Finding] = []
        for side, tally in self._tally.items():
            found += tally.findings("medium", said[side], todo)
        notes = [note for tally in self._tally.values() for note in tally.notes]
        if self._lost:
            notes.append(f"of {self._lost:,} older ids a second one would not be noticed")
        sides = ", ".join(f"{n:,} {side or 'of neither side'}" for side, n in self._sides.items())
        return CheckOutcome(findings=found, looked=f"message ids: {sides}", notes=notes)


ORDERING: Final = Rule(
    "causal_ordering_violation",
    "a response without its request, or before it",
    Ordering.end,
    "message-ordering",
    Ordering,
)

DUPLICATES: Final = Rule(
    "duplicate_messages",
    "one message that a node has sent, or received, more than once",
    Duplicates.end,
    "message-ordering",
    Duplicates,
)


class SilentNodes(Watch):
    """Who says nothing at all, and who takes part in less than half as many ballots as the mean.
    What was said while a fault stood does not count, for or against anybody."""

    def __init__(self, scene: Scene) -> None:
        super().__init__(scene)
        self._lines: Counter[str] = Counter()
        self._votes: Counter[str] = Counter()
        self._seen: set[tuple[str, str]] = set()
        self._rows: dict[str, LogRow] = {}
        self._told = 0
        self._overflown = False

    def line(self, line: Line) -> None:
        self._lines[line.node] += 1
        record = line.record
        if not record.vote:
            return
        self._told += 1
        voter = self.scene.member(record.voter) or line.node
        said = self.scene.explain(line)
        if said.expected and said.why.endswith("explains it"):
            return  # a fault stood
        if record.ballot:
            if (voter, record.ballot) in self._seen:
                return
            if len(self._seen) < BALLOTS_MAX:
                self._seen.add((voter, record.ballot))
            else:
                self._overflown = True
        self._votes[voter] += 1
        self._rows.setdefault(voter, line.row)

    def end(self) -> CheckOutcome:
        every = self.scene.declared or sorted(self._lines)
        if not every:
            return CheckOutcome(not_evaluated="no node is named and no line was read")
        found = [self._silent(node) for node in every if not self._lines[node]]
        votes = {node: self._votes[node] for node in every}
        mean = sum(votes.values()) / len(every)
        speaking = [node for node in every if self._lines[node]]
        found += [
            self._absent(node, votes[node], mean)
            for node in speaking
            if mean >= VOTES_LEAST and votes[node] < SHARE_LEAST * mean
        ]
        looked = f"{sum(votes.values()):,} votes of {len(every)} nodes, outside of faults"
        notes = [] if self._told else ["no line tells of a vote: only whether nodes say anything"]
        if self._told and mean < VOTES_LEAST:
            notes.append(f"{mean:.1f} votes a node on the mean are too few to compare nodes by")
        if not self.scene.named:
            notes.append("nobody declared the nodes (--nodes): one without any log is not missed")
        if self._overflown:
            notes.append(f"votes beyond {BALLOTS_MAX:,} ballots may be counted twice")
        outcome = CheckOutcome(findings=found, looked=looked, notes=notes)
        outcome.facts = {"votes": votes, "lines": {node: self._lines[node] for node in every}}
        if not self._told and not found and not self.scene.named:
            outcome.not_evaluated = "no line tells of a vote, and no nodes were declared"
        return outcome

    def _silent(self, node: str) -> Finding:
        return Finding(
            severity="high",
            nodes=[node],
            window=NO_FAULT,
            expected=False,
            why="it is a member, and no fault lasts for a whole run",
            said="the node says nothing: no line of it was collected",
            count=0,
            todo="was its log fetched, and did its server ever start?",
        )

    def _absent(self, node: str, votes: int, mean: float) -> Finding:
        return Finding(
            severity="high",
            nodes=[node],
            window=NO_FAULT,
            expected=False,
            why="votes while a fault stood do not count",
            said=f"it has voted {votes} times, the mean of all nodes is {mean:.3g}",
            count=votes,
            rows=[self._rows[node]] if node in self._rows else [],
            todo="does it get the proposals, and do its votes arrive?",
        )


class Rejections(Watch):
    """The share of votes that refuse."""

    def __init__(self, scene: Scene) -> None:
        super().__init__(scene)
        self._rejected: dict[str, Tally] = {}
        self._votes: Counter[tuple[str, bool]] = Counter()
        self._refused: Counter[tuple[str, bool]] = Counter()

    def line(self, line: Line) -> None:
        if not line.record.vote:
            return
        said = self.scene.explain(line)
        key = (said.window, said.expected)
        self._votes[key] += 1
        if line.record.vote == "rejected":
            self._refused[key] += 1
            self._rejected.setdefault(said.window, Tally()).add((), said, line.row)

    def end(self) -> CheckOutcome:
        if not self._votes:
            return CheckOutcome(not_evaluated="no line tells of a vote")
        found = []
        for window, tally in self._rejected.items():
            for one in tally.findings("medium", "", "do nodes differ in what they know?"):
                key = (window, one.expected)
                share = self._refused[key] / self._votes[key]
                if share > REJECTED_MOST and self._votes[key] >= VOTES_LEAST:
                    one.said = f"{share:.0%} of {self._votes[key]:,} votes refuse"
                    found.append(one)
        looked = f"{sum(self._votes.values()):,} votes"
        return CheckOutcome(findings=found, looked=looked)


SILENT_NODES: Final = Rule(
    "silent_failures",
    "nodes that say nothing, or vote less than half as often as all do on the mean",
    SilentNodes.end,
    "consensus",
    SilentNodes,
)

REJECTIONS: Final = Rule(
    "high_rejection_rate",
    f"more than {REJECTED_MOST:.0%} of the votes refuse",
    Rejections.end,
    "consensus",
    Rejections,
)


class Divergence(Watch):
    """Two nodes that applied the same entries and are not in the same state: no fault may do that,
    and a replica that is behind is at another index."""

    def __init__(self, scene: Scene) -> None:
        super().__init__(scene)
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
        said = self.scene.explain(max((line for _, line in told.values()), key=_when))
        rows = [
            row_of(line.place, line.time_ns, f"{node}, {at}: {line.record.state}")
            for node, (_, line) in sorted(told.items())
        ]
        later = sum(one > index for one in self._differing)
        return Finding(
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

    def end(self) -> CheckOutcome:
        if not self._hashes:
            return CheckOutcome(
                not_evaluated="no line has the hash of a state with its applied index",
            )
        if not self._compared and not self._differing:
            why = f"{self._hashes:,} hashes, and no two nodes told one of the same index"
            return CheckOutcome(not_evaluated=why)
        notes = [f"{self._lost:,} indices were told of too far apart"] if self._lost else []
        looked = f"{self._hashes:,} hashes of {len(self._nodes)} nodes, {self._compared:,} compared"
        findings = list(self._found())
        return CheckOutcome(findings=findings, looked=looked, notes=notes)


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


DIVERGENCE: Final = Rule(
    "state_divergence",
    "different states at the same applied index",
    Divergence.end,
    "state-sync",
    Divergence,
)
