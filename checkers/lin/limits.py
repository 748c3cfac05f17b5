"""How much deciding and explaining may cost, whatever engine does it."""

from __future__ import annotations

from typing import Final

FIRST_STEPS: Final = 4_000_000
"""Steps that each key gets before any key gets more, so that one hard key cannot starve the
rest: some tens of milliseconds."""

ANOMALIES_MAX: Final = 16
"""Illegal keys that get a witness of their own; the others are counted in the reason."""

WITNESS_TIME_NS: Final = 10_000_000_000
"""For reducing one witness; spent only where a reduction is hard."""

WITNESSES_TIME_NS: Final = 20_000_000_000
"""For reducing all of them, and never more than the deciding has left of the budget."""

WITNESS_LEAST_NS: Final = 100_000_000
"""For all of them where deciding has left nothing."""
