"""Runs of candidates by a worker pool, side by side, each with a lab of its own."""

from __future__ import annotations

import asyncio
import shutil
import signal
from collections.abc import Iterator, Sequence
from contextlib import AsyncExitStack, contextmanager
from pathlib import Path
from typing import Final

import msgspec

from dstest.campaign.shrink.candidate import (
    RUNS,
    Attempt,
    Candidate,
)
from dstest.campaign.shrink.original import argv_of, builds_at
from dstest.campaign.shrink.runs import attempt_of, refusal, schedule_of
from dstest.campaign.steps.commands import results_in
from dstest.campaign.workers.commands import (
    IMAGE_S,
    STORE,
    given_files,
    image_words,
    run_command,
    why_no_run,
)
from dstest.campaign.workers.pool import WorkerPool, worker_pool
from dstest.campaign.workers.task import WORK, Task, TaskResult
from dstest.core.errors import DstestError, Interrupted
from dstest.core.run_record import RunMeta
from dstest.history.layout import PLUGINS, RunDir, write_file
from dstest.runner.integrity import verify_run
from dstest.runner.replay import spec_of

_SCHEDULES: Final = "schedules"
_MORE_S: Final = 600.0
"""Beyond its load a run needs this at most: nodes, recovery, final reads, judges, canaries."""


class PoolRuns:
    """See `Runs`. Each is the command that `repro.sh` would have."""

    def __init__(
        self,
        runner: asyncio.Runner,
        pool: WorkerPool,
        original: RunMeta,
        fingerprint: str,
        aside: Path,
    ) -> None:
        self._runner, self._pool, self._meta = runner, pool, original
        self._fingerprint, self._aside = fingerprint, aside
        self._given = 0

    @property
    def width(self) -> int:
        """As many as there are workers."""
        return self._pool.width

    def refused(self, candidate: Candidate) -> str:
        """See `Runs.refused`."""
        return refusal(self._meta, candidate)

    def make(self, candidates: Sequence[Candidate]) -> list[Attempt]:
        """See `Runs.make`."""
        try:
            done = self._runner.run(self._all([self._task(one) for one in candidates]))
        except (KeyboardInterrupt, asyncio.CancelledError):
            raise Interrupted("stopped; the runs on the workers heal and seal") from None
        return [self._attempt(one) for one in done]

    async def _all(self, tasks: list[Task]) -> list[TaskResult]:
        this = asyncio.current_task()
        assert this is not None
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, this.cancel)
        try:
            done = {one.id: one async for one in self._pool.run(tasks)}
        finally:
            asyncio.get_running_loop().remove_signal_handler(signal.SIGTERM)
        return [done[task.id] for task in tasks]

    def _task(self, candidate: Candidate) -> Task:
        spec = spec_of(self._meta)
        planned = msgspec.json.encode(schedule_of(candidate))
        schedule = write_file(self._aside, f"{_SCHEDULES}/{candidate.key}.json", planned).resolve()
        kept = (self._aside / PLUGINS).resolve()
        own = [write_file(kept, Path(name).name, Path(name).read_bytes()) for name in spec.files]
        builds = builds_at(spec)
        argv = argv_of(spec, candidate, str(schedule), str(kept), builds)[1:]
        image = image_words(spec.lab, spec.system, builds, map(str, own))
        files = [str(schedule), *map(str, own), *builds]
        limit_s = candidate.time_limit_s + _MORE_S
        return Task(
            id=self._new_id(),
            work=run_command,
            args=(image, argv, given_files(files), limit_s),
            limit_s=IMAGE_S + limit_s,
        )

    def _new_id(self) -> str:
        """Of a directory that is not there yet."""
        while True:
            self._given += 1
            if not (self._aside / RUNS / f"r{self._given}").exists():
                return f"r{self._given}"

    def _attempt(self, done: TaskResult) -> Attempt:
        found = [] if done.folder is None else results_in(done.folder / STORE)
        if not found:
            return Attempt(why_not=why_no_run(done))
        run = found[-1]
        path = run.resolve().relative_to(self._aside.resolve()).as_posix()
        try:
            verdict = verify_run(RunDir.open(run)).verdict
        except DstestError as error:
            return Attempt(path=path, why_not=error.message)
        return attempt_of(run, self._aside, self._fingerprint, verdict)


@contextmanager
def pool_runs(
    original: RunMeta, fingerprint: str, aside: Path, *, at: str, workers: int
) -> Iterator[PoolRuns]:
    """Workers at a place (`worker_pool`) for runs below `aside` of what was run in
    `original`. Raises ConfigError for what is no place, HarnessError where no worker comes up."""
    into = aside / RUNS
    into.mkdir(parents=True, exist_ok=True)
    with asyncio.Runner() as runner:
        stack = AsyncExitStack()
        try:
            pool = runner.run(
                stack.enter_async_context(worker_pool(at, workers=workers, into=into))
            )
            yield PoolRuns(runner, pool, original, fingerprint, aside)
        finally:
            runner.run(stack.aclose())
            shutil.rmtree(into / WORK, ignore_errors=True)
