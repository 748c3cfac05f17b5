"""All evidence of some stores, each verdict judged again; what is wrong with it, as findings.

Nothing is taken from what a file says about itself: a run is what its record gives
(`runner/integrity.py`), a session what its runs give (`judge/session.py`), a plan what its steps
give (`plans/review/gather.py`). What does not hold is a finding and counts for nothing.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path

import msgspec

from dstest import __version__
from dstest.core.errors import ConfigError, DstestError
from dstest.core.evidence import Evidence, Tier
from dstest.core.run_meta import RunMeta
from dstest.core.verdict import State, Verdict
from dstest.gate.rules import Finding
from dstest.judge.decide import aggregate_seeds
from dstest.judge.session import evidence_among
from dstest.plans.execution.state import ExecutionDir
from dstest.plans.review.write import reviewed
from dstest.report.review.model import Report
from dstest.retention.walk import Kind, Odd, Place, walk
from dstest.runner.integrity import code_of, finished, intact, judged_aside, verified
from dstest.runner.session_check import arm_evidence, reread
from dstest.runner.session_file import SessionDir, SessionFile
from dstest.store.layout import RunDir
from dstest.store.sums import SUMS

__all__ = ["Gathered", "JudgedPlan", "JudgedRun", "Unit", "gather", "stores_of"]

_ODD = {
    "link": ("G04", "a symbolic link stands in the store"),
    "cut": ("G03", "a part of a run lies here, and its segments are gone"),
    "orphan": ("G05", "it is named as if it belonged to a run that is not there"),
}


class JudgedRun(msgspec.Struct, frozen=True, kw_only=True):
    """A run as its evidence gives it. `evidence` is that among the arms of its session, `passes`
    whether it ended by itself with a pass, `digest` the sha256 of its check sums, `asides` what is
    kept beside it. One that is not `over` died, and nothing is there of it but its record."""

    path: Path
    meta: RunMeta
    verdict: Verdict
    evidence: Evidence
    passes: bool
    digest: str
    asides: tuple[Path, ...] = ()
    over: bool = True

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
    def passes(self) -> bool:
        return self.state.passed and all(run.passes for run in self.runs)


class JudgedPlan(msgspec.Struct, frozen=True, kw_only=True):
    """An executed plan: the digest of its file, its budget, its report made anew, and the runs and
    sessions that count of its steps."""

    path: Path
    slug: str
    sha256: str
    budget: str
    report: Report
    results: tuple[Path, ...]


class Gathered(msgspec.Struct, frozen=True, kw_only=True):
    units: tuple[Unit, ...]
    plans: tuple[JudgedPlan, ...]
    findings: tuple[Finding, ...]

    @property
    def runs(self) -> tuple[JudgedRun, ...]:
        return tuple(run for unit in self.units for run in unit.every)


class _Broken(Exception):
    """What is wrong with a directory; it counts for nothing."""

    def __init__(self, *findings: Finding) -> None:
        super().__init__()
        self.findings = findings


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


def gather(stores: Sequence[Path], *, deep: bool) -> Gathered:
    """What lies in these stores. With `deep` the self-tests of the checkers are done again."""
    units: list[Unit] = []
    plans: list[JudgedPlan] = []
    findings: list[Finding] = []
    for store in stores_of(stores):
        walked = walk(store)
        findings += map(_odd, walked.odd)
        sessions = {place.path for place in walked.places if place.kind == "session"}
        for place in walked.places:
            if place.within in sessions or place.kind == "night":
                continue  # of a night each run is judged by itself
            try:
                if place.kind == "plan":
                    plans.append(_plan(place.path))
                else:
                    units.append(_unit(place, walked.places, deep))
            except _Broken as broken:
                findings += broken.findings
    return Gathered(units=tuple(units), plans=tuple(plans), findings=tuple(findings))


def _odd(found: Odd) -> Finding:
    rule, what = _ODD[found.why]
    return Finding(rule=rule, what=what, where=str(found.path))


def _unit(place: Place, places: Sequence[Place], deep: bool) -> Unit:
    if place.kind == "session":
        return _session(place.path, places, deep)
    run = _run(place, deep)
    return Unit(
        path=place.path,
        kind="run",
        runs=(run,),
        state=run.verdict.verdict,
        met=run.evidence.budget.met,
        reason=run.verdict.reason,
    )


def _said(rule: str, path: Path, error: DstestError) -> _Broken:
    what = error.message.removeprefix(f"{path}: ").removeprefix(f"{path} ")
    return _Broken(Finding(rule=rule, what=what, where=str(path)))


def _run(place: Place, deep: bool) -> JudgedRun:
    """Raises _Broken where the run is not what it left."""
    path = place.path
    try:
        run = RunDir.open(path)
        meta = run.read_meta()
    except DstestError as error:
        raise _said("G01", path, error) from None
    if meta is None or not finished(run):
        what = f"it was not judged to its end ({run.status() or 'no status'})"
        raise _Broken(Finding(rule="G03", what=what, where=str(path)))
    try:
        intact(run)
    except DstestError as error:
        raise _said("G01", path, error) from None
    verdict = _verdict(run, meta, deep)
    return JudgedRun(
        path=path,
        meta=meta,
        verdict=verdict,
        evidence=verdict.evidence,
        passes=verdict.verdict.passed and code_of(verdict, meta) == 0,
        digest=hashlib.sha256((path / SUMS).read_bytes()).hexdigest(),
        asides=place.asides,
    )


def _verdict(run: RunDir, meta: RunMeta, deep: bool) -> Verdict:
    """Its verdict, judged again. One that another version judged otherwise stays as it is: it
    counts for nothing (G12), unless it is a violation."""
    ours = meta.host is not None and meta.host.dstest == __version__
    try:
        return verified(run, deep=deep).verdict
    except ConfigError as error:
        raise _said("G15", run.path, error) from None
    except DstestError as error:
        if ours:
            raise _said("G02", run.path, error) from None
    try:
        return msgspec.convert(run.read_json("verdict.json"), Verdict)
    except (msgspec.ValidationError, DstestError) as error:
        what = f"verdict.json cannot be read: {error}"
        raise _Broken(Finding(rule="G12", what=what, where=str(run.path))) from None


def _session(path: Path, places: Sequence[Place], deep: bool) -> Unit:
    """Raises _Broken where it, or a run of it, is not what it left."""
    try:
        directory = SessionDir.open(path)
        file = directory.read()
    except DstestError as error:
        raise _said("G08", path, error) from None
    if file.verdict is None:
        raise _Broken(Finding(rule="G03", what="the session is not over", where=str(path)))
    runs: dict[Path, JudgedRun] = {}
    findings: list[Finding] = []
    for place in places:
        if place.within != path or place.kind != "run":
            continue
        try:
            found = _run(place, deep) if finished(RunDir(place.path)) else _dead(place)
            if found is not None:
                runs[place.path] = found
        except _Broken as broken:
            findings += broken.findings
    if findings:
        raise _Broken(*findings)
    try:
        directory.intact()
    except DstestError as error:
        raise _said("G01", path, error) from None
    return _whole(directory, file, runs)


def _dead(place: Place) -> JudgedRun | None:
    """An attempt that died, and was repeated, judged from what it had recorded: a violation in it
    is one. None where it had not begun to ask for anything."""
    run = RunDir(place.path)
    if not any(run.segments.glob("worker-*")):
        return None
    try:
        meta = run.read_meta()
        with judged_aside(run) as (judged, _):
            verdict = judged.verdict
    except DstestError as error:
        raise _said("G03", place.path, error) from None
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
            raise _said("G08", path, error) from None
        return _unit_of_others(path, runs)
    assert judged is not None
    if file.spec.seed not in {arm.seed for arm in file.arms}:
        what = f"its first seed was {file.spec.seed}, and no arm of it has that"
        raise _Broken(Finding(rule="G08", what=what, where=str(path)))
    counting = []
    for arm in file.arms:
        run = runs.get((path / arm.attempts[-1]).resolve()) if arm.attempts else None
        if run is not None:
            evidence = among.get(arm.id, run.evidence)
            counting.append(msgspec.structs.replace(run, evidence=evidence))
    if not counting:
        raise _Broken(Finding(rule="G03", what="no run of the session counts", where=str(path)))
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
    """Raises _Broken where its report is not what its runs give, or it did not come to its end."""
    try:
        directory = ExecutionDir.open(path)
        execution = directory.read()
        report, broken = reviewed(directory)
    except DstestError as error:
        raise _said("G09", path, error) from None
    if not execution.outcome or report.pending:
        raise _Broken(Finding(rule="G03", what="the plan is not over", where=str(path)))
    if broken:
        raise _Broken(
            *(Finding(rule="G09", what=f"{b.rule}: {b.what}", where=str(path)) for b in broken)
        )
    return JudgedPlan(
        path=path,
        slug=execution.slug,
        sha256=execution.plan_sha256,
        budget=execution.budget,
        report=report,
        results=tuple(
            found.resolve() for step in execution.steps if (found := directory.result_of(step))
        ),
    )
