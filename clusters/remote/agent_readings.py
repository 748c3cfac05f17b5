"""Numbers of a server's answer, as what its readings ask for: on a node and in a simulation alike.

A reading is a row of name, kind, scale, and one or two places in the answer: a key path `ok.term`
of JSON, or the name of a metric of a page of text, whose series are added up. Standard library
only; Python 3.9 or newer.
"""

from __future__ import annotations

import contextlib
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any


class Readings:
    """Rows of one question. It keeps the answer before: growth takes two of them."""

    def __init__(self, rows: Sequence[Sequence[Any]]) -> None:
        self._rows = rows
        self.places = {place for row in rows for place in row[3:] if place}
        self._before: Mapping[str, float] = {}
        self._before_ns = 0

    def of(self, said: Mapping[str, float], now_ns: int) -> dict[str, float]:
        """Values by name, of numbers by place; what is not there, or takes two answers, is left
        out. An answer without numbers changes nothing of what the next one is compared with."""
        found = {}
        past_s = (now_ns - self._before_ns) / 1e9 if self._before else 0.0
        for name, kind, scale, at, over in self._rows:
            if at not in said or (over and over not in said):
                continue
            since = said[at] - self._before.get(at, said[at])
            if kind == "gauge":
                found[name] = said[at] * scale
            elif kind == "less":
                found[name] = (said[at] - said[over]) * scale
            elif at not in self._before or since < 0:
                continue  # the first answer, or a counter that began anew
            elif kind == "rate" and past_s > 0:
                found[name] = since / past_s * scale
            elif kind == "mean" and over in self._before and said[over] > self._before[over]:
                found[name] = since / (said[over] - self._before[over]) * scale
        if said:
            self._before, self._before_ns = said, now_ns
        return found


def numbers_of(said: Any, places: Iterable[str]) -> dict[str, float]:
    """The numbers of plain data that are asked for, by their place; true and false are 1 and 0."""
    found: dict[str, float] = {}
    for place in places:
        inner = said
        for key in place.split("."):
            inner = inner.get(key) if isinstance(inner, dict) else None
        if isinstance(inner, (int, float)) and math.isfinite(inner):
            found[place] = float(inner)
    return found


def numbers_in(said: bytes, form: str, places: Iterable[str]) -> dict[str, float]:
    """The same of an answer as it came; none of one that cannot be read."""
    if form == "json":
        try:
            return numbers_of(json.loads(said), places)
        except (ValueError, RecursionError, OverflowError):
            return {}
    wanted = set(places)
    found: dict[str, float] = {}
    for line in said.decode("utf-8", "replace").splitlines():
        name = line.partition(" ")[0].partition("{")[0]
        if name in wanted:
            behind = line.rpartition("}")[2] if "{" in line else line.partition(" ")[2]
            with contextlib.suppress(ValueError, IndexError):
                value = float(behind.split()[0])  # behind it there may be a time
                if math.isfinite(value):
                    found[name] = found.get(name, 0.0) + value
    return found
