"""What a reduction has come to, made of the run and of what was tried, and of nothing else."""

from __future__ import annotations

import shlex
from typing import Final

import msgspec

from dstest.core.reproducer import Reproducer
from dstest.shrink.candidate import Candidate
from dstest.shrink.original import Original
from dstest.shrink.record import ENOUGH, Progress
from dstest.shrink.reproducer import argv_of, size_of
from dstest.shrink.runs import schedule_of
from dstest.store.layout import PLUGINS

SURE_LEAST: Final = 3
"""Fewer runs say too little about a rate for a reproducer to be called confirmed."""


def told(
    original: Original,
    progress: Progress,
    best: Candidate,
    *,
    history_ops: tuple[int, int | None],
    stopped: str,
    sure: int,
    dstest: str,
) -> Reproducer:
    """`best` is the small one, `sure` how many runs were to measure how often it shows the
    violation; `history_ops` and `stopped` as in `Reproducer`."""
    spec, start = original.spec, original.start
    op_types = frozenset(original.plugins.workload.op_types)
    before, tried = progress.tried.get(start.key), progress.tried.get(best.key)
    came = [] if tried is None else [one for one in tried.attempts if one.came]
    after = progress.rate_of(best)
    return Reproducer(
        run=str(original.run.path),
        history_sha256=progress.history_sha256,
        candidate=best.key,
        dstest=dstest,
        system=spec.system,
        system_version=original.meta.system_version or None,
        workload=spec.workload,
        fingerprint=original.fingerprint,
        explanation=original.explanation,
        seed=spec.seed,
        before=size_of(start, op_types, original.verdict.evidence.checker.ops_eligible),
        after=size_of(best, op_types, max((one.ops for one in came), default=None)),
        runs=progress.runs,
        rate_before=None if before is None or not before.rate.runs else before.rate,
        rate_after=after,
        confirmed=after.runs >= max(sure, SURE_LEAST) and after.share >= ENOUGH,
        landed=min((one.landed for one in came), default=0),
        history_ops=history_ops,
        stopped=stopped,
        schedule=msgspec.to_builtins(schedule_of(best)) if best.plans else None,
        options=best.pairs,
        command=shlex.join(argv_of(spec, best, "schedule.json", PLUGINS)),
        builds=list(spec.builds),
    )
