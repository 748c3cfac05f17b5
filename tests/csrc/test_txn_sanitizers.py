"""The transaction checker's C under AddressSanitizer and UndefinedBehaviorSanitizer."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

HERE = Path(__file__).parent
CSRC = Path(__file__).resolve().parents[2] / "checkers" / "csrc"
FLAGS = ["-std=c11", "-g", "-O1", "-Wall", "-Wextra", "-Werror", "-fno-sanitize-recover=all"]
SOURCES = sorted(
    p for p in [*CSRC.glob("common/core_*.c"), *CSRC.glob("txn/*.c")] if p.name != "txn_module.c"
)


SPENT = ["-DWORK_PER_SEARCH=8", "-DWORK_IN_ALL=64", "-DEMPTY_SLOTS=4"]


def build(driver: Path, defines: list[str], *files: str) -> None:
    compiler = shutil.which("gcc") or shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler")
    command = [compiler, *FLAGS, "-fsanitize=address,undefined", *defines, f"-I{CSRC}"]
    command += [*(str(HERE / name) for name in files), *map(str, SOURCES), "-o", str(driver)]
    made = subprocess.run(command, capture_output=True, text=True, timeout=100)
    assert made.returncode == 0, made.stderr


@pytest.mark.parametrize(("seeds", "defines"), [("12", []), ("3", SPENT)])
def test_random_graphs_and_columns_under_sanitizers(
    tmp_path: Path, seeds: str, defines: list[str]
) -> None:
    driver = tmp_path / "fuzz_txn"
    build(driver, defines, "fuzz_txn.c")
    for seed in seeds:
        ran = subprocess.run(
            [str(driver), seed, "8000"], capture_output=True, text=True, timeout=60
        )
        assert ran.returncode == 0, ran.stderr[-3000:]
        assert ran.stdout == "8000 rounds\n"


@pytest.mark.parametrize(("target", "defines"), [("txn", []), ("txn-spent", SPENT)])
def test_what_fuzzing_found_under_sanitizers(
    tmp_path: Path, target: str, defines: list[str]
) -> None:
    driver = tmp_path / "replay"
    build(driver, defines, "replay.c", "target_txn.c")
    corpus = sorted(str(p) for p in (HERE / "corpus" / target).iterdir())
    ran = subprocess.run([str(driver), *corpus], capture_output=True, text=True, timeout=60)
    assert ran.returncode == 0, ran.stderr[-3000:]
    assert ran.stdout == f"{len(corpus)} files\n"
