"""What tests of commands share: checkers in the process of the test where nothing is asked about
processes of their own, and runs that passed and failed."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest
from made_runs import made, registers

from dstest.cli import check_workload
from dstest.core import registry
from dstest.core.check import CheckResult
from dstest.core.verdict import State
from dstest.judge.budgeted import Job, budgeted
from dstest.store.importers import load_history


def _answer(job: Job) -> CheckResult:
    source = job.source
    history = load_history(source.path, source.format, independent=source.independent)
    header = msgspec.structs.replace(
        history.header, options={**history.header.options, **job.options}
    )
    checker = registry.load("checkers", job.checker)
    return budgeted(checker, msgspec.structs.replace(history, header=header), job.model, job.budget)


def _answers(jobs: Sequence[Job]) -> list[CheckResult]:
    return [_answer(job) for job in jobs]


@pytest.fixture
def judge_here(monkeypatch: pytest.MonkeyPatch) -> None:
    """Saves a start of Python per checker; test_check_workload keeps the processes."""
    monkeypatch.setattr(check_workload, "run_jobs", _answers)


def stale(count: int = 700) -> Any:
    """A register that gives an old value once."""
    ops = registers(count=count)
    reads = [
        (i, op) for i, op in enumerate(ops) if op.op_type == "read" and op.output and not op.error
    ]
    i, op = reads[len(reads) // 2]
    old = next(o for _, o in reads if o.key == op.key and o.output != op.output)
    return [*ops[:i], msgspec.structs.replace(op, output=old.output), *ops[i + 1 :]]


@pytest.fixture(scope="session")
def passed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    run, verdict = made(tmp_path_factory.mktemp("pass") / "run", registers(count=700), "register")
    assert verdict.verdict is State.PASS_SMOKE, verdict.reason
    return run.path


@pytest.fixture(scope="session")
def failed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    run, verdict = made(tmp_path_factory.mktemp("fail") / "run", stale(), "register")
    assert verdict.verdict.failed, verdict.reason
    return run.path


@pytest.fixture
def copy(tmp_path: Path) -> Callable[[Path], Path]:
    def made_copy(of: Path) -> Path:
        return Path(shutil.copytree(of, tmp_path / "copy" / of.name))

    return made_copy
