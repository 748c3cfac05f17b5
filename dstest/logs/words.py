"""Checks by what a line is about: consensus that timed out, conflicts, partitions, no memory."""

from __future__ import annotations

from collections.abc import Sequence

from dstest.core.protocols.logs import Topic
from dstest.logs.findings import Outcome, Severity, Tally
from dstest.logs.scene import Check, Line


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
        if self.topic not in line.topics:
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
    topic, severity, pairs = "cut-off", "critical", True
    said = "a member does not see another one"
    todo = "compare with the faults that stood; where none did, the network or a silent process"


class OutOfMemory(_Words):
    name, group, asks = "out_of_memory", "performance", "lack of memory"
    topic, severity, alarm = "oom", "critical", "oom"
    said = "memory ran out"
    todo = "what grew: state, queues or connections; and which process the kernel chose"
