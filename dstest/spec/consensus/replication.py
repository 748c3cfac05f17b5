"""Logs and elections of servers that agree: what of a log is on disks by the word of their servers,
what is committed, and who leads, by one vote of each server in a term. Each of the two parts leaves
to the other what it knows: `Replication` who leads, `Election` who is behind.

Source: Ongaro and Ousterhout, "In Search of an Understandable Consensus Algorithm" (2014), sections
5.2 to 5.4 and figure 3; of the jumps of `Chain`, a log as a value: Myers, "An Applicative
Random-Access Stack" (1983).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field, replace
from itertools import combinations
from typing import Any, Final, NamedTuple

from dstest.spec import FrozenDict, Spec, Step, action, invariant, when

SHOWN_MAX: Final = 3
"""Entries that are told of a log."""

Last = tuple[int, int]
"""Term and index of the last entry of a log."""

Unsaid = tuple[int, int | None] | None
"""Term and vote of a server that starts, where they are not those of its last line."""


class Row(NamedTuple):
    """An entry: its term, what stands for its content, and the ids of those that vote from there
    on, None where it does not change them."""

    term: int
    mark: str
    voters: tuple[int, ...] | None = None


class Chain:
    """Entries are counted from 1; `index`, `term` and `row` are of the last, `voters` of the last
    that says so."""

    __slots__ = ("_hash", "_jump", "before", "index", "row", "voters")

    def __init__(self, before: Chain | None, row: Row) -> None:
        self.before, self.row = before, row
        self.index: int = before.index + 1 if before else 0
        inherited: tuple[int, ...] = before.voters if before else ()
        self.voters: tuple[int, ...] = inherited if row.voters is None else row.voters
        self._hash: int = hash((before._hash, row)) if before else 0
        self._jump: Chain = self
        if before is not None:
            far = before._jump
            even = before.index - far.index == far.index - far._jump.index
            self._jump = far._jump if even else before

    @property
    def term(self) -> int:
        """Of the last entry; 0 where there is none."""
        return self.row.term

    def then(self, *rows: Row) -> Chain:
        """With these entries behind."""
        made = self
        for row in rows:
            made = Chain(made, row)
        return made

    def upto(self, index: int) -> Chain:
        """The first so many entries; all of them where there are no more."""
        at = self
        while at.index > index:
            assert at.before is not None
            at = at._jump if at._jump.index >= index else at.before
        return at

    def begins(self, other: Chain) -> bool:
        """Does the other one have all of these entries, in their places?"""
        return self.index <= other.index and other.upto(self.index) == self

    def rows(self, first: int) -> tuple[Row, ...]:
        """The entries from this index on."""
        found = list[Row]()
        at: Chain | None = self
        while at is not None and at.index >= max(first, 1):
            found.append(at.row)
            at = at.before
        return tuple(reversed(found))

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Chain):
            return NotImplemented
        one, two = self, other
        if (one._hash, one.index) != (two._hash, two.index):
            return False
        while one is not two:
            if one.row != two.row or one.before is None or two.before is None:
                return False
            one, two = one.before, two.before
        return True

    def __repr__(self) -> str:
        more = "... " if self.index > SHOWN_MAX else ""
        last = " ".join(f"{r.term}:{r.mark}" for r in self.rows(self.index + 1 - SHOWN_MAX))
        return f"<{self.index}: {more}{last}>" if self.index else "<>"


EMPTY: Final = Chain(None, Row(0, ""))


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


@dataclass(frozen=True, slots=True)
class Terms:
    """Of each server that has started its term and vote (`None`: it has not voted); who leads.
    `granted` are (term, candidate, voter) and `elected` (term, server), of all that ever was."""

    term: FrozenDict[int, int] = field(default_factory=FrozenDict)
    vote: FrozenDict[int, int | None] = field(default_factory=FrozenDict)
    leads: frozenset[int] = frozenset()
    granted: frozenset[tuple[int, int, int]] = frozenset()
    elected: frozenset[tuple[int, int]] = frozenset()

    def grants(self, server: int, candidate: int) -> Terms:
        """A server gives its vote of its term."""
        given = (self.term[server], candidate, server)
        return replace(
            self, vote=self.vote.with_({server: candidate}), granted=self.granted | {given}
        )

    def has(self, server: int, term: int) -> bool:
        """Is the server there, and in this term?"""
        return self.term.get(server) == term


def one_step(s: Terms, server: int, unsaid: tuple[int, int | None]) -> bool:
    """Is it a newer term, a vote in the term, or that the server wanted to be elected?"""
    term, vote = unsaid
    known = s.term.get(server, 0)
    if term == known:
        return s.vote.get(server) is None
    return term > known and (vote is None or (vote == server and term == known + 1))


class Election(Spec):
    """One vote in a term, and a leader with most of them."""

    def initial(self) -> Iterable[Terms]:
        yield Terms()

    @action()
    @when("term and vote kept", lambda s, server, unsaid: not unsaid or one_step(s, server, unsaid))
    def start(self, s: Terms, server: int, unsaid: Unsaid) -> Terms:
        """It knows its term and vote, and does not lead. A vote that no line tells of was given as
        the server died, and has reached nobody."""
        term, vote = unsaid or (s.term.get(server, 0), s.vote.get(server))
        return replace(
            s,
            term=s.term.with_({server: term}),
            vote=s.vote.with_({server: vote}),
            leads=s.leads - {server},
        )

    @action()
    @when("newer", lambda s, server, term: s.term.get(server, term) < term)
    @when("somebody's", lambda s, term: any(term <= one for one in s.term.values()))
    def learn_term(self, s: Terms, server: int, term: int) -> Terms:
        """Who leads does so no more."""
        return replace(
            s,
            term=s.term.with_({server: term}),
            vote=s.vote.with_({server: None}),
            leads=s.leads - {server},
        )

    @action()
    @when("next term", lambda s, server, term: s.term.get(server, term) + 1 == term)
    @when("follows", lambda s, server: server not in s.leads)
    def campaign(self, s: Terms, server: int, term: int) -> Terms:
        return replace(s, term=s.term.with_({server: term})).grants(server, server)

    @action()
    @when("own term", lambda s, server, term: s.has(server, term))
    @when("one vote", lambda s, server, candidate: s.vote[server] in (None, candidate))
    def vote(self, s: Terms, server: int, term: int, candidate: int) -> Terms:
        return s.grants(server, candidate)

    @action()
    @when("own term", lambda s, server, term: s.has(server, term))
    @when("follows", lambda s, server: server not in s.leads)
    @when("granted", lambda s, server, term, votes: {(term, server, v) for v in votes} <= s.granted)
    def lead(self, s: Terms, server: int, term: int, votes: tuple[int, ...]) -> Terms:
        return replace(s, leads=s.leads | {server}, elected=s.elected | {(term, server)})

    @action()
    @when("leads", lambda s, server: server in s.leads)
    def resign(self, s: Terms, server: int) -> Terms:
        """In its term, as most do not answer."""
        return replace(s, leads=s.leads - {server})

    @action()
    @when("own term", lambda s, server, term: s.has(server, term))
    @when("leads", lambda s, server: server in s.leads)
    def append(self, s: Terms, server: int, term: int) -> Terms:
        return s

    @action()
    @when("own term", lambda s, server, term: s.has(server, term))
    @when("follows", lambda s, server: server not in s.leads)
    def accept(self, s: Terms, server: int, term: int) -> Terms:
        return s

    @action()
    @when("own term", lambda s, server, term: s.has(server, term))
    def ack(self, s: Terms, server: int, term: int) -> Terms:
        return s

    @action()
    @when("own term", lambda s, server, term: s.has(server, term))
    @when("leads", lambda s, server: server in s.leads)
    def commit(self, s: Terms, server: int, term: int) -> Terms:
        return s

    @action()
    @when("own term", lambda s, server, term: s.has(server, term))
    @when("follows", lambda s, server: server not in s.leads)
    def learn(self, s: Terms, server: int, term: int) -> Terms:
        return s

    @invariant("RF1", "election safety: at most one leader is elected in a term")
    def one_leader(self, s: Terms) -> bool:
        return len({term for term, _ in s.elected}) == len(s.elected)

    @invariant("RF2", "a server gives one vote in a term")
    def one_vote(self, s: Terms) -> bool:
        return len({(term, voter) for term, _, voter in s.granted}) == len(s.granted)

    @invariant("RF3", "the term of a server never falls", kind="action")
    def terms_rise(self, before: Terms, step: Step, after: Any) -> bool:
        return before.term is after.term or all(
            after.term.get(server, -1) >= term for server, term in before.term.items()
        )
