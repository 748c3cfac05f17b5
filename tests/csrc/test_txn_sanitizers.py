"""The transaction checker's C under AddressSanitizer and UndefinedBehaviorSanitizer."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

CSRC = Path(__file__).resolve().parents[2] / "checkers" / "csrc"
FLAGS = ["-std=c11", "-g", "-O1", "-Wall", "-Wextra", "-Werror", "-fno-sanitize-recover=all"]
SOURCES = sorted(p for p in CSRC.glob("txn_*.c") if p.name != "txn_module.c")


def test_random_graphs_and_columns_under_sanitizers(tmp_path: Path) -> None:
    compiler = shutil.which("gcc") or shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler")
    driver = tmp_path / "fuzz_txn"
    here = Path(__file__).parent / "fuzz_txn.c"
    build = [compiler, *FLAGS, "-fsanitize=address,undefined", f"-I{CSRC}", str(here)]
    made = subprocess.run(
        [*build, *map(str, SOURCES), "-o", str(driver)], capture_output=True, text=True, timeout=100
    )
    assert made.returncode == 0, made.stderr
    for seed in ("1", "2", "3"):
        ran = subprocess.run(
            [str(driver), seed, "8000"], capture_output=True, text=True, timeout=60
        )
        assert ran.returncode == 0, ran.stderr[-3000:]
        assert ran.stdout == "8000 rounds\n"
