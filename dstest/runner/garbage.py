"""When a load worker collects garbage: at its own beats, so that no operation waits for it."""

from __future__ import annotations

import gc
import itertools
from typing import Final

_OLDER_SWEEPS: Final = (100, 10)
"""Each so many sweeps the oldest and the middle generation are collected, too: what an operation
leaves that is under way at a sweep would stay for ever otherwise."""


class Garbage:
    """From its making on nothing is collected but by `sweep`."""

    def __init__(self) -> None:
        self._sweeps = itertools.count(1)
        gc.collect()
        gc.freeze()
        gc.disable()

    def sweep(self) -> None:
        """Collect what is due."""
        gc.collect(generation(next(self._sweeps)))


def generation(sweep: int) -> int:
    """The oldest one that this sweep collects."""
    return next((2 - i for i, every in enumerate(_OLDER_SWEEPS) if sweep % every == 0), 0)
