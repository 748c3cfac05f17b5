"""What patterns remember of lines of logs, gathered in the same pass as the checks of `logs`."""

from __future__ import annotations

import re
from typing import Final, NamedTuple, TypeVar

from dstest.judge.alarm_kinds import kind_of
from dstest.logs.findings import Outcome
from dstest.logs.scene import Check, Line
from dstest.patterns.reigns import Reigns
from dstest.report.leaders import SPEAKS

T = TypeVar("T")

KEPT_MAX: Final = 200_000
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


class Said(NamedTuple):
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


class Told(NamedTuple):
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


class Noted(Check):
    """Remembers; it finds nothing itself."""

    name, group, asks = "noted", "patterns", "what patterns ask for"

    def __init__(self, *given: object) -> None:
        super().__init__(*given)  # type: ignore[arg-type]
        self.messages: list[Said] = []
        self.votes: list[Told] = []
        self.resources: list[Told] = []
        self.deadlocks: list[Told] = []
        self.alarms: list[Told] = []
        self.cuts: list[Told] = []
        self.claims: list[Claim] = []
        self.conflicts: list[Line] = []
        self.reigns = Reigns()
        self.lines: dict[str, int] = {}
        self.lost = 0

    def _keep(self, where: list[T], one: T) -> None:
        if len(where) < KEPT_MAX:
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
            self._keep(self.votes, Told(record.vote, line, voter, record.ballot, whom))
        if line.topics & {"cut-off", "connection", "consensus-timeout"}:
            peer = self.scene.member(record.peer) or self.scene.peer_in(record.message, line.node)
            self._keep(self.cuts, Told("cut", line, peer=peer))
        self._words(line)

    def _said(self, line: Line) -> Said:
        record = line.record
        peer = self.scene.member(record.peer)
        return Said(
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
            self._keep(self.alarms, Told("corruption", line))
            return
        if "calm" in line.topics:
            return
        for what, words in _RESOURCES:
            if words.search(text) and line.record.level not in ("info", "debug"):
                self._keep(self.resources, Told(what, line))
        if (found := _DEADLOCK.search(text)) and not _DENIED.search(text[: found.end() + 10]):
            self._keep(self.deadlocks, Told("deadlock", line))
        alarm = kind_of(text, (), self.scene.harmless)
        if alarm is not None and alarm[1]:
            self._keep(self.alarms, Told(alarm[0], line))

    def end(self) -> Outcome:
        return Outcome(check=self.name, looked=f"{sum(self.lines.values()):,} lines")
