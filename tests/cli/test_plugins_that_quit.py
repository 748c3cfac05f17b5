"""A plug-in that ends the process decides no exit code of ours: 0 is a pass, 1 is a violation."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from forked import dstest

pytestmark = pytest.mark.slow

IDS = [
    {"type": t, "f": "generate", "process": 0, "index": i, "time": i * 1000, "value": v}
    for i, (t, v) in enumerate([("invoke", None), ("ok", 1), ("invoke", None), ("ok", 2)])
]

QUITS = """
import sys
from dstest.core.protocols import Checker
class Quits(Checker):
    name, kind, models = "quits", "history", ("unique",)
    def check(self, history, model, budget):
        {act}
CHECKER = Quits()
"""

NEMESIS = """
import sys
from nemeses.none import NoNemesis
class Quits(NoNemesis):
    name = "quits"
    def plan(self, *given):
        sys.exit({code})
NEMESIS = Quits()
"""


@pytest.mark.parametrize(
    ("act", "said"),
    [
        ("sys.exit(0)", "SystemExit: 0"),
        ("sys.exit(1)", "SystemExit: 1"),
        ("import os; os._exit(0)", "SystemExit: 0"),
        ("import os; os._exit(1)", "SystemExit: 1"),
        ("raise ValueError('x')", "ValueError: x"),
        ("raise GeneratorExit", "GeneratorExit"),
    ],
)
def test_a_checker_that_fails_is_unknown(tmp_path: Path, act: str, said: str) -> None:
    (tmp_path / "quits.py").write_text(QUITS.format(act=act))
    (tmp_path / "h.json").write_text(json.dumps(IDS))
    done = dstest("check", "h.json", "--checker", "./quits.py", cwd=tmp_path)
    assert done.returncode == 3, done.stdout + done.stderr
    assert "checker quits failed: " in done.stdout and f": {said}" in done.stdout
    assert f"{tmp_path}/quits.py, line 7" in done.stdout
    assert done.stderr == ""


def test_a_library_that_ends_the_process_is_no_violation(tmp_path: Path) -> None:
    act = "import ctypes; ctypes.CDLL(None).exit(1)"
    (tmp_path / "quits.py").write_text(QUITS.format(act=act))
    (tmp_path / "h.json").write_text(json.dumps(IDS))
    assert dstest("check", "h.json", "--checker", "./quits.py", cwd=tmp_path).returncode == 4


@pytest.mark.parametrize("mib", [30, 110])
def test_without_memory_nothing_is_said_of_the_history(tmp_path: Path, mib: int) -> None:
    (tmp_path / "h.json").write_text(json.dumps(IDS))
    command = "import sys; from dstest.__main__ import main; main()"
    limited = (
        f"import resource; resource.setrlimit(resource.RLIMIT_AS, ({mib << 20}, {mib << 20}));"
        f"{command}"
    )
    argv = [sys.executable, "-c", limited, "check", "h.json", "--workload", "unique-ids"]
    done = subprocess.run(
        argv, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode in (3, 4), done.stdout + done.stderr


@pytest.mark.parametrize("code", [0, 1, 2, 130])
def test_a_plan_that_ends_the_process_is_an_error(tmp_path: Path, code: int) -> None:
    (tmp_path / "quits.py").write_text(NEMESIS.format(code=code))
    done = dstest("run", "--nemesis", "./quits.py", cwd=tmp_path)
    assert done.returncode == 4, done.stdout + done.stderr
    assert f"{tmp_path}/quits.py, line 7: SystemExit: {code}" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_refused_option_is_wrong_usage(tmp_path: Path) -> None:
    act = "from dstest.core.errors import ConfigError; raise ConfigError('-o a=b: no')"
    (tmp_path / "quits.py").write_text(QUITS.format(act=act))
    (tmp_path / "h.json").write_text(json.dumps(IDS))
    done = dstest("check", "h.json", "--checker", "./quits.py", cwd=tmp_path)
    assert done.returncode == 2
    assert done.stderr == "dstest: -o a=b: no\n"
