"""Terms, votes and leaders: one vote of each server in a term, and who has most of them leads.

Source: Ongaro and Ousterhout, "In Search of an Understandable Consensus Algorithm" (2014), section
5.2. Who is behind is said by the part of the logs.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any

from dstest.spec import FrozenDict, Spec, Step, action, invariant, when


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


Unsaid = tuple[int, int | None] | None
"""Term and vote of a server that starts, where they are not those of its last line."""


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
