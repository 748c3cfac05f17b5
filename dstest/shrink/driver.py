"""`dstest shrink`: from a failing run to the smallest one that fails the same way."""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

import msgspec

from dstest import __version__
from dstest.core import clock
from dstest.core.errors import ConfigError
from dstest.core.history import History
from dstest.core.lab_words import simulates
from dstest.core.reproducer import REPRODUCER, SCRIPT, Reproducer
from dstest.judge.blame_file import digest_of, read_blame
from dstest.judge.budgeted import model_of
from dstest.runner.integrity import verified
from dstest.runner.live_view import progress_for
from dstest.runner.progress import Progress as Ui
from dstest.shrink.candidate import Candidate
from dstest.shrink.fanned import fanned
from dstest.shrink.history import smallest_history
from dstest.shrink.oracle import Oracle, TimeUp
from dstest.shrink.original import Original, original_of
from dstest.shrink.record import HISTORY, Attempt, Progress, alone, aside_of, write_progress
from dstest.shrink.reducer import Reduced, confirmed, reduced
from dstest.shrink.reproducer import script_of
from dstest.shrink.reread import read_progress
from dstest.shrink.runs import ClusterRuns, Runs
from dstest.shrink.told import told
from dstest.store.jsonl import read_history, write_history
from dstest.store.layout import PLUGINS, RunDir, write_file


def shrink_run(
    path: Path,
    *,
    within_s: float,
    sure: int,
    lab_id: str | None = None,
    at: str | None = None,
    workers: int = 0,
    violation: str | None = None,
    ui: Ui | None = None,
    runs: Runs | None = None,
) -> Reproducer | None:
    """Make a failing run small; None where the violation did not come again, so that nothing is
    known to be needed for it. What was tried before is not tried again.

    `violation` is which one of it, by its fingerprint or kind, where that is not the one that its
    verdict names. `within_s`: no run is begun later. `sure`: how many runs measure how often it
    comes. `runs` makes them where it is given; else workers `at` a place do, so many `workers`
    where that is this machine, each with a lab of its own; without both, this process, in the lab
    of `lab_id`. Raises ConfigError where there is no such violation, EvidenceError where the run's
    files are not what it left behind.
    """
    if sure < 1 or not 0 < within_s < math.inf:
        raise ConfigError(
            "--confirm is at least 1, --within above 0 and no more than there is",
            remedy="leave them out for the defaults, which `dstest shrink --help` names",
        )
    if lab_id is not None and (at or workers):
        raise ConfigError(
            "--lab-id beside --at or --workers: each worker has a lab of its own",
            remedy="leave --lab-id out",
        )
    original = original_of(path, verified(RunDir.open(path)).verdict, violation)
    aside, ui = aside_of(original.run.path), ui or progress_for()
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
    original: Original, within_s: float, sure: int, ui: Ui, runs: Runs
) -> Reproducer | None:
    known = _counted(read_progress(original)) or Progress(
        run=original.run.path.name,
        history_sha256=digest_of(original.run.path),
        fingerprint=original.fingerprint,
    )
    timing = _Timing(within_s, sure)
    oracle = Oracle(
        timing.watching(runs),
        known,
        simulated=simulates(original.spec.lab),
        time_left=timing.left,
        keep=lambda progress: write_progress(original.run.path, progress),
        say=ui.say,
    )
    history = read_history(original.run.path / HISTORY)
    smallest, hint = _smallest(original, history), original.hint(history)
    try:
        came = reduced(
            original.start,
            oracle,
            near=hint.near,
            before_ns=hint.before_ns,
            op_types=original.plugins.workload.op_types,
            sure=sure,
        )
    except TimeUp:
        came = Reduced(candidate=oracle.shown[-1] if oracle.shown else original.start)
    if came.lost:
        if original.others:
            ui.say(f"the run has other violations, for --violation: {', '.join(original.others)}")
        return None
    timing.confirming = True
    best = confirmed(came.candidate, oracle, sure)
    found = told(
        original,
        oracle.progress,
        best,
        history_ops=(len(history.ops), smallest),
        stopped=f"{within_s:g} s were over" if timing.over else "",
        sure=sure,
        dstest=__version__,
    )
    write_progress(original.run.path, oracle.progress)
    if found.rate_after.came:
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
    """Leaves time for the runs that measure the result, and, up to half of it, for those of an
    earlier one, should it be no good."""

    def __init__(self, within_s: float, sure: int) -> None:
        self._end_ns = clock.monotonic_ns() + int(within_s * 1e9)
        self._within_s, self._sure = within_s, sure
        self.last_s = 0.0
        """What the last run took."""
        self.confirming = False
        self.over = False
        """There was no time for a run that was wanted."""

    def left(self) -> bool:
        """Is there time for one more?"""
        kept_s = self.last_s
        if not self.confirming:
            result_s, both_s = (self.last_s * (1 + n * self._sure) for n in (1, 2))
            kept_s = max(result_s, min(both_s, self._within_s / 2))
        left = clock.monotonic_ns() + int(kept_s * 1e9) < self._end_ns
        self.over |= not left
        return left

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


def _smallest(original: Original, history: History) -> int | None:
    """Operations of the part that shows the violation alone, in a file of its own; None of none."""
    path = aside_of(original.run.path) / HISTORY
    path.unlink(missing_ok=True)
    result = original.result
    asked = {checker.name: checker for checker in original.plugins.checkers}
    checker = None if result is None else asked.get(result.checker)
    if result is None or checker is None:
        return None
    model = model_of(checker, original.plugins.model)
    part = smallest_history(history, checker, model, result, original.fingerprint)
    if part is None:
        return None
    write_history(path, part)
    return len(part.ops)


def _write(original: Original, found: Reproducer, best: Candidate, run_s: float) -> None:
    """The reproducer with all that it needs, and the findings report that tells of it."""
    from dstest.report.findings import render_findings
    from dstest.report.model import load_report

    aside, spec = aside_of(original.run.path), original.spec
    for name in map(Path, spec.files):
        write_file(aside, f"{PLUGINS}/{name.name}", name.read_bytes())
    script = write_file(aside, SCRIPT, script_of(found, spec, best, run_s).encode())
    script.chmod(0o755)
    data = msgspec.json.format(msgspec.json.encode(found), indent=1)
    write_file(aside, REPRODUCER, data + b"\n")  # last of what it is held to
    blamed = read_blame(original.run.path)
    report = load_report(original.run.path)
    text = render_findings(report, None if blamed is None else blamed.probes, found)
    write_file(aside, "findings.md", text.encode())
