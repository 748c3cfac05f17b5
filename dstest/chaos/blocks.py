"""How sure a 95th percentile is, of requests that are not independent of each other.

A stall of the host or of the service slows all requests of a second at once. So whole seconds are
drawn again, not requests (block bootstrap, Künsch 1989): what one second did alone is no evidence.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from dstest.chaos.joined import Asked
from dstest.core.rng import stream_seed

_RESAMPLES: Final = 2000
_SECOND_NS: Final = 1_000_000_000


def p95_drawn_s(asked: Sequence[Asked], name: str) -> np.ndarray:
    """The 95th percentile of latency of each resample, in seconds. Raises ValueError of none."""
    blocks: dict[int, list[float]] = {}
    for one in asked:
        blocks.setdefault(one.entry.due_ns // _SECOND_NS, []).append(one.entry.latency_s)
    if not blocks:
        raise ValueError("no request")
    listed = [np.array(block) for block in blocks.values()]
    random = np.random.default_rng(stream_seed(0, "chaos p95", name))
    picks = random.integers(0, len(listed), (_RESAMPLES, len(listed)))
    return np.array(
        [np.quantile(np.concatenate([listed[place] for place in row]), 0.95) for row in picks]
    )
