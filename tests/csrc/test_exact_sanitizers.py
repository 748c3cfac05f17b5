"""The exact checkers of isolation under AddressSanitizer and UndefinedBehaviorSanitizer."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from sanitized_build import ROUNDS, SanitizedBuild

pytestmark = pytest.mark.slow

SOURCES = "common/core_*.c txn/*.c iso/*.c ord/*.c"
LARGE = (
    "-DISO_LARGE=0",
    "-DISO_EMPTY=0",
    "-DISO_MANY=0",
    "-DISO_REPAIRS=0",
    "-DISO_MANY_SESSIONS=0",
)
"""Every case for large histories is taken by small ones."""

FAR = ("-DORD_NEARBY=2", "-DISO_REPAIRS=1", "-DWORK_PER_POLL=1")
"""Hardly anything is known when it is chosen."""


def answers(driver: str, seed: str) -> list[str]:
    ran = subprocess.run(
        [driver, seed, str(300 * ROUNDS)], capture_output=True, text=True, timeout=110
    )
    assert ran.returncode == 0, ran.stderr[-3000:]
    return ran.stdout.splitlines()


@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    ("limits", "seed"), [(LARGE, "1"), pytest.param(FAR, "2", marks=pytest.mark.long)]
)
def test_random_histories_under_sanitizers(
    build: SanitizedBuild, tmp_path: Path, limits: tuple[str, ...], seed: str
) -> None:
    """Limits change the way, and no answer."""
    drivers = []
    for name, defines in (("usual", ()), ("other", limits)):
        (tmp_path / name).mkdir()
        drivers.append(build.program(tmp_path / name, ["fuzz_exact.c"], SOURCES, defines))
    usual, other = (answers(driver, seed) for driver in drivers)
    assert usual == other
    assert len(set(usual)) > 20
    plain = {line[i] for line in usual for i in (3, 4, 5, 7, 11, 14)}
    assert plain == {"1", "2"}, "only sessions are left open, of processes that do things at once"
