"""Histories that come in pieces under AddressSanitizer and UndefinedBehaviorSanitizer."""

from __future__ import annotations

import random
import subprocess
from pathlib import Path

import pytest
from sanitized_build import HERE, ROUNDS, SanitizedBuild

from dstest.history.generator.histories import Spec, events, lines

pytestmark = pytest.mark.slow

SOURCES = "common/core_*.c ingest/*.c txn/*.c stream/*.c"
SMALL = ("-DING_SMALL=64", "-DSTREAM_NAMES_MAX=8")


@pytest.mark.timeout(400)
def test_pieces_are_executed_as_the_whole_is(build: SanitizedBuild, tmp_path: Path) -> None:
    dice = random.Random(4)
    folder = tmp_path / "in"
    folder.mkdir()
    for i in range(400 * ROUNDS):
        few = dice.choice([4, 16, 256])
        data = bytes(dice.randrange(few) for _ in range(dice.randrange(400)))
        (folder / f"choices-{i}").write_bytes(data)
    for seed in range(60):
        spec = Spec(txns=30, concurrency=4, seed=seed, fail_share=0.1, info_share=0.2)
        text = bytearray(b"".join(lines(events(spec), spec, "jsonl")))
        for _ in range(seed % 3):
            text[dice.randrange(len(text))] = dice.choice(b'0123456789[]{},"\n')
        (folder / f"text-{seed}").write_bytes(text)
    files = [*folder.iterdir(), *(HERE / "corpus" / "stream").iterdir()]
    driver = build.program(tmp_path, ["replay.c", "target_stream.c"], SOURCES, SMALL)
    ran = subprocess.run(
        [driver, *map(str, sorted(files))], capture_output=True, text=True, timeout=110
    )
    assert ran.returncode == 0, ran.stderr[-3000:]
    assert ran.stdout == f"{len(files)} files\n"
