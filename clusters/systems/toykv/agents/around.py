"""What a server has around it: its files, clocks, random numbers, and how it dies.

That of a machine is in `real.py`; a simulation gives its own, with the same attributes.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

__all__ = ["Around"]


@dataclass
class Around:
    """`die` ends the process with a code, at once. `spans`, `keep` and `audit` take a line for each
    span, each step of the protocol and each command that was applied, where they are wanted."""

    files: Any
    numbers: random.Random
    die: Callable[[int], None]
    now_s: Callable[[], float]
    wall_ns: Callable[[], int]
    write: Callable[[str], object]
    spans: Callable[[str], object] | None = None
    keep: Callable[[str], object] | None = None
    audit: Callable[[str], object] | None = None

    def say(self, text: str) -> None:
        """A line of the log."""
        self.write(f"toykv: {text}\n")
