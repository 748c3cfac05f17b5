"""The transaction checker's C under AddressSanitizer and UndefinedBehaviorSanitizer."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from sanitized_build import HERE, ROUNDS, SanitizedBuild

pytestmark = pytest.mark.slow

SOURCES = "common/core_*.c txn/*.c"
SPENT = ("-DWORK_PER_SEARCH=8", "-DWORK_IN_ALL=64", "-DEMPTY_SLOTS=4")


@pytest.mark.parametrize(("seeds", "defines"), [("12", ()), ("3", SPENT)])
def test_random_graphs_and_columns_under_sanitizers(
    build: SanitizedBuild, tmp_path: Path, seeds: str, defines: tuple[str, ...]
) -> None:
    driver = build.program(tmp_path, ["fuzz_txn.c"], SOURCES, defines)
    for seed in seeds:
        rounds = str(4000 * ROUNDS)
        ran = subprocess.run([driver, seed, rounds], capture_output=True, text=True, timeout=60)
        assert ran.returncode == 0, ran.stderr[-3000:]
        assert ran.stdout == f"{rounds} rounds\n"


@pytest.mark.parametrize(("target", "defines"), [("txn", ()), ("txn-spent", SPENT)])
def test_what_fuzzing_found_under_sanitizers(
    build: SanitizedBuild, tmp_path: Path, target: str, defines: tuple[str, ...]
) -> None:
    harness = ["replay.c", "target_txn.c"]
    driver = build.program(tmp_path, harness, SOURCES, defines)
    corpus = sorted(str(p) for p in (HERE / "corpus" / target).iterdir())
    ran = subprocess.run([driver, *corpus], capture_output=True, text=True, timeout=60)
    assert ran.returncode == 0, ran.stderr[-3000:]
    assert ran.stdout == f"{len(corpus)} files\n"
