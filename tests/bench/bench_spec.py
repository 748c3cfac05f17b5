"""Specifications: states and steps a second of the exhaustive search, bytes a state, and steps a
second of random walks; where Quint is, those of its own simulator over the same model, exported.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
import time
import tracemalloc
from pathlib import Path

import textbook

from dstest.spec.explore import explore, walk
from dstest.spec.export.quint import as_quint
from dstest.spec.model import Model, model_of

ROOT = Path(__file__).resolve().parents[2]
QUINT = Path(os.environ.get("DSTEST_QUINT", ROOT / ".venv/quint/node_modules/.bin/quint"))
STEPS = 50


def say(name: str, value: str) -> None:
    sys.stdout.write(f"  {name:<56} {value}\n")
    sys.stdout.flush()


def whole(name: str, model: Model) -> None:
    begun = time.perf_counter()
    seen = explore(model, deadlock=False, all_violations=True)
    took_s = time.perf_counter() - begun
    tracemalloc.start()
    explore(model, deadlock=False, all_violations=True)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    say(
        f"{name}, {seen.states:,} states, all of them",
        f"{seen.states / took_s:,.0f} states/s, {seen.steps / took_s:,.0f} steps/s, "
        f"{most / seen.states:,.0f} bytes a state",
    )


def walks_per_s(model: Model, walks: int) -> float:
    begun = time.perf_counter()
    seen = walk(model, seed=1, walks=walks, max_steps=STEPS, deadlock=False)
    return seen.steps / (time.perf_counter() - begun)


def quint_per_s(model: Model, walks: int) -> float:
    """Steps a second of its simulation alone, as it says itself."""
    with tempfile.TemporaryDirectory() as place:
        file = Path(place) / "spec.qnt"
        file.write_text(as_quint(model))
        words = ["run", "--backend=typescript", "--seed=1", f"--max-samples={walks}"]
        words += [f"--max-steps={STEPS}", str(file)]
        done = subprocess.run([str(QUINT), *words], capture_output=True, text=True, check=True)
    found = re.search(r"\((\d+)ms at", done.stdout)
    assert found is not None, done.stdout
    return walks * STEPS / (int(found[1]) / 1e3)


def main() -> None:
    whole("two-phase commit of 6", model_of(textbook.TwoPhase(rms=6)))
    whole("philosophers, 9", model_of(textbook.Philosophers(seats=9)))
    for name, spec in (
        ("jugs", textbook.DieHard(wanted=-1)),
        ("hanoi", textbook.Hanoi(disks=6)),
    ):
        model = model_of(spec)
        ours = walks_per_s(model, 1000)
        say(f"{name}, random walks", f"{ours:,.0f} steps/s")
        if QUINT.exists():
            theirs = quint_per_s(model, 200)
            say(
                f"{name}, Quint's simulator",
                f"{theirs:,.0f} steps/s; ours {ours / theirs:.1f} times",
            )


if __name__ == "__main__":
    main()
