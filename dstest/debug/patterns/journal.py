"""What patterns take from servers' lines: the protocol (terms, votes, leaders, entries), who was a
primary from when until when, and lines about messages, votes and trouble.

The lines of the protocol are those of `dstest.spec.shipped.raft`, merged so that none stands before
one that it may have come from (`dstest.spec.merge`). They are not judged by a specification here:
`dstest spec conform raft RUN` does that. `LogNotes` reads in the same pass as the log checks.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from operator import eq
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeVar

import msgspec

from dstest.core.errors import HistoryError
from dstest.debug.logs.lines import SPEAKS
from dstest.debug.logs.scene import Clocks, Line, Scene, Watch
from dstest.debug.patterns.model import EvidenceRow, evidence_row
from dstest.judge.audit_rows import kind_of
from dstest.spec.merge import log_of_run

Entry = tuple[int, Any]
"""Term and mark of an entry."""

KEPT_MAX: Final = 10_000
T = TypeVar("T")

NOTED_MAX: Final = 200_000
"""Lines of each kind that are remembered; the first ones."""

_RESOURCES: Final = (
    ("file descriptors", re.compile(r"too many open files|\bEMFILE\b|\bENFILE\b", re.I)),
    ("disk space", re.compile(r"no space left on device|\bENOSPC\b|disk (?:is )?full", re.I)),
    (
        "connections",
        re.compile(
            r"(?:connection )?pool (?:is )?(?:exhausted|timed? ?out|full)|too many (?:connections"
            r"|clients)|(?:timed? ?out|timeout) waiting for (?:a )?(?:pooled )?connection"
            r"|max(?:imum)? (?:number of )?connections",
            re.I,
        ),
    ),
    ("threads", re.compile(r"can(?:not|'t) (?:create|start) (?:a )?(?:new )?thread", re.I)),
)
_DEADLOCK: Final = re.compile(r"\bdeadlock(?:ed)?\b", re.I)
_CANDIDATE: Final = re.compile(
    r"\b(?:vot(?:e|es|ed|ing)|granted|cast\w*)\b.*?\bfor (?:candidate )?([\w.:-]+)", re.I
)
_DAMAGE: Final = re.compile(
    r"\b(?:logs?|files?|data|pages?|blocks?|records?|entr(?:y|ies)|segments?(?: \w+)?|wal|tables?"
    r"|snapshots?|index(?:es)?) (?:is|are|was|were|(?:has|have) been) damaged\b"
    r"|\binvalid page in block\b|\bcrc check failed\b|\btorn page\b",
    re.I,
)
"""Beside what alarms of any system say (`alarm_kinds`)."""
_DENIED: Final = re.compile(
    r"\b(?:no|not|without|if|whether|detect(?:ion|or)|avoid|check(?:s|ing)?)\b", re.I
)


class Step(msgspec.Struct, frozen=True):
    """One line. `server` is the id by which the others know who wrote it."""

    kind: str
    node: str
    server: Any
    fields: dict[str, Any]
    place: str
    time_ns: int | None

    def row(self, said: str = "") -> EvidenceRow:
        """As evidence."""
        shown = " ".join(f"{k}={v}" for k, v in self.fields.items() if k not in ("rows", "sums"))
        text = said or f"{self.kind} {shown}"
        return evidence_row("journal", self.place, text, self.time_ns, self.node)

    @property
    def term(self) -> int:
        return int(self.fields.get("term") or 0)

    @property
    def index(self) -> int:
        return int(self.fields.get("index") or 0)


class Journal(msgspec.Struct, frozen=True):
    """`names` are nodes by the ids of their servers. `lost` says what is missing of it: where it is
    not empty, what nobody wrote may have been written. `until_ns` is then the moment up to which
    the lines of all servers are there; later silence says nothing."""

    steps: list[Step]
    names: dict[Any, str]
    lost: list[str]
    until_ns: int | None = None

    def silent_to(self, end_ns: int) -> int:
        """Up to when it shows that something was not written, of what lasts to `end_ns`."""
        return end_ns if self.until_ns is None else min(end_ns, self.until_ns)

    def of(self, *kinds: str) -> Iterator[Step]:
        """Lines of these kinds, in their order."""
        return (step for step in self.steps if step.kind in kinds)

    def node(self, server: Any) -> str:
        """The node of a server; its id where nobody knows."""
        return self.names.get(server, str(server))


def read_journal(
    run: Path,
    files: frozenset[str],
    clocks: Clocks,
    origin_ns: int | None,
    gaps: Callable[[Callable[[str], bool]], list[str]],
) -> Journal | str:
    """Of a run directory; a sentence where there is none. With `origin_ns` it is of a simulation,
    whose clock had that at the start of the run. `gaps` tells what was not kept of files."""
    for name in sorted(files):
        try:
            made = log_of_run(run / "nodes", name)
        except HistoryError as error:
            return error.message.replace(str(run) + "/", "")
        steps, names = [], {}
        for event in made.events:
            place = str(event.fields["at"])
            node, _, number = place.partition(":")
            server = event.fields.get("server")
            names[server] = node
            wall_ns = made.walls.get(place, 0)
            at: int | None = clocks.aligned(node, wall_ns)[0] if wall_ns else None
            if origin_ns is not None:
                at = wall_ns - origin_ns
            rest = {k: v for k, v in event.fields.items() if k not in ("at", "server")}
            shown = f"nodes/{node}/{name}:{number}"
            steps.append(Step(event.kind, node, server, rest, shown, at))
        lost = [*made.lost, *gaps(partial(eq, name))]
        until_ns = _until(steps, made.left_out) if lost else None
        return Journal(steps, names, lost, until_ns)
    return "its system keeps no journal of its protocol"


def _until(steps: list[Step], left_out: Iterable[str]) -> int:
    """The earliest end of what is there of a server; 0 where nothing is of one that wrote."""
    ends = dict.fromkeys(left_out, 0)
    for step in steps:
        if step.time_ns is not None:
            ends[step.node] = max(ends.get(step.node, 0), step.time_ns)
    return min(ends.values(), default=0)


class Replica:
    """The log of one server, as its lines have changed it."""

    def __init__(self) -> None:
        self.log: list[Entry] = []
        self.voters: list[tuple[int, list[Any]]] = []
        self.commit = self.acked = 0

    def change(self, first: int, rows: list[Any]) -> None:
        """From `first` on these entries stand there, and none behind them."""
        del self.log[max(first - 1, 0) :]
        self.voters = [one for one in self.voters if one[0] < first]
        for at, entry in enumerate(rows, first):
            self.log.append((entry[0], entry[1]))
            if len(entry) > 2:
                self.voters.append((at, list(entry[2])))

    def who_votes(self) -> list[Any]:
        """Members that the latest entry about members names, as it names them."""
        return self.voters[-1][1] if self.voters else []

    def at(self, index: int) -> Entry | None:
        return self.log[index - 1] if 1 <= index <= len(self.log) else None


def replicas(journal: Journal) -> Iterator[tuple[Step, Replica, dict[Any, Replica]]]:
    """Each line, with its server's log as it was *before* it, and those of all."""
    every: dict[Any, Replica] = {}
    for step in journal.steps:
        mine = every.setdefault(step.server, Replica())
        yield step, mine, every
        _take(step, mine)


def _take(step: Step, mine: Replica) -> None:
    fields = step.fields
    if step.kind in ("start", "accept"):
        first = int(fields.get("first") or 1)
        mine.change(first, fields.get("rows") or [])
        mine.commit = 0 if step.kind == "start" else min(mine.commit, first - 1)
        mine.acked = len(mine.log) if step.kind == "start" else min(mine.acked, first - 1)
    elif step.kind == "append":
        mine.change(step.index, [fields["row"]])
    elif step.kind == "ack":
        mine.acked = max(mine.acked, step.index)
    elif step.kind in ("commit", "learn"):
        mine.commit = max(mine.commit, step.index)


class Reign(NamedTuple):
    """A server was a primary since `first`, the first line that says so. `until` is the first that
    says otherwise, None where none does; there it became a replica of `successor`. `taken` is the
    line by which it took over from another one; None of one that was a primary from its start."""

    node: str
    log: str
    first: Line
    taken: Line | None
    until: Line | None = None
    successor: str = ""


class Reigns:
    """Gathered line by line, each log in its order. A node may have several servers, with a log
    each."""

    def __init__(self) -> None:
        self.every: list[Reign] = []
        self._open: dict[tuple[str, str], Reign] = {}

    def line(self, line: Line, peer: str) -> None:
        """`peer` is the member that the line is about."""
        record = line.record
        if not record.role and not record.turned:
            return
        key = (line.node, line.place.rpartition(":")[0])
        there = self._open.get(key)
        if record.role == "primary":
            taken = line if record.turned else None
            if there is None or there.until is not None:
                self._end(key)
                self._open[key] = Reign(*key, line, taken)
            elif taken is not None and there.taken is None:
                # It writes what it has turned into, and then that it has.
                self._open[key] = there._replace(taken=taken)
        elif there is not None:
            until = there.until or line
            self._open[key] = there._replace(until=until)
            if not record.role:
                self._end(key)
            elif record.turned and peer:
                self._open[key] = there._replace(until=until, successor=peer)
                self._end(key)

    def _end(self, key: tuple[str, str]) -> None:
        there = self._open.pop(key, None)
        if there is not None and len(self.every) < KEPT_MAX:
            self.every.append(there)

    @property
    def all(self) -> list[Reign]:
        """Those that have ended, and those that had not."""
        return [*self.every, *self._open.values()]


class MemberMessage(NamedTuple):
    """A message between members, as one line has it. `digest` is of what was in it."""

    id: str
    side: str
    kind: str
    node: str
    peer: str
    time_ns: int | None
    doubt_ns: int
    digest: str
    line: Line


CORRUPTION: Final = "corruption"
"""Of lines, and as nemeses name what they explain."""


class NotedLine(NamedTuple):
    """A vote, or a line that is about trouble: `what` says of which sort. `peer` is the other one:
    of a vote the candidate that its line names."""

    what: str
    line: Line
    voter: str = ""
    ballot: str = ""
    peer: str = ""


class Claim(NamedTuple):
    """`node` says that it leads in this term."""

    node: str
    term: str
    line: Line


class LogNotes(Watch):
    """Remembers what patterns ask for."""

    def __init__(self, scene: Scene) -> None:
        super().__init__(scene)
        self.messages: list[MemberMessage] = []
        self.votes: list[NotedLine] = []
        self.resources: list[NotedLine] = []
        self.deadlocks: list[NotedLine] = []
        self.alarms: list[NotedLine] = []
        self.cuts: list[NotedLine] = []
        self.claims: list[Claim] = []
        self.conflicts: list[Line] = []
        self.reigns = Reigns()
        self.lines: dict[str, int] = {}
        self.lost = 0

    def _keep(self, where: list[T], one: T) -> None:
        if len(where) < NOTED_MAX:
            where.append(one)
        else:
            self.lost += 1

    def line(self, line: Line) -> None:
        record = line.record
        self.lines[line.node] = self.lines.get(line.node, 0) + 1
        self.reigns.line(line, self.scene.member(record.peer))
        if "conflict" in line.topics:
            self._keep(self.conflicts, line)
        if record.message_id and record.side:
            self._keep(self.messages, self._said(line))
        if record.vote:
            voter = self.scene.member(record.voter) or line.node
            named = _CANDIDATE.search(record.message)
            whom = self.scene.member(named[1]) if named is not None else ""
            self._keep(self.votes, NotedLine(record.vote, line, voter, record.ballot, whom))
        if line.topics & {"cut-off", "connection", "consensus-timeout"}:
            peer = self.scene.member(record.peer) or self.scene.peer_in(record.message, line.node)
            self._keep(self.cuts, NotedLine("cut", line, peer=peer))
        self._words(line)

    def _said(self, line: Line) -> MemberMessage:
        record = line.record
        peer = self.scene.member(record.peer)
        return MemberMessage(
            record.message_id,
            record.side,
            record.kind,
            line.node,
            peer,
            line.time_ns,
            line.doubt_ns,
            record.state,
            line,
        )

    def _words(self, line: Line) -> None:
        text = line.record.message
        leads = line.record.turned and line.record.role == "primary"
        if (line.record.ballot and (leads or SPEAKS.search(text))) or "leads in term" in text:
            self._keep(self.claims, Claim(line.node, line.record.ballot, line))
        if (hurt := _DAMAGE.search(text)) and not _DENIED.search(text[: hurt.start()]):
            self._keep(self.alarms, NotedLine(CORRUPTION, line))
            return
        if "calm" in line.topics:
            return
        for what, words in _RESOURCES:
            if words.search(text) and line.record.level not in ("info", "debug"):
                self._keep(self.resources, NotedLine(what, line))
        if (found := _DEADLOCK.search(text)) and not _DENIED.search(text[: found.end() + 10]):
            self._keep(self.deadlocks, NotedLine("deadlock", line))
        alarm = kind_of(text, (), self.scene.harmless)
        if alarm is not None and alarm[1]:
            self._keep(self.alarms, NotedLine(alarm[0], line))
