"""Hashes of values as Clojure computes them, for ties that Elle decides by them (txn_tie.c).

Integers are Java longs, strings are hashed by UTF-16 unit (`java.lang.String.hashCode`) and both
then go through Murmur3 as `clojure.lang.Util.hasheq` does. Other scalars get 0: their ties are
decided, the same way each time, but not as Elle would.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

U32 = NDArray[np.uint32]

_MASK: Final = 0xFFFFFFFF


def _rotated(x: int, by: int) -> int:
    return (x << by | x >> (32 - by)) & _MASK


def _round(state: int, word: int) -> int:
    mixed = _rotated(word * 0xCC9E2D51 & _MASK, 15) * 0x1B873593 & _MASK
    return (_rotated(state ^ mixed, 13) * 5 + 0xE6546B64) & _MASK


def _finished(state: int, length_bytes: int) -> int:
    state ^= length_bytes
    state = (state ^ state >> 16) * 0x85EBCA6B & _MASK
    state = (state ^ state >> 13) * 0xC2B2AE35 & _MASK
    return state ^ state >> 16


def _of_long(value: int) -> int:
    if value == 0:
        return 0
    return _finished(_round(_round(0, value & _MASK), value >> 32 & _MASK), 8)


def _of_string(text: str) -> int:
    java = 0
    raw = text.encode("utf-16-le", "surrogatepass")
    for low, high in zip(raw[::2], raw[1::2], strict=True):
        java = (java * 31 + (high << 8 | low)) & _MASK
    return _finished(_round(0, java), 4) if java else 0


def _of(value: Any) -> int:
    if isinstance(value, bool):
        return 1231 if value else 1237
    if isinstance(value, int):
        return _of_long(value)
    return _of_string(value) if isinstance(value, str) else 0


def value_hashes(values: Sequence[Any]) -> U32:
    """u32[len(values)]."""
    return np.array([_of(value) for value in values], np.uint32)
