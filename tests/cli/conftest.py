"""What tests of commands share: checkers in the process of the test where nothing is asked about
processes of their own, and runs that passed and failed."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest
from gate_store import run_at
from made_once import Once
from made_runs import made, registers

from dstest.check import objects as check_objects
from dstest.core import registry
from dstest.core.check import CheckResult
from dstest.core.verdict import State
from dstest.history.importers import load_history
from dstest.judge.checker_answers import Job, bounded_answer


def _answer(job: Job) -> CheckResult:
    source = job.source
    history = load_history(source.path, source.format, independent=source.independent)
    header = msgspec.structs.replace(
        history.header, options={**history.header.options, **job.options}
    )
    checker = registry.load("checkers", job.checker)
    return bounded_answer(
        checker, msgspec.structs.replace(history, header=header), job.model, job.budget
    )


def _answers(jobs: Sequence[Job]) -> list[CheckResult]:
    return [_answer(job) for job in jobs]


@pytest.fixture
def judge_here(monkeypatch: pytest.MonkeyPatch) -> None:
    """Saves a start of Python per checker; test_check_workload keeps the processes."""
    monkeypatch.setattr(check_objects, "run_jobs", _answers)


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
def passed(once: Once) -> Path:
    def make(folder: Path) -> None:
        _, verdict = made(folder / "run", registers(count=700), "register")
        assert verdict.verdict is State.PASS_SMOKE, verdict.reason

    return once("passed", make) / "run"


@pytest.fixture(scope="session")
def failed(once: Once) -> Path:
    def make(folder: Path) -> None:
        _, verdict = made(folder / "run", stale(), "register")
        assert verdict.verdict.failed, verdict.reason

    return once("failed", make) / "run"


@pytest.fixture(scope="session")
def two_passes(once: Once) -> Path:
    """A store of two runs that a gate lets through."""

    def make(folder: Path) -> None:
        run_at(folder / "store", 1)
        run_at(folder / "store", 2)

    return once("two-passes", make) / "store"


@pytest.fixture
def copy(tmp_path: Path) -> Callable[[Path], Path]:
    def made_copy(of: Path) -> Path:
        return Path(shutil.copytree(of, tmp_path / "copy" / of.name))

    return made_copy
