"""The C core under AddressSanitizer and UndefinedBehaviorSanitizer, without Python in the way.

The driver compares the search with brute force; the second build makes every key go through all
kinds of attempts (reusable unknown operations, limited width), which small keys never reach.
"""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
CSRC = ROOT / "checkers" / "csrc"
FLAGS = ["-std=c11", "-g", "-O1", "-Wall", "-Wextra", "-Werror", "-fno-sanitize-recover=all"]
SOURCES = sorted(p for p in CSRC.glob("lin_*.c"))


@pytest.mark.parametrize(
    ("seed", "defines"),
    [
        (1, []),
        (2, ["-DFIRST_WORK=1", "-DWORK_PER_LOOK=1"]),
        (3, ["-DFIRST_WORK=1", "-DWORK_PER_LOOK=1", "-DLIN_WIDTHS=1,2"]),
    ],
)
def test_search_agrees_with_brute_force_under_sanitizers(
    tmp_path: Path, seed: int, defines: list[str]
) -> None:
    compiler = shutil.which("gcc") or shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler")
    driver = tmp_path / "fuzz_lin"
    build = [compiler, *FLAGS, "-fsanitize=address,undefined", *defines, f"-I{CSRC}"]
    here = Path(__file__).parent / "fuzz_lin.c"
    made = subprocess.run(
        [*build, str(here), *map(str, SOURCES), "-o", str(driver)],
        capture_output=True,
        text=True,
        timeout=100,
    )
    assert made.returncode == 0, made.stderr
    ran = subprocess.run(
        [str(driver), str(seed), "6000"], capture_output=True, text=True, timeout=100
    )
    assert ran.returncode == 0, ran.stderr[-3000:]
    assert ran.stdout == "6000 rounds\n"
