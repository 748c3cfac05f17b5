"""`RunReport`: everything that a report shows, gathered once and rendered many ways.

Built from a run directory's files: run.json, faults.jsonl, history.jsonl, verdict.json, and
metrics/baseline.json of a run that was sampled.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final, TypeVar

import msgspec

from dstest.core.check import Anomaly, CheckResult
from dstest.core.errors import ConfigError, EvidenceError
from dstest.core.evidence import (
    AuditRow,
    BlameProbe,
    Canary,
    Evidence,
    FaultDetails,
    LandingRecord,
    Rerun,
    Signal,
    point_counts,
)
from dstest.core.history import FaultWindow, History, Recovery, kind_of, starts_of, window_of
from dstest.core.run_record import RunMeta
from dstest.core.run_words import command_of, with_lab
from dstest.core.summary import TypeRow
from dstest.core.verdict import Brief, State, Verdict
from dstest.debug.monitor.alerts import Alert, severe
from dstest.debug.monitor.analysis import alert_line
from dstest.debug.monitor.baseline import Baseline, ClusterHealth
from dstest.debug.monitor.client import BASELINE
from dstest.history.jsonl import read_history
from dstest.history.layout import FAULTS, VERDICT, RunDir, read_records, read_verdict
from dstest.judge.audit import TITLES, too_good
from dstest.judge.blame import SUT, blame
from dstest.judge.decide import session
from dstest.report.numbers import (
    Load,
    NodeRow,
    by_node,
    by_type,
    lateness_text,
    load_of,
    number,
    seconds,
)
from dstest.report.remedies import (
    Remedy,
    Step,
    after_failure,
    before_load,
    remedies,
    without_method,
)
from dstest.report.service import UNSUPPORTED, ErrorRow, unusual

ALERTS_MAX: Final = 30
POINTS_TOLD: Final = 5

T = TypeVar("T")

MEANING: Final = {
    State.PASS_SMOKE: "The harness works and nothing broke in this run. No proof of robustness.",
    State.PASS_HARDENING: "The system kept its promise under faults that are proven to have "
    "landed, for as long and as often as the hardening budget asks.",
    State.FAIL_REPRODUCIBLE: "The system did what it must not, and does so again on the same seed.",
    State.FAIL_NONDETERMINISTIC: "The system did what it must not, in this run. It has not been "
    "shown to do so again on the same seed.",
    State.INCONCLUSIVE_ENV: "The environment lacks something that the run needs.",
    State.INCONCLUSIVE_ORACLE: "The record of this run cannot tell right from wrong.",
    State.INCONCLUSIVE_FAULT: "A planned fault is not proven to have landed, so a clean result "
    "says nothing about it.",
    State.PARTIAL_SURFACE: "No obvious regression; the declared checker did not judge the run.",
    State.PARTIAL_MODEL: "Part of what was planned was judged, and found clean. Not a pass.",
    State.NOT_RUN: "The run was planned and never tried.",
}

_STOPPED: Final = "stopped by SIG"

CUT_SHORT: Final = (_STOPPED, "cannot record: no space left")
"""How it begins what ended a run that a person, or a full disk, has ended."""


class BaselineView(msgspec.Struct, frozen=True, kw_only=True):
    """Of `metrics/baseline.json` what a report shows."""

    baseline: Baseline
    alerts: list[Alert]
    health: ClusterHealth

    @property
    def severe(self) -> list[Alert]:
        """High or critical, and no proven fault explains it."""
        return severe(self.alerts)


def read_baseline(run: Path | None) -> BaselineView | None:
    """None of a run that was not sampled. Raises EvidenceError for a file that cannot be read."""
    if run is None or not (run / BASELINE).is_file():
        return None
    try:
        return msgspec.json.decode((run / BASELINE).read_bytes(), type=BaselineView)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise EvidenceError(
            f"{run / BASELINE} cannot be read: {error}",
            remedy="judge the run again with `dstest recover RUN`",
        ) from None


def alert_lines(found: BaselineView) -> list[str]:
    """Sentences: the baseline, health, and alerts, those that nothing explains first."""
    b = found.baseline
    lines = [f"Baseline: {b.status}, {b.said}."]
    if b.status != "none":
        lines[0] += f" {b.throughput:,.1f}/s, p95 {b.p95_ms:,.1f} ms, p99 {b.p99_ms:,.1f} ms."
    if found.health.score is not None:
        lines.append(
            f"Health at the end of the load: {found.health.score:g}, {found.health.healthy} of "
            f"{found.health.measured} nodes healthy; {found.health.measured_said}."
        )
    rows = sorted(found.alerts, key=lambda alert: alert.expected)
    lines += [f"Alert: {alert_line(alert)}." for alert in rows[:ALERTS_MAX]]
    if len(rows) > ALERTS_MAX:
        lines.append(f"{len(rows) - ALERTS_MAX} more alerts are in {BASELINE}.")
    return lines if rows else [*lines, "No alert."]


class SignalView(msgspec.Struct, frozen=True, kw_only=True):
    """A signal as a table: `rows` are (path, before, during, after), ready to print."""

    role: str
    signal: str
    moved: bool
    detail: str
    rows: list[tuple[str, str, str, str]]


class FaultView(msgspec.Struct, frozen=True, kw_only=True):
    """A landing record, ready to print. `landed` is what the judge made of it; `window` is None
    where the fault was never injected."""

    id: str
    nemesis: str
    kind: str
    targets: str
    landed: str
    injected_s: str
    landed_after_ms: str
    healed_s: str
    heal_verified: bool
    residue: list[str]
    notes: list[str]
    looks: str
    signals: list[SignalView]
    points: list[tuple[str, str, str, str]]
    """Of points of programs that were counted: (member, armed, reached, the most frequent ones)."""

    window: FaultWindow | None


class AuditView(msgspec.Struct, frozen=True, kw_only=True):
    """One audit row with its title."""

    id: str
    title: str
    status: str
    evidence: str


def steps_after(path: str, meta: RunMeta, rerun: Rerun, *, blamed: bool) -> list[Step]:
    """What to do after the failure of the run at `path`. `blamed`: whose fault it is was asked
    already."""
    spec = with_lab(meta.spec, meta.lab_id)
    again = rerun.same_seed_runs > 0
    gone = again and not rerun.reproduced
    given = meta.options_given
    return after_failure(spec, path, given=given, blamed=blamed, again=again, gone=gone)


class RunReport(msgspec.Struct, frozen=True, kw_only=True):
    """One run. `meta` is run.json."""

    run: str
    path: str
    verdict: Verdict
    evidence: Evidence
    meaning: str
    session: str
    history: History
    faults: list[FaultView]
    results: dict[str, CheckResult]
    audit: list[AuditView]
    notices: list[str]
    lints: list[tuple[str, str, str]]
    types: list[TypeRow]
    lateness: str | None
    nodes: list[NodeRow]
    errors: list[ErrorRow]
    canary: Canary
    command: str
    meta: RunMeta
    records: list[LandingRecord] = []
    measured: BaselineView | None = None

    @property
    def state(self) -> State:
        return self.verdict.verdict

    @property
    def shown(self) -> str:
        """Its state as people are told it."""
        return self.verdict.shown

    @property
    def load_end_ns(self) -> int | None:
        """When the load was told to end; None where a run did not come to that."""
        return self.meta.load_end_ns if isinstance(self.meta.load_end_ns, int) else None

    @property
    def windows(self) -> list[FaultWindow]:
        """Of the faults that were injected."""
        return [fault.window for fault in self.faults if fault.window is not None]

    @property
    def remedies(self) -> list[Remedy]:
        """What keeps the verdict from the next better one, each with the command against it."""
        if self.meta.ended_by and not self.history.ops:
            return before_load(self.meta.ended_by, self.command)
        given, spec = self.meta.options_given, with_lab(self.meta.spec, self.meta.lab_id)
        found = remedies(self.verdict.why_not_better, spec, given, self.path)
        lacking = [
            row.op_type
            for row in self.errors
            if any(error.text.startswith(UNSUPPORTED) for error in row.texts)
        ]
        return without_method(found, lacking)

    def steps(
        self, more: Mapping[str, BlameProbe] | None = None, *, asked: bool = False
    ) -> list[Step]:
        """What to do after its failure; none where it has not failed. `more` are results of probes
        that were run apart, `asked`: whose fault it is was, whatever came of it."""
        if not self.state.failed:
            return []
        blamed = asked or blame(self.evidence, more) == SUT
        return steps_after(self.path, self.meta, self.evidence.rerun, blamed=blamed)

    @property
    def landed(self) -> int:
        """Faults whose landing is proven."""
        return sum(1 for fault in self.evidence.faults if fault.landed == "yes")

    @property
    def outcomes(self) -> dict[str, int]:
        """Operations by outcome."""
        totals = Counter[str]()
        for row in self.types:
            totals.update(ok=row.ok, fail=row.fail, unknown=row.unknown)
        return {name: totals[name] for name in ("ok", "fail", "unknown")}

    @property
    def load(self) -> Load:
        """The load without final reads."""
        return load_of(self.history.ops, self.load_end_ns)

    @property
    def load_s(self) -> float:
        """How long the load lasted."""
        return self.load.lasted_s

    @property
    def per_s(self) -> float:
        """Operations per second of load."""
        return self.load.per_s

    @property
    def anomalies(self) -> list[tuple[str, Anomaly]]:
        """(checker, anomaly) of every violation found."""
        return [
            (name, anomaly)
            for name, result in self.results.items()
            if result.valid is False
            for found in result.anomalies.values()
            for anomaly in found
        ]


def _signal(role: str, signal: Signal) -> SignalView:
    paths = list(dict.fromkeys([*signal.before, *signal.during, *signal.after]))
    return SignalView(
        role=role,
        signal=signal.signal,
        moved=signal.moved,
        detail=signal.detail,
        rows=[
            (
                path,
                number(signal.before.get(path)),
                number(signal.during.get(path)),
                number(signal.after.get(path)),
            )
            for path in paths
        ],
    )


def _fault(
    record: LandingRecord,
    evidence: Evidence,
    recoveries: Sequence[Recovery],
    starts: Sequence[int],
) -> FaultView:
    # The judge may have demoted the record; what it said is what counts.
    judged = next((f for f in evidence.faults if f.id == record.fault_id), None)
    landed = record.landed if judged is None else judged.landed
    looks = FaultDetails.of(record).rechecks
    there = sum(1 for look in looks if look.get("present"))
    after_ns = (
        None
        if record.landed_at is None or record.injected_at is None
        else record.landed_at - record.injected_at
    )
    notes = list(record.notes)
    if judged is not None and judged.landed != "yes" and judged.why and judged.why not in notes:
        notes.append(judged.why)
    return FaultView(
        id=record.fault_id,
        nemesis=record.nemesis,
        kind=kind_of(record),
        targets=", ".join(record.targets) or "-",
        landed=landed,
        injected_s=seconds(record.injected_at),
        landed_after_ms="-" if after_ns is None else f"{after_ns / 1e6:,.0f}",
        healed_s=seconds(record.healed_at),
        heal_verified=record.heal_verified,
        residue=record.residue,
        notes=notes,
        looks=f"{there} of {len(looks)}" if looks else "none",
        signals=[
            _signal(role, signal)
            for role in ("injector", "victim", "control")
            if (signal := getattr(record, role)) is not None
        ],
        points=[
            (name, number(count.armed), number(len(count.reached)), _most(count.reached))
            for name, count in point_counts(record).items()
        ],
        window=window_of(record, recoveries, starts, landed),
    )


def _most(reached: Mapping[str, int]) -> str:
    """The first ones, in a line."""
    told = [f"{name} ({count:,})" for name, count in [*reached.items()][:POINTS_TOLD]]
    return ", ".join(told) + (", .." if len(reached) > POINTS_TOLD else "")


def _audit(evidence: Evidence) -> list[AuditView]:
    rows = evidence.redflags | evidence.weak_audit
    absent = AuditRow(status="short", evidence="the audit has no such row")
    return [
        AuditView(
            id=name,
            title=title,
            status=rows.get(name, absent).status,
            evidence=rows.get(name, absent).evidence,
        )
        for name, title in TITLES.items()
    ]


def _meaning(state: State, rerun: Rerun, promised: Sequence[str]) -> str:
    if promised and state.failed:
        return (
            "It is not what the run was held to. With these settings the system documents that it"
            f" promises {' or '.join(promised)} only; whether it broke that as well, no checker of"
            " this run has judged."
        )
    if state is not State.FAIL_NONDETERMINISTIC:
        return MEANING[state]
    if rerun.same_seed_runs:
        return f"The system did what it must not; {rerun.said}."
    return (
        "The system did what it must not. Nobody has run the same seed again yet, so how often it "
        "does so is not known."
    )


def build_report(
    verdict: Verdict,
    records: list[LandingRecord],
    history: History,
    meta: RunMeta,
    *,
    path: Path | None = None,
) -> RunReport:
    """Gather what the reports show. `meta` is run.json."""
    evidence = verdict.evidence
    canary = verdict.canary or Canary(
        killed=evidence.checker.canary_killed, total=evidence.checker.canary_total
    )
    notice = too_good(evidence.redflags | evidence.weak_audit)
    lint = evidence.history_lint
    starts = starts_of(records)
    notices = _ended_early(meta, records, history)
    notices += [notice] if notice else []
    if evidence.checker.result == "clean" and evidence.checker.why:
        notices.append(f"Found clean, and not sure of everything: {evidence.checker.why}")
    return RunReport(
        run=history.header.run or (path.name if path else "run"),
        path=str(path) if path else ".",
        verdict=verdict,
        evidence=evidence,
        meaning=_meaning(
            verdict.verdict,
            evidence.rerun,
            [] if evidence.symptom is None else evidence.symptom.documented,
        ),
        session=session([verdict.verdict]),
        history=history,
        faults=[_fault(record, evidence, meta.recoveries or (), starts) for record in records],
        results={
            name: msgspec.convert(value, CheckResult) for name, value in verdict.checkers.items()
        },
        audit=_audit(evidence),
        notices=notices,
        lints=[
            (severity, name, said)
            for severity in ("corrupt", "weak", "warning")
            for name, said in getattr(lint, severity).items()
        ],
        types=by_type(history),
        lateness=lateness_text(history),
        nodes=by_node(history),
        errors=unusual(history),
        canary=canary,
        command=command_of(with_lab(meta.spec, meta.lab_id), meta.options_given),
        meta=meta,
        records=records,
        measured=read_baseline(path),
    )


def _ended_early(meta: RunMeta, records: Sequence[LandingRecord], history: History) -> list[str]:
    by = meta.ended_by
    if not by:
        return []
    if not by.startswith(_STOPPED):
        return [f"The run ended early: {by}"]
    stand = [r.fault_id for r in records if r.injected_at is not None and not r.heal_verified]
    healed = f"the heal of {', '.join(stand)} is not proven" if stand else "nodes healed"
    asked_s = max((op.invoke_ts for op in history.ops), default=0) / 1e9
    return [f"Interrupted after {asked_s:.0f} s; {healed} ({by})."]


def _not_there(path: Path) -> ConfigError:
    return ConfigError(
        f"{path.parent} has no {path.name}",
        remedy="give a run directory that was judged; `dstest recover RUN` judges one",
    )


def _reading(path: Path, read: Callable[[Path], T]) -> T:
    """Raises ConfigError where a run was never judged, or its file cannot be read."""
    try:
        return read(path.parent)
    except FileNotFoundError:
        raise _not_there(path) from None
    except (OSError, msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise ConfigError(
            f"{path}: {error}", remedy="judge the run again with `dstest recover RUN`"
        ) from None


def load_brief(path: Path) -> Brief:
    """The verdict of a run directory without what it stands on, read in no time. Raises
    ConfigError where it was never judged."""

    def brief(run: Path) -> Brief:
        return msgspec.json.decode((run / VERDICT).read_bytes(), type=Brief)

    return _reading(path / VERDICT, brief)


def load_report(path: Path) -> RunReport:
    """The report of a run directory. Raises ConfigError where it was never judged."""
    path = path.resolve()
    verdict = _reading(path / VERDICT, read_verdict)
    meta = RunDir(path).read_meta()
    if meta is None:
        raise _not_there(path / "run.json")
    history = read_history(path / "history.jsonl")
    records = _reading(path / FAULTS, read_records)
    return build_report(verdict, records, history, meta, path=path)
