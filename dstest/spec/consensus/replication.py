"""Logs, what of them is on disks by the word of their servers, and what is committed.

Source: Ongaro and Ousterhout, "In Search of an Understandable Consensus Algorithm" (2014), sections
5.3 and 5.4 and figure 3. Who leads is said by the part of the election.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field, replace
from itertools import combinations
from typing import Any

from dstest.spec import FrozenDict, Spec, Step, action, invariant, when
from dstest.spec.consensus.chain import EMPTY, Chain, Row

Last = tuple[int, int]
"""Term and index of the last entry of a log."""


@dataclass(frozen=True, slots=True)
class Logs:
    """Of each server its log, up to where it has said that it is on its disk, and what it knows to
    be committed. `asked` is what a candidate has said of its log, by (term, server). By term:
    `sent`, the log of its leader, and `told`, up to where that is committed by the leader's word;
    `acks` by (term, server), up to where a server has said in it that it has the leader's log.
    `answers` are what applied entries came to."""

    log: FrozenDict[int, Chain] = field(default_factory=FrozenDict)
    promised: FrozenDict[int, int] = field(default_factory=FrozenDict)
    commit: FrozenDict[int, int] = field(default_factory=FrozenDict)
    asked: FrozenDict[tuple[int, int], Last] = field(default_factory=FrozenDict)
    sent: FrozenDict[int, Chain] = field(default_factory=FrozenDict)
    acks: FrozenDict[tuple[int, int], int] = field(default_factory=FrozenDict)
    told: FrozenDict[int, int] = field(default_factory=FrozenDict)
    answers: Chain = field(default=EMPTY)

    def of(self, server: int) -> Chain:
        """Its log; empty before its first start."""
        return self.log.get(server, EMPTY)

    def last(self, server: int) -> Last:
        """Of its log."""
        return self.of(server).term, self.of(server).index

    def changed(self, server: int, first: int, rows: tuple[Row, ...]) -> Chain:
        """Its log with these entries from `first` on; one object for what is equal, which makes
        comparing cheap."""
        made = self.of(server).upto(first - 1).then(*rows)
        for other in self.sent.values():
            if other.index >= made.index and made.begins(other):
                return other.upto(made.index)
        return made

    def as_sent(self, server: int, term: int, index: int) -> bool:
        """Does it have what the leader of the term has, up to there?"""
        own, sent = self.of(server), self.sent.get(term, EMPTY)
        return index <= own.index and own.upto(index).begins(sent)

    def committed(self, term: int) -> Chain:
        """By the word of the leader of the term."""
        return self.sent[term].upto(self.told[term])

    def counted(self, term: int, index: int) -> list[int]:
        """Who has said in this term that it has the leader's log up to there, on its disk."""
        return [v for (of, v), upto in self.acks.items() if of == term and upto >= index]


def most(some: Collection[int], voters: tuple[int, ...]) -> bool:
    """Are they more than half of the voters, each of whom counts once?"""
    all_ = set(voters)
    return len(all_ & set(some)) * 2 > len(all_)


def fits(s: Logs, term: int, server: int, first: int, rows: tuple[Row, ...]) -> bool:
    """Do these entries, and all before them, stand so in the log of the leader of the term?"""
    sent, end = s.sent.get(term, EMPTY), first - 1 + len(rows)
    if not s.as_sent(server, term, first - 1) or sent.index < end:
        return False
    return sent.upto(end).rows(first) == rows


def keeps(s: Logs, server: int, first: int, rows: tuple[Row, ...]) -> bool:
    """Is there, after a start, what the server has said to be on its disk?"""
    upto, own = s.promised.get(server, 0), s.of(server)
    if first > upto:
        return True
    if first - 1 + len(rows) < upto:
        return False
    return own.upto(first - 1).then(*rows).upto(upto) == own.upto(upto)


def same_answers(s: Logs, first: int, sums: tuple[str, ...]) -> bool:
    """Each sum is over all answers before as well, so that the last that both have is enough."""
    both = min(first - 1 + len(sums), s.answers.index)
    return both < first or s.answers.upto(both).row.mark == sums[both - first]


class Replication(Spec):
    """A log goes from the leader to all; what most have is committed."""

    def initial(self) -> Iterable[Logs]:
        yield Logs()

    @action()
    @when("no hole", lambda s, server, first: first <= s.of(server).index + 1)
    @when("promise kept", keeps)
    def start(self, s: Logs, server: int, first: int, rows: tuple[Row, ...]) -> Logs:
        log = s.changed(server, first, rows)
        return replace(
            s,
            log=s.log.with_({server: log}),
            promised=s.promised.with_({server: s.promised.get(server, 0)}),
            commit=s.commit.with_({server: 0}),
        )

    @action()
    @when("has a vote", lambda s, server: server in s.of(server).voters)
    @when("own last entry", lambda s, server, last: last == s.last(server))
    def campaign(self, s: Logs, server: int, term: int, last: Last) -> Logs:
        return replace(s, asked=s.asked.with_({(term, server): last}))

    @action()
    @when("asked", lambda s, term, candidate, last: s.asked.get((term, candidate)) == last)
    @when("not behind", lambda s, server, last: last >= s.last(server))
    def vote(self, s: Logs, server: int, term: int, candidate: int, last: Last) -> Logs:
        return s

    @action()
    @when("most voters", lambda s, server, votes: most(votes, s.of(server).voters))
    def lead(self, s: Logs, server: int, term: int, votes: tuple[int, ...]) -> Logs:
        return replace(
            s,
            sent=s.sent.with_({term: s.of(server)}),
            told=s.told.with_({term: s.commit[server]}),
        )

    @action()
    @when("next place", lambda s, server, index: index == s.of(server).index + 1)
    @when("of its term", lambda s, term, row: row.term == term)
    def append(self, s: Logs, server: int, term: int, index: int, row: Row) -> Logs:
        log = s.of(server).then(row)
        return replace(s, log=s.log.with_({server: log}), sent=s.sent.with_({term: log}))

    @action()
    @when("no hole", lambda s, server, first: 1 <= first <= s.of(server).index + 1)
    @when("as sent", fits)
    @when(
        "only what differs goes",
        lambda s, server, first, rows: (
            first > s.of(server).index or s.of(server).upto(first).term != rows[0].term
        ),
    )
    def accept(self, s: Logs, server: int, first: int, rows: tuple[Row, ...]) -> Logs:
        """From the first on that is new: what stood there goes."""
        return replace(
            s,
            log=s.log.with_({server: s.changed(server, first, rows)}),
            promised=s.promised.with_({server: min(s.promised[server], first - 1)}),
            commit=s.commit.with_({server: min(s.commit[server], first - 1)}),
        )

    @action()
    @when("as sent", lambda s, server, term, index: s.as_sent(server, term, index))
    def ack(self, s: Logs, server: int, term: int, index: int) -> Logs:
        return replace(
            s,
            promised=s.promised.with_({server: max(s.promised[server], index)}),
            acks=s.acks.with_({(term, server): max(s.acks.get((term, server), 0), index)}),
        )

    @action()
    @when("more", lambda s, server, index: s.commit[server] < index <= s.of(server).index)
    @when("of its term", lambda s, server, term, index: s.of(server).upto(index).term == term)
    @when(
        "most voters",
        lambda s, server, term, index: most(s.counted(term, index), s.of(server).voters),
    )
    def commit(self, s: Logs, server: int, term: int, index: int) -> Logs:
        return replace(s, commit=s.commit.with_({server: index}), told=s.told.with_({term: index}))

    @action()
    @when("more", lambda s, server, index: s.commit[server] < index)
    @when("told", lambda s, term, index: index <= s.told.get(term, 0))
    @when("as sent", lambda s, server, term, index: s.as_sent(server, term, index))
    def learn(self, s: Logs, server: int, index: int) -> Logs:
        return replace(s, commit=s.commit.with_({server: index}))

    @action()
    @when(
        "committed", lambda s, server, first, sums: first - 1 + len(sums) <= s.commit.get(server, 0)
    )
    @when("no hole", lambda s, first: first <= s.answers.index + 1)
    @when("same answers", same_answers)
    def apply(self, s: Logs, server: int, first: int, sums: tuple[str, ...]) -> Logs:
        new = sums[max(s.answers.index + 1 - first, 0) :]
        return replace(s, answers=s.answers.then(*(Row(0, one) for one in new)))

    @invariant("RF4", "log matching: logs with the same term at an index are equal up to there")
    def matching(self, s: Logs) -> bool:
        return all(matched(one, two) for one, two in combinations(s.log.values(), 2))

    @invariant("RF5", "leader completeness: what is committed in a term is in each later leader's")
    def complete(self, s: Logs) -> bool:
        longest = EMPTY
        for term in sorted(s.sent):
            if not longest.begins(s.sent[term]):
                return False
            longest = max(longest, s.committed(term), key=lambda one: one.index)
        return True

    @invariant("RF6", "state machine safety: what servers know to be committed is the same")
    def safe(self, s: Logs) -> bool:
        known = [s.of(server).upto(upto) for server, upto in s.commit.items()]
        longest = max(known, key=lambda one: one.index, default=EMPTY)
        return all(one.begins(longest) for one in known)

    @invariant("RF7", "what a server knows to be committed stays in its log", kind="action")
    def stays(self, before: Logs, step: Step, after: Any) -> bool:
        return step.action == "start" or all(
            after.commit[server] >= upto for server, upto in before.commit.items()
        )


def matched(one: Chain, two: Chain) -> bool:
    """The last index at which both have an entry of one term decides."""
    upto = min(one.index, two.index)
    a: Chain | None = one.upto(upto)
    b: Chain | None = two.upto(upto)
    while a is not None and b is not None and a is not b:
        if a.term == b.term:
            return a == b
        a, b = a.before, b.before
    return True
