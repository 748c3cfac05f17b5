"""What `dstest check` is asked: directories that are no run, contradictions, budgets, words."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from made_runs import recorded, registers
from typer.testing import CliRunner

from dstest.cli.app import app
from dstest.core.errors import DstestError
from dstest.history.generator.histories import Spec, events, lines
from dstest.history.importers import load_history
from dstest.runner.judgement import judge

pytestmark = pytest.mark.slow


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


@pytest.mark.parametrize("command", ["check", "export", "recover", "replay"])
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


def test_a_store_of_what_is_left_of_a_run_is_no_pass(tmp_path: Path) -> None:
    run = tmp_path / "store" / "etcd-register-none" / "20260101T000000Z-7"
    run.mkdir(parents=True)
    (run / "run.json").write_text("{}")
    done = CliRunner().invoke(app, ["report", str(tmp_path / "store")])
    assert done.exit_code == 3
    assert "not-believed" in done.output
    assert "0 of 1 passed" in done.output


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


def test_a_verdict_long_after_the_time_is_unknown(register: Path, tmp_path: Path) -> None:
    txns = written(tmp_path / "txns.jsonl", Spec(txns=50))
    for path in (register, txns):
        assert check(path)[0] == 0
        code, said = check(path, "--budget-s", "0.0000001")
        assert code == 3
        assert "time budget" in said


def test_a_violation_stands_whenever_it_is_found(tmp_path: Path) -> None:
    bad = written(tmp_path / "bad.jsonl", Spec(txns=50, inject={"G1a": 1}))
    code, said = check(bad, "--budget-s", "0.0000001", "--json")
    assert (code, json.loads(said)["valid"]) in {(1, False), (3, "unknown")}


def test_a_memory_budget_that_does_not_suffice_for_reading(tmp_path: Path) -> None:
    large = written(tmp_path / "large.jsonl", Spec(workload="register", txns=20000))
    # In a process of its own: this one may have room enough that it once asked for.
    command = [sys.executable, "-m", "dstest", "check", str(large), "--budget-mb", "1"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    code, said = done.returncode, done.stdout
    assert code == 3
    assert "unknown, it could not be read" in said
    assert "memory budget of 1 MB used up on reading" in said
    assert "--budget-mb" in said
    assert "any model" not in said
    assert "keys" not in said


@pytest.mark.parametrize(
    "asked",
    [
        ["--workload", "set", "--checker", "linearizable"],
        ["--workload", "register", "--checker", "set"],
        ["--workload", "register", "--checker", "list-append"],
        ["--workload", "list-append", "--checker", "linearizable"],
        ["--workload", "list-append", "--checker", "rw-register"],
    ],
)
def test_a_workload_and_a_checker_that_do_not_fit(asked: list[str], register: Path) -> None:
    code, said = check(register, *asked)
    assert code == 2
    assert f"--checker {asked[3]} does not judge --workload {asked[1]}" in said
    assert "remedy" in said


def test_a_workload_and_a_checker_that_fit(register: Path) -> None:
    assert check(register, "--workload", "register", "--checker", "linearizable")[0] == 0


@pytest.mark.parametrize(
    "flags",
    [
        ["--workload", "list-append"],
        ["--model", "serializable"],
        ["--checker", "list-append"],
        ["--format", "edn"],
        ["--independent"],
        ["-o", "wfr-keys=true"],
        ["--initial", "0"],
        ["--initial", "null"],
        ["--report", "there"],
    ],
)
def test_a_batch_is_asked_line_by_line(flags: list[str], tmp_path: Path) -> None:
    path = tmp_path / "in.jsonl"
    path.write_text('{"workload": "list-append", "history": []}\n')
    code, said = check("--batch", path, *flags)
    assert code == 2
    assert f"--batch takes no {flags[0]}" in said
    both = ["--initial", "0", "-o", "wfr-keys=true"]
    assert "--batch takes no -o, --initial" in check("--batch", path, *both)[1]


@pytest.mark.parametrize("line", [b"{broken\n", b'{"op_id": \xff}\n', b'{"op_id": 7}\n'])
def test_a_damaged_line_has_a_remedy(line: bytes, register: Path) -> None:
    register.write_bytes(register.read_bytes() + line)
    code, said = check(register)
    assert code == 2
    assert "line 6" in said or "line 1" in said
    assert "remedy: " in said


def test_values_stand_in_sentences_as_in_the_history(tmp_path: Path) -> None:
    rows = [
        {"type": kind, "f": f, "value": value, "process": process}
        for process, f, value in ((0, "add", None), (1, "read", [None, None, "x"]))
        for kind in ("invoke", "ok")
    ]
    path = tmp_path / "set.json"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    code, said = check(path, "--checker", "set-full")
    assert code == 1
    assert "returned null more than once" in said
    assert '"x"' in said
    assert "None" not in said


def exported(path: Path, fmt: str) -> list[str]:
    done = CliRunner().invoke(app, ["export", str(path), "--format", fmt])
    assert done.exit_code == 0, done.exception
    return done.output.splitlines(keepends=True)


@pytest.mark.parametrize("fmt", ["edn", "json"])
@pytest.mark.parametrize("workload", ["register", "list-append"])
def test_a_cut_export_is_cut_and_not_doubled(workload: str, fmt: str, tmp_path: Path) -> None:
    source = written(tmp_path / "whole.jsonl", Spec(workload=workload, txns=400))
    rows = exported(source, fmt)
    path = tmp_path / f"cut.{fmt}"
    for kept in (len(rows) // 2, len(rows) // 3, 3):
        path.write_text("".join(rows[:kept]))
        code, said = check(path)
        assert code == 3, said
        assert "it ends with " in said
        assert "the file is cut" in said
        assert "twice" not in said
    path.write_text("".join(rows))
    assert check(path)[0] == 0


def test_a_cut_export_of_a_run_says_so(tmp_path: Path) -> None:
    run = recorded(tmp_path / "run", registers(count=300), "register")
    judge(run)
    rows = exported(run.history, "edn")
    path = tmp_path / "cut.edn"
    path.write_text("".join(rows[: len(rows) // 2]))
    code, said = check(path)
    assert code == 2
    assert "(H14); it ends with " in said
    assert "the file is cut" in said


def test_open_operations_have_ids_of_their_own(tmp_path: Path) -> None:
    source = written(tmp_path / "whole.jsonl", Spec(workload="register", txns=300))
    path = tmp_path / "cut.edn"
    path.write_text("".join(exported(source, "edn")[::1][:301]))
    ids = [op.op_id for op in load_history(path).ops]
    assert len(set(ids)) == len(ids)


NAMELESS = """\
[{:type :invoke, :f :read, :value [[:r 0 nil] [:r 1 nil]]},
{:type :ok, :f :read, :value [[:r 0 1] [:r 1 nil]]}]
"""


@pytest.mark.parametrize("asked", [[], ["--workload", "long-fork"], ["--checker", "long-fork"]])
def test_events_without_a_process_have_one_answer(asked: list[str], tmp_path: Path) -> None:
    path = tmp_path / "long-fork.edn"
    path.write_text(NAMELESS)
    code, said = check(path, *asked)
    assert code == 2
    assert "event has no process" in said
    assert "--workload list-append or rw-register" in said


def test_transactions_do_without_a_process(tmp_path: Path) -> None:
    path = tmp_path / "txn.edn"
    path.write_text(NAMELESS.replace(":f :read", ":f :txn"))
    code, said = check(path)
    assert code == 1
    assert "None" not in said
    path.write_text(NAMELESS)
    assert check(path, "--workload", "rw-register")[0] == 1
