"""What a pattern of failure is, what looks for it and what is found, as plain data; the thresholds.

A pattern has signs. A sign says what it asks and what it needs of a run, and holds a pure function
from a `Scene` to its matches. Where nothing of what it needs is there, it was not looked for, which
is another thing than not found.

Users change thresholds by `core/settings.py`; those of the log checks (`debug/logs`) are theirs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final, Literal

import msgspec

from dstest.core import rules
from dstest.core.words import one_line
from dstest.debug.logs.scene import NO_WINDOWS, SEVERITIES, Severity

if TYPE_CHECKING:
    from dstest.debug.patterns.scene import Scene


Family = Literal[
    "consensus",
    "messages",
    "values",
    "state",
    "performance",
    "partition",
    "progress",
    "environment",
]
AT_STAKE: Final[Mapping[Family, str]] = {
    "consensus": "what members agree on",
    "messages": "what is delivered",
    "values": "data",
    "state": "the copies of data",
    "performance": "speed",
    "partition": "availability",
    "progress": "progress",
    "environment": "all that runs there",
}
"""What patterns of a family endanger."""

Strength = Literal["proven", "strong", "indicated", "weak"]
STRENGTHS: Final[tuple[Strength, ...]] = ("proven", "strong", "indicated", "weak")
"""How much a sign says, the most first. `proven`: no healthy system gives such evidence. `strong`:
a healthy one gives it only where the clock, the load or the record is not what it is taken for.
`indicated`: it goes with the pattern, and with others as well. `weak`: words, or one figure."""

Source = Literal["operation", "anomaly", "log", "journal", "fault", "sample", "span", "state"]

ROWS_MAX: Final = 6
"""Rows shown of one finding; all are counted."""

_WIDTH: Final = 200


class EvidenceRow(msgspec.Struct, frozen=True, kw_only=True):
    """One piece of evidence. `place` is `file:line` where it is a line, `time_ns` run time, `ops`
    the ids of operations."""

    source: Source
    place: str
    time_ns: int | None = None
    node: str = ""
    text: str = ""
    ops: list[int | str] = []


def evidence_row(
    source: Source,
    place: str,
    text: str,
    time_ns: int | None = None,
    node: str = "",
    ops: Sequence[int | str] = (),
) -> EvidenceRow:
    """With the text on one line, and no longer than can be shown."""
    said = one_line(text.strip())
    said = said if len(said) <= _WIDTH else said[: _WIDTH - 1] + "…"
    return EvidenceRow(
        source=source, place=place, time_ns=time_ns, node=node, text=said, ops=list(ops)
    )


class Match(msgspec.Struct, frozen=True, kw_only=True):
    """What a sign found, before it is anybody's. `at_ns` is when it began and `nodes` whom it is
    about: by these a fault may explain it, unless the sign cannot be excused. `strength` and
    `severity` stand for those of the sign where this finding says more or less. `expected` is given
    where the finding has judged itself what explains it, with `window` and `why`. `kinds` are those
    of anomalies that it claims. `acknowledged`: it shows that what is gone had been acknowledged.
    `basis` names the record that it was read from, where other signs may read the same one."""

    said: str
    rows: list[EvidenceRow] = []
    count: int = 1
    nodes: list[str] = []
    at_ns: int | None = None
    strength: Strength | None = None
    severity: Severity | None = None
    window: str = ""
    expected: bool | None = None
    why: str = ""
    kinds: list[str] = []
    acknowledged: bool = False
    basis: str = ""


def _nothing(scene: Scene) -> str:
    return ""


class Need(msgspec.Struct, frozen=True):
    """Something that a run may have kept. Files of no run may have it where `of_files` says how;
    else it needs a history. `missing` gives a sentence where it is not there, else nothing; `how`
    says how the next run is made to keep it, for systems that have this `option` where it takes
    one. `lost` gives a sentence where a part of it is not there: what is found in the rest is
    found, what is not may have been in that part."""

    name: str
    what: str
    how: str
    missing: Callable[[Scene], str]
    option: str = ""
    lost: Callable[[Scene], str] = _nothing
    of_files: str = ""

    def lacks(self, scene: Scene) -> str:
        """Why it is not there; empty where it is."""
        if not scene.of_run and not self.of_files:
            return "needs a history: these files are of no run"
        return self.missing(scene)

    def how_for(self, scene: Scene) -> str:
        """How the next run of this system is made to keep it, or it is given beside logs."""
        if not scene.of_run:
            return self.of_files or "a run of dstest, which keeps a history"
        if self.option and self.option not in scene.options:
            return f"a system that keeps it (-o {self.option} is none of this one's)"
        return self.how


class Sign(rules.Rule["Scene", Iterable[Match]], frozen=True):
    """`title` says what it asks; one that says nothing else asks for what no healthy system shows.
    `excusable`: what it finds is expected while a fault stands that explains it; what is against
    safety never is. `strength` and `severity` hold for what says nothing else. `words`: it finds
    what servers chose to say, so that where they say nothing, nothing is known. `basis` is the
    record that it reads, where others read the same one: they are one witness."""

    needs: tuple[Need, ...]
    strength: Strength = "proven"
    severity: Severity = "critical"
    excusable: bool = False
    words: bool = False
    basis: str = ""


class Detection(msgspec.Struct, frozen=True, kw_only=True):
    """A finding of one sign of one pattern, judged by the faults that stood."""

    pattern: str
    sign: str
    said: str
    strength: Strength
    severity: Severity
    rows: list[EvidenceRow]
    count: int
    nodes: list[str]
    window: str
    expected: bool
    why: str
    at_ns: int | None = None
    kinds: list[str] = []
    acknowledged: bool = False
    basis: str = ""

    @property
    def in_window(self) -> bool:
        """Is there a window that it lies in?"""
        return self.window not in NO_WINDOWS

    @property
    def alarm(self) -> bool:
        """Does it speak against the system?"""
        return not self.expected and self.severity in ("critical", "high")


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """What looking for one pattern came to: the signs that were looked for in what was measured,
    those that were looked for in words of servers alone, and by sign what the others needed and how
    to get it. `partly` says by sign that was looked for what it could not look at."""

    pattern: str
    detections: list[Detection]
    looked: list[str]
    words: list[str]
    missing: dict[str, str]
    hows: dict[str, str] = {}
    partly: dict[str, str] = {}

    @property
    def state(self) -> Literal["found", "expected", "not found", "not looked for"]:
        """`expected`: all that was found, a fault explains."""
        if any(not one.expected for one in self.detections):
            return "found"
        if self.detections:
            return "expected"
        return "not found" if self.looked else "not looked for"


class Pattern(msgspec.Struct, frozen=True, kw_only=True):
    """`number` is that of the catalogue (1 to 27; what is above it is a cause around a cluster),
    `symptoms` what people see of it, `causes` what it usually comes of, `mitigations` what helps,
    `measure` what to measure next. `severity` is the worst that its signs give."""

    id: str
    number: int
    name: str
    family: Family
    symptoms: str
    causes: tuple[str, ...]
    mitigations: tuple[str, ...]
    measure: tuple[str, ...]
    signs: tuple[Sign, ...]

    @property
    def severity(self) -> Severity:
        return min((sign.severity for sign in self.signs), key=SEVERITIES.index)

    @property
    def inputs(self) -> list[str]:
        """Names of all that its signs can look at."""
        return sorted({need.name for sign in self.signs for need in sign.needs})


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """Times in seconds, shares from 0 to 1, ratios as they are."""

    participation_least: float = 0.5
    """Share of the mean of all nodes: who takes part less is silent."""
    participation_good: float = 0.9
    """Share of the decisions that a healthy node takes part in."""
    votes_least: int = 5
    """Votes a node on the mean that logs have to tell of, before few of one node mean anything:
    some systems' logs tell of who won alone."""
    opposite_votes_most: int = 3
    """Votes in a row against the majority; more are no accident."""
    decision_s: float = 5.0
    """A proposal without a decision for so long has timed out (consensus < 5 s)."""
    timeouts_most: float = 0.05
    """Share of operations that may end without an answer where no fault stands."""
    message_s: float = 10.0
    """A message that was not received for so long is lost."""
    delay_times_median: float = 20.0
    """p99 of a link's delay, in times of its median: network delays have long
    tails, and ten is met by a busy host."""
    detection_s: float = 10.0
    """From a partition that has landed to the first word of it."""
    cascade_times: float = 3.0
    """Share of bad operations after a fault, in times of before it."""
    cascade_errors: float = 0.2
    """And not less than this share: three times nothing is nothing."""
    spike_times: float = 1.5
    """p95 or p99 in times of the baseline."""
    spike_ms: float = 1000.0
    """A percentile above this is high whatever the baseline."""
    throughput_least: float = 0.7
    """Share of the baseline below which throughput has collapsed."""
    throughput_s: int = 5
    """For so many whole seconds in a row: one bad second is noise."""
    waiting_most: float = 0.5
    """And clients have waited for this share of the time, or not all that they asked was served:
    where they ask for less, less is served."""
    host_full: float = 0.9
    """Above this share of the host's CPUs in use, a rate that falls may be the host's."""
    cpu_idle: float = 0.5
    """Below this share of a CPU, throughput that collapsed was waiting for something."""
    slope_r2: float = 0.9
    """R² of a straight line above which a resource grows steadily."""
    slope_s: float = 60.0
    """And over at least so long: every server grows while it warms up."""
    growth_least: float = 0.5
    """And by this share of what it began with."""
    rss_most: float = 512e6
    """Resident memory of a server that is a warning of itself."""
    queue_most: float = 10_000.0
    """Waiting entries that are a warning of themselves."""
    stuck_s: float = 10.0
    """No progress for so long is a deadlock or a livelock."""
    attempts_least: int = 10
    """Fewer attempts than these show neither starvation nor livelock."""
    terms_most: int = 5
    """New terms without a commit between them; more are an oscillation."""
    recovery_s: float = 30.0
    """From a heal to the load going well again."""
    lag_least: int = 50
    """Entries that a replica is behind at the end, at least, to be called behind."""


def thresholds() -> dict[str, float]:
    """All of them with their defaults."""
    return msgspec.structs.asdict(Settings())


def _operations(scene: Scene) -> str:
    return "" if scene.ops else "the history has no operation"


def _faults(scene: Scene) -> str:
    if scene.faults:
        return ""
    return "no fault is proven to have landed" if scene.records else "no fault was done"


def _lines(scene: Scene) -> str:
    return "" if scene.notes.lines else "no line of any log is there"


def _votes(scene: Scene) -> str:
    return "" if scene.notes.votes else "no line tells of a vote"


def _roles(scene: Scene) -> str:
    return "" if scene.notes.reigns.all else "no line tells what its server is"


def _both_sides(scene: Scene) -> str:
    sides = {said.side for said in scene.notes.messages}
    return "" if {"sent", "received"} <= sides else "lines tell of one side of messages alone"


def _digests(scene: Scene) -> str:
    there = any(said.digest for said in scene.notes.messages)
    return "" if there else "no line has a digest of a message that was received"


def _journal(scene: Scene) -> str:
    found = scene.journal
    return found if isinstance(found, str) else ""


def _journal_lost(scene: Scene) -> str:
    found = scene.journal
    return "" if isinstance(found, str) else "; ".join(found.lost[:1])


def _lines_lost(scene: Scene) -> str:
    kept = scene.system.journals.protocol
    return "; ".join(scene.gaps(lambda name: name not in kept)[:1])


def _stamped_lost(scene: Scene) -> str:
    return _journal_lost(scene) or _lines_lost(scene)


def _records_lost(scene: Scene) -> str:
    return "; ".join(scene.gaps(lambda name: name in scene.system.journals.protocol)[:1])


def _samples_lost(scene: Scene) -> str:
    return scene.series_lost


def _spans(scene: Scene) -> str:
    return scene.spans_missing


def _effects(scene: Scene) -> str:
    return "" if scene.effects else "servers wrote down no effects"


def _states(scene: Scene) -> str:
    there = [state for state in (scene.meta.replicas or {}).values() if state]
    return "" if len(there) > 1 else "fewer than two members told their state at the end"


def _judged(scene: Scene) -> str:
    return "" if scene.results else "no checker has judged it"


def _stamped(scene: Scene) -> str:
    if not isinstance(scene.journal, str):
        return ""
    told = [one.line for one in scene.notes.cuts]
    told += [one.line for one in scene.notes.claims]
    there = any(line.time_ns is not None for line in told)
    return "" if there else "no line with a time tells of members that are cut off or lead"


def _settled(scene: Scene) -> str:
    return "" if scene.meta.recoveries else "no recovery was watched: no fault was healed"


EVERY: Final = Need("run", "a sealed run", "dstest recover RUN", _nothing, of_files="--logs DIR")
OPERATIONS: Final = Need("history", "the operations", "dstest recover RUN", _operations)
FAULTS: Final = Need("faults", "faults with proof", "--nemesis partition", _faults)
LINES: Final = Need(
    "logs",
    "lines of servers' logs",
    "logs that are fetched at the end",
    _lines,
    lost=_lines_lost,
    of_files="logs of all nodes",
)
VOTES: Final = Need(
    "votes",
    "lines that tell of votes",
    "a reader in `logs` of the system that knows votes",
    _votes,
    lost=_lines_lost,
    of_files="logs that tell of votes: --system, or --pattern",
)
ROLES: Final = Need(
    "roles",
    "lines that tell whether a server is a primary",
    "a reader in `logs` of the system that knows roles",
    _roles,
    lost=_lines_lost,
    of_files="logs that tell of roles: --system",
)
BOTH_SIDES: Final = Need(
    "both sides",
    "ids of messages as sent and as received",
    "log each at both ends",
    _both_sides,
    lost=_lines_lost,
    of_files="logs with an id of each message, at both ends",
)
DIGESTS: Final = Need(
    "digests",
    "digests of messages",
    "log a hash of what was got",
    _digests,
    lost=_lines_lost,
    of_files="logs with a digest of each message",
)
JOURNAL: Final = Need(
    "journal",
    "what servers wrote of their protocol",
    "-o journal=yes",
    _journal,
    "journal",
    _journal_lost,
)
SPANS: Final = Need(
    "spans",
    "spans of servers",
    "-o spans=yes",
    _spans,
    "spans",
    _records_lost,
    of_files="--spans FILE",
)
EFFECTS: Final = Need(
    "effects",
    "what servers wrote of their effects",
    "-o audit=yes",
    _effects,
    "audit",
    _records_lost,
)
STATES: Final = Need(
    "states",
    "states of the members at the end",
    "a system that tells the digest of its state",
    _states,
)
STAMPED: Final = Need(
    "times",
    "times at which servers noticed something",
    "-o journal=yes",
    _stamped,
    "journal",
    _stamped_lost,
)
JUDGED: Final = Need("verdict", "what checkers found", "dstest recover RUN", _judged)
SETTLED: Final = Need("recoveries", "recoveries that were watched", "--nemesis kill", _settled)


def operations(*types: str) -> Need:
    """Operations of all of these types; of some that mean the same as `a|b`."""

    def missing(scene: Scene) -> str:
        lacks = [one for one in types if not scene.types & set(one.split("|"))]
        return f"no operation is of type {' or '.join(lacks[0].split('|'))}" if lacks else ""

    what = " and ".join(one.partition("|")[0] for one in types)
    return Need("history", f"operations {what}", "a workload that has them", missing)


def metric(*names: str) -> Need:
    """Samples of one of these figures."""

    def missing(scene: Scene) -> str:
        there = any(one.name in names for one in scene.series)
        if there:
            return ""
        return scene.series_lost or f"no samples of {' or '.join(names)}"

    how = "leave out --no-monitor"
    what = f"samples of {' or '.join(names)}"
    return Need("metrics", what, how, missing, lost=_samples_lost, of_files="--metrics FILE")
