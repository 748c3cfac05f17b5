"""With --json standard output is one JSON object, whatever a user's file prints."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from forked import Ended
from forked import dstest as forked
from third_party import BARE

pytestmark = pytest.mark.slow

PRINTS = """
import os, subprocess
print("printed at import")
os.write(1, b"written at import\\n")
subprocess.run(["echo", "echoed at import"])
"""
SYSTEM = (
    BARE.replace("return list(nodes)\n", "print('printed in members'); return list(nodes)\n")
    + PRINTS
)
CHECKER = (
    """
from checkers._findings import PerKey
from checkers.unique_ids import decide

class Mine(PerKey):
    def check(self, *given):
        print("printed in check")
        return super().check(*given)

CHECKER = Mine(
    "mine", decide, models=("unique",), types=frozenset({"generate"}), vacuous="none",
    observers=frozenset(),
)
"""
    + PRINTS
)
IDS = [
    {"type": t, "f": "generate", "process": 0, "index": i, "time": i * 1000, "value": v}
    for i, (t, v) in enumerate([("invoke", None), ("ok", 1), ("invoke", None), ("ok", 2)])
]
LIST = ("list", "--system", "./mydb.py")
CHECK = ("check", "h.json", "--checker", "./mine.py")
RUN = ("run", "--system", "./mydb.py", "--nemesis", "kill")


def dstest(folder: Path, *words: str) -> Ended:
    (folder / "mydb.py").write_text(SYSTEM)
    (folder / "mine.py").write_text(CHECKER)
    (folder / "h.json").write_text(json.dumps(IDS))
    return forked(*words, cwd=folder)


@pytest.mark.parametrize("words", [LIST, CHECK])
def test_the_answer_is_all_there_is(tmp_path: Path, words: tuple[str, ...]) -> None:
    done = dstest(tmp_path, *words, "--json")
    assert done.returncode == 0, done.stderr
    assert isinstance(json.loads(done.stdout), dict)
    for word in ("printed", "written", "echoed"):
        assert f"{word} at import" in done.stderr


def test_the_answer_of_a_refused_run_is_why(tmp_path: Path) -> None:
    done = dstest(tmp_path, *RUN, "--json")
    assert done.returncode == 2
    said = json.loads(done.stdout)
    assert said["exit_code"] == 2
    assert "--nemesis kill" in said["error"]
    assert said["remedy"].startswith("another --nemesis")
    assert "printed at import" in done.stderr


@pytest.mark.parametrize("words", [LIST, CHECK, RUN])
def test_people_see_it_where_it_was_printed(tmp_path: Path, words: tuple[str, ...]) -> None:
    done = dstest(tmp_path, *words)
    assert "printed at import" in done.stdout
    assert "printed" not in done.stderr


def test_help_is_still_on_standard_output(tmp_path: Path) -> None:
    done = dstest(tmp_path, "list", "--json", "--help")
    assert "Usage" in done.stdout
