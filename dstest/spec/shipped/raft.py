"""Raft as toykv's servers do it: elections and the log, held against the `protocol.jsonl` of each
server of a run (`dstest spec conform raft RUN`): the lines are put into an order in which none
comes before one that it may have come from, and taken as steps.

| line | step |
|---|---|
| start | a server has read its term, vote and log; the first, or after a crash |
| term, campaign, vote, lead, resign | election |
| append, accept | the leader's log grows; a follower has taken entries of it |
| ack | all up to this index is on this server's disk, as the leader of the term has it |
| commit, learn | the leader counts most voters; a follower was told |
| apply | entries were applied, with a sum over all that they answered |

Source: Ongaro and Ousterhout, "In Search of an Understandable Consensus Algorithm" (2014), figure
3. Otherwise than there: votes and acknowledgements are not messages but what was said once, so that
a message may be late, lost or doubled; a leader that most do not answer resigns; entries are on the
disk before they are acknowledged, and the leader's own count as any other's; members join and leave
one at a time (Ongaro, "Consensus: Bridging Theory and Practice", 2014, section 4), which is taken
from the lines and not explored; who is to have a vote, and reads, are not of it. What a server did
last may not stand in its log, which a start forgives: one step, that nobody else has seen.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import combinations
from typing import Any, ClassVar

from dstest.spec import FrozenDict, Record, Spec, Step, System, action, invariant, maps, when
from dstest.spec.consensus.replication import EMPTY, Election, Last, Logs, Replication, Row, Terms


def whose(s: Any, server: int, first: int, rows: tuple[Row, ...]) -> bool:
    """May a server that starts have these entries? They are those of a leader; its own, as it led;
    or the first of all."""
    logs: Logs = s.log
    made = logs.changed(server, first, rows)
    if not rows or any(made.begins(sent) for sent in logs.sent.values()):
        return True
    led = (made.term, server) in s.election.elected
    return (led and logs.sent[made.term].begins(made)) or (first == 1 and made.term == 0)


def founded(s: Any, server: int, rows: tuple[Row, ...]) -> bool:
    """Who votes by what the others know does not begin with nothing."""
    known = server in s.log.log
    return known or bool(rows) or not any(server in log.voters for log in s.log.log.values())


def rows_of(said: Iterable[tuple[Any, ...]]) -> tuple[Row, ...]:
    """As a line has them: term, mark, and of some who votes."""
    return tuple(Row(*one) for one in said)


class Raft(System):
    """Election and log of toykv's servers."""

    servers: tuple[int, ...] = (1, 2)
    terms: int = 2
    length: int = 2
    """What is explored: servers, terms, entries of a log. Records bring their own."""

    parts: ClassVar[dict[str, Spec]] = {"election": Election(), "log": Replication()}
    server_log = "protocol.jsonl"
    for_logs: ClassVar[dict[str, Any]] = {"servers": ()}

    def initial(self) -> Iterator[Any]:
        """All of the servers that are explored have started, with who votes in their logs."""
        log = EMPTY.then(self.members())
        yield self.state(
            Terms(
                term=FrozenDict(dict.fromkeys(self.servers, 0)),
                vote=FrozenDict(dict.fromkeys(self.servers, None)),
            ),
            Logs(
                log=FrozenDict(dict.fromkeys(self.servers, log)),
                promised=FrozenDict(dict.fromkeys(self.servers, 1)),
                commit=FrozenDict(dict.fromkeys(self.servers, 0)),
            ),
        )

    def done(self, s: Any) -> bool:
        return True

    def all_terms(self) -> range:
        return range(1, self.terms + 1)

    def places(self) -> range:
        return range(1, self.length + 1)

    def members(self) -> Row:
        """The entry that a cluster begins with."""
        return Row(0, "members", self.servers)

    def lasts(self) -> Iterator[Last]:
        yield from ((t, i) for t in range(self.terms + 1) for i in self.places())

    def votes(self) -> Iterator[tuple[int, ...]]:
        """Too few, and the smallest majorities: who has more votes has those of one of them, and
        leads in the same way."""
        for count in range(1, len(self.servers) // 2 + 2):
            yield from combinations(sorted(self.servers), count)

    def batches(self) -> Iterator[tuple[Row, ...]]:
        """One or several entries, as a leader sends them."""
        found: list[tuple[Row, ...]] = [()]
        for _ in range(self.length - 1):
            found = [(*rows, Row(t, "a")) for rows in found for t in self.all_terms()]
            yield from found

    @action(
        server=lambda self: self.servers,
        unsaid=(None,),
        first=lambda self: range(1, self.length + 2),
        rows=((),),
    )
    @when("begins with members", founded)
    @when("whose entries", whose)
    def start(self, s: Any) -> Any:
        return s

    @action(server=lambda self: self.servers, term=all_terms)
    def learn_term(self, s: Any) -> Any:
        return s

    @action(server=lambda self: self.servers, term=all_terms, last=lasts)
    def campaign(self, s: Any) -> Any:
        return s

    @action(
        server=lambda self: self.servers,
        term=all_terms,
        candidate=lambda self: self.servers,
        last=lasts,
    )
    def vote(self, s: Any) -> Any:
        return s

    @action(
        server=lambda self: self.servers,
        term=all_terms,
        votes=lambda self: self.votes(),
    )
    def lead(self, s: Any) -> Any:
        return s

    @action(server=lambda self: self.servers)
    def resign(self, s: Any) -> Any:
        return s

    @action(
        server=lambda self: self.servers,
        term=all_terms,
        index=places,
        row=lambda self: [Row(t, "a") for t in self.all_terms()],
    )
    def append(self, s: Any) -> Any:
        return s

    @action(server=lambda self: self.servers, term=all_terms, first=places, rows=batches)
    def accept(self, s: Any) -> Any:
        return s

    @action(server=lambda self: self.servers, term=all_terms, index=places)
    def ack(self, s: Any) -> Any:
        return s

    @action(server=lambda self: self.servers, term=all_terms, index=places)
    def commit(self, s: Any) -> Any:
        return s

    @action(server=lambda self: self.servers, term=all_terms, index=places)
    def learn(self, s: Any) -> Any:
        return s

    @action(
        server=lambda self: self.servers,
        first=places,
        sums=lambda self: [("=",) * n for n in self.places()],
    )
    def apply(self, s: Any) -> Any:
        return s

    @maps("start")
    def of_start(self, record: Record, s: Any) -> Iterator[Step]:
        """Entries that are known are not said again."""
        known = (s.election.term.get(record.server, 0), s.election.vote.get(record.server))
        said = (record.term, record.vote)
        own, first, rows = s.log.of(record.server), record.first, rows_of(record.rows)
        same = 0
        for at, row in enumerate(rows[: max(own.index + 1 - first, 0)]):
            if own.upto(first + at).row != row:
                break
            same = at + 1
        unsaid = None if said == known else said
        yield Step("start", (record.server, unsaid, first + same, rows[same:]))

    @maps("term")
    def of_term(self, record: Record) -> Iterator[Step]:
        yield Step("learn_term", (record.server, record.term))

    @maps("campaign")
    def of_campaign(self, record: Record) -> Iterator[Step]:
        yield Step("campaign", (record.server, record.term, record.last))

    @maps("vote")
    def of_vote(self, record: Record) -> Iterator[Step]:
        yield Step("vote", (record.server, record.term, record.candidate, record.last))

    @maps("lead")
    def of_lead(self, record: Record) -> Iterator[Step]:
        yield Step("lead", (record.server, record.term, record.votes))

    @maps("resign")
    def of_resign(self, record: Record) -> Iterator[Step]:
        yield Step("resign", (record.server,))

    @maps("append")
    def of_append(self, record: Record) -> Iterator[Step]:
        (row,) = rows_of((record.row,))
        yield Step("append", (record.server, record.term, record.index, row))

    @maps("accept", after=lambda s, r: (r.term, r.leader) in s.election.elected)
    def of_accept(self, record: Record) -> Iterator[Step]:
        rows = rows_of(record.rows)
        yield Step("accept", (record.server, record.term, record.first, rows))

    @maps("ack")
    def of_ack(self, record: Record) -> Iterator[Step]:
        yield Step("ack", (record.server, record.term, record.index))

    @maps("commit")
    def of_commit(self, record: Record) -> Iterator[Step]:
        yield Step("commit", (record.server, record.term, record.index))

    @maps("learn")
    def of_learn(self, record: Record) -> Iterator[Step]:
        yield Step("learn", (record.server, record.term, record.index))

    @maps("apply")
    def of_apply(self, record: Record) -> Iterator[Step]:
        yield Step("apply", (record.server, record.first, tuple(map(str, record.sums))))

    @invariant("RF8", "a leader's log only grows", kind="action")
    def only_grows(self, before: Any, step: Step, after: Any) -> bool:
        led = before.election.leads & after.election.leads
        return all(before.log.log[one].begins(after.log.log[one]) for one in led)

    @invariant(
        "RF9",
        "a later leader commits what it was sent, as far as the bounds let it",
        kind="sometimes",
    )
    def goes_on(self, s: Any) -> bool:
        """In one term it is the first leader that commits; of one entry, which no leader sends, it
        is enough that it leads."""
        told = s.log.told
        if len(told) < min(self.terms, 2):
            return False
        return self.length == 1 or told[max(told)] > 1
