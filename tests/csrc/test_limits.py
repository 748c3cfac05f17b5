"""Memory limits under sanitizers: whatever grows is charged, and who lacks memory says so."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from dstest.generator.histories import Spec, events
from dstest.generator.writing import lines

HERE = Path(__file__).parent
CSRC = Path(__file__).resolve().parents[2] / "checkers" / "csrc"
FLAGS = ["-std=c11", "-g", "-O1", "-Wall", "-Wextra", "-Werror", "-fno-sanitize-recover=all"]
SOURCES = sorted(
    p for p in CSRC.rglob("*.c") if not p.name.endswith("module.c") and p.name != "buffers.c"
)
COUNTED = ("malloc", "calloc", "realloc", "free", "mmap", "munmap")
ENGINES = ["registers", "chains", "queue", "stack", "priority", "zones", "automaton"]


@pytest.mark.timeout(600)
def test_what_is_held_never_exceeds_the_limit(tmp_path: Path) -> None:
    compiler = shutil.which("gcc") or shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler")
    driver, history = tmp_path / "limits", tmp_path / "history.jsonl"
    spec = Spec(txns=3000, concurrency=5, fail_share=0.1, info_share=0.1)
    history.write_bytes(b"".join(lines(events(spec), spec, "jsonl")))
    wrap = [f"-Wl,--wrap={name}" for name in COUNTED]
    build = [compiler, *FLAGS, "-fsanitize=address,undefined", f"-I{CSRC}", "-pthread", *wrap]
    made = subprocess.run(
        [*build, str(HERE / "limits.c"), *map(str, SOURCES), "-o", str(driver)],
        capture_output=True,
        text=True,
        timeout=290,
    )
    assert made.returncode == 0, made.stderr
    ran = subprocess.run([str(driver), str(history)], capture_output=True, text=True, timeout=290)
    assert ran.returncode == 0, ran.stderr[-3000:]
    said = [*ENGINES, "list-append", "rw-register", "reader", "reader"]
    assert ran.stdout.split() == said
