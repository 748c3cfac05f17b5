"""What lies beside runs: replays that ask who is to blame, attempts to make a failure smaller.

Nothing there speaks for a claim. A violation speaks against one wherever it lies: otherwise a run
that failed would be none any more when it is moved to where reproducers are. An attempt that shows
what the run shows that it was made for is nothing new, where that run itself counts against it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from dstest.core.errors import DstestError
from dstest.core.run_meta import RunMeta
from dstest.core.verdict import Verdict
from dstest.gate.claims import violation_of
from dstest.gate.fits import of_test
from dstest.gate.gather import judged_dead, judged_run
from dstest.gate.judged import Broken, Gathered, JudgedRun
from dstest.gate.policy import Asked, Policy
from dstest.gate.rules import Finding
from dstest.judge.fingerprint import all_fingerprints
from dstest.retention.asked import asked_anything
from dstest.retention.walk import Place, walk
from dstest.runner.integrity import Again, finished
from dstest.store.layout import RunDir


def hidden(gathered: Gathered, policy: Policy) -> Iterator[Finding]:
    """Violations of the tests of claims and green controls in what lies beside runs, and what is
    not as it was left of those runs."""
    rows: list[Asked] = [*policy.claim, *(c for c in policy.control if c.expect == "green")]
    for run in gathered.runs:
        for aside in run.asides:
            yield from _in(aside, run, rows, policy.evidence.again_beside)


def _in(aside: Path, of: JudgedRun, rows: Sequence[Asked], again: Again) -> Iterator[Finding]:
    for place in walk(aside).places:
        if place.kind != "run":
            continue
        found, wrong = _judged(place, lambda meta: any(of_test(meta, row) for row in rows), again)
        yield from wrong
        if found is not None:
            yield from _against(found, of, rows)
        for inner in place.asides:
            yield from _in(inner, found or of, rows, again)


def _judged(
    place: Place, is_asked: Callable[[RunMeta], bool], again: Again
) -> tuple[JudgedRun | None, tuple[Finding, ...]]:
    """The run, read where somebody asks for its test; what is not as it was left."""
    run = RunDir(place.path)
    try:
        meta = run.read_meta()
    except DstestError:
        return None, ()
    if meta is None or not is_asked(meta) or not asked_anything(place.path):
        return None, ()
    try:
        return (judged_run(place, again) if finished(run) else judged_dead(place)), ()
    except Broken as broken:
        return None, broken.findings if finished(run) else ()


def _against(found: JudgedRun, of: JudgedRun, rows: Sequence[Asked]) -> Iterator[Finding]:
    if not found.verdict.verdict.failed:
        return
    new = not _fingerprints(found.verdict) & _fingerprints(of.verdict)
    for row in rows:
        counts = of.verdict.verdict.failed and of_test(of.meta, row)
        if of_test(found.meta, row) and (new or not counts):
            what = f"{violation_of(found)} (it lies beside {of.path.name})"
            yield Finding(rule="G22", what=what, of=row.id, where=str(found.path))


def _fingerprints(verdict: Verdict) -> set[str]:
    return {*all_fingerprints(verdict)}
