"""What a finished run directory holds, as patterns look at it: each part is read once, when asked
for. Nothing here knows what was planted in the system: options of the run are not looked at."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable
from functools import cached_property
from pathlib import Path
from typing import Any

import msgspec

from dstest.core import registry
from dstest.core.check import Anomaly, CheckResult
from dstest.core.errors import ConfigError, EvidenceError
from dstest.core.evidence import LandingRecord
from dstest.core.op import Op, Outcome
from dstest.core.protocols import Effect
from dstest.core.run_meta import RunMeta
from dstest.logs.catalogue import CHECKS
from dstest.logs.findings import Outcome as Checked
from dstest.logs.look import Asked, Look, look
from dstest.logs.of_run import OfRun, of_run, traits_of
from dstest.logs.scene import Check
from dstest.logs.scene import Scene as LogScene
from dstest.logs.sources import Source, each_line
from dstest.logs.windows import Expected, Window, Windows
from dstest.patterns.journal import Journal, read_journal
from dstest.patterns.noted import Noted
from dstest.patterns.series import Series, read_series
from dstest.patterns.settings import Settings
from dstest.store.jsonl import each_op, read_header
from dstest.store.layout import EVENTS, RunDir
from dstest.traces import of_run as traces
from dstest.traces.spans import Message, Span


class Judged(msgspec.Struct, frozen=True):
    """What a checker found: so many of this kind, and some of them with their witnesses."""

    checker: str
    kind: str
    count: int
    anomalies: list[Anomaly]


class Applied(msgspec.Struct, frozen=True):
    """An effect as one member wrote it down."""

    index: int
    effect: Effect | None
    raw: dict[str, Any]
    place: str


class _HostRow(msgspec.Struct):
    time_ns: int
    cpu: float


class Scene:
    """Of one run. Raises ConfigError where it is none, and what reading it raises."""

    def __init__(self, path: Path, settings: Settings | None = None) -> None:
        self.given = path
        self.run = RunDir.open(path)
        self.settings = settings or Settings()
        self.of: OfRun = of_run(self.run.path)
        meta = self.run.read_meta()
        assert meta is not None  # of_run has read it
        self.meta: RunMeta = meta
        self.header = read_header(self.run.history)
        self.traits = traits_of(self.of.system)
        self.nodes: list[str] = list(self.of.scene.declared)
        self.windows: Windows = self.of.scene.windows
        self.records: list[LandingRecord] = self.of.records

    @cached_property
    def options(self) -> frozenset[str]:
        """Names of what `-o` takes of the system; none where it is not there any more."""
        try:
            return frozenset(registry.load("systems", self.of.system).options)
        except ConfigError:
            return frozenset()

    @property
    def simulated(self) -> bool:
        return (self.run.path / EVENTS).is_file()

    @property
    def faults(self) -> list[Window]:
        """Windows of faults that landed, by their begin."""
        found = [w for w in self.windows.every if w.nemesis and w.landed and w.start_ns is not None]
        return sorted(found, key=lambda w: w.start_ns or 0)

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

    def why(self, at_ns: int | None, nodes: Iterable[str] = ()) -> Expected:
        """Does a fault explain what happened then to these nodes?"""
        return self.windows.judged(at_ns, 0, [n for n in nodes if n in self.nodes])

    def quiet(self, at_ns: int) -> bool:
        """Does no fault stand then, and is the load on?"""
        return self.calm(at_ns, at_ns + 1)

    def calm(self, begin_ns: int, end_ns: int) -> bool:
        """Is that so from one moment until before another?"""
        begins, ends = self._standing
        at = bisect_left(begins, end_ns) - 1
        return at < 0 or begin_ns > ends[at]

    @cached_property
    def _ops(self) -> list[tuple[int, Op]]:
        return list(enumerate(each_op(self.run.history), 2))

    @cached_property
    def ops(self) -> list[Op]:
        """By invocation, those of the final reads as well."""
        return sorted((op for _, op in self._ops), key=lambda op: op.invoke_ts)

    @cached_property
    def by_id(self) -> dict[int | str, Op]:
        """Each operation by its id."""
        return {op.op_id: op for op in self.ops}

    @cached_property
    def lines_of_ops(self) -> dict[int | str, str]:
        """Where each operation stands."""
        return {op.op_id: f"history.jsonl:{number}" for number, op in self._ops}

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
        return op.outcome is Outcome.FAIL and error in self.of.served

    @cached_property
    def _look(self) -> tuple[Look, Noted]:
        kept: list[Noted] = []

        class Kept(Noted):
            def __init__(self, scene: LogScene) -> None:
                super().__init__(scene)
                kept.append(self)

        of = self.of
        checks: list[type[Check]] = [*CHECKS, Kept]
        made = look(of.sources, of.scene, of.clocks, of.reader, Asked(checks), of.extra)
        return made, kept[0]

    @property
    def noted(self) -> Noted:
        """What is remembered of the lines of logs."""
        return self._look[1]

    @property
    def checks(self) -> dict[str, Checked]:
        """What the checks of logs came to, by name."""
        return {one.check: one for one in self._look[0].outcomes}

    @cached_property
    def journal(self) -> Journal | str:
        """Of the servers' protocol, or why there is none."""
        files = self.traits.records
        origin = (self.meta.origin_ns or 0) if self.simulated else None
        return read_journal(self.run.path, files, self.of.clocks, origin, self.gaps)

    def gaps(self, only: Callable[[str], bool] = lambda name: True) -> list[str]:
        """What was not kept of these files of the nodes, all of them where nothing else is said."""
        return [] if self.meta.logs is None else self.meta.logs.gaps(only)

    @property
    def told(self) -> Journal:
        """The journal, for signs that need it."""
        found = self.journal
        assert isinstance(found, Journal), found
        return found

    @cached_property
    def effects(self) -> dict[str, list[Applied]]:
        """By node what it wrote down of its effects, in its order."""
        form = self.traits.effects
        found: dict[str, list[Applied]] = {}
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
                    found[node].append(Applied(index, effect, raw, f"{shown}:{number}"))
        return found

    @cached_property
    def _traces(self) -> traces.OfRun:
        return traces.of_run(self.run.path)

    @property
    def spans_missing(self) -> str:
        return self._traces.why

    @property
    def spans(self) -> list[Span]:
        """Of servers and of the operations that they were for."""
        return [one for one in self._traces.spans if not isinstance(one, Message)]

    @cached_property
    def _sampled(self) -> tuple[list[Series], str]:
        return read_series(self.run.path)

    @property
    def series(self) -> list[Series]:
        """Samples of figures."""
        return self._sampled[0]

    @property
    def series_lost(self) -> str:
        """Why samples that there are cannot be read; empty where they can."""
        return self._sampled[1]

    def figures(self, *names: str) -> list[Series]:
        """Those of these names."""
        return [one for one in self.series if one.name in names]

    @cached_property
    def _host(self) -> Series | None:
        """CPU seconds that the host has used, as it was sampled."""
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

    def host_busy(self, begin_ns: int, end_ns: int) -> float | None:
        """Share of the host's CPUs that were in use then; None where nobody measured."""
        cpus = self.meta.host.cpus if self.meta.host is not None else None
        if self._host is None or not cpus:
            return None
        rows = [
            (at, used)
            for at, used in zip(self._host.times_ns, self._host.values, strict=True)
            if begin_ns <= at <= end_ns
        ]
        if len(rows) < 2 or rows[-1][0] == rows[0][0]:
            return None
        return (rows[-1][1] - rows[0][1]) / ((rows[-1][0] - rows[0][0]) / 1e9) / cpus

    @cached_property
    def verdict(self) -> dict[str, Any]:
        """verdict.json, empty where the run was not judged."""
        found = self.run.read_json("verdict.json")
        return found if isinstance(found, dict) else {}

    @cached_property
    def judged(self) -> dict[str, CheckResult]:
        """What each checker answered."""
        try:
            return {
                name: msgspec.convert(plain, CheckResult)
                for name, plain in (self.verdict.get("checkers") or {}).items()
                if plain is not None
            }
        except msgspec.ValidationError as error:
            raise EvidenceError(
                f"{self.run.path / 'verdict.json'} cannot be read: {error}",
                remedy="judge it again with `dstest recover RUN`",
            ) from None

    @cached_property
    def findable(self) -> frozenset[str]:
        """Kinds of anomalies that checkers of this run have shown to find: in it, or in a broken
        copy of it (canary.json)."""
        told = self.run.read_json("canary.json")
        rows = told.get("details") if isinstance(told, dict) else None
        caught = [kind for one in rows or () for kind in one.get("caught") or ()]
        return frozenset([*caught, *(one.kind for one in self.findings)])

    @cached_property
    def findings(self) -> list[Judged]:
        """What checkers found, by kind; each kind of each checker."""
        return [
            Judged(name, kind, count, result.anomalies.get(kind, []))
            for name, result in self.judged.items()
            for kind, count in sorted(result.counted.items())
            if count
        ]


def writes(op: Op) -> bool:
    """Did it ask for a change? Of a transaction, does any part of it?"""
    if op.op_type == "txn" and isinstance(op.input, list):
        return any(isinstance(part, list) and part and part[0] != "r" for part in op.input)
    return op.input is not None and not op.op_type.startswith(("read", "get", "peek", "poll"))
