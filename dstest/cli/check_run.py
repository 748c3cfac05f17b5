"""`dstest check RUN_DIR`: a finished run is believed no more than its files agree, and its history
is not judged better than the run was."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from dstest.core.errors import ConfigError, Exit
from dstest.runner.integrity import Verified, finished, verified
from dstest.runner.session_file import is_session
from dstest.store.layout import RunDir

if TYPE_CHECKING:
    from dstest.core.check import CheckResult

__all__ = ["as_the_run", "require_no_store", "run_at"]

_OF_A_RUN: Final = ("segments", "history.jsonl", "run.json")
_WORSE: Final = (Exit.FAIL, Exit.NOT_PROVEN)


def require_no_store(path: Path) -> None:
    """Raises ConfigError for a directory of runs, which is judged by another command."""
    if not path.is_dir() or is_session(path) or any((path / n).exists() for n in _OF_A_RUN):
        return
    from dstest.retention.walk import walk

    runs = [place.path for place in walk(path).places if place.kind == "run"]
    if runs:
        many = f"{len(runs)} runs" if len(runs) > 1 else "a run"
        raise ConfigError(
            f"{path} is not a run directory: it is a store with {many}",
            remedy=f"`dstest report {path}` judges all that is in it, `dstest check {runs[0]}` one",
        )


def run_at(path: Path) -> Verified | None:
    """The finished run in a directory; None where there is none. Raises EvidenceError where its
    files do not agree, ConfigError for a session, which is several runs."""
    if not path.is_dir():
        return None
    if is_session(path):
        RunDir.open(path)
    run = RunDir(path.resolve())
    return verified(run) if finished(run) else None


def as_the_run(result: CheckResult, run: Verified | None) -> CheckResult:
    """The answer about the history, or the run's own verdict where that is worse."""
    if run is None or result.valid is False or run.exit_code not in _WORSE:
        return result
    failed = run.exit_code == Exit.FAIL
    own = f"the run itself is {run.verdict.verdict.value}: {run.verdict.reason}"
    found = "nothing is wrong in its history" if result.valid is True else None
    said = "; ".join(filter(None, [own, found, result.reason]))
    return replace(result, valid=False if failed else "unknown", reason=said)
