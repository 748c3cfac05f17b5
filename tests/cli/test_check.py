"""`dstest check`: exit codes, the JSON contract and the text for people."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from dstest.cli.app import app
from dstest.core.errors import ConfigError, HistoryError

pytestmark = pytest.mark.slow

GOOD = """\
{:process 0 :type :invoke :f :write :value 1}
{:process 0 :type :ok :f :write :value 1}
{:process 1 :type :invoke :f :read :value nil}
{:process 1 :type :ok :f :read :value 1}
"""
STALE = (
    GOOD
    + """\
{:process 0 :type :invoke :f :write :value 2}
{:process 0 :type :ok :f :write :value 2}
{:process 1 :type :invoke :f :read :value nil}
{:process 1 :type :ok :f :read :value 1}
"""
)
FOREIGN = GOOD + "{:process 2 :type :invoke :f :add :value 1}\n"

KEYS = {
    *("valid", "workload", "model", "anomaly_types", "not", "also_not", "anomalies"),
    *("ops", "keys", "seconds", "peak_rss_mb"),
}


def run(folder: Path, text: str, *options: str) -> tuple[int, str]:
    path = folder / "history.edn"
    path.write_text(text)
    result = CliRunner().invoke(app, ["check", str(path), *options])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result.exit_code, result.stdout


@pytest.mark.parametrize(
    ("text", "code", "valid"), [(GOOD, 0, True), (STALE, 1, False), (FOREIGN, 3, "unknown")]
)
def test_exit_codes_and_json(tmp_path: Path, text: str, code: int, valid: Any) -> None:
    got, out = run(tmp_path, text, "--json")
    assert got == code
    assert out.count("\n") == 1
    answer = json.loads(out)
    assert set(answer) >= KEYS
    assert answer["valid"] == valid
    assert (answer["workload"], answer["model"]) == ("cas-register", "cas-register")
    assert set(answer["ops"]) == {"total", "consumed", "excluded"}
    assert {"total", "decided"} <= set(answer["keys"])
    assert set(answer["seconds"]) == {"load", "check"}
    if valid is False:
        assert answer["anomaly_types"] == ["nonlinearizable"]
        assert answer["not"] == ["linearizable"]
        (anomaly,) = answer["anomalies"]["nonlinearizable"]
        assert anomaly["ops"] == [0, 2, 3]


def test_text_for_people(tmp_path: Path) -> None:
    code, out = run(tmp_path, STALE)
    assert code == 1
    assert "history.edn: VIOLATION under cas-register" in out
    assert "nonlinearizable: 3 operations, none can be left out" in out
    lines = out.splitlines()
    head = next(i for i, line in enumerate(lines) if line.startswith("  op  process"))
    rows = [line.split() for line in lines[head + 1 : head + 4]]
    assert [row[4] for row in rows] == ["write", "write", "read"]
    assert "4 of 4 operations judged; 1 of 1 keys decided" in out


def test_options(tmp_path: Path) -> None:
    code, out = run(tmp_path, GOOD, "--workload", "register", "--json", "--budget-mb", "64")
    assert code == 0
    assert json.loads(out)["model"] == "register"
    keyed = GOOD.replace(":value nil", ":value [7 nil]").replace(":value 1", ":value [7 1]")
    code, out = run(tmp_path, keyed, "--independent", "--json")
    assert (code, json.loads(out)["keys"]["total"]) == (0, 1)


def test_report(tmp_path: Path) -> None:
    folder = tmp_path / "deep" / "report"
    code, _ = run(tmp_path, STALE, "--report", str(folder))
    assert code == 1
    assert json.loads((folder / "result.json").read_text())["valid"] is False
    assert "3 operations" in (folder / "witness.txt").read_text()
    with pytest.raises(ConfigError):
        run(tmp_path, STALE, "--report", str(tmp_path / "history.edn"))


@pytest.mark.parametrize(
    "options",
    [
        ["--workload", "no-such"],
        ["--model", "serializable"],
        ["--format", "xml"],
        ["--budget-s", "0"],
        ["--budget-mb", "-1"],
    ],
)
def test_wrong_usage(tmp_path: Path, options: list[str]) -> None:
    with pytest.raises(ConfigError) as caught:
        run(tmp_path, GOOD, *options)
    assert caught.value.remedy


def test_unreadable(tmp_path: Path) -> None:
    with pytest.raises(HistoryError):
        run(tmp_path, "{:process 0")


@pytest.mark.parametrize(("text", "code"), [(GOOD, 0), (STALE, 1), ("", 2), (FOREIGN, 3)])
def test_the_process_itself(tmp_path: Path, text: str, code: int) -> None:
    path = tmp_path / "history.edn"
    path.write_text(text)
    ran = subprocess.run(
        [sys.executable, "-m", "dstest", "check", str(path)],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert ran.returncode == code, ran.stderr
    assert "Traceback" not in ran.stderr
    assert ("remedy:" in ran.stderr) == (code == 2)
