"""Votes: nodes that are silent or take too little part, and votes that are refused."""

from __future__ import annotations

from collections import Counter
from typing import Final

from dstest.logs.findings import Finding, Outcome, Row, Tally
from dstest.logs.scene import Check, Line
from dstest.logs.windows import NO_FAULT

SHARE_LEAST: Final = 0.5
"""Of the mean of all nodes: who votes less is silent. Source: discipline 7.2 (a)."""

VOTES_LEAST: Final = 5
"""Of a node on the mean, before they are compared: where five are due to a node by chance, none
comes in one of 150 runs; where one is, in every third."""

REJECTED_MOST: Final = 0.3

BALLOTS_MAX: Final = 200_000
"""Votes that are remembered, so that one which is told of twice counts once."""


class SilentNodes(Check):
    """Who says nothing at all, and who takes part in less than half as many ballots as the mean.
    What was said while a fault stood does not count, for or against anybody."""

    name, group = "silent_failures", "consensus"
    asks = "nodes that say nothing, or vote less than half as often as all do on the mean"

    def __init__(self, *given: object) -> None:
        super().__init__(*given)  # type: ignore[arg-type]
        self._lines: Counter[str] = Counter()
        self._votes: Counter[str] = Counter()
        self._seen: set[tuple[str, str]] = set()
        self._rows: dict[str, Row] = {}
        self._told = 0
        self._overflown = False

    def line(self, line: Line) -> None:
        self._lines[line.node] += 1
        record = line.record
        if not record.vote:
            return
        self._told += 1
        voter = self.scene.member(record.voter) or line.node
        said = self.scene.judged(line)
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

    def end(self) -> Outcome:
        every = self.scene.declared or sorted(self._lines)
        if not every:
            return Outcome(check=self.name, not_evaluated="no node is named and no line was read")
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
        outcome = Outcome(check=self.name, findings=found, looked=looked, notes=notes)
        outcome.facts = {"votes": votes, "lines": {node: self._lines[node] for node in every}}
        if not self._told and not found and not self.scene.named:
            outcome.not_evaluated = "no line tells of a vote, and no nodes were declared"
        return outcome

    def _silent(self, node: str) -> Finding:
        return Finding(
            check=self.name,
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
            check=self.name,
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


class Rejections(Check):
    """The share of votes that refuse."""

    name, group = "high_rejection_rate", "consensus"
    asks = f"more than {REJECTED_MOST:.0%} of the votes refuse"

    def __init__(self, *given: object) -> None:
        super().__init__(*given)  # type: ignore[arg-type]
        self._rejected: dict[str, Tally] = {}
        self._votes: Counter[tuple[str, bool]] = Counter()
        self._refused: Counter[tuple[str, bool]] = Counter()

    def line(self, line: Line) -> None:
        if not line.record.vote:
            return
        said = self.scene.judged(line)
        key = (said.window, said.expected)
        self._votes[key] += 1
        if line.record.vote == "rejected":
            self._refused[key] += 1
            self._rejected.setdefault(said.window, Tally()).add((), said, line.row)

    def end(self) -> Outcome:
        if not self._votes:
            return Outcome(check=self.name, not_evaluated="no line tells of a vote")
        found = []
        for window, tally in self._rejected.items():
            for one in tally.findings(
                self.name, "medium", "", "do nodes differ in what they know?"
            ):
                key = (window, one.expected)
                share = self._refused[key] / self._votes[key]
                if share > REJECTED_MOST:
                    one.said = f"{share:.0%} of {self._votes[key]:,} votes refuse"
                    found.append(one)
        looked = f"{sum(self._votes.values()):,} votes"
        return Outcome(check=self.name, findings=found, looked=looked)
