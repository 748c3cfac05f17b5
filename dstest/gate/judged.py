"""Runs, sessions and executed plans as the rules of the gate see them."""

from __future__ import annotations

from pathlib import Path

import msgspec

from dstest import __version__
from dstest.core import registry
from dstest.core.errors import DstestError
from dstest.core.evidence import Evidence
from dstest.core.history import ClockSource
from dstest.core.run_meta import RunMeta
from dstest.core.tiers import Tier
from dstest.core.verdict import State, Verdict
from dstest.gate.rules import Finding
from dstest.judge.decide import decide
from dstest.report.review.model import Report
from dstest.retention.walk import Kind
from dstest.runner.session_file import SessionFile


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


class Gathered(msgspec.Struct, frozen=True, kw_only=True):
    """`never_started` are the runs and sessions that died before they asked for anything. They are
    among the units too, where they say what they would have been. `same` are runs that are one
    simulation, made again and again."""

    units: tuple[Unit, ...]
    plans: tuple[JudgedPlan, ...]
    findings: tuple[Finding, ...]
    never_started: tuple[Path, ...] = ()
    same: tuple[frozenset[Path], ...] = ()

    @property
    def runs(self) -> tuple[JudgedRun, ...]:
        return tuple(run for unit in self.units for run in unit.every)


class Broken(Exception):
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


def unasked(path: Path, meta: RunMeta | None, why: str) -> JudgedRun:
    """A run or session that died before it asked for anything."""
    if meta is None:
        raise Broken
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
        raise Broken from None  # then it is about nothing that a policy can ask for
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
