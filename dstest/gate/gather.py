"""All evidence of some stores, each run judged again or believed; what is wrong with it, as
findings.

A run is what its record gives (`runner/integrity.py`), a session what its runs give, a plan what
its steps give. What does not hold is a finding and counts for nothing. A run without a verdict in
which a judge found an anomaly does not merely prove nothing: somebody has to look at it, so no risk
accepts it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final

import msgspec

from dstest import __version__
from dstest.campaign.session_check import arm_evidence, reread
from dstest.core import registry
from dstest.core.check import kinds_in
from dstest.core.errors import ConfigError, DstestError
from dstest.core.evidence import Evidence, Tier
from dstest.core.history import ClockSource
from dstest.core.run_record import RunMeta
from dstest.core.verdict import State, Verdict
from dstest.gate.policy import Finding, Rule
from dstest.history.layout import RunDir, read_verdict
from dstest.history.sums import SUMS
from dstest.judge.decide import aggregate_seeds, decide
from dstest.judge.session import evidence_among
from dstest.plans.execution.state import ExecutionDir
from dstest.plans.review.gather import review_again
from dstest.report.review.model import Report
from dstest.runner.integrity import (
    Again,
    code_of,
    intact,
    is_finished,
    judged_again,
    judged_aside,
    read_statement,
)
from dstest.runner.session_file import SessionDir, SessionFile
from dstest.store.inventory import (
    Kind,
    StorePlace,
    Stray,
    asked_anything,
    left_out,
    never_started,
    walk,
)

__all__ = [
    "JudgedRun",
    "Unit",
    "gather",
    "judge_dead_run",
    "judge_run",
    "stores_of",
]

_ODD: Final = {"link": "G04", "cut": "G03", "orphan": "G05", "unreadable": "G01", "night": "G03"}
"""What should not be there, and does harm."""


class JudgedRun(msgspec.Struct, frozen=True, kw_only=True):
    """A run as its evidence gives it. `evidence` is that among the arms of its session, `passes`
    whether it ended by itself with a pass, `digest` the sha256 of its check sums, `asides` what is
    kept beside it, `otherwise` how it was judged again where that differs. One that is not `over`
    died, and nothing is there of it but its record; one that has not `asked` its system for
    anything can have found nothing."""

    path: Path
    meta: RunMeta
    verdict: Verdict
    evidence: Evidence
    passes: bool
    digest: str
    asides: tuple[Path, ...] = ()
    over: bool = True
    asked: bool = True
    otherwise: str = ""

    @property
    def by_us(self) -> bool:
        """Was it judged by this version, so that it could be judged again to the letter?"""
        return self.meta.host is not None and self.meta.host.dstest == __version__


class Unit(msgspec.Struct, frozen=True, kw_only=True):
    """A run by itself, or a session. `runs` count; `earlier` are attempts that were repeated.
    `state` and `met` are those of the whole."""

    path: Path
    kind: Kind
    runs: tuple[JudgedRun, ...]
    state: State
    met: Tier
    reason: str
    earlier: tuple[JudgedRun, ...] = ()

    @property
    def every(self) -> tuple[JudgedRun, ...]:
        return (*self.runs, *self.earlier)

    @property
    def failed(self) -> bool:
        """Has any run of it found a violation?"""
        return self.state.failed or any(run.verdict.verdict.failed for run in self.every)

    @property
    def begun(self) -> bool:
        """Has any run of it asked for something, or come to a verdict all the same?"""
        return any(run.over or run.asked for run in self.every)

    @property
    def passes(self) -> bool:
        return self.state.passed and all(run.passes for run in self.runs)


class JudgedPlan(msgspec.Struct, frozen=True, kw_only=True):
    """An executed plan: the digest of its file, its budget, its report made anew, and the runs and
    sessions that count of its steps. `reds` are those that were to fail by a bug that the plan
    names, and did."""

    path: Path
    slug: str
    sha256: str
    budget: str
    report: Report
    results: tuple[Path, ...]
    reds: tuple[Path, ...] = ()


class StoreEvidence(msgspec.Struct, frozen=True, kw_only=True):
    """`never_started` are the runs and sessions that died before they asked for anything. They are
    among the units too, where they say what they would have been. `same` are runs that are one
    simulation, made again and again. `notes` say what is left out."""

    units: tuple[Unit, ...]
    plans: tuple[JudgedPlan, ...]
    findings: tuple[Finding, ...]
    never_started: tuple[Path, ...] = ()
    same: tuple[frozenset[Path], ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def runs(self) -> tuple[JudgedRun, ...]:
        return tuple(run for unit in self.units for run in unit.every)


class BrokenEvidence(Exception):
    """What is wrong with a directory; it counts for nothing. Nothing is wrong with one that never
    started, and does not say what it would have been."""

    def __init__(self, *findings: Finding) -> None:
        super().__init__()
        self.findings = findings


def unit_of(run: JudgedRun) -> Unit:
    """A run by itself."""
    return Unit(
        path=run.path,
        kind="run",
        runs=(run,),
        state=run.verdict.verdict,
        met=run.evidence.budget.met,
        reason=run.verdict.reason,
    )


def never_started_run(path: Path, meta: RunMeta | None, why: str) -> JudgedRun:
    """A run or session that died before it asked for anything."""
    if meta is None:
        raise BrokenEvidence
    verdict = decide(Evidence(attempted=False))
    reason = f"it never began to ask for anything ({why or 'no status'})"
    return JudgedRun(
        path=path,
        meta=meta,
        verdict=msgspec.structs.replace(verdict, reason=reason),
        evidence=verdict.evidence,
        passes=False,
        digest="",
        over=False,
        asked=False,
    )


def meta_of(file: SessionFile) -> RunMeta:
    """What a run of the session would have written down first, as far as the session knows it."""
    try:
        workload = registry.load("workloads", file.spec.workload)
    except DstestError:
        raise BrokenEvidence from None  # then it is about nothing that a policy can ask for
    return RunMeta(
        spec=msgspec.to_builtins(file.spec),
        options_given=file.options_given,
        model=file.spec.model or workload.model,
        checkers=[*workload.checkers, *file.spec.checkers],
        nodes=[f"n{number + 1}" for number in range(file.spec.nodes)],
        faults_planned=0,
        clock=ClockSource(),
        started=file.started,
    )


def anomalies_in(verdict: Verdict) -> set[str]:
    """The types of anomalies that any judge of a run found."""
    return kinds_in(verdict.checkers)


def unproven(runs: Iterable[JudgedRun], of: str = "") -> list[Finding]:
    """The runs without a verdict in which a judge found an anomaly."""
    return [f for run in runs for f in UNPROVEN.findings(run.verdict, of, run.path)]


def is_unproven(verdict: Verdict) -> bool:
    """Did a judge find an anomaly in a run that came to no verdict?"""
    state = verdict.verdict
    return (
        not state.passed and not state.failed and (verdict.evidence.violation or _judges(verdict))
    )


def _judges(verdict: Verdict) -> bool:
    return any(row.get("valid") is False for row in verdict.checkers.values())


def _anomalies(verdict: Verdict) -> Iterator[str]:
    if not is_unproven(verdict):
        return
    judges = sorted(n for n, row in verdict.checkers.items() if row.get("valid") is False)
    named = ", ".join(sorted(anomalies_in(verdict))) or verdict.evidence.violation_fingerprint
    by = f" by {', '.join(judges)}" if judges else ""
    yield (
        f"an anomaly was found{by}: {named or 'without a name'}; and it came to no verdict"
        f" ({verdict.verdict.value}: {verdict.reason})"
    )


UNPROVEN: Final = Rule(
    "G37", "In no run that came to no verdict did a checker find an anomaly", _anomalies
)


def stores_of(paths: Sequence[Path]) -> list[Path]:
    """The directories, each once. Raises ConfigError where one is given twice, by whatever name,
    or lies in another."""
    found: list[Path] = []
    for path in paths:
        real = path.resolve()
        for other in found:
            if real.is_relative_to(other) or other.is_relative_to(real):
                raise ConfigError(
                    f"{path} is given twice, or lies within {other}", remedy="give each store once"
                )
        found.append(real)
    return found


def gather(
    stores: Sequence[Path], again: Again, tell: Callable[[str], None] = lambda what: None
) -> StoreEvidence:
    """What lies in these stores, each run judged again as far as `again` says. `tell` is told what
    is looked at now."""
    units: list[Unit] = []
    plans: list[JudgedPlan] = []
    findings: list[Finding] = []
    never: list[Path] = []
    notes: list[str] = []
    for store in stores_of(stores):
        walked = walk(store)
        notes += left_out(walked.odd)
        findings += [_stray(one) for one in walked.odd if one.why in _ODD]
        sessions = {place.path for place in walked.places if place.kind == "session"}
        for number, place in enumerate(walked.places, 1):
            tell(f"{store}: {number} of {len(walked.places)}, {place.path.name}")
            if place.within in sessions or place.kind == "night":
                continue  # of a night each run is judged by itself
            try:
                if place.kind == "plan":
                    plans.append(_plan(place.path))
                else:
                    units.append(_unit(place, walked.places, again))
            except PermissionError as error:
                what = f"{error.filename or place.path} cannot be read: {error.strerror}"
                findings.append(Finding(rule="G01", what=what, where=str(place.path)))
            except BrokenEvidence as broken:
                findings += broken.findings
                if not broken.findings:
                    never.append(place.path)
    never += [unit.path for unit in units if not unit.begun]
    return StoreEvidence(
        units=tuple(units),
        plans=tuple(plans),
        findings=tuple(findings),
        never_started=tuple(never),
        notes=tuple(notes),
    )


def _stray(found: Stray) -> Finding:
    return Finding(rule=_ODD[found.why], what=found.told, where=str(found.path))


def _unit(place: StorePlace, places: Sequence[StorePlace], again: Again) -> Unit:
    if place.kind == "session":
        return _session(place.path, places, again)
    return unit_of(judge_run(place, again))


def _read(seen: tuple[Path, DstestError | str]) -> list[str]:
    """What reading a directory came upon, or was refused by."""
    path, why = seen
    what = why if isinstance(why, str) else why.message
    return [what.removeprefix(f"{path}: ").removeprefix(f"{path} ")]


RULES: Final = (
    Rule("G01", "No file is other than when its run was summed up", _read),
    Rule("G02", "Each verdict, report and derived file is what the record gives", _read),
    Rule("G03", "Every run, session and plan came to its end, and nothing of one is gone", _read),
    Rule("G08", "Each session is all of its own runs, and says what they give", _read),
    Rule("G09", "The findings report of a plan is what its runs give", _read),
)
"""Reading goes no further than where one of them is broken."""


def _broken(id_: str, path: Path, why: DstestError | str) -> BrokenEvidence:
    return BrokenEvidence(
        *(Finding(rule=id_, what=what, where=str(path)) for what in _read((path, why)))
    )


def judge_run(place: StorePlace, again: Again) -> JudgedRun:
    """Raises Broken where the run is not what it left."""
    path = place.path
    try:
        run = RunDir.open(path)
        meta = run.read_meta()
    except DstestError as error:
        raise _broken("G01", path, error) from None
    if not is_finished(run) and never_started(path):
        return never_started_run(path, meta, run.status())
    if meta is None or not is_finished(run):
        raise _broken("G03", path, f"it was not judged to its end ({run.status() or 'no status'})")
    try:
        intact(run)
    except DstestError as error:
        raise _broken("G01", path, error) from None
    verdict, otherwise = _verdict(run, meta, again)
    return JudgedRun(
        path=path,
        meta=meta,
        verdict=verdict,
        evidence=verdict.evidence,
        passes=verdict.verdict.passed and code_of(verdict, meta) == 0,
        digest=hashlib.sha256((path / SUMS).read_bytes()).hexdigest(),
        asides=place.asides,
        asked=asked_anything(path),
        otherwise=otherwise,
    )


def _verdict(run: RunDir, meta: RunMeta, again: Again) -> tuple[Verdict, str]:
    """Its verdict, judged again as far as that is asked for, and how that differs from what it was.
    One that another version judged otherwise stays as it is: it counts for nothing (G12), unless it
    is a violation."""
    ours = meta.host is not None and meta.host.dstest == __version__
    try:
        kept = read_statement(run)
        found = kept.verdict if again == "no" else judged_again(run, kept, again)
        now, before = found.verdict.value, kept.verdict.verdict.value
        return found, "" if now == before else f"judged again it is {now}, and was {before}"
    except ConfigError as error:
        raise _broken("G15", run.path, error) from None
    except DstestError as error:
        if ours:
            raise _broken("G02", run.path, error) from None
        otherwise = error.message.removeprefix(f"{run.path}: ")
    try:
        return read_verdict(run.path), otherwise
    except (OSError, msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise _broken("G12", run.path, f"verdict.json cannot be read: {error}") from None


def _session(path: Path, places: Sequence[StorePlace], again: Again) -> Unit:
    """Raises Broken where it, or a run of it, is not what it left."""
    try:
        directory = SessionDir.open(path)
        file = directory.read()
    except DstestError as error:
        raise _broken("G08", path, error) from None
    mine = [place for place in places if place.within == path and place.kind == "run"]
    if file.verdict is None:
        if not any(asked_anything(place.path) for place in mine):
            return unit_of(never_started_run(path, meta_of(file), "the session is not over"))
        raise _broken("G03", path, "the session is not over")
    runs: dict[Path, JudgedRun] = {}
    findings: list[Finding] = []
    for place in mine:
        try:
            found = (
                judge_run(place, again)
                if is_finished(RunDir(place.path))
                else judge_dead_run(place)
            )
            if found is not None:
                runs[place.path] = found
        except BrokenEvidence as broken:
            findings += broken.findings
    if findings:
        raise BrokenEvidence(*findings)
    try:
        directory.intact()
    except DstestError as error:
        raise _broken("G01", path, error) from None
    return _whole(directory, file, runs)


def judge_dead_run(place: StorePlace) -> JudgedRun | None:
    """An attempt that died, and was repeated, judged from what it had recorded: a violation in it
    is one. None where it had not begun to ask for anything."""
    run = RunDir(place.path)
    if never_started(place.path):
        return None
    try:
        meta = run.read_meta()
        with judged_aside(run) as (judged, _):
            verdict = judged.verdict
    except DstestError as error:
        raise _broken("G03", place.path, error) from None
    assert meta is not None
    return JudgedRun(
        path=place.path,
        meta=meta,
        verdict=verdict,
        evidence=verdict.evidence,
        passes=False,
        digest="",
        over=False,
    )


def _whole(directory: SessionDir, file: SessionFile, runs: dict[Path, JudgedRun]) -> Unit:
    path = directory.path
    try:
        judged = reread(path).verdict
        among = evidence_among([arm_evidence(directory, arm) for arm in file.arms], file.tier)
    except DstestError as error:
        if all(run.by_us for run in runs.values()):
            raise _broken("G08", path, error) from None
        return _unit_of_others(path, runs)
    assert judged is not None
    if file.spec.seed not in {arm.seed for arm in file.arms}:
        what = f"its first seed was {file.spec.seed}, and no arm of it has that"
        raise _broken("G08", path, what)
    counting = []
    for arm in file.arms:
        run = runs.get((path / arm.attempts[-1]).resolve()) if arm.attempts else None
        if run is not None:
            evidence = among.get(arm.id, run.evidence)
            counting.append(msgspec.structs.replace(run, evidence=evidence))
    if not counting:
        raise _broken("G03", path, "no run of the session counts")
    counted = {run.path for run in counting}
    return Unit(
        path=path,
        kind="session",
        runs=tuple(counting),
        earlier=tuple(run for where, run in runs.items() if where not in counted),
        state=judged.state,
        met=judged.tier_met,
        reason=judged.reason,
    )


def _unit_of_others(path: Path, runs: dict[Path, JudgedRun]) -> Unit:
    """A session that another version judged: the worst of its runs."""
    state = aggregate_seeds([run.verdict.verdict for run in runs.values()] or [State.NOT_RUN])
    return Unit(
        path=path,
        kind="session",
        runs=tuple(runs.values()),
        state=state,
        met="none",
        reason="another version of dstest judged it",
    )


def _plan(path: Path) -> JudgedPlan:
    """Raises Broken where its report is not what its runs give, or it did not come to its end."""
    try:
        directory = ExecutionDir.open(path)
        execution = directory.read()
        report, broken = review_again(directory)
    except DstestError as error:
        raise _broken("G09", path, error) from None
    if not execution.outcome or report.pending:
        raise _broken("G03", path, "the plan is not over")
    if broken:
        raise BrokenEvidence(
            *(Finding(rule="G09", what=f"{b.rule}: {b.what}", where=str(path)) for b in broken)
        )
    return JudgedPlan(
        path=path,
        slug=execution.slug,
        sha256=execution.plan_sha256,
        budget=execution.budget,
        report=report,
        results=tuple(
            found.resolve()
            for step in execution.steps
            if step.side == "green" and (found := directory.result_of(step))
        ),
        reds=tuple(Path(name).resolve() for name in report.red_results),
    )
