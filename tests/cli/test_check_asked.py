"""What `dstest check` is asked: directories that are no run, contradictions, budgets, words."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from dstest.cli.app import app
from dstest.core.errors import DstestError
from dstest.generator.histories import Spec, events
from dstest.generator.writing import lines


def check(*arguments: object) -> tuple[int, str]:
    done = CliRunner().invoke(app, ["check", *map(str, arguments)])
    if isinstance(done.exception, DstestError):
        return int(done.exception.exit_code), str(done.exception)
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    return done.exit_code, done.output


def written(path: Path, spec: Spec) -> Path:
    path.write_bytes(b"".join(lines(events(spec), spec, "jsonl")))
    return path


@pytest.fixture
def register(tmp_path: Path) -> Path:
    return written(tmp_path / "register.jsonl", Spec(workload="register", txns=60))


@pytest.mark.parametrize("command", ["check", "export", "recover", "report", "replay"])
def test_directories_that_are_no_run(command: str, tmp_path: Path) -> None:
    store = tmp_path / "store"
    run = store / "etcd-register-none" / "20260101T000000Z-7"
    run.mkdir(parents=True)
    (run / "run.json").write_text("{}")
    done = CliRunner().invoke(app, [command, str(store)])
    assert isinstance(done.exception, DstestError)
    assert int(done.exception.exit_code) == 2
    said = str(done.exception)
    assert "is not a run directory" in said
    assert "store/latest" in said
    assert f"recover {store}" not in said


@pytest.mark.parametrize("status", ["running\n", "verdict: PASS-smoke\n", "met: PASS-hardening\n"])
def test_a_session_is_no_run(status: str, tmp_path: Path) -> None:
    (tmp_path / "session.json").write_text("{}")
    (tmp_path / "sha256sums").write_text("")
    (tmp_path / "status").write_text(status)
    code, said = check(tmp_path)
    assert code == 2
    assert "is a session" in said
    assert "one of its runs, below arms/" in said
    assert "do not believe" not in said


def test_a_run_that_was_cut_off_is_recovered_first(tmp_path: Path) -> None:
    (tmp_path / "segments").mkdir()
    code, said = check(tmp_path)
    assert code == 2
    assert f"dstest recover {tmp_path}" in said


def test_a_history_in_a_directory_is_judged(register: Path) -> None:
    register.rename(register.with_name("history.jsonl"))
    assert check(register.parent)[0] == 0
