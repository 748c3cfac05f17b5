"""What stands in a server's answer as JSON, as values of `Reading`s."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

from dstest.core.protocols.sampling import Reading

__all__ = ["values_of"]


def values_of(said: Mapping[str, Any], readings: Iterable[Reading]) -> dict[str, float]:
    """Of gauges and differences; rates take two looks and are left out. What is not there, or is no
    number, is left out as well."""
    found = {}
    for reading in readings:
        value = _at(said, reading.at)
        over = _at(said, reading.over) if reading.over else 0.0
        if value is None or over is None or reading.kind in ("rate", "mean"):
            continue
        found[reading.name] = (value - (over if reading.kind == "less" else 0.0)) * reading.scale
    return found


def _at(said: Any, place: str) -> float | None:
    for key in place.split("."):
        said = said.get(key) if isinstance(said, Mapping) else None
    return float(said) if isinstance(said, int | float) and math.isfinite(said) else None
