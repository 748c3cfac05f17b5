"""What log checks know and what they come to: nodes and their addresses, faults and when the load
ran, clocks that put lines of several nodes on one axis; findings with their evidence.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from itertools import accumulate
from typing import Any, ClassVar, Final, Literal, NamedTuple

import msgspec

from dstest.core import registry, rules
from dstest.core.evidence import LandingRecord
from dstest.core.history import FaultWindow, windows_of
from dstest.core.op import Op
from dstest.core.protocols import LogRecord
from dstest.core.protocols.systems import Topic
from dstest.core.run_record import RunMeta
from dstest.core.words import one_line

NO_FAULT: Final = "no fault"
NO_TIME: Final = "no time stamp"
NO_WINDOWS: Final = frozenset({"", NO_FAULT, NO_TIME})
"""What stands for a window where there is none."""

EDGE_NS: Final = 5_000_000_000
"""So long after its heal a fault still explains what is said of it: servers notice, elect and
connect anew, and write of it when they do."""

START: Final = "start-up"
END: Final = "shut-down"
Severity = Literal["critical", "high", "medium", "low"]
SEVERITIES: Final[tuple[Severity, ...]] = ("critical", "high", "medium", "low")

ROWS_MAX: Final = 5
"""Lines shown as the evidence of one finding; all are counted."""

GROUPS_MAX: Final = 2000
"""Findings of one check; what would be more is counted in the last of them."""

_ADDRESS: Final = re.compile(r"(?:\d{1,3}\.){3}\d{1,3}|\[[0-9a-fA-F:]+\]")

SAME_KERNEL_NS: Final = 5_000_000
"""A node whose wall clock minus its own monotonic clock is ours within this has our kernel: two
machines have not booted within five milliseconds of one another."""


class Explanation(msgspec.Struct, frozen=True):
    """`window` is a fault's id or why there is none. `why` says what makes it expected or not.
    `by_fault`: a fault explains it, and not that servers were being begun or ended."""

    window: str
    expected: bool
    why: str
    by_fault: bool = False


_NEVER: Final = Explanation(NO_FAULT, False, "no fault stood then")
_TIMELESS: Final = Explanation(
    NO_TIME, False, "the line has no time stamp: no fault can explain it"
)
_UNKNOWN: Final = Explanation(NO_FAULT, False, "these logs are of no run: no fault is known")


class Windows:
    """The faults of a run, and when its load ran: from 0 to `load_end_ns`, as long as anybody knows
    where it is None. `known`: are these the logs of a run that says what it did?"""

    def __init__(
        self, faults: Sequence[FaultWindow], *, known: bool, load_end_ns: int | None = None
    ) -> None:
        self.faults, self.known, self.load_end_ns = list(faults), known, load_end_ns
        self._alarms: dict[str, frozenset[str]] = {}
        rows = sorted((w.start_ns, at, _last_ns(w)) for at, w in enumerate(self.faults))
        self._starts = [start for start, _, _ in rows]
        self._at = [at for _, at, _ in rows]
        self._until = list(accumulate((until for _, _, until in rows), max))
        """The latest end of all that start no later."""

    def around(self, time_ns: int | None, doubt_ns: int) -> list[FaultWindow]:
        """Faults that show at a moment."""
        if time_ns is None:
            return []
        number = bisect_right(self._starts, time_ns + doubt_ns)
        found: list[int] = []
        while number and self._until[number - 1] >= time_ns - doubt_ns:
            number -= 1
            if self.faults[self._at[number]].shows(time_ns - doubt_ns, time_ns + doubt_ns):
                found.append(self._at[number])
        return [self.faults[at] for at in sorted(found)]

    def beginning(self, from_ns: int, to_ns: int) -> list[FaultWindow]:
        """Those that begin between two moments, both included."""
        first, last = bisect_left(self._starts, from_ns), bisect_right(self._starts, to_ns)
        return [self.faults[at] for at in sorted(self._at[first:last])]

    def standing(self) -> list[tuple[int | None, int | None]]:
        """Begins and ends of all in which something may be excused: before and after the load, and
        where faults showed that landed."""
        found: list[tuple[int | None, int | None]] = [
            (w.start_ns, None if w.healed_ns is None else w.until_ns)
            for w in self.faults
            if w.landed == "yes"
        ]
        if self.load_end_ns is not None:
            found += [(None, -1), (self.load_end_ns + 1, None)]
        return found

    def alarms_of(self, nemesis: str) -> frozenset[str]:
        """Kinds of alarms that it may cause; none where it is not there any more."""
        if nemesis not in self._alarms:
            self._alarms[nemesis] = registry.known("nemeses", nemesis).explains
        return self._alarms[nemesis]

    def explain(
        self, time_ns: int | None, doubt_ns: int, nodes: Iterable[str], alarm: str = ""
    ) -> Explanation:
        """Is something expected that was said then of these nodes? A fault explains what is about
        one of its own, and where nobody is named, all; an `alarm` only where it says so."""
        if not self.known:
            return _UNKNOWN
        if time_ns is None:
            return _TIMELESS
        named = frozenset(node for node in nodes if node)
        there = [self._by(window, named, alarm) for window in self.around(time_ns, doubt_ns)]
        there += self._outside_the_load(time_ns, doubt_ns)
        if there:
            return next((one for one in there if one.expected), there[0])
        for window in self.faults:
            after_ns = EDGE_NS + 1 if window.until_ns is None else time_ns - window.until_ns
            if 0 <= after_ns <= EDGE_NS and (one := self._by(window, named, alarm)).expected:
                why = f"{one.why}: it was healed {after_ns / 1e9:.1f} s before"
                return msgspec.structs.replace(one, why=why)
        return _NEVER

    def _outside_the_load(self, time_ns: int, doubt_ns: int) -> list[Explanation]:
        found = []
        if self.load_end_ns is not None and time_ns - doubt_ns < 0:
            found.append(Explanation(START, True, "the servers were being begun"))
        if self.load_end_ns is not None and time_ns + doubt_ns > self.load_end_ns:
            found.append(Explanation(END, True, "the servers were being ended"))
        return found

    def _by(self, window: FaultWindow, named: frozenset[str], alarm: str) -> Explanation:
        what = f"{window.nemesis} on {', '.join(sorted(window.nodes)) or 'all'}"
        if window.landed != "yes":
            return Explanation(NO_FAULT, False, f"{what} is not proven to have landed")
        if alarm and alarm not in self.alarms_of(window.nemesis):
            return Explanation(window.id, False, f"{what} explains no {alarm}")
        if not window.about(named):
            return Explanation(window.id, False, f"{what} is about others")
        return Explanation(window.id, True, f"{what} explains it", by_fault=True)


def _last_ns(window: FaultWindow) -> int:
    until_ns = None if window.healed_ns is None else window.until_ns
    return 1 << 62 if until_ns is None else until_ns


def windows_of_run(records: Sequence[LandingRecord], meta: RunMeta, last_ns: int) -> Windows:
    """Of a run's own words. `last_ns` is when its last operation ended."""
    end_ns = max(last_ns, meta.load_end_ns if isinstance(meta.load_end_ns, int) else 0)
    return Windows(
        windows_of(records, meta.recoveries or (), strict=True), known=True, load_end_ns=end_ns
    )


_WIDTH: Final = 200


class LogRow(msgspec.Struct, frozen=True):
    """A line that shows it. `time_ns` is run time, or nanoseconds since 1970 where there is no run;
    None: unknown."""

    place: str
    time_ns: int | None
    text: str


def row_of(place: str, time_ns: int | None, text: str) -> LogRow:
    """With the text on one line, and no longer than can be shown."""
    said = one_line(text.strip())
    return LogRow(place, time_ns, said if len(said) <= _WIDTH else said[: _WIDTH - 1] + "…")


class Finding(msgspec.Struct, kw_only=True):
    """`check` is the id of the rule that found it. `nodes` are those that it is about; of a pair,
    who says it comes first."""

    check: str = ""
    severity: Severity
    nodes: list[str]
    window: str
    expected: bool
    why: str
    said: str
    count: int
    rows: list[LogRow] = msgspec.field(default_factory=list)
    todo: str = ""

    @property
    def bad(self) -> bool:
        """Does it speak against the system?"""
        return not self.expected and self.severity in ("critical", "high")


class CheckOutcome(msgspec.Struct, kw_only=True):
    """Of one check. `not_evaluated` says why nothing was looked at; empty: something was. `looked`
    says what at, `notes` what of it was not. `facts` are figures beside the findings."""

    check: str = ""
    findings: list[Finding] = msgspec.field(default_factory=list)
    not_evaluated: str = ""
    looked: str = ""
    notes: list[str] = msgspec.field(default_factory=list)
    facts: dict[str, Any] = msgspec.field(default_factory=dict)


class Tally:
    """Counts what belongs to one finding, and keeps the first lines of it."""

    def __init__(self) -> None:
        self._groups: dict[tuple[tuple[str, ...], str, bool], _Group] = {}
        self.left_out = 0

    def add(self, nodes: Iterable[str], said: Explanation, row: LogRow) -> None:
        """One line."""
        key = (tuple(node for node in nodes if node), said.window, said.expected)
        group = self._groups.get(key)
        if group is None:
            if len(self._groups) >= GROUPS_MAX:
                self.left_out += 1
                return
            group = self._groups[key] = _Group(said.why)
        group.count += 1
        if len(group.rows) < ROWS_MAX:
            group.rows.append(row)

    def findings(self, severity: Severity, said: str, todo: str) -> list[Finding]:
        """One for each group, `said` with its count."""
        return [
            Finding(
                severity=severity,
                nodes=list(nodes),
                window=window,
                expected=expected,
                why=group.why,
                said=said,
                count=group.count,
                rows=group.rows,
                todo=todo,
            )
            for (nodes, window, expected), group in self._groups.items()
        ]

    @property
    def notes(self) -> list[str]:
        """What was too much."""
        return [f"{self.left_out} lines of further groups"] if self.left_out else []


class _Group:
    def __init__(self, why: str) -> None:
        self.why = why
        self.count = 0
        self.rows: list[LogRow] = []


class Offset(msgspec.Struct, frozen=True):
    """A node's wall clock minus the clock that all lines are told by, and how far off that may be.
    `how` says where it is from."""

    offset_ns: int
    doubt_ns: int
    how: str


class Line(NamedTuple):
    """A line as it was read. `time_ns` is of the clock of all lines, `topics` what it is about."""

    node: str
    place: str
    time_ns: int | None
    doubt_ns: int
    record: LogRecord
    topics: frozenset[Topic] = frozenset()

    @property
    def row(self) -> LogRow:
        """As evidence."""
        return row_of(self.place, self.time_ns, self.record.message)


class Scene:
    """`declared` are the nodes that there have to be; where nobody says, those that have logs.
    `harmless` are texts of healthy lines of the system that look like trouble, `served` errors of a
    healthy one, `usual` p95 by operation of another run, in milliseconds."""

    def __init__(
        self,
        declared: Sequence[str],
        windows: Windows,
        addresses: Mapping[str, str],
        *,
        named: bool,
        harmless: Sequence[str] = (),
        served: Collection[str] = (),
    ) -> None:
        self.declared = list(declared)
        self.named = named
        self.harmless = tuple(harmless)
        self.served = frozenset(served)
        self.usual: Mapping[str, float] = {}
        self.windows = windows
        names = "|".join(map(re.escape, sorted(declared, key=len, reverse=True)))
        self._by_name = re.compile(rf"(?<![\w.-])(?:{names or '(?!)'})(?![\w-])")
        self._names: dict[str, str] = {**addresses, **{name: name for name in declared}}

    def learn(self, record: LogRecord, node: str) -> None:
        """Ids that the system gives its members; `node` is whose log it is."""
        for id_, told in record.aliases.items():
            if id_ not in self._names and (name := self._found(told) if told else node):
                self._names[id_] = name

    def _found(self, told: str) -> str:
        if told in self._names:
            return self._names[told]
        address = _ADDRESS.search(told)
        return self._names.get(address[0], "") if address else ""

    def member(self, told: str) -> str:
        """Who is meant by a name, an address or an id; as it was told where nobody knows."""
        return (self._found(told) or told) if told else ""

    def peer_in(self, text: str, node: str) -> str:
        """The other member whose address or name stands in a text; empty where none does."""
        for address in (*_ADDRESS.findall(text), *self._by_name.findall(text)):
            name = self._names.get(address, "")
            if name and name != node:
                return name
        return ""

    def explain(self, line: Line, peer: str = "", alarm: str = "") -> Explanation:
        """Is this line expected?"""
        about = (line.node, peer) if peer in self.declared else ()
        return self.windows.explain(
            line.time_ns, line.doubt_ns, (line.node,) if alarm else about, alarm
        )


class Watch:
    """What a rule looks at: it is given every line, and keeps what counts."""

    takes_operations: ClassVar = False

    def __init__(self, scene: Scene) -> None:
        self.scene = scene

    def line(self, line: Line) -> None:
        """One line of one log, in the order of that log."""
        raise NotImplementedError

    def op(self, op: Op, number: int) -> None:
        """An operation of the history, which is on this line of it, where it takes them."""
        raise NotImplementedError


class Rule(rules.Rule[Any, CheckOutcome], frozen=True):
    """A check: `title` says what it looks for. It finds in what its `watch` has kept when all lines
    were read."""

    group: str
    watch: Callable[[Scene], Watch]


class Clocks:
    """`origin_ns` is wall minus run time on the clock of all; None where there is no run, and lines
    keep the time of 1970. `offsets` are by node; a node that is not there was not measured."""

    def __init__(
        self, origin_ns: int | None, offsets: Mapping[str, Offset], *, exact: bool = False
    ) -> None:
        self.origin_ns = origin_ns
        self.offsets = dict(offsets)
        self.exact = exact

    def aligned(self, node: str, wall_ns: int) -> tuple[int, int]:
        """(time, how far off it may be) of a stamp of this node."""
        offset = self.offsets.get(node)
        time_ns = wall_ns - (self.origin_ns or 0)
        return (time_ns - offset.offset_ns, offset.doubt_ns) if offset else (time_ns, 0)

    def describe(self, nodes: list[str]) -> list[str]:
        """A sentence for each node, or one for all."""
        if self.exact:
            return ["a simulation has one clock: nothing was aligned"]
        if self.origin_ns is None:
            return ["no run, no measured clocks: times are as each node had them"]
        rows: dict[str, list[str]] = {}
        for node in nodes:
            if (one := self.offsets.get(node)) is None:
                rows.setdefault("not measured, times are as they had them", []).append(node)
                continue
            by, doubt = f"{-one.offset_ns / 1e6:+.3f} ms", f"{one.doubt_ns / 1e6:.3f}"
            rows.setdefault(one.how, []).append(f"{node} {by} (give or take {doubt} ms)")
        return [f"{', '.join(told)}: {how}" for how, told in rows.items()]


def clocks_of_run(meta: RunMeta) -> Clocks:
    """Of what a run measured at its start and its end."""
    if meta.origin_ns is None or meta.clock_start_ns is None:
        return Clocks(None, {})
    found = {}
    start, end = meta.node_offsets_start_ns or {}, meta.node_offsets_end_ns or {}
    for node in {*start, *end}:
        found[node] = _measured(start.get(node), end.get(node), meta.clock_start_ns)
    own = meta.node_clocks_start_ns or {}
    for node, wall_minus_mono_ns in own.items():
        apart = wall_minus_mono_ns - meta.clock_start_ns
        if node not in found and abs(apart) <= SAME_KERNEL_NS:
            found[node] = Offset(apart, abs(apart), "the clock of this host's own kernel")
    return Clocks(meta.clock_start_ns + meta.origin_ns, found)


def _measured(start: tuple[int, int] | None, end: tuple[int, int] | None, ours_ns: int) -> Offset:
    """The middle of both looks; how far they lie apart is part of the doubt."""
    looks = [one for one in (start, end) if one is not None]
    middle = sum(ours for ours, _ in looks) // len(looks)
    drift = max(abs(ours - middle) for ours, _ in looks)
    when = "at the start and the end" if len(looks) == 2 else "once"
    return Offset(
        middle - ours_ns, max(doubt for _, doubt in looks) + drift, f"measured {when} of the run"
    )
