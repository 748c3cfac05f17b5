"""What a script calls: `dstest.check_file` and `dstest.run`."""

from __future__ import annotations

from pathlib import Path

import pytest

import dstest
from dstest.core.check import Budget
from dstest.core.errors import ConfigError, DstestError, HistoryError
from dstest.core.run_record import RunSpec
from dstest.core.verdict import State

STALE = """\
{:process 0, :type :invoke, :f :write, :value 1, :index 0, :time 1}
{:process 0, :type :ok, :f :write, :value 1, :index 1, :time 2}
{:process 1, :type :invoke, :f :read, :value nil, :index 2, :time 3}
{:process 1, :type :ok, :f :read, :value %s, :index 3, :time 4}
"""


@pytest.mark.parametrize(("read", "valid"), [("1", True), ("nil", False)])
def test_a_history_file_is_judged(tmp_path: Path, read: str, valid: bool) -> None:
    path = tmp_path / "history.edn"
    path.write_text(STALE % read)
    result = dstest.check_file(path, workload="register")
    assert result.valid is valid


def test_what_is_given_is_what_the_command_is_given(tmp_path: Path) -> None:
    path = tmp_path / "history.edn"
    path.write_text(STALE % "nil")
    with pytest.raises(ConfigError, match="no format called"):
        dstest.check_file(path, format="nonsense")
    with pytest.raises(ConfigError, match="--deep is for the directory of a run"):
        dstest.check_file(str(path), deep=True)
    path.write_text("not a history\n")
    with pytest.raises(HistoryError):
        dstest.check_file(path, workload="register", budget=Budget(time_s=1.0))


def test_a_run_is_made_and_its_directory_is_judged(tmp_path: Path) -> None:
    spec = RunSpec(
        system="toykv", lab="sim", nodes=3, nemesis="none", time_limit_s=25.0, seed=3, rate=50.0
    )
    done = dstest.run(spec, ["keys=2"], store=tmp_path)
    assert done.verdict is not None and done.verdict.verdict is State.PASS_SMOKE
    assert done.exit_code == 0
    said: list[str] = []
    result = dstest.check_file(done.path, deep=True, tell=said.append)
    assert result.valid is True and "judged again" in said[0]
    (done.path / "history.jsonl").write_bytes(b"{}\n")
    with pytest.raises(DstestError):
        dstest.check_file(done.path)
