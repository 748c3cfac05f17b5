"""The C core under AddressSanitizer and UndefinedBehaviorSanitizer, without Python in the way.

The driver compares the search with brute force; the second build makes every key go through all
kinds of attempts (focused, reusable unknown operations, limited width), which small keys never
reach.
"""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
CSRC = ROOT / "checkers" / "csrc"
FLAGS = ["-std=c11", "-g", "-O1", "-Wall", "-Wextra", "-Werror", "-fno-sanitize-recover=all"]
SHARED = [*CSRC.glob("common/core_*.c"), CSRC / "lin" / "lin_keys.c"]
SOURCES = sorted(
    p
    for p in {*SHARED, *CSRC.glob("lin/*.c"), CSRC / "mon" / "mon_chain.c"}
    if not p.name.endswith("_module.c")
)


AUTOMATA = sorted(
    p
    for p in [*SHARED, *CSRC.glob("aut/*.c"), *CSRC.glob("mon/*.c")]
    if not p.name.endswith("_module.c")
)


def build_driver(folder: Path, files: list[str], sources: list[Path], defines: list[str]) -> Path:
    compiler = shutil.which("gcc") or shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler")
    driver = folder / "driver"
    build = [compiler, *FLAGS, "-fsanitize=address,undefined", *defines, f"-I{CSRC}"]
    here = [str(Path(__file__).parent / name) for name in files]
    made = subprocess.run(
        [*build, *here, *map(str, sources), "-o", str(driver)],
        capture_output=True,
        text=True,
        timeout=100,
    )
    assert made.returncode == 0, made.stderr
    return driver


def run_driver(
    folder: Path, source: str, sources: list[Path], defines: list[str], seed: int, rounds: int
) -> None:
    """Builds and runs a driver; it prints how many rounds went well."""
    driver = build_driver(folder, [source], sources, defines)
    ran = subprocess.run(
        [str(driver), str(seed), str(rounds)], capture_output=True, text=True, timeout=100
    )
    assert ran.returncode == 0, ran.stderr[-3000:]
    assert ran.stdout == f"{rounds} rounds\n"


@pytest.mark.parametrize(
    ("seed", "defines"),
    [
        (1, []),
        (2, ["-DAUT_FIRST_WORK=1", "-DWORK_PER_OP=0", "-DWORK_PER_POLL=1", "-DOPS_PER_POLL=1"]),
        (
            3,
            [
                "-DAUT_FIRST_WORK=1",
                "-DWORK_PER_OP=0",
                "-DWORK_PER_POLL=1",
                "-DOPS_PER_POLL=1",
                "-DAUT_WIDTHS=1,2",
            ],
        ),
    ],
)
def test_automata_agree_with_brute_force_under_sanitizers(
    tmp_path: Path, seed: int, defines: list[str]
) -> None:
    run_driver(tmp_path, "fuzz_aut.c", AUTOMATA, defines, seed, 400)


@pytest.mark.parametrize(
    ("seed", "defines"),
    [
        (1, []),
        (2, ["-DFIRST_WORK=1", "-DWORK_PER_POLL=1", "-DOPS_PER_POLL=1"]),
        (3, ["-DFIRST_WORK=1", "-DWORK_PER_POLL=1", "-DOPS_PER_POLL=1", "-DLIN_WIDTHS=1,2"]),
        (4, ["-DFIRST_WORK=1", "-DWORK_PER_POLL=1", "-DOPS_PER_POLL=1", "-DLIN_FOCUSED=1,2,4,8"]),
    ],
)
def test_search_agrees_with_brute_force_under_sanitizers(
    tmp_path: Path, seed: int, defines: list[str]
) -> None:
    run_driver(tmp_path, "fuzz_lin.c", SOURCES, defines, seed, 6000)


def test_what_fuzzing_found_under_sanitizers(tmp_path: Path) -> None:
    here = Path(__file__).parent
    corpus = sorted(str(p) for p in (here / "corpus" / "lin").iterdir())
    driver = build_driver(tmp_path, ["replay.c", "target_lin.c"], SOURCES, [])
    ran = subprocess.run([str(driver), *corpus], capture_output=True, text=True, timeout=60)
    assert ran.returncode == 0, ran.stderr[-3000:]
    assert ran.stdout == f"{len(corpus)} files\n"
