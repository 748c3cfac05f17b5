"""`--system ./mydb.py` and the like: the commands take files of the user's own."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from forked import dstest
from third_party import BARE

pytestmark = pytest.mark.slow

CHECKER = """
from checkers._findings import PerKey
from checkers.unique_ids import decide

CHECKER = PerKey(
    "mine", decide, models=("unique",), types=frozenset({"generate"}), vacuous="none",
    observers=frozenset(),
)
"""

IDS = [
    {"type": t, "f": "generate", "process": 0, "index": i, "time": i * 1000, "value": v}
    for i, (t, v) in enumerate([("invoke", None), ("ok", 1), ("invoke", None), ("ok", 1)])
]


def test_a_system_of_ones_own_is_planned(tmp_path: Path) -> None:
    (tmp_path / "mydb.py").write_text(BARE)
    done = dstest("run", "--system", "./mydb.py", "--nemesis", "kill", cwd=tmp_path)
    assert done.returncode == 2
    assert "system toy cannot have --nemesis kill: it lacks Supervised" in done.stderr
    done = dstest("run", "--plugin", "mydb.py", "--system", "toy", "--nemesis", "kill",
                  cwd=tmp_path)  # fmt: skip
    assert done.returncode == 2
    assert "system toy cannot have --nemesis kill" in done.stderr


@pytest.mark.parametrize("flag", ["--system", "--workload", "--nemesis", "--plugin"])
def test_a_file_that_is_not_there_is_said(tmp_path: Path, flag: str) -> None:
    done = dstest("run", flag, "./absent.py", cwd=tmp_path)
    assert done.returncode == 2
    assert "absent.py: No such file" in done.stderr
    assert "Traceback" not in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_checker_of_ones_own_judges(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(CHECKER)
    (tmp_path / "h.json").write_text(json.dumps(IDS))
    done = dstest("check", "h.json", "--checker", "./mine.py", "--json", cwd=tmp_path)
    assert done.returncode == 1, done.stdout + done.stderr
    assert json.loads(done.stdout)["checker"] == "mine"
