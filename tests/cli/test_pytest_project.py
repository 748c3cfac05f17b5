"""A project outside the tree that uses the plugin, as its own user would: offline checks."""

from __future__ import annotations

import importlib.metadata
import os
import subprocess
import sys
from pathlib import Path

import pytest

from dstest.history.generator.histories import Spec, events, lines

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]
PYPROJECT = """\
[project]
name = "theirs"
version = "1"

[tool.pytest.ini_options]
addopts = "--strict-markers --strict-config"
filterwarnings = ["error"]
"""
TEST = """\
from pathlib import Path

HERE = Path(__file__).parent


def test_good(dstest_check):
    results = dstest_check(HERE / "good.jsonl", models=["serializable", "snapshot-isolation"])
    assert [result.valid for result in results] == [True, True]


def test_bad(dstest_check):
    dstest_check(HERE / "bad.jsonl")


def test_bad_is_expected(dstest_check):
    (result,) = dstest_check(HERE / "bad.jsonl", expect="violation")
    assert "G1a" in result.anomaly_types


def test_good_is_no_violation(dstest_check):
    dstest_check(HERE / "good.jsonl", expect="violation")


def test_nothing_is_unknown(dstest_check):
    dstest_check(HERE / "empty.jsonl")


def test_unreadable(dstest_check):
    dstest_check(HERE / "no-such-file.jsonl")


def test_a_history_of_python(dstest_check):
    from dstest.core.history import Header, History
    from dstest.core.op import Op

    def op(number, kind, asked, answered):
        return Op(op_id=number, process_id=0, invoke_ts=10 * number, complete_ts=10 * number + 5,
                  op_type=kind, key="x", input=asked, output=answered)

    header = Header(workload="register", model="register")
    good = [op(0, "write", 1, None), op(1, "read", None, 1)]
    dstest_check(History(header=header, ops=good))
    stale = [*good, op(2, "write", 2, None), op(3, "read", None, 1)]
    dstest_check(History(header=header, ops=stale), expect="violation")
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "pyproject.toml").write_text(PYPROJECT)
    (tmp_path / "checkers").mkdir()  # called as a package of ours
    (tmp_path / "checkers" / "__init__.py").write_text("raise SystemError('theirs')\n")
    (tmp_path / "tests").mkdir()
    for name, spec in (
        ("good", Spec(txns=50)),
        ("bad", Spec(txns=50, inject={"G1a": 1})),
    ):
        path = tmp_path / "tests" / f"{name}.jsonl"
        path.write_bytes(b"".join(lines(events(spec), spec, "jsonl")))
    whole = (tmp_path / "tests" / "good.jsonl").read_bytes()
    (tmp_path / "tests" / "empty.jsonl").write_bytes(whole.splitlines(keepends=True)[0])
    (tmp_path / "tests" / "test_theirs.py").write_text(TEST)
    return tmp_path


def run_there(project: Path, *words: str) -> subprocess.CompletedProcess[str]:
    installed = importlib.metadata.entry_points(group="pytest11", name="dstest")
    plugin = () if installed else ("-p", "dstest.testing.plugin")
    return subprocess.run(
        [sys.executable, "-P", "-m", "pytest", "-p", "no:cacheprovider", "-rA", *plugin, *words],
        cwd=project, text=True, capture_output=True, timeout=110, check=False,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip


def test_a_good_history_passes_and_a_bad_one_fails(project: Path) -> None:
    done = run_there(project)
    ends = {
        line.split("::")[1].split(" ")[0]: line.split(" ")[0]
        for line in done.stdout.splitlines()
        if line.startswith(("PASSED ", "FAILED ", "ERROR "))
    }
    assert ends == {
        "test_good": "PASSED",
        "test_bad": "FAILED",
        "test_bad_is_expected": "PASSED",
        "test_good_is_no_violation": "FAILED",
        "test_nothing_is_unknown": "FAILED",
        "test_unreadable": "FAILED",
        "test_a_history_of_python": "PASSED",
    }, done.stdout + done.stderr
    assert "G1a: " in done.stdout and "a violation" in done.stdout


SIMULATED = """
import pytest

ASKED = dict(system="toykv", nemesis="none", nodes=3, time_limit_s=25, seed=3, rate=50)

@pytest.mark.dstest(**ASKED)
def test_it(dstest_run):
    assert len(dstest_run.history.ops) > 1000

BUG = dict(ASKED, time_limit_s=8, rate=100, options={"bug": "stale-follower-read"})

@pytest.mark.dstest(**BUG)
def test_a_bug(dstest_run):
    assert False, "never executed"
"""


def test_without_root_runs_are_simulated(tmp_path: Path) -> None:
    (tmp_path / "test_simulated.py").write_text(SIMULATED)
    (tmp_path / "pytest.ini").write_text("[pytest]\ndstest_lab = sim\n")
    done = run_there(tmp_path)
    assert "PASSED test_simulated.py::test_it" in done.stdout, done.stdout + done.stderr
    assert "FAILED test_simulated.py::test_a_bug" in done.stdout
    assert "had been confirmed" in done.stdout
    assert "never executed" not in done.stdout.partition("\n_")[2]
