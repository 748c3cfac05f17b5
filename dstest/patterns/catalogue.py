"""All patterns, by number."""

from __future__ import annotations

from typing import Final

from dstest.patterns.families import (
    consensus,
    messages,
    partition,
    performance,
    progress,
    state,
    values,
)
from dstest.patterns.model import Pattern

PATTERNS: Final[tuple[Pattern, ...]] = tuple(
    sorted(
        (
            *consensus.PATTERNS,
            *messages.PATTERNS,
            *values.PATTERNS,
            *state.PATTERNS,
            *performance.PATTERNS,
            *partition.PATTERNS,
            *progress.PATTERNS,
        ),
        key=lambda pattern: pattern.number,
    )
)
"""Source: discipline 7.2 (c)."""
