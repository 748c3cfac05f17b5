"""The C core under AddressSanitizer and UndefinedBehaviorSanitizer, without Python in the way.

The driver compares the search with brute force; the second build makes every key go through all
kinds of attempts (focused, reusable unknown operations, limited width), which small keys never
reach.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from sanitized_build import HERE, ROUNDS, SanitizedBuild

pytestmark = pytest.mark.slow

SHARED = "common/core_*.c lin/lin_keys.c"
SEARCH = f"{SHARED} lin/*.c mon/mon_chain.c"
AUTOMATA = f"{SHARED} aut/*.c mon/*.c"
POLLS = ("-DWORK_PER_POLL=1", "-DOPS_PER_POLL=1")
AUT_SMALL = ("-DAUT_FIRST_WORK=1", "-DWORK_PER_OP=0", *POLLS)
LIN_SMALL = ("-DFIRST_WORK=1", "-DNARROW_WORK=20000", "-DLIN_APART=1", *POLLS)


def run(driver: str, seed: int, rounds: int) -> None:
    """A driver prints how many rounds went well."""
    ran = subprocess.run(
        [driver, str(seed), str(rounds)], capture_output=True, text=True, timeout=100
    )
    assert ran.returncode == 0, ran.stderr[-3000:]
    assert ran.stdout == f"{rounds} rounds\n"


@pytest.mark.parametrize(
    ("seed", "defines"), [(1, ()), (2, AUT_SMALL), (3, (*AUT_SMALL, "-DAUT_WIDTHS=1,2"))]
)
@pytest.mark.sampled(1)
def test_automata_agree_with_brute_force_under_sanitizers(
    build: SanitizedBuild, tmp_path: Path, seed: int, defines: tuple[str, ...]
) -> None:
    run(build.program(tmp_path, ["fuzz_aut.c"], AUTOMATA, defines), seed, 200 * ROUNDS)


@pytest.mark.parametrize(
    ("seed", "defines"),
    [
        (1, ()),
        (2, LIN_SMALL),
        (3, (*LIN_SMALL, "-DLIN_WIDTHS=1,2")),
        (4, (*LIN_SMALL, "-DLIN_WORK_PER_EVENT=0")),
        (5, ("-DLIN_RECENT=1,2,4",)),
    ],
)
@pytest.mark.sampled(2)
def test_search_agrees_with_brute_force_under_sanitizers(
    build: SanitizedBuild, tmp_path: Path, seed: int, defines: tuple[str, ...]
) -> None:
    run(build.program(tmp_path, ["fuzz_lin.c"], SEARCH, defines), seed, 3000 * ROUNDS)


def test_what_fuzzing_found_under_sanitizers(build: SanitizedBuild, tmp_path: Path) -> None:
    corpus = sorted(str(p) for p in (HERE / "corpus" / "lin").iterdir())
    driver = build.program(tmp_path, ["replay.c", "target_lin.c"], SEARCH)
    ran = subprocess.run([driver, *corpus], capture_output=True, text=True, timeout=60)
    assert ran.returncode == 0, ran.stderr[-3000:]
    assert ran.stdout == f"{len(corpus)} files\n"
