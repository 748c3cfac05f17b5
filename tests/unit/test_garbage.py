"""What a load worker keeps for ever would grow with its operations."""

from __future__ import annotations

import subprocess
import sys

from dstest.runner.worker import generation

LEAVES = """
import gc
from dstest.runner.worker import Garbage

class Cycle:
    def __init__(self):
        self.me = self
        self.bulk = bytearray(1000)

garbage = Garbage()
under_way = []
for _ in range(1000):
    # Under way at one sweep, and left before the next.
    under_way = [Cycle() for _ in range(10)]
    garbage.sweep()
print(sum(isinstance(one, Cycle) for one in gc.get_objects()))
"""


def test_each_generation_has_its_turn() -> None:
    assert [generation(sweep) for sweep in (1, 9, 10, 11, 90, 100, 101, 200)] == [
        *(0, 0, 1, 0, 1, 2, 0, 2),
    ]


def test_what_was_under_way_at_a_sweep_does_not_stay() -> None:
    done = subprocess.run(
        [sys.executable, "-c", LEAVES], capture_output=True, text=True, check=True
    )
    assert int(done.stdout) < 1100
