"""What checkers answer, each in a process of its own and within a budget, and read once, before
anybody believes it.

    python -m dstest.judge.checker_answers < JOB.json      one checker; its result as JSON on stdout

A checker may be anyone's. Whatever it raises, and an answer that cannot be read, contradicts itself
or is about something else, is `"unknown"` with a reason that names the checker; so is whatever else
ends a child: a missing answer is never a pass.
"""

from __future__ import annotations

import hashlib
import os
import resource
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import msgspec

from dstest.core import registry
from dstest.core.check import Budget, CheckResult, KeyCount, OpCount, Seconds
from dstest.core.errors import ConfigError
from dstest.core.history import History
from dstest.core.processes import take_stdout

_PLAIN: Final = frozenset({int, str, float, bool, type(None)})


class TimeUp(BaseException):
    """A timer of ours rang; a checker that catches every Exception does not keep it from us."""


def unknown_answer(checker: str, model: str | None, reason: str, total: int = 0) -> CheckResult:
    """An answer that decides nothing; its one key is the whole history."""
    return CheckResult(
        checker=checker,
        valid="unknown",
        model=model,
        ops=OpCount(total=total),
        keys=KeyCount(total=1, decided=0, undecided=["*"]),
        reason=reason,
    )


def ask_checker(
    checker: Any, history: History, model: str, budget: Budget, *, looks: bool = True
) -> CheckResult:
    """The checker's answer, as far as it can be believed. Raises ConfigError where the checker
    refuses an option. `looks`: it is also seen to that the history stays as it is, where that can
    be changed: operations that are no list are made anew for whoever looks at them."""
    given = history
    if isinstance(history.ops, list):
        given = msgspec.structs.replace(history, ops=list(history.ops))
    looks = looks and given is not history

    def no_answer(reason: str) -> CheckResult:
        return unknown_answer(checker.name, model, reason, len(history.ops))

    try:
        before = _held(given) if looks else None
        result = parse_answer(
            checker.check(given, model, budget), checker.name, model, len(history.ops)
        )
        if looks and (_others(given, history) or _held(given) != before):
            return no_answer(f"checker {checker.name} changed the history that it was to judge")
        return result
    except (ConfigError, TimeUp, KeyboardInterrupt):
        raise
    except MemoryError:
        return no_answer(f"memory budget of {budget.memory_mb} MB used up")
    except RecursionError:
        return no_answer("an operation's value is nested too deeply")
    except BaseException as error:
        if isinstance(error, RuntimeError) and "thread" in str(error):
            return no_answer(f"memory budget of {budget.memory_mb} MB used up: {error}")
        return no_answer(f"checker {checker.name} failed: {registry.error_line(error)}")


def parse_answer(answer: Any, checker: str, model: str, ops: int) -> CheckResult:
    """The answer of the checker of this name about a history of so many operations, or unknown
    where it is none."""
    problem = _problem(answer, checker, model, ops)
    if problem is None:
        result: CheckResult = answer
        return result
    return unknown_answer(checker, model, f"checker {checker} gave no answer: {problem}", ops)


def _problem(answer: Any, checker: str, model: str, ops: int) -> str | None:
    if not isinstance(answer, CheckResult):
        return f"a {type(answer).__name__} instead of a CheckResult"
    try:
        msgspec.json.decode(msgspec.json.encode(answer), type=CheckResult)
    except (msgspec.MsgspecError, TypeError, ValueError, OverflowError) as error:
        return f"its CheckResult cannot be read: {error}"
    if answer.checker != checker:
        return f"its CheckResult is that of {answer.checker!r}"
    if answer.valid is not True:
        return None
    if answer.model != model:
        return f"it was asked about {model!r} and found {answer.model!r} to hold"
    return _contradiction(answer, ops)


def _contradiction(answer: CheckResult, ops: int) -> str | None:
    """Why an answer that finds all in order cannot be right."""
    named = sorted({*answer.anomaly_types, *answer.anomalies})
    if named or answer.model in answer.not_:
        return f"valid, with {', '.join(named) or 'its model ruled out'}"
    judged, keys = answer.ops, answer.keys
    if min(judged.consumed, keys.decided, *judged.excluded.values()) < 0:
        return "valid, and a count in it is below 0"
    if judged.consumed == 0:
        return f"valid, and none of {ops} operations was judged"
    if judged.total != ops:
        return f"it was about {judged.total} operations, and there are {ops}"
    if judged.consumed > ops:
        return f"{judged.consumed} operations were judged, and there are {ops}"
    if keys.decided > keys.total:
        return f"{keys.decided} of {keys.total} keys were decided"
    return None


def of_all(answer: CheckResult) -> CheckResult:
    """The answer, where no verdict is made of it: unknown if it is valid for a part alone.

    The judge of a run asks for more, and tells more: which operations may be left out, and what
    was left out of them.
    """
    judged, keys = answer.ops, answer.keys
    left = judged.total - judged.consumed - sum(judged.excluded.values())
    part = ""
    if left:
        part = f"{left} of {judged.total} operations were neither judged nor excluded"
    elif keys.decided < keys.total or keys.undecided:
        part = f"{keys.decided} of {keys.total} keys were decided"
    if answer.valid is not True or not part:
        return answer
    said = f"checker {answer.checker} found nothing wrong, but {part}"
    return msgspec.structs.replace(answer, valid="unknown", reason=said)


def _held(history: History) -> bytes:
    """A digest of what can be changed in place: options, and values that hold others."""
    digest = hashlib.blake2b(_written(history.header.options))
    for op in history.ops:
        if not _PLAIN.issuperset((type(op.key), type(op.input), type(op.output))):
            digest.update(_written((op.key, op.input, op.output)))
    return digest.digest()


def _written(values: Any) -> bytes:
    try:
        return msgspec.json.encode(values)
    except (msgspec.MsgspecError, TypeError, ValueError, OverflowError, RecursionError):
        return str(type(values)).encode()


def _others(given: History, history: History) -> bool:
    """Are the operations other ones, or in another order?"""
    same = len(given.ops) == len(history.ops)
    return not same or any(a is not b for a, b in zip(given.ops, history.ops, strict=True))


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
    """`ask_checker`, or the checker's own first model where it judges by another kind."""
    return asked if asked in checker.models else str(checker.models[0])


def size_bytes() -> int:
    """The address space that this process has."""
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    return pages * os.sysconf("SC_PAGE_SIZE")


def bounded_answer(checker: Any, history: History, model: str, budget: Budget) -> CheckResult:
    """The checker's answer within its budget; for the main thread of a process that may be
    limited. The limits are taken back afterwards.

    Time: a checker looks at its own clock; where it does not, a timer ends it. Memory: what the
    process may add to what it has once the history is loaded (RLIMIT_AS), so that a checker that
    eats too much gets MemoryError, says what it had decided, and the machine never has to kill.
    """

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
        return ask_checker(checker, history, model, budget)
    except TimeUp:
        message = f"time budget of {budget.time_s:g} s used up, and {checker.name} did not stop"
        return unknown_answer(checker.name, model, message, len(history.ops))
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, handler)
        signal.setitimer(signal.ITIMER_REAL, *timer)
        resource.setrlimit(resource.RLIMIT_AS, before)


def run_jobs(jobs: Sequence[Job]) -> list[CheckResult]:
    """The answers, in order; as many children at a time as there are processors."""
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(max_workers=max(1, min(len(jobs), os.cpu_count() or 1))) as pool:
        ended = list(pool.map(_in_child, jobs))
    # Not in the threads: msgspec learns a type at its first use, and crashes where another thread
    # uses it meanwhile.
    return [_answer(job, one) for job, one in zip(jobs, ended, strict=True)]


def _in_child(job: Job) -> subprocess.CompletedProcess[bytes] | str:
    """How a job's process ended; why there is nothing of it otherwise."""
    command = [sys.executable, "-m", "dstest.judge.checker_answers"]
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
        return unknown_answer(job.checker, job.model, done)
    if done.returncode == 0:
        try:
            return msgspec.json.decode(done.stdout, type=CheckResult)
        except msgspec.DecodeError as error:
            return unknown_answer(job.checker, job.model, f"its answer cannot be read: {error}")
    words = done.stderr.decode("utf-8", "replace").strip().splitlines()
    ended = (
        f"killed by signal {-done.returncode}"
        if done.returncode < 0
        else f"ended with status {done.returncode}"
    )
    return unknown_answer(
        job.checker, job.model, f"{ended}: {words[-1][:200] if words else 'no message'}"
    )


def merge_answers(results: Sequence[CheckResult]) -> CheckResult:
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
    from dstest.history.importers import load_history

    answer = take_stdout()
    job = msgspec.json.decode(sys.stdin.buffer.read(), type=Job)
    checker = registry.load("checkers", job.checker)
    source = job.source
    tuples = source.independent or None
    history = load_history(source.path, source.format, independent=tuples)
    options = {**history.header.options, **job.options}
    header = msgspec.structs.replace(history.header, options=options)
    history = msgspec.structs.replace(history, header=header)
    result = of_all(bounded_answer(checker, history, job.model, job.budget))
    with os.fdopen(answer, "wb") as file:
        file.write(msgspec.json.encode(result))


if __name__ == "__main__":
    main()
