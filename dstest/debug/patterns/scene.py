"""What patterns look at: a scene of logs alone, and that of a finished run directory. Each part is
read once, when asked for. Nothing here knows what was planted in the system: options of the run are
not looked at.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, Final

import msgspec
from msgspec import UNSET

from dstest.core import registry
from dstest.core.check import Anomaly, CheckResult
from dstest.core.errors import EvidenceError
from dstest.core.evidence import LandingRecord
from dstest.core.history import FaultWindow, Header
from dstest.core.op import Op, Outcome
from dstest.core.protocols import Effect, System
from dstest.core.run_record import RunMeta
from dstest.debug.logs.analysis import LogAnalysis, Options, analyse
from dstest.debug.logs.lines import Source, each_line
from dstest.debug.logs.run_logs import RunLogs, run_logs
from dstest.debug.logs.scene import CheckOutcome as Checked
from dstest.debug.logs.scene import Explanation, Windows
from dstest.debug.monitor.client import CLIENT, NODES, read_rows, series_of
from dstest.debug.patterns.journal import Journal, LogNotes, read_journal
from dstest.debug.patterns.model import Settings
from dstest.debug.patterns.told import ToldNotes
from dstest.debug.traces import analysis as traces
from dstest.debug.traces.spans import Message, Span
from dstest.history.jsonl import each_op, read_header
from dstest.history.layout import EVENTS, RunDir, read_verdict

NO_RUN: Final = "these files are of no run"


class Series(msgspec.Struct, frozen=True):
    """`values` of one figure of one node at `times_ns`, in the order of time."""

    name: str
    node: str
    times_ns: list[int]
    values: list[float]
    place: str = ""

    def between(self, start_ns: int, end_ns: int) -> list[float]:
        """Those of a stretch."""
        pairs = zip(self.times_ns, self.values, strict=True)
        return [value for at, value in pairs if start_ns <= at < end_ns]


class Fit(msgspec.Struct, frozen=True):
    """A straight line by least squares: `slope` per second, `r2` the share of the variance that it
    explains, 0 where nothing varies."""

    slope: float
    r2: float
    first: float
    last: float


def fit_line(times_ns: Sequence[int], values: Sequence[float]) -> Fit | None:
    """None for fewer than three points, or none that differ in time."""
    if len(values) < 3 or times_ns[0] == times_ns[-1]:
        return None
    xs = [(at - times_ns[0]) / 1e9 for at in times_ns]
    mean_x, mean_y = sum(xs) / len(xs), sum(values) / len(values)
    xx = sum((x - mean_x) ** 2 for x in xs)
    xy = sum((x - mean_x) * (y - mean_y) for x, y in zip(xs, values, strict=True))
    yy = sum((y - mean_y) ** 2 for y in values)
    slope = xy / xx
    start = mean_y - slope * mean_x
    r2 = 0.0 if yy == 0 else xy * xy / (xx * yy)
    return Fit(slope, r2, start, start + slope * xs[-1])


def read_series(run: Path) -> tuple[list[Series], str]:
    """All that was sampled in a run, and why there is no more; nothing where nothing was. Of a file
    that cannot be read nothing is taken."""
    found: list[Series] = []
    lost: list[str] = []
    for name in (NODES, CLIENT):
        try:
            every = series_of(read_rows(run / name))
        except EvidenceError as error:
            lost.append(str(error))
            continue
        for (node, figure), rows in sorted(every.items()):
            times, values = [at for at, _ in rows], [value for _, value in rows]
            found.append(Series(figure, node, times, values, name))
    return sorted(found, key=lambda one: (one.name, one.node)), "; ".join(lost)


class CheckerFinding(msgspec.Struct, frozen=True):
    """What a checker found: so many of this kind, and some of them with their witnesses."""

    checker: str
    kind: str
    count: int
    anomalies: list[Anomaly]


class AppliedEffect(msgspec.Struct, frozen=True):
    """An effect as one member wrote it down."""

    index: int
    effect: Effect | None
    raw: dict[str, Any]
    place: str


class _HostRow(msgspec.Struct):
    time_ns: int
    cpu: float


class Scene:
    """What patterns look at, whatever it was read from: here of nothing but logs (`of`), whose
    lines are read once. What else there may be is none, or says why; a subclass has it."""

    of_run = False
    """Is it of a run, which says what it did?"""

    rates = True
    """Do checks of logs count operations? That takes seconds."""

    def __init__(
        self, given: Path, of: RunLogs, meta: RunMeta, header: Header, settings: Settings | None
    ) -> None:
        self.given, self.of, self.meta, self.header = given, of, meta, header
        self.settings = settings or Settings()
        self.system: System = registry.known("systems", of.system)
        self.nodes: list[str] = list(of.scene.declared)
        self.windows: Windows = of.scene.windows
        self.records: list[LandingRecord] = of.records

    @cached_property
    def options(self) -> frozenset[str]:
        """Names of what `-o` takes of the system; none where it is not there any more."""
        return frozenset(self.system.options)

    @property
    def shown(self) -> str:
        """How it is called in a command."""
        return str(self.given)

    @property
    def known(self) -> list[str]:
        """What there is to say of how it was read, and of what cannot be known."""
        return []

    @property
    def begin_ns(self) -> int:
        """Of what was looked at."""
        return min((op.invoke_ts for op in self.ops), default=0)

    @property
    def end_ns(self) -> int:
        return max((op.complete_ts or op.invoke_ts for op in self.ops), default=0)

    @cached_property
    def numbered_ops(self) -> list[tuple[int, Op]]:
        """Operations with their lines in the history."""
        return []

    @cached_property
    def journal(self) -> Journal | str:
        """Of the servers' protocol, or why there is none."""
        return NO_RUN

    @cached_property
    def effects(self) -> dict[str, list[AppliedEffect]]:
        """By node what it wrote down of its effects, in its order."""
        return {}

    @cached_property
    def traced(self) -> traces.TracesOfRun:
        """Spans, or why there are none."""
        return traces.TracesOfRun([], self.nodes, {}, NO_RUN, [])

    @cached_property
    def sampled(self) -> tuple[list[Series], str]:
        """Samples, and why there are no more."""
        return [], ""

    @cached_property
    def host(self) -> Series | None:
        """CPU seconds that the host has used, as it was sampled."""
        return None

    @cached_property
    def verdict(self) -> dict[str, Any]:
        """verdict.json, empty where nobody has judged."""
        return {}

    @cached_property
    def findable(self) -> frozenset[str]:
        """Kinds of anomalies that checkers have shown to find: in it, or in a broken copy of it."""
        return frozenset()

    @property
    def faults(self) -> list[FaultWindow]:
        """Windows of faults that landed, by their begin."""
        return [w for w in self.windows.faults if w.landed == "yes"]

    @cached_property
    def _standing(self) -> tuple[list[int], list[int]]:
        """Begins and ends of the stretches in which anything stands, apart from one another."""
        rows = sorted(
            (-(1 << 62) if begin is None else begin, 1 << 62 if end is None else end)
            for begin, end in self.windows.standing()
        )
        begins: list[int] = []
        ends: list[int] = []
        for begin, end in rows:
            if ends and begin <= ends[-1]:
                ends[-1] = max(ends[-1], end)
            else:
                begins.append(begin)
                ends.append(end)
        return begins, ends

    def why(self, at_ns: int | None, nodes: Iterable[str] = (), alarm: str = "") -> Explanation:
        """Does a fault explain what happened then to these nodes? An `alarm` only one that says so
        of itself."""
        return self.windows.explain(at_ns, 0, [n for n in nodes if n in self.nodes], alarm)

    def quiet(self, at_ns: int) -> bool:
        """Does no fault stand then, and is the load on?"""
        return self.calm(at_ns, at_ns + 1)

    def calm(self, begin_ns: int, end_ns: int) -> bool:
        """Is that so from one moment until before another?"""
        begins, ends = self._standing
        at = bisect_left(begins, end_ns) - 1
        return at < 0 or begin_ns > ends[at]

    @cached_property
    def ops(self) -> list[Op]:
        """By invocation, those of the final reads as well."""
        return sorted((op for _, op in self.numbered_ops), key=lambda op: op.invoke_ts)

    @cached_property
    def by_id(self) -> dict[int | str, Op]:
        """Each operation by its id."""
        return {op.op_id: op for op in self.ops}

    @cached_property
    def lines_of_ops(self) -> dict[int | str, str]:
        """Where each operation stands."""
        return {op.op_id: f"history.jsonl:{number}" for number, op in self.numbered_ops}

    @cached_property
    def load_end_ns(self) -> int:
        """When the load was told to end, else when its last operation ended."""
        told = self.meta.load_end_ns
        last = max((op.complete_ts or op.invoke_ts for op in self.ops), default=0)
        return told if isinstance(told, int) else last

    @cached_property
    def load(self) -> list[Op]:
        """The operations of the load, without what was read after it."""
        return [op for op in self.ops if op.invoke_ts < self.load_end_ns]

    @cached_property
    def _invoked(self) -> list[int]:
        return [op.invoke_ts for op in self.load]

    def between(self, begin_ns: int, end_ns: int) -> list[Op]:
        """Operations of the load that began in a stretch."""
        first, last = bisect_left(self._invoked, begin_ns), bisect_left(self._invoked, end_ns)
        return self.load[first:last]

    @cached_property
    def types(self) -> set[str]:
        """Types of operations that there are."""
        return {op.op_type for op in self.ops}

    def served(self, op: Op) -> bool:
        """It succeeded, or was refused as a healthy server does."""
        if op.outcome is Outcome.OK:
            return True
        error = (op.error or "").partition(":")[0]
        return op.outcome is Outcome.FAIL and error in self.of.scene.served

    @cached_property
    def _look(self) -> tuple[LogAnalysis, LogNotes, ToldNotes]:
        """Of a run, which says what it did, nobody asks what its servers guessed."""
        of, noted, told = self.of, LogNotes(self.of.scene), ToldNotes(self.of.scene)
        extra = of.extra if self.rates else of.extra._replace(ops=())
        beside = [noted] if self.of_run else [noted, told]
        made = analyse(
            of.sources, of.scene, of.clocks, of.reader, Options(), extra, beside, of.unread
        )
        return made, noted, told

    @property
    def told(self) -> ToldNotes:
        """What servers say of trouble around them; empty of a run."""
        return self._look[2]

    @property
    def read(self) -> LogAnalysis:
        """How lines were read, and what the checks of logs came to."""
        return self._look[0]

    @property
    def notes(self) -> LogNotes:
        """What is remembered of the lines of logs."""
        return self._look[1]

    @property
    def checks(self) -> dict[str, Checked]:
        """What the checks of logs came to, by name."""
        return {one.check: one for one in self._look[0].outcomes}

    def gaps(self, only: Callable[[str], bool] = lambda name: True) -> list[str]:
        """What was not kept of these files of the nodes, all of them where nothing else is said."""
        return [] if self.meta.logs is None else self.meta.logs.gaps(only)

    @property
    def protocol(self) -> Journal:
        """The journal, for signs that need it."""
        found = self.journal
        assert isinstance(found, Journal), found
        return found

    @property
    def spans_missing(self) -> str:
        return self.traced.why

    @property
    def spans(self) -> list[Span]:
        """Of servers and of the operations that they were for."""
        return [one for one in self.traced.spans if not isinstance(one, Message)]

    @property
    def series(self) -> list[Series]:
        """Samples of figures."""
        return self.sampled[0]

    @property
    def series_lost(self) -> str:
        """Why samples that there are cannot be read; empty where they can."""
        return self.sampled[1]

    def figures(self, *names: str) -> list[Series]:
        """Those of these names."""
        return [one for one in self.series if one.name in names]

    def host_busy(self, begin_ns: int, end_ns: int) -> float | None:
        """Share of the host's CPUs that were in use then; None where nobody measured."""
        cpus = self.meta.host.cpus if self.meta.host is not None else None
        if self.host is None or not cpus:
            return None
        rows = [
            (at, used)
            for at, used in zip(self.host.times_ns, self.host.values, strict=True)
            if begin_ns <= at <= end_ns
        ]
        if len(rows) < 2 or rows[-1][0] == rows[0][0]:
            return None
        return (rows[-1][1] - rows[0][1]) / ((rows[-1][0] - rows[0][0]) / 1e9) / cpus

    @cached_property
    def results(self) -> dict[str, CheckResult]:
        """What each checker answered."""
        try:
            return {
                name: msgspec.convert(plain, CheckResult)
                for name, plain in (self.verdict.get("checkers") or {}).items()
                if plain is not None
            }
        except msgspec.ValidationError as error:
            raise EvidenceError(
                f"{self.given / 'verdict.json'} cannot be read: {error}",
                remedy="judge it again with `dstest recover RUN`",
            ) from None

    @cached_property
    def findings(self) -> list[CheckerFinding]:
        """What checkers found, by kind; each kind of each checker."""
        return [
            CheckerFinding(name, kind, count, result.anomalies.get(kind, []))
            for name, result in self.results.items()
            for kind, count in sorted(result.counted.items())
            if count
        ]


class RunScene(Scene):
    """Of one sealed run, whose operations are `ops` where somebody has read them, in the order of
    their file. Raises ConfigError where it is none, and what reading it raises."""

    of_run = True

    def __init__(
        self,
        path: Path,
        settings: Settings | None = None,
        ops: Sequence[Op] | None = None,
        *,
        rates: bool = True,
    ) -> None:
        self.run = RunDir.open(path)
        self.rates = rates
        self._read = ops
        of = run_logs(self.run.path, ops)
        meta = self.run.read_meta()
        assert meta is not None  # run_logs has read it
        super().__init__(path, of, meta, read_header(self.run.history), settings)

    @property
    def simulated(self) -> bool:
        return (self.run.path / EVENTS).is_file()

    @cached_property
    def numbered_ops(self) -> list[tuple[int, Op]]:
        return list(enumerate(self._read or each_op(self.run.history), 2))

    @cached_property
    def journal(self) -> Journal | str:
        files = self.system.journals.protocol
        origin = (self.meta.origin_ns or 0) if self.simulated else None
        return read_journal(self.run.path, files, self.of.clocks, origin, self.gaps)

    @cached_property
    def effects(self) -> dict[str, list[AppliedEffect]]:
        form = self.system.journals.effects
        found: dict[str, list[AppliedEffect]] = {}
        for node in self.nodes if form is not None else ():
            assert form is not None
            path = self.run.nodes / node / form.file
            if path.is_file():
                shown = path.relative_to(self.run.path).as_posix()
                found[node] = []
                for number, text in each_line(Source(node, path, shown)):
                    try:
                        raw = msgspec.json.decode(text, type=dict[str, Any])
                        index, effect = form.effect_of(raw)
                    except (msgspec.DecodeError, ValueError, KeyError, TypeError):
                        continue
                    found[node].append(AppliedEffect(index, effect, raw, f"{shown}:{number}"))
        return found

    @cached_property
    def traced(self) -> traces.TracesOfRun:
        return traces.traces_of_run(self.run.path)

    @cached_property
    def sampled(self) -> tuple[list[Series], str]:
        return read_series(self.run.path)

    @cached_property
    def host(self) -> Series | None:
        path = self.run.path / "host.jsonl"
        if not path.is_file():
            return None
        times, values = [], []
        for _, text in each_line(Source("", path, path.name)):
            try:
                one = msgspec.json.decode(text, type=_HostRow)
            except msgspec.DecodeError:
                continue
            times.append(one.time_ns)
            values.append(one.cpu)
        return Series("cpu", "host", times, values, path.name)

    @cached_property
    def verdict(self) -> dict[str, Any]:
        found = self.run.read_json("verdict.json")
        return found if isinstance(found, dict) else {}

    @cached_property
    def findable(self) -> frozenset[str]:
        try:
            canary = read_verdict(self.run.path).canary
        except (OSError, msgspec.MsgspecError, ValueError, RecursionError):
            canary = UNSET
        rows = () if canary is UNSET else canary.details
        caught = [kind for one in rows for kind in one.get("caught") or ()]
        return frozenset([*caught, *(one.kind for one in self.findings)])


def writes(op: Op) -> bool:
    """Did it ask for a change? Of a transaction, does any part of it?"""
    if op.op_type == "txn" and isinstance(op.input, list):
        return any(isinstance(part, list) and part and part[0] != "r" for part in op.input)
    return op.input is not None and not op.op_type.startswith(("read", "get", "peek", "poll"))
