"""Cases of a `sampled` test: which of them `make test` runs."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]

CASES = """
import pytest

@pytest.mark.parametrize("n", range({cases}))
@pytest.mark.sampled({wanted})
def test_some(n): pass

@pytest.mark.parametrize("n", range(2))
def test_all(n): pass
"""


def collected(folder: Path, words: str, *, cases: int, wanted: int) -> list[str]:
    (folder / "conftest.py").write_text((ROOT / "tests" / "conftest.py").read_text())
    (folder / "test_cases.py").write_text(CASES.format(cases=cases, wanted=wanted))
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-c",
        str(ROOT / "pyproject.toml"),
        "--collect-only",
        "-q",
    ]
    command += ["--rootdir", str(folder), "-m", words, str(folder)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return [line.partition("::")[2] for line in done.stdout.splitlines() if "::" in line]


def test_as_many_as_are_wanted_are_run_and_the_others_are_long(tmp_path: Path) -> None:
    everywhere = ["test_all[0]", "test_all[1]"]
    run = collected(tmp_path, "not long", cases=10, wanted=4)
    assert run == ["test_some[0]", "test_some[2]", "test_some[5]", "test_some[7]", *everywhere]
    left = collected(tmp_path, "long", cases=10, wanted=4)
    assert left == [f"test_some[{n}]" for n in (1, 3, 4, 6, 8, 9)]


def test_where_there_are_fewer_all_are_run(tmp_path: Path) -> None:
    assert len(collected(tmp_path, "not long", cases=2, wanted=4)) == 4
