"""A history file, or the history of a finished run, to the answer about it: what it is, who judges
it, and what that is worth beside the verdict of the run.

A finished run is believed where its files are as they were summed up, and what is found in its
history ends no better than the run did. Time that was overrun is told when all is said, memory that
did not even suffice for reading as well.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec
from msgspec.structs import replace

from dstest.check.notes import beside_jepsens
from dstest.check.source import (
    history_file,
    is_ours,
    jepsen_file,
    readable_again,
    transactions_in,
)
from dstest.core.check import Budget, CheckResult, RunVerdict
from dstest.core.errors import ConfigError, EvidenceError, Exit, MemorySpent
from dstest.core.formats import AUTO, FORMATS
from dstest.core.near import meant
from dstest.core.protocols import Option
from dstest.core.registry import named_in, parse_options
from dstest.core.words import shell_word

if TYPE_CHECKING:
    from dstest.runner.integrity import Verified


_OF_A_RUN: Final = ("segments", "history.jsonl", "run.json")

_WIDE: Final = 2.0
"""Checkers look at their clock now and then; what is decided after so many budgets is too late."""

TRANSACTION_OPTIONS: Final = {
    "wfr-keys": Option(
        type=bool,
        default=False,
        help="rw-register: a transaction's write follows the version that it read",
    ),
    "sequential-keys": Option(
        type=bool, default=False, help="rw-register: each session sees a key's versions in order"
    ),
    "linearizable-keys": Option(
        type=bool, default=False, help="rw-register: each key's versions follow real time"
    ),
    "session-order": Option(
        type=bool,
        default=False,
        help="count the order of each session: the strong-session form of each model",
    ),
    "decide": Option(
        type=bool,
        default=True,
        help="rw-register: no leaves it at what follows from known versions, as in Elle",
    ),
    "transaction-order": Option(
        type=str,
        default="",
        help="rw-register: a JSON file, {index of the completion: rank}, the order of all writes",
    ),
    "anomalies": Option(
        type=str, default="", help="names with commas: report these also where the model does not"
    ),
}


class Question(NamedTuple):
    """What is asked, as it was asked."""

    history: Path
    workload: str | None
    model: str | None
    checker: str | None
    format: str
    independent: bool | None
    options: Sequence[str]
    initial: str | None
    stream: bool
    deep: bool

    @property
    def named(self) -> bool:
        """Was anything asked but what the history says of itself?"""
        given = self.workload, self.model, self.checker, self.initial
        return bool(self.options) or any(value is not None for value in given)


def check_file(
    path: Path | str,
    *,
    workload: str | None = None,
    model: str | None = None,
    checker: str | None = None,
    format: str = AUTO,
    independent: bool | None = None,
    options: Sequence[str] = (),
    initial: str | None = None,
    stream: bool = False,
    deep: bool = False,
    budget: Budget | None = None,
    tell: Callable[[str], object] = lambda _: None,
) -> CheckResult:
    """Judge a history file, of any format that `dstest check` reads, or a finished run's.

    Arguments are the options of that command; `options` are its `-o key=value`, `initial` is JSON.
    `tell` is given a sentence where a run was judged again (`deep`). Raises ConfigError for what
    cannot be asked, HistoryError for a file that cannot be judged, EvidenceError for a run whose
    files are not as they were summed up. Of a run that is no pass `result.run` says so.
    """
    if not str(path):
        raise ConfigError("an empty path names no history", remedy="`.` is the directory here")
    asked = workload, model, checker, format, independent, options, initial, stream, deep
    return answer(Question(Path(path), *asked), budget or Budget(), tell)


def answer(
    asked: Question, budget: Budget, tell: Callable[[str], object] = lambda _: None
) -> CheckResult:
    """As `check_file`."""
    require_format(asked.format)
    given = jepsen_file(asked.history)
    with readable_again(given, budget.memory_mb) as file:
        asked = asked._replace(history=file)
        result = _believed(asked, lambda: in_time(_answer(asked, budget), budget), tell)
        return beside_jepsens(result, given)


def require_no_store(path: Path) -> None:
    """Raises ConfigError for a directory of runs, which is judged by another command."""
    if not path.is_dir() or any((path / n).exists() for n in _OF_A_RUN):
        return
    from dstest.runner.session_file import is_session
    from dstest.store.inventory import walk

    if is_session(path):
        return
    runs = [place.path for place in walk(path).places if place.kind == "run"]
    if runs:
        many = f"{len(runs)} runs" if len(runs) > 1 else "a run"
        raise ConfigError(
            f"{path} is not a run directory: it is a store with {many}",
            remedy=f"`dstest report {path}` judges all that is in it, `dstest check {runs[0]}` one",
        )


def run_at(
    path: Path, *, deep: bool = False, tell: Callable[[str], object] = lambda _: None
) -> Verified | None:
    """The finished run in a directory, judged again where that is asked for; None where there is
    none. Raises EvidenceError where its files do not agree, ConfigError for a session, which is
    several runs."""
    if not path.is_dir():
        return None
    # What judges a run takes longer to import than a small file takes to judge.
    from dstest.history.layout import RunDir
    from dstest.runner.integrity import JudgedOnce, is_finished
    from dstest.runner.session_file import is_session

    if is_session(path):
        RunDir.open(path)
    run = RunDir(path.resolve())
    if not is_finished(run):
        if deep or any((path / name).exists() for name in ("verdict.json", "run.json")):
            raise EvidenceError(
                f"{run.path} was not judged to its end",
                remedy=f"`dstest recover {shell_word(run.path)}` judges it, and `dstest check"
                f" {shell_word(run.history)}` its history alone",
            )
        return None
    judged = JudgedOnce("all" if deep else "no")
    found = judged(run)
    if judged.how_long:
        tell(judged.how_long)
    return found


def as_the_run(result: CheckResult, run: Verified | None, *, named: bool) -> CheckResult:
    """The answer about the history, with the run's own verdict beside it.

    `valid` is True beside a run that is no pass only where something was asked for by name (as in
    `exit_of`) of one that failed: a history that broke one model may satisfy another. What an
    unproven run holds is unknown, whatever its history says.
    """
    if run is None:
        return result
    own = run.verdict
    beside = RunVerdict(verdict=own.verdict.value, reason=own.reason, exit=int(run.exit_code))
    result = replace(result, run=beside)
    if not result.of_a_run_without_a_pass:
        return result
    said = f"the run itself is {beside.verdict}: {beside.reason}"
    result = replace(result, reason="; ".join(filter(None, [said, result.reason])))
    if result.valid is True and not (named and run.exit_code == Exit.FAIL):
        return replace(result, valid="unknown")
    return result


def _believed(
    asked: Question, judge: Callable[[], CheckResult], tell: Callable[[str], object]
) -> CheckResult:
    """The answer; about a finished run, whose sums are compared first, with its verdict beside."""
    history = asked.history
    if not history.is_dir():
        if asked.deep:
            raise ConfigError(
                "--deep is for the directory of a run", remedy=f"leave it out: {history} is a file"
            )
        return judge()

    require_no_store(history)
    run = run_at(history, deep=asked.deep, tell=tell)
    return as_the_run(judge(), run, named=asked.named)


def _answer(asked: Question, budget: Budget) -> CheckResult:
    """The file's history, judged by what its workload asks for; unknown where memory is out."""
    from checkers.txn.columns import WORKLOADS

    model, format_, initial = asked.model, asked.format, asked.initial
    workload = None if asked.workload is None else named_in("workloads", asked.workload)
    checker = None if asked.checker is None else named_in("checkers", asked.checker)
    _require_fitting(workload, checker)
    asked = asked._replace(workload=workload, checker=checker)
    named: str | None = None
    try:
        if (found := _of_sessions(asked, budget)) is not None:
            return found
        path = history_file(asked.history)
        named = _transactions(asked, path)
        if named in WORKLOADS and checker in (None, named):
            from dstest.check.stream import judge_whole_or_stream

            require_no_tuples(asked.independent)
            options = transaction_options(list(asked.options))
            question = path, format_, named, model, budget, options, initial
            return judge_whole_or_stream(*question, stream=asked.stream)
        if asked.stream:
            from dstest.check.stream import require_streamable

            require_streamable(path)
            raise ConfigError(
                "--stream judges list-append histories alone", remedy="leave --stream out"
            )
        from dstest.check.objects import judge_file

        return judge_file(
            path, workload, model, checker, format_, asked.independent, list(asked.options), budget,
            initial,
        )  # fmt: skip
    except MemorySpent as spent:
        from dstest.judge.checker_answers import unknown_answer

        return unknown_answer(
            checker or named or "check", model, f"{spent.message}; try {spent.remedy}"
        )


def _of_sessions(asked: Question, budget: Budget) -> CheckResult | None:
    """The answer where the file holds other tools' sessions, else None."""

    if asked.format == "dstest" or (asked.format == AUTO and is_ours(asked.history)):
        return None
    from dstest.check.transactions import judge_sessions, session_format

    fmt = session_format(asked.history, asked.format)
    if fmt is None:
        return None
    require_no_tuples(asked.independent)
    options = transaction_options(list(asked.options))
    return judge_sessions(
        asked.history, fmt, asked.workload, asked.checker, asked.model, budget, options,
        asked.initial,
    )  # fmt: skip


def _transactions(asked: Question, path: Path) -> str | None:
    """The workload of a transactional history: asked for, or by the first lines of the file where
    nothing else was asked."""
    from checkers.txn.columns import WORKLOADS

    named = asked.checker if asked.checker in WORKLOADS else asked.workload
    if asked.checker is None and named is None and not _of_an_object(asked.model):
        return transactions_in(path, asked.format)
    return named


def _of_an_object(model: str | None) -> bool:
    if model is None:
        return False
    from checkers.lin.catalogue import MODELS

    return model in MODELS


def _require_fitting(workload: str | None, checker: str | None) -> None:
    """Raises ConfigError where a checker is asked for that the workload does not have: one of the
    two would be passed over."""
    if workload is None or checker is None:
        return
    from dstest.check.objects import require_fitting

    require_fitting(workload, checker)


def _ranks(path: str) -> dict[str, int]:
    try:
        return msgspec.json.decode(Path(path).read_bytes(), type=dict[str, int])
    except (OSError, ValueError, RecursionError) as error:
        raise ConfigError(
            f"-o transaction-order={path}: {error}",
            remedy='give a JSON file of one object, {"7": 0, "3": 1}',
        ) from None


def require_no_tuples(independent: bool | None) -> None:
    """Raises ConfigError where transactions are to be read as tuples of a key and a value."""
    if independent:
        raise ConfigError(
            "transactions name the keys of their micro-operations: --independent would be passed "
            "over",
            remedy="leave it out",
        )


def require_format(name: str) -> None:
    """Raises ConfigError for what no history is in."""
    if name not in (AUTO, *FORMATS):
        raise ConfigError(f"no format called {name!r}", remedy=meant(name, [AUTO, *FORMATS]))


def transaction_options(pairs: list[str]) -> dict[str, Any]:
    """Options of `checkers.txn.api.check`. A key may end in `?`, as Elle spells it.

    Raises ConfigError for what is unknown or unreadable.
    """
    plain = [pair.replace("?=", "=", 1) for pair in pairs]
    given = parse_options(plain, TRANSACTION_OPTIONS, of="checking transactions")
    options: dict[str, Any] = {
        f"{name}?": True for name in given if name.endswith("-keys") and given[name]
    }
    options |= {"session-order?": True} if given["session-order"] else {}
    options |= {} if given["decide"] else {"decide?": False}
    if given["transaction-order"]:
        options["transaction-order"] = _ranks(given["transaction-order"])
    if given["anomalies"]:
        options["anomalies"] = [name.strip() for name in given["anomalies"].split(",")]
    return options


def in_time(result: CheckResult, budget: Budget) -> CheckResult:
    """The answer, or unknown where all was found in order long after the time was up. A violation
    is one whenever it is found."""
    took_s = result.seconds.check
    if result.valid is not True or took_s <= _WIDE * budget.time_s:
        return result
    said = f"time budget of {budget.time_s:g} s used up: the answer took {took_s:.3g} s"
    return replace(result, valid="unknown", reason="; ".join(filter(None, [said, result.reason])))
