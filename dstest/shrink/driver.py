"""`dstest shrink`: from a failing run to the smallest one that fails the same way."""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec

from dstest import __version__
from dstest.core import clock
from dstest.core.check import CheckResult
from dstest.core.errors import ConfigError
from dstest.core.reproducer import REPRODUCER, SCRIPT, Rate, Reproducer
from dstest.core.run_meta import RunMeta
from dstest.core.verdict import Verdict
from dstest.judge.blame_file import digest_of, read_blame
from dstest.judge.budgeted import model_of
from dstest.runner.integrity import verified
from dstest.runner.plugins import Plugins, resolve
from dstest.runner.progress import Progress as Ui
from dstest.runner.replay import spec_of
from dstest.runner.schedule_file import SCHEDULE, read_schedule
from dstest.shrink.candidate import Candidate
from dstest.shrink.fanned import fanned
from dstest.shrink.history import smallest_history
from dstest.shrink.oracle import Oracle, TimeUp
from dstest.shrink.record import (
    ENOUGH,
    Attempt,
    Progress,
    alone,
    aside_of,
    read_progress,
    write_progress,
)
from dstest.shrink.reducer import Reduced, confirmed, reduced
from dstest.shrink.reproducer import argv_of, script_of, size_of
from dstest.shrink.runs import ClusterRuns, Runs, candidate_of, schedule_of
from dstest.store.jsonl import read_history, write_history
from dstest.store.layout import PLUGINS, RunDir, write_file

__all__ = ["HISTORY", "shrink_run"]

HISTORY: Final = "history.jsonl"
"""Beside the reproducer: the part of the run's history that shows the violation alone."""


class _Original(NamedTuple):
    """The run in question."""

    run: RunDir
    meta: RunMeta
    verdict: Verdict
    fingerprint: str
    plugins: Plugins


def shrink_run(
    path: Path,
    *,
    within_s: float,
    sure: int,
    lab_id: str | None = None,
    at: str | None = None,
    workers: int = 0,
    ui: Ui | None = None,
    runs: Runs | None = None,
) -> Reproducer | None:
    """Make a failing run small; None where the violation did not come again, so that nothing is
    known to be needed for it. What was tried before is not tried again.

    `within_s`: no run is begun later. `sure`: how many runs measure how often it comes. `runs`
    makes them where it is given; else workers `at` a place do, so many `workers` where that is this
    machine, each with a lab of its own; without both, this process, in the lab of `lab_id`. Raises
    ConfigError where there is no violation, EvidenceError where the run's files are not what it
    left behind.
    """
    if sure < 1 or not 0 < within_s < math.inf:
        raise ConfigError("--confirm is at least 1, --within above 0 and no more than there is")
    if lab_id is not None and (at or workers):
        raise ConfigError("--lab-id beside --at or --workers: each worker has a lab of its own")
    original = _opened(path)
    aside, ui = aside_of(original.run.path), ui or Ui()
    meta, fingerprint = original.meta, original.fingerprint
    with ExitStack() as stack:
        stack.enter_context(alone(original.run.path))
        if runs is None and (at or workers):
            runs = stack.enter_context(
                fanned(meta, fingerprint, aside, at=at or "local", workers=workers or 1)
            )
        return _shrunk(
            original, within_s, sure, ui, runs or ClusterRuns(meta, fingerprint, aside, lab_id, ui)
        )


def _shrunk(
    original: _Original, within_s: float, sure: int, ui: Ui, runs: Runs
) -> Reproducer | None:
    aside = aside_of(original.run.path)
    known = _counted(read_progress(original.run.path)) or Progress(
        run=original.run.path.name,
        history_sha256=digest_of(original.run.path),
        fingerprint=original.fingerprint,
    )
    timing = _Timing(within_s, sure)
    oracle = Oracle(
        timing.watching(runs),
        known,
        time_left=timing.left,
        keep=lambda progress: write_progress(original.run.path, progress),
        say=ui.say,
    )
    start = candidate_of(original.plugins)
    history_ops = _history(original, aside)
    stopped = ""
    try:
        came = reduced(start, oracle, sure=sure, **_known_of(original))
    except TimeUp:
        stopped = f"{within_s:g} s were over"
        came = Reduced(candidate=oracle.shown[-1] if oracle.shown else start)
    if came.lost:
        return None
    timing.confirming = True
    try:
        best, after = confirmed(came.candidate, oracle, sure)
    except TimeUp:
        best, stopped = came.candidate, f"{within_s:g} s were over"
        after = oracle.rate_of(best)
    found = _reproducer(
        original, start, best, oracle, history_ops, stopped, came.before, after, sure
    )
    if after.came:
        _write(original, found, best, timing.last_s)
    return found


def _counted(progress: Progress | None) -> Progress | None:
    """Without what could not be run or judged then: why that was may be over."""
    if progress is None:
        return None
    tried = {
        key: msgspec.structs.replace(one, attempts=[a for a in one.attempts if a.judged])
        for key, one in progress.tried.items()
    }
    return msgspec.structs.replace(progress, tried=tried)


class _Timing:
    """Leaves time for the runs that measure the result."""

    def __init__(self, within_s: float, sure: int) -> None:
        self._end_ns = clock.monotonic_ns() + int(within_s * 1e9)
        self._sure = sure
        self.last_s = 0.0
        """What the last run took."""
        self.confirming = False

    def left(self) -> bool:
        """Is there time for one more?"""
        kept_s = self.last_s * (1 if self.confirming else 1 + self._sure)
        return clock.monotonic_ns() + int(kept_s * 1e9) < self._end_ns

    def watching(self, runs: Runs) -> Runs:
        """The same, timed."""
        return _Timed(runs, self)


class _Timed:
    def __init__(self, runs: Runs, timing: _Timing) -> None:
        self._runs, self._timing = runs, timing

    @property
    def width(self) -> int:
        return self._runs.width

    def refused(self, candidate: Candidate) -> str:
        return self._runs.refused(candidate)

    def make(self, candidates: Sequence[Candidate]) -> list[Attempt]:
        began_ns = clock.monotonic_ns()
        made = self._runs.make(candidates)
        self._timing.last_s = (clock.monotonic_ns() - began_ns) / 1e9
        return made


def _opened(path: Path) -> _Original:
    run = RunDir.open(path)
    verdict = verified(run).verdict
    meta = run.read_meta()
    fingerprint = verdict.evidence.violation_fingerprint
    if fingerprint is None or meta is None:
        raise ConfigError(f"{path} has no violation", remedy="there is nothing to make smaller")
    planned = run.path / SCHEDULE
    schedule = read_schedule(planned) if planned.exists() else None
    plugins = resolve(spec_of(meta), list(meta.options_given or []), schedule=schedule)
    return _Original(run, meta, verdict, fingerprint, plugins)


def _known_of(original: _Original) -> dict[str, Any]:
    symptom = original.verdict.evidence.symptom
    return {
        "near": [] if symptom is None else [fault.id for fault in symptom.faults],
        "before_ns": None if symptom is None else symptom.end_ns,
        "op_types": original.plugins.workload.op_types,
    }


def _result(original: _Original) -> CheckResult | None:
    name = original.fingerprint.split("/")[0]
    rows = msgspec.convert(original.verdict.checkers, dict[str, CheckResult])
    return rows.get(name)


def _history(original: _Original, aside: Path) -> tuple[int, int | None]:
    """Operations before and after, and the part in a file of its own."""
    history = read_history(original.run.path / HISTORY)
    result = _result(original)
    asked = {checker.name: checker for checker in original.plugins.checkers}
    checker = None if result is None else asked.get(result.checker)
    if result is None or checker is None:
        return len(history.ops), None
    model = model_of(checker, original.plugins.model)
    part = smallest_history(history, checker, model, result, original.fingerprint)
    if part is None:
        return len(history.ops), None
    aside.mkdir(parents=True, exist_ok=True)
    write_history(aside / HISTORY, part)
    return len(history.ops), len(part.ops)


def _explained(original: _Original) -> str:
    result = _result(original)
    if result is None:
        return original.verdict.reason
    kind = original.fingerprint.split("/")[1]
    shown = next(iter(result.anomalies.get(kind, [])), None)
    return "" if shown is None else shown.explanation


def _reproducer(
    original: _Original,
    start: Candidate,
    best: Candidate,
    oracle: Oracle,
    history_ops: tuple[int, int | None],
    stopped: str,
    before: Rate | None,
    after: Rate,
    sure: int,
) -> Reproducer:
    spec = spec_of(original.meta)
    op_types = frozenset(original.plugins.workload.op_types)
    came = oracle.attempts(best)
    operations = original.verdict.evidence.checker.ops_eligible
    return Reproducer(
        run=str(original.run.path),
        history_sha256=oracle.progress.history_sha256,
        candidate=best.key,
        dstest=__version__,
        system=spec.system,
        system_version=original.meta.system_version or None,
        workload=spec.workload,
        fingerprint=original.fingerprint,
        explanation=_explained(original),
        seed=spec.seed,
        before=size_of(start, op_types, operations),
        after=size_of(best, op_types, max((one.ops for one in came), default=None)),
        runs=oracle.progress.runs,
        rate_before=before,
        rate_after=after,
        confirmed=after.runs >= sure and after.share >= ENOUGH,
        landed=min((one.landed for one in came), default=0),
        history_ops=history_ops,
        stopped=stopped,
        schedule=msgspec.to_builtins(schedule_of(best)) if best.plans else None,
        options=best.pairs,
        command=" ".join(argv_of(spec, best, "schedule.json", PLUGINS)),
        builds=list(spec.builds),
    )


def _write(original: _Original, found: Reproducer, best: Candidate, run_s: float) -> None:
    """The reproducer with all that it needs, and the findings report that tells of it."""
    from dstest.report.findings import render_findings
    from dstest.report.model import load_report

    aside, spec = aside_of(original.run.path), spec_of(original.meta)
    for name in map(Path, spec.files):
        write_file(aside, f"{PLUGINS}/{name.name}", name.read_bytes())
    data = msgspec.json.format(msgspec.json.encode(found), indent=1)
    write_file(aside, REPRODUCER, data + b"\n")
    script = write_file(aside, SCRIPT, script_of(found, spec, best, run_s).encode())
    script.chmod(0o755)
    told = read_blame(original.run.path)
    report = load_report(original.run.path)
    text = render_findings(report, None if told is None else told.probes, found)
    write_file(aside, "findings.md", text.encode())
