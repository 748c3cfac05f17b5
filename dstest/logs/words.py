"""Checks by what a line is about: consensus that timed out, conflicts, partitions, no memory."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from dstest.core.protocols import LogRecord
from dstest.core.protocols.logs import Topic
from dstest.judge.alarm_kinds import all_kinds
from dstest.logs.findings import Outcome, Severity, Tally
from dstest.logs.scene import Check, Line

__all__ = ["Conflicts", "ConsensusTimeouts", "OutOfMemory", "Partitions", "about", "denied"]

_DENIED: Final = re.compile(
    r"\b(?:no|not|non|without|if|whether|when|until|check(?:ing)? for|passed|avoid(?:s|ed|ing)?"
    r"|prevent(?:s|ed|ing)?|(?<![\d.])0(?=\s)|zero|never)\W+(?:\w+\W+)?$"
)
_SET: Final = re.compile(r"[\"']?\s*(?:s\b)?\s*(?:=|:|is|of|was|set to|after)\s*\"?\d")
"""`timeout: 5s` is a setting."""

_TIMEOUT: Final = re.compile(r"\btime(?:d)?[ -]?out\b|\btimeouts?\b")
_CONFLICT: Final = re.compile(r"\bconflict(?:s|ed|ing)?\b")
_PARTITION: Final = re.compile(
    r"\bnetwork[ -]partition(?:ed)?\b|\bpartition(?:ed)?\b(?! (?:key|table|count|\d|by\b))"
    r"|\bsplit[- ]brain\b|\bunreachable\b|\bquorum (?:lost|is not active)\b|\blost quorum\b"
)
_CONNECTION: Final = re.compile(
    r"connection (?:was )?(?:refused|reset|timed out|aborted)|\btime(?:d)?[ -]?out\b|\btimeout\b"
    r"|\bunreachable\b|no route to host|broken pipe"
)


def denied(text: str, at: int) -> bool:
    """Does what stands before it say that it is not so?"""
    return _DENIED.search(text[max(0, at - 40) : at]) is not None


def _has(pattern: re.Pattern[str], text: str, *, setting: bool = False) -> bool:
    return any(
        not denied(text, found.start()) and not (setting and _SET.match(text, found.end()))
        for found in pattern.finditer(text)
    )


def about(record: LogRecord) -> frozenset[Topic]:
    """The topics of a line: by its reader, else by its words."""
    if record.topics:
        return record.topics
    text = record.message.lower()
    found: set[Topic] = set()
    if "consensus" in text and _has(_TIMEOUT, text, setting=True):
        found.add("consensus-timeout")
    if "conflict" in text and _has(_CONFLICT, text):
        found.add("conflict")
    if _has(_PARTITION, text):
        found.add("partition")
    if _has(_CONNECTION, text, setting=True):
        found.add("connection")
    if _memory(text):
        found.add("oom")
    return frozenset(found)


_OOM: Final = re.compile(r"\bout[ -]of[ -]memory\b|\boom\b")


def _memory(text: str) -> bool:
    if "oom" not in text and "memory" not in text and "alloc" not in text:
        return False
    return _has(_OOM, text, setting=True) or "oom" in all_kinds(text)


class _Words(Check):
    """A line of the topic is a finding by node, peer and window."""

    topic: Topic
    severity: Severity
    said: str
    todo: str
    pairs = False
    alarm = ""

    def __init__(self, *given: object) -> None:
        super().__init__(*given)  # type: ignore[arg-type]
        self._tally = Tally()
        self._lines = 0

    def line(self, line: Line) -> None:
        self._lines += 1
        if self.topic not in about(line.record):
            return
        peer = _peer(self, line) if self.pairs else ""
        nodes: Sequence[str] = (line.node, peer)
        self._tally.add(nodes, self.scene.judged(line, peer, self.alarm), line.row)

    def end(self) -> Outcome:
        if not self._lines:
            return Outcome(check=self.name, not_evaluated="no line was read")
        return Outcome(
            check=self.name,
            findings=self._tally.findings(self.name, self.severity, self.said, self.todo),
            looked=f"the words of {self._lines:,} lines",
            notes=self._tally.notes,
        )


def _peer(check: Check, line: Line) -> str:
    record = line.record
    return check.scene.member(record.peer) or check.scene.peer_in(record.message, line.node)


class ConsensusTimeouts(_Words):
    name, group, asks = "consensus_timeout", "consensus", "decisions that came too late"
    topic, severity = "consensus-timeout", "high"
    said = "consensus timed out"
    todo = "who leads, who votes, and whether messages between them arrive, in these seconds"


class Conflicts(_Words):
    name, group, asks = "state_conflicts", "state-sync", "writes at odds"
    topic, severity = "conflict", "medium"
    said = "a conflict is told of"
    todo = "which of the two stands on every node afterwards, and who was told otherwise"


class Partitions(_Words):
    name, group = "network_partition_detected", "network-partition"
    asks = "members that do not see one another"
    topic, severity, pairs = "partition", "critical", True
    said = "a member does not see another one"
    todo = "compare with the faults that stood; where none did, the network or a silent process"


class OutOfMemory(_Words):
    name, group, asks = "out_of_memory", "performance", "lack of memory"
    topic, severity, alarm = "oom", "critical", "oom"
    said = "memory ran out"
    todo = "what grew: state, queues or connections; and which process the kernel chose"
