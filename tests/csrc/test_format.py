"""All C is written as .clang-format says."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = ("checkers/csrc", "nemeses/tools/csrc", "tests/csrc")
FORMATTER = "clang-format-14"
"""Other versions format differently."""


def test_c_files_are_formatted() -> None:
    if shutil.which(FORMATTER) is None:
        pytest.skip(f"no {FORMATTER}: the format of the C files is not checked; .ci/setup format")
    files = sorted(p for name in FOLDERS for p in (ROOT / name).rglob("*.[ch]"))
    assert len(files) > 50
    command = [FORMATTER, "--dry-run", "-Werror", *map(str, files)]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=60, cwd=ROOT)
    assert ran.returncode == 0, ran.stderr[:3000]
