"""Checkers under budgets: several on one history at once, each in a process of its own.

    python -m dstest.judge.budgeted < JOB.json      one checker; its result as JSON on stdout

Time: a checker looks at its own clock; where it does not, a timer ends it. Memory: what the process
may add to what it has once the history is loaded (RLIMIT_AS), so that a checker that eats too much
gets MemoryError, says what it had decided, and the machine never has to kill. Whatever else ends a
child gives `"unknown"` with the reason: a missing answer is never a pass.
"""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final

import msgspec

from dstest.core import registry
from dstest.core.check import Budget, CheckResult, Seconds
from dstest.core.history import History
from dstest.core.own_stdout import take_stdout
from dstest.judge.checker_answers import TimeUp, asked, of_all, unknown

GRACE_S: Final = 5.0
"""Beyond its time budget a checker may finish its sentence."""

LOAD_S_MAX: Final = 600.0
"""For reading the history in a child; loading is not checking."""


class Source(msgspec.Struct, frozen=True, kw_only=True):
    """A history's file and how it is read."""

    path: str
    format: str = "auto"
    independent: bool = False


class Job(msgspec.Struct, frozen=True, kw_only=True):
    """One checker on one file; `model` is what it judges by, `options` are the run's."""

    source: Source
    checker: str
    model: str
    budget: Budget
    options: dict[str, Any] = msgspec.field(default_factory=dict)


def model_of(checker: Any, asked: str) -> str:
    """`asked`, or the checker's own first model where it judges by another kind."""
    return asked if asked in checker.models else str(checker.models[0])


def size_bytes() -> int:
    """The address space that this process has."""
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    return pages * os.sysconf("SC_PAGE_SIZE")


def budgeted(checker: Any, history: History, model: str, budget: Budget) -> CheckResult:
    """The checker's answer within its budget; for the main thread of a process that may be
    limited. The limits are taken back afterwards."""

    def ring(signum: int, frame: Any) -> None:
        raise TimeUp

    before = resource.getrlimit(resource.RLIMIT_AS)
    handler = signal.signal(signal.SIGALRM, ring)
    timer = signal.setitimer(signal.ITIMER_REAL, budget.time_s + GRACE_S)
    wanted = size_bytes() + budget.memory_mb * 2**20
    hard = before[1]
    soft = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    try:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))
        return asked(checker, history, model, budget)
    except TimeUp:
        message = f"time budget of {budget.time_s:g} s used up, and {checker.name} did not stop"
        return unknown(checker.name, model, message, len(history.ops))
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, handler)
        signal.setitimer(signal.ITIMER_REAL, *timer)
        resource.setrlimit(resource.RLIMIT_AS, before)


def run_jobs(jobs: Sequence[Job]) -> list[CheckResult]:
    """The answers, in order; as many children at a time as there are processors."""
    with ThreadPoolExecutor(max_workers=max(1, min(len(jobs), os.cpu_count() or 1))) as pool:
        ended = list(pool.map(_in_child, jobs))
    # Not in the threads: msgspec learns a type at its first use, and crashes where another thread
    # uses it meanwhile.
    return [_answer(job, one) for job, one in zip(jobs, ended, strict=True)]


def _in_child(job: Job) -> subprocess.CompletedProcess[bytes] | str:
    """How a job's process ended; why there is nothing of it otherwise."""
    command = [sys.executable, "-m", "dstest.judge.budgeted"]
    patience_s = LOAD_S_MAX + job.budget.time_s + 2 * GRACE_S
    try:
        return subprocess.run(
            command, input=msgspec.json.encode(job), capture_output=True, timeout=patience_s,
            check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return f"no answer after {patience_s:g} s"
    except OSError as error:
        return f"could not be started: {error}"


def _answer(job: Job, done: subprocess.CompletedProcess[bytes] | str) -> CheckResult:
    if isinstance(done, str):
        return unknown(job.checker, job.model, done)
    if done.returncode == 0:
        try:
            return msgspec.json.decode(done.stdout, type=CheckResult)
        except msgspec.DecodeError as error:
            return unknown(job.checker, job.model, f"its answer cannot be read: {error}")
    words = done.stderr.decode("utf-8", "replace").strip().splitlines()
    ended = (
        f"killed by signal {-done.returncode}"
        if done.returncode < 0
        else f"ended with status {done.returncode}"
    )
    return unknown(job.checker, job.model, f"{ended}: {words[-1][:200] if words else 'no message'}")


def merged(results: Sequence[CheckResult]) -> CheckResult:
    """One answer of several checkers: the worst one's, with the anomalies of all of them."""
    rank = {False: 0, "unknown": 1, True: 2}
    worst = min(results, key=lambda r: rank[r.valid])
    if len(results) == 1:
        return worst
    problems = [f"{r.checker}: {r.reason}" for r in results if r.reason]
    return msgspec.structs.replace(
        worst,
        checker="+".join(r.checker for r in results),
        anomaly_types=sorted({kind for r in results for kind in (*r.anomaly_types, *r.anomalies)}),
        not_=list(dict.fromkeys(name for r in results for name in r.not_)),
        anomalies={kind: group for r in results for kind, group in r.anomalies.items()},
        reason="; ".join(problems) or None,
        seconds=Seconds(
            load=max(r.seconds.load for r in results), check=max(r.seconds.check for r in results)
        ),
        stats={r.checker: {"valid": r.valid, **r.stats} for r in results},
        spreads={kind: one for r in results for kind, one in (r.spreads or {}).items()}
        or msgspec.UNSET,
    )


def main() -> None:
    """Entry of the child: a Job on stdin, a CheckResult on stdout."""
    from dstest.store.importers import load_history

    answer = take_stdout()
    job = msgspec.json.decode(sys.stdin.buffer.read(), type=Job)
    checker = registry.load("checkers", job.checker)
    source = job.source
    tuples = source.independent or None
    history = load_history(source.path, source.format, independent=tuples)
    options = {**history.header.options, **job.options}
    header = msgspec.structs.replace(history.header, options=options)
    history = msgspec.structs.replace(history, header=header)
    result = of_all(budgeted(checker, history, job.model, job.budget))
    with os.fdopen(answer, "wb") as file:
        file.write(msgspec.json.encode(result))


if __name__ == "__main__":
    main()
