"""A share of trials, and between which shares the true one lies."""

from __future__ import annotations

import math
from typing import Final, NamedTuple

_Z: Final = 1.959964
"""Of a normal distribution 95 % lie within so many standard deviations."""


class Rate(NamedTuple):
    """How many of how many, and between which shares the true rate lies (95 %, Wilson 1927)."""

    hits: int
    total: int
    low: float
    high: float


def interval(hits: int, total: int, z: float = _Z) -> Rate:
    """Wilson's interval of a share, `z` standard deviations wide on each side."""
    if not total:
        return Rate(0, 0, 0.0, 1.0)
    share = hits / total
    middle = (share + z * z / (2 * total)) / (1 + z * z / total)
    half = (
        z
        / (1 + z * z / total)
        * math.sqrt(share * (1 - share) / total + z * z / (4 * total * total))
    )
    return Rate(
        hits, total, max(0.0, min(share, middle - half)), min(1.0, max(share, middle + half))
    )
