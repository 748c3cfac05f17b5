"""Memory limits under sanitizers: whatever grows is charged, and who lacks memory says so."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from sanitized_build import SanitizedBuild

from dstest.history.generator.histories import Spec, events, lines

pytestmark = pytest.mark.slow

COUNTED = ("malloc", "calloc", "realloc", "free", "mmap", "munmap", "mremap")
ENGINES = [
    "registers",
    "chains",
    "queue",
    "stack",
    "queue-of-crashed",
    "stack-of-crashed",
    "priority",
    "zones",
    "automaton",
]


@pytest.mark.timeout(600)
def test_what_is_held_never_exceeds_the_limit(build: SanitizedBuild, tmp_path: Path) -> None:
    history = tmp_path / "history.jsonl"
    spec = Spec(txns=3000, concurrency=5, fail_share=0.1, info_share=0.1)
    history.write_bytes(b"".join(lines(events(spec), spec, "jsonl")))
    wrap = [f"-Wl,--wrap={name}" for name in COUNTED]
    small = ["-DMAPPED_MIN=1000"]  # no page is full, and most of what grows is mapped
    driver = build.program(tmp_path, ["limits.c"], "*/*.c", small, link=wrap)
    ran = subprocess.run([driver, str(history)], capture_output=True, text=True, timeout=290)
    assert ran.returncode == 0, ran.stderr[-3000:]
    said = [*ENGINES, "list-append", "rw-register", "reader", "reader"]
    assert ran.stdout.split() == said
