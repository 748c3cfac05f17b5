"""`dstest shrink`: from a failing run to the smallest one that fails the same way, by runs of
candidates.

First comes what the violation itself suggests, since that spares most of the search; then faults,
their windows and targets, nodes, clients and load; last each fault that is left, one by one (Scott
et al., "Minimizing Faulty Executions of Distributed Systems", NSDI 2016).
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Collection, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Final

import msgspec

from dstest import __version__
from dstest.campaign.shrink.candidate import (
    ENOUGH,
    HISTORY,
    Attempt,
    Candidate,
    Progress,
    alone,
    aside_of,
    write_progress,
)
from dstest.campaign.shrink.oracle import STRICT, Oracle, TimeUp
from dstest.campaign.shrink.original import Original, original_of, script_of
from dstest.campaign.shrink.pool_runs import pool_runs
from dstest.campaign.shrink.reductions import (
    bare,
    fewer,
    fewer_clients,
    fewer_nodes,
    fewer_types,
    guesses,
    lighter,
    none_spare,
    other_scopes,
    shorter,
    sooner_over,
)
from dstest.campaign.shrink.reproducer import read_progress, reproducer_of
from dstest.campaign.shrink.runs import ClusterRuns, Runs, smallest_history
from dstest.campaign.workers.pool import require_pool
from dstest.core import clock
from dstest.core.errors import ConfigError
from dstest.core.history import History
from dstest.core.reproducer import REPRODUCER, SCRIPT, Rate, Reproducer
from dstest.core.run_words import simulates
from dstest.history.jsonl import read_history, write_history
from dstest.history.layout import PLUGINS, RunDir, write_file
from dstest.judge.blame import digest_of, read_blame
from dstest.judge.checker_answers import model_of
from dstest.runner.integrity import verify_run
from dstest.runner.screen import Progress as Ui
from dstest.runner.screen import progress_for

_BACK_MAX: Final = 3
_SAMPLE: Final = 3
"""From so many runs on their share says something about the rate."""


class Reduction(msgspec.Struct, frozen=True, kw_only=True):
    """`lost`: the violation did not come again at all."""

    candidate: Candidate
    lost: bool = False


def reduce(
    start: Candidate,
    oracle: Oracle,
    *,
    near: Sequence[str],
    before_ns: int | None,
    op_types: Collection[str],
    sure: int,
) -> Reduction:
    """The smallest that the steps find. `near` and `before_ns` are what is known of the violation
    (`faults.guessed`), `sure` is how many runs measure a rate. Raises TimeUp."""
    best = oracle.first(guesses(start, near, before_ns))
    if best is None:
        measured = oracle.measured(start, sure)
        if not measured.came:
            return Reduction(candidate=start, lost=True)
        oracle.rate = measured.share
        best = start
    else:
        _learn(oracle, best)
    best = fewer(best, oracle.first)
    best = _spared(best, oracle)
    best = shorter(best, oracle.shows)
    best = _narrower(best, oracle)
    best = oracle.first(list(fewer_nodes(best))) or best
    best = fewer_clients(best, oracle.shows_well)
    best = oracle.first(list(lighter(best)), STRICT) or best
    while smaller := oracle.first(list(fewer_types(best, op_types)), STRICT):
        best = smaller
    best = oracle.first(list(sooner_over(best)), STRICT) or best
    return Reduction(candidate=_spared(best, oracle))


def _spared(best: Candidate, oracle: Oracle) -> Candidate:
    """That no fault is needed is much to say, and a violation that comes once in a while comes
    without one as well: one run is not enough for it."""
    best = none_spare(best, oracle.first)
    if len(best.plans) != 1:
        return best
    return oracle.first([bare(best)], STRICT) or best


def _learn(oracle: Oracle, shown: Candidate) -> None:
    tried = oracle.progress.tried[shown.key]
    if tried.came + tried.gone >= _SAMPLE:
        oracle.rate = tried.came / (tried.came + tried.gone)


def _narrower(best: Candidate, oracle: Oracle) -> Candidate:
    """Faults that hit fewer nodes, by the word of the runs in which they did."""
    for candidate in other_scopes(best):
        if _targets(best, oracle) <= len(best.plans):
            break
        if not oracle.shows(candidate):
            continue
        if 0 < _targets(candidate, oracle) < _targets(best, oracle):
            best = candidate
        else:
            oracle.passed_over(candidate)
    return best


def _targets(candidate: Candidate, oracle: Oracle) -> int:
    return max((one.targets for one in oracle.attempts(candidate)), default=0)


def confirm(best: Candidate, oracle: Oracle, sure: int) -> Candidate:
    """The smallest one, once runs that are made for that alone have measured how often the
    violation comes in it (`Progress.rate_of`); where that is too rarely, an earlier one in which it
    comes often enough, or else most often. One that was chosen among several for its rate is run as
    often again: the rate by which it was chosen flatters it. Where the time is up, what was
    measured until then decides."""
    rates: dict[str, Rate] = {}
    candidates = {one.key: one for one in (best, *reversed(oracle.shown))}
    try:
        for key, candidate in list(candidates.items())[: 1 + _BACK_MAX]:
            rates[key] = Rate()
            rates[key] = oracle.measured(candidate, sure)
            if rates[key].share >= ENOUGH:
                break
    except TimeUp:
        rates = {key: oracle.progress.rate_of(candidates[key]) for key in rates}
    chosen = candidates[max(rates, key=lambda key: min(rates[key].share, ENOUGH))]
    if len(rates) > 1:
        with contextlib.suppress(TimeUp):
            oracle.measured(chosen, 2 * sure)
    return chosen


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
    if runs is None and (at or workers):
        require_pool("a pool of workers")
    original = original_of(path, verify_run(RunDir.open(path)).verdict, violation)
    aside, ui = aside_of(original.run.path), ui or progress_for()
    meta, fingerprint = original.meta, original.fingerprint
    with ExitStack() as stack:
        stack.enter_context(alone(original.run.path))
        if runs is None and (at or workers):
            runs = stack.enter_context(
                pool_runs(meta, fingerprint, aside, at=at or "local", workers=workers or 1)
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
        came = reduce(
            original.start,
            oracle,
            near=hint.near,
            before_ns=hint.before_ns,
            op_types=original.plugins.workload.op_types,
            sure=sure,
        )
    except TimeUp:
        came = Reduction(candidate=oracle.shown[-1] if oracle.shown else original.start)
    if came.lost:
        if original.others:
            ui.say(f"the run has other violations, for --violation: {', '.join(original.others)}")
        return None
    timing.confirming = True
    best = confirm(came.candidate, oracle, sure)
    found = reproducer_of(
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
