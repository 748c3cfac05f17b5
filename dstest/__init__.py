"""dstest: cluster tests that prove every fault landed. What a script or a notebook calls."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from dstest.core.check import CheckResult
    from dstest.core.run_record import RunSpec
    from dstest.runner.session import Finished

__all__ = ["__version__", "check_file", "run"]

__version__ = "0.22.0"


def check_file(path: Path | str, **asked: Any) -> CheckResult:
    """Judge a history file, or a finished run, as `dstest check` does.

    `asked` and what is raised: `dstest.check.file.check_file`.
    """
    from dstest.check.file import check_file as judge

    return judge(path, **asked)


def run(spec: RunSpec, options: Sequence[str] = (), *, store: Path | str, **where: Any) -> Finished:
    """One run from nothing to its verdict, as `dstest run` does: `options` are its `-o key=value`
    beside those of the spec, `store` is where its directory goes. To be called in the main thread.

    `where` and what is raised: `runner.session.run_session`. Nothing is raised for what ended
    a run that had begun: `Finished` says so, and `exit_code` is never 0 where it is no pass.
    """
    from pathlib import Path

    from dstest.core.errors import ConfigError
    from dstest.core.run_words import pair_of
    from dstest.runner.fault_plans import read_schedule
    from dstest.runner.plugins import resolve
    from dstest.runner.session import run_session

    if isinstance(options, str):
        raise ConfigError(f"options={options!r}: a list of key=value", remedy=f"[{options!r}]")
    pairs = [*(pair_of(key, value) for key, value in spec.options.items()), *options]
    schedule = None if spec.schedule is None else read_schedule(Path(spec.schedule))
    return run_session(resolve(spec, pairs, schedule=schedule), store=Path(store), **where)
