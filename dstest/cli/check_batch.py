"""`dstest check --batch`: many small histories, one a line, in this process or over workers."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from dstest.cli.output import say
from dstest.core.check import Budget, CheckResult
from dstest.core.errors import ConfigError, Exit, HarnessError

if TYPE_CHECKING:
    from dstest.campaign.workers.task import Task, TaskResult, Workspace

_OWN: Final = (
    *("HISTORY", "--workload", "--model", "--checker", "--independent", "-o", "--report"),
    *("--initial", "--proof", "--stream", "--deep"),
)


_LINES_MAX: Final = 64


_BYTES_MAX: Final = 4 << 20
"""Of the lines that a worker is given at once: so few that all have something to do."""


Answers = tuple[list[bytes], set[Exit]]


async def _spread(lines: Iterable[bytes], budget: Budget, workers: str, worst: set[Exit]) -> None:
    """Judge on workers, and print in the order of the lines. Raises HarnessError where some lines
    were not judged: an answer would be missing."""
    from dstest.campaign.workers.pool import worker_pool

    local = workers.isdecimal()
    at, count = ("local", int(workers)) if local else (workers, 1)
    if not count:
        raise ConfigError("--workers 0: nobody would judge", remedy="one or more")
    with tempfile.TemporaryDirectory(prefix="dstest-check-") as folder:
        async with worker_pool(at, workers=count, into=Path(folder)) as pool:
            async for answers, codes in _in_order(pool.run(_tasks(lines, budget), ahead=1)):
                worst |= codes
                for answer in answers:
                    say(answer.decode())


async def _in_order(found: AsyncIterator[TaskResult]) -> AsyncIterator[Answers]:
    early: dict[int, Answers] = {}
    due = 0
    async for done in found:
        if done.error is not None:
            raise HarnessError(f"lines were not judged: {done.error}", remedy="judge them here")
        early[int(done.id)] = done.value
        while due in early:
            yield early.pop(due)
            due += 1


def judge_batch(
    path: Path, budget: Budget, named: bool, asked: tuple[Any, ...], workers: str | None
) -> Exit:
    """One JSON object per line for each line of the file, in their order; the budget is each
    answer's. The exit code of the worst. Raises ConfigError where `asked`, in the order of `_OWN`,
    or a format is given: each line says itself what is asked of it."""
    flags = [flag for flag, value in zip(_OWN, asked, strict=True) if value is not None]
    if flags or named:
        raise ConfigError(
            f"--batch takes no {', '.join([*flags, *['--format'] * named])}",
            remedy='"workload", "models" and "opts" in the lines of the file say what is asked',
        )
    worst: set[Exit] = set()
    try:
        with path.open("rb") as lines:
            if workers is None:
                for answer in _judged(lines, budget, worst.add):
                    say(answer.decode())
            else:
                asyncio.run(_spread(lines, budget, workers, worst))
    except OSError as error:
        raise ConfigError(
            f"cannot read {path}: {error.strerror}", remedy="check the path and its permissions"
        ) from None
    order = (Exit.FAIL, Exit.NOT_PROVEN, Exit.USAGE, Exit.PASS)
    return next((code for code in order if code in worst), Exit.USAGE)


def _judged(lines: Iterable[bytes], budget: Budget, seen: Callable[[Exit], Any]) -> Iterator[bytes]:
    from checkers.txn.api import check
    from checkers.txn.batch import run_batch
    from dstest.check.file import in_time
    from dstest.cli.check_text import with_headline
    from dstest.report.summarize import headline_of_result

    def judge(c: Any, workload: str, models: list[str], opts: dict[str, Any]) -> CheckResult:
        return in_time(check(c, workload, models, opts, budget), budget)

    def told(result: CheckResult) -> dict[str, Any]:
        # Of transactions an anomaly says all by itself, and a line of a batch names no system.
        return with_headline(result, headline_of_result(result, "", tuple))

    return run_batch(lines, judge, seen=seen, told=told)


def judge_lines(place: Workspace, lines: list[bytes], budget: Budget) -> Answers:
    """On a worker: the answers, and the exit codes that they would have alone."""
    codes: set[Exit] = set()
    return list(_judged(lines, budget, codes.add)), codes


def _tasks(lines: Iterable[bytes], budget: Budget) -> Iterator[Task]:
    from dstest.campaign.workers.task import Task

    for number, some in enumerate(_parts(lines)):
        yield Task(id=f"{number}", work=judge_lines, args=(some, budget), lab=False)


def _parts(lines: Iterable[bytes]) -> Iterator[list[bytes]]:
    some: list[bytes] = []
    size = 0
    for line in lines:
        some.append(line)
        size += len(line)
        if len(some) >= _LINES_MAX or size >= _BYTES_MAX:
            yield some
            some, size = [], 0
    if some:
        yield some
