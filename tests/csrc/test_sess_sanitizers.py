"""The reader of session files under AddressSanitizer and UndefinedBehaviorSanitizer."""

from __future__ import annotations

import random
import subprocess
from pathlib import Path

import pytest
import session_files as made
from sanitized_build import HERE, ROUNDS, SanitizedBuild

pytestmark = pytest.mark.slow

SOURCES = "common/core_*.c ingest/*.c sess/*.c"
PIECES = [
    *(b"", b"\n", b"\r\n", b"\r", b"-", b"(", b",", b"0", b"r", b"\xff", b"-1", b"\xef\xbb\xbf"),
    *(str(2**63).encode(), b"9" * 60, b"w(1,2,3,4)\n", b"w 1 2\n", b"--\n", b"=\n"),
]


def text(dice: random.Random) -> bytes:
    """A format's byte and a history in it, with mutations in one of two."""
    code, write = dice.choice([(b"\0", made.plume), (b"\1", made.awdit)])
    raw = write(made.random_history(dice, dice.randint(0, 9))).encode()
    for _ in range(dice.choice([0, 0, 1, 3])):
        at = dice.randrange(len(raw) + 1)
        raw = raw[:at] + dice.choice(PIECES) + raw[at + dice.randint(0, 3) :]
    return code + raw


@pytest.mark.parametrize("defines", [(), ("-DSESS_SPARSE=0", "-DSESS_SPAN_MIN=0")])
def test_session_files_under_sanitizers(
    build: SanitizedBuild, tmp_path: Path, defines: tuple[str, ...]
) -> None:
    dice = random.Random(5)
    (tmp_path / "in").mkdir()
    for i in range(1000 * ROUNDS):
        (tmp_path / "in" / f"{i}").write_bytes(text(dice))
    files = sorted(str(path) for path in (tmp_path / "in").iterdir())
    files += sorted(str(p) for p in (HERE / "corpus" / "sess").iterdir())
    harness = ["replay.c", "target_sess.c"]
    driver = build.program(tmp_path, harness, SOURCES, ("-DSESS_DIGITS_MAX=50", *defines))
    ran = subprocess.run([driver, *files], capture_output=True, text=True, timeout=110)
    assert ran.returncode == 0, ran.stderr[-3000:]
    assert ran.stdout == f"{len(files)} files\n"
