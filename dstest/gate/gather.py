"""All evidence of some stores, each run judged again or believed; what is wrong, as findings.

A run is what its record gives (`runner/integrity.py`), or what its sums hold where the policy
believes them; a session what its runs give (`judge/session.py`), a plan what its steps
give (`plans/review/gather.py`). What does not hold is a finding and counts for nothing.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

from dstest import __version__
from dstest.core.errors import ConfigError, DstestError
from dstest.core.run_meta import RunMeta
from dstest.core.verdict import State, Verdict
from dstest.gate.judged import (
    Broken,
    Gathered,
    JudgedPlan,
    JudgedRun,
    Unit,
    meta_of,
    unasked,
    unit_of,
)
from dstest.gate.rules import Finding
from dstest.judge.decide import aggregate_seeds
from dstest.judge.session import evidence_among
from dstest.plans.execution.state import ExecutionDir
from dstest.plans.review.write import reviewed
from dstest.retention.asked import asked_anything, never_started
from dstest.retention.walk import Odd, Place, walk
from dstest.runner.integrity import (
    Again,
    code_of,
    finished,
    intact,
    judged_again,
    judged_aside,
    told,
)
from dstest.runner.session_check import arm_evidence, reread
from dstest.runner.session_file import SessionDir, SessionFile
from dstest.store.layout import RunDir
from dstest.store.sums import SUMS

__all__ = ["JudgedRun", "Unit", "gather", "judged_dead", "judged_run", "stores_of"]

_RULES = {"link": "G04", "cut": "G03", "orphan": "G05", "unreadable": "G01"}
"""What should not be there, and does harm."""


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
) -> Gathered:
    """What lies in these stores, each run judged again as far as `again` says. `tell` is told what
    is looked at now."""
    units: list[Unit] = []
    plans: list[JudgedPlan] = []
    findings: list[Finding] = []
    never: list[Path] = []
    for store in stores_of(stores):
        walked = walk(store)
        findings += [_odd(one) for one in walked.odd if one.why in _RULES]
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
            except Broken as broken:
                findings += broken.findings
                if not broken.findings:
                    never.append(place.path)
    never += [unit.path for unit in units if not unit.begun]
    return Gathered(
        units=tuple(units),
        plans=tuple(plans),
        findings=tuple(findings),
        never_started=tuple(never),
    )


def _odd(found: Odd) -> Finding:
    return Finding(rule=_RULES[found.why], what=found.told, where=str(found.path))


def _unit(place: Place, places: Sequence[Place], again: Again) -> Unit:
    if place.kind == "session":
        return _session(place.path, places, again)
    return unit_of(judged_run(place, again))


def _said(rule: str, path: Path, error: DstestError) -> Broken:
    what = error.message.removeprefix(f"{path}: ").removeprefix(f"{path} ")
    return Broken(Finding(rule=rule, what=what, where=str(path)))


def judged_run(place: Place, again: Again) -> JudgedRun:
    """Raises Broken where the run is not what it left."""
    path = place.path
    try:
        run = RunDir.open(path)
        meta = run.read_meta()
    except DstestError as error:
        raise _said("G01", path, error) from None
    if not finished(run) and never_started(path):
        return unasked(path, meta, run.status())
    if meta is None or not finished(run):
        what = f"it was not judged to its end ({run.status() or 'no status'})"
        raise Broken(Finding(rule="G03", what=what, where=str(path)))
    try:
        intact(run)
    except DstestError as error:
        raise _said("G01", path, error) from None
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
        kept = told(run)
        found = kept.verdict if again == "no" else judged_again(run, kept, again)
        now, before = found.verdict.value, kept.verdict.verdict.value
        return found, "" if now == before else f"judged again it is {now}, and was {before}"
    except ConfigError as error:
        raise _said("G15", run.path, error) from None
    except DstestError as error:
        if ours:
            raise _said("G02", run.path, error) from None
        otherwise = error.message.removeprefix(f"{run.path}: ")
    try:
        return msgspec.convert(run.read_json("verdict.json"), Verdict), otherwise
    except (msgspec.ValidationError, DstestError) as error:
        what = f"verdict.json cannot be read: {error}"
        raise Broken(Finding(rule="G12", what=what, where=str(run.path))) from None


def _session(path: Path, places: Sequence[Place], again: Again) -> Unit:
    """Raises Broken where it, or a run of it, is not what it left."""
    try:
        directory = SessionDir.open(path)
        file = directory.read()
    except DstestError as error:
        raise _said("G08", path, error) from None
    mine = [place for place in places if place.within == path and place.kind == "run"]
    if file.verdict is None:
        if not any(asked_anything(place.path) for place in mine):
            return unit_of(unasked(path, meta_of(file), "the session is not over"))
        raise Broken(Finding(rule="G03", what="the session is not over", where=str(path)))
    runs: dict[Path, JudgedRun] = {}
    findings: list[Finding] = []
    for place in mine:
        try:
            found = judged_run(place, again) if finished(RunDir(place.path)) else judged_dead(place)
            if found is not None:
                runs[place.path] = found
        except Broken as broken:
            findings += broken.findings
    if findings:
        raise Broken(*findings)
    try:
        directory.intact()
    except DstestError as error:
        raise _said("G01", path, error) from None
    return _whole(directory, file, runs)


def judged_dead(place: Place) -> JudgedRun | None:
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
        raise Broken(Finding(rule="G08", what=what, where=str(path)))
    counting = []
    for arm in file.arms:
        run = runs.get((path / arm.attempts[-1]).resolve()) if arm.attempts else None
        if run is not None:
            evidence = among.get(arm.id, run.evidence)
            counting.append(msgspec.structs.replace(run, evidence=evidence))
    if not counting:
        raise Broken(Finding(rule="G03", what="no run of the session counts", where=str(path)))
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
        report, broken = reviewed(directory)
    except DstestError as error:
        raise _said("G09", path, error) from None
    if not execution.outcome or report.pending:
        raise Broken(Finding(rule="G03", what="the plan is not over", where=str(path)))
    if broken:
        raise Broken(
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
