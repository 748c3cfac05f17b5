"""What servers with terms and leaders say of themselves, sampled: for `dstest spec live`.

A server's answer has `id`, `term`, `leads`, `commit`, `applied` and `last` (of its log), or an
object `ok` with these, as toykv's `{"op": "status"}` gives it. Logs are not in it: of these
`dstest spec conform raft` knows more.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from dstest.spec import FrozenDict, Spec, action, invariant, when


@dataclass(frozen=True, slots=True)
class Status:
    """Of one server."""

    term: int
    leads: bool
    commit: int
    applied: int
    last: int


@dataclass(frozen=True, slots=True)
class Seen:
    """`now` is of those who have answered last; `terms` the highest term that each ever said, and
    `led` who has said, at any time, that it leads in a term. `twice` are ids that several have
    answered with, last."""

    now: FrozenDict[int | str, Status] = field(default_factory=FrozenDict)
    terms: FrozenDict[int | str, int] = field(default_factory=FrozenDict)
    led: frozenset[tuple[int, int | str]] = frozenset()
    twice: frozenset[int | str] = frozenset()

    def with_answers(
        self, now: Mapping[int | str, Status], twice: Iterable[int | str] = ()
    ) -> Seen:
        """After these answers."""
        terms = {one: max(said.term, self.terms.get(one, 0)) for one, said in now.items()}
        led = {(said.term, one) for one, said in now.items() if said.leads}
        return Seen(FrozenDict(now), self.terms.with_(terms), self.led | led, frozenset(twice))


def _count(who: str, said: Mapping[str, Any], name: str) -> int:
    value = said[name]
    if type(value) is not int or value < 0:
        raise ValueError(f"{who}: {name} is {value!r}, and no whole number from 0 on")
    return value


def _status(who: str, said: Any) -> tuple[int | str, Status]:
    """Id and status of a member. Raises ValueError for what is none, KeyError for what lacks a
    field."""
    if not isinstance(said, Mapping):
        raise ValueError(f"{who}: ok is {said!r}, and no object")
    id_, leads = said["id"], said["leads"]
    if type(id_) not in (int, str):
        raise ValueError(f"{who}: id is {id_!r}, and neither a whole number nor a text")
    if type(leads) is not bool:
        raise ValueError(f"{who}: leads is {leads!r}, and neither true nor false")
    term, commit, applied, last = (
        _count(who, said, name) for name in ("term", "commit", "applied", "last")
    )
    return id_, Status(term, leads, commit, applied, last)


class RaftStatus(Spec):
    """Terms, leaders and places in the log, as servers tell of themselves."""

    servers: tuple[int, ...] = (1, 2)
    terms: int = 2
    length: int = 1

    def initial(self) -> Iterable[Seen]:
        yield Seen()

    def done(self, s: Seen) -> bool:
        return True

    def sampled(self, before: Seen, sample: Mapping[str, Any]) -> Seen:
        """Who does not answer says nothing of now, and has said what it has said."""
        now, twice = dict[int | str, Status](), list[int | str]()
        for who, answer in sample.items():
            if answer is not None:
                id_, status = _status(who, answer.get("ok", answer))
                if id_ in now:
                    twice.append(id_)
                now[id_] = status
        return before.with_answers(now, twice)

    def places(self) -> range:
        return range(self.length + 1)

    @action(
        server=lambda self: self.servers,
        term=lambda self: range(1, self.terms + 1),
        leads=(False, True),
        commit=places,
        applied=places,
    )
    @when("term kept", lambda s, server, term: term >= s.terms.get(server, 0))
    @when(
        "only leader",
        lambda s, server, term, leads: (
            not leads or all(one == server for of, one in s.led if of == term)
        ),
    )
    @when("applied what is committed", lambda commit, applied: applied <= commit)
    def answer(
        self, s: Seen, server: int, term: int, leads: bool, commit: int, applied: int
    ) -> Seen:
        """One server is asked, and what others have said still stands."""
        said = Status(term, leads, commit, applied, self.length)
        return s.with_answers({**s.now, server: said})

    @invariant("RS1", "at most one server says that it leads in a term, at any time")
    def one_leader(self, s: Seen) -> bool:
        return len({term for term, _ in s.led}) == len(s.led)

    @invariant("RS2", "the term of a server never falls")
    def rises(self, s: Seen) -> bool:
        return all(said.term == s.terms[one] for one, said in s.now.items())

    @invariant("RS3", "what is applied is committed, and what is committed is in the log")
    def in_order(self, s: Seen) -> bool:
        return all(one.applied <= one.commit <= one.last for one in s.now.values())

    @invariant("RS4", "no two members answer with one id")
    def apart(self, s: Seen) -> bool:
        return not s.twice
