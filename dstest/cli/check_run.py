"""`dstest check RUN_DIR`: a finished run is believed where its files are as they were summed up,
and what is found in its history ends no better than the run did."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer
from msgspec.structs import replace

from dstest.core.check import CheckResult, RunVerdict
from dstest.core.errors import ConfigError, EvidenceError, Exit
from dstest.core.words import shell_word

if TYPE_CHECKING:
    from dstest.runner.integrity import Verified
    from dstest.runner.judged_once import JudgedOnce

Deep = Annotated[
    bool,
    typer.Option("--deep", help="Judge a finished run again from what it recorded."),
]

_CODES: Final[dict[Any, Exit]] = {
    True: Exit.PASS,
    False: Exit.FAIL,
    "unknown": Exit.NOT_PROVEN,
}
_OF_A_RUN: Final = ("segments", "history.jsonl", "run.json")


def require_no_store(path: Path) -> None:
    """Raises ConfigError for a directory of runs, which is judged by another command."""
    if not path.is_dir() or any((path / n).exists() for n in _OF_A_RUN):
        return
    from dstest.retention.walk import walk
    from dstest.runner.session_file import is_session

    if is_session(path):
        return
    runs = [place.path for place in walk(path).places if place.kind == "run"]
    if runs:
        many = f"{len(runs)} runs" if len(runs) > 1 else "a run"
        raise ConfigError(
            f"{path} is not a run directory: it is a store with {many}",
            remedy=f"`dstest report {path}` judges all that is in it, `dstest check {runs[0]}` one",
        )


def run_at(path: Path, *, deep: bool = False) -> Verified | None:
    """The finished run in a directory, judged again where that is asked for; None where there is
    none. Raises EvidenceError where its files do not agree, ConfigError for a session, which is
    several runs."""
    if not path.is_dir():
        return None
    # What judges a run takes longer to import than a small file takes to judge.
    from dstest.runner.integrity import finished
    from dstest.runner.judged_once import JudgedOnce
    from dstest.runner.session_file import is_session
    from dstest.store.layout import RunDir

    if is_session(path):
        RunDir.open(path)
    run = RunDir(path.resolve())
    if not finished(run):
        if deep or (path / "verdict.json").exists():
            raise EvidenceError(
                f"{run.path} was not judged to its end",
                remedy=f"`dstest recover {shell_word(run.path)}` judges it",
            )
        return None
    judged = JudgedOnce("all" if deep else "no")
    found = judged(run)
    say_again(judged)
    return found


def say_again(judged: JudgedOnce) -> None:
    """How long runs were judged again, on standard error; nothing where they are believed."""
    if judged.runs:
        many = "the run was" if judged.runs == 1 else f"{judged.runs} runs were"
        typer.echo(f"dstest: {many} judged again in {judged.seconds:.1f} s", err=True)


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


def exit_of(result: CheckResult, *, named: bool) -> Exit:
    """The exit code of an answer: never 0 where the run it is about is no pass.

    `named`: was a model, workload or checker asked for by name? Then 1 says that a violation of
    just that was found, and a run that failed otherwise is 3; else the question was the run's own,
    and a run that failed is 1.
    """
    code = _CODES[result.valid]
    if code == Exit.FAIL or not result.of_a_run_without_a_pass:
        return code
    assert isinstance(result.run, RunVerdict)
    failed = result.run.exit == Exit.FAIL
    return Exit.FAIL if failed and not named else Exit.NOT_PROVEN
