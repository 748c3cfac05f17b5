"""The order in which a Clojure hash set gives vectors of integers and strings.

Murmur3 (x86, 32 bits) over 4-byte words, as `clojure.lang.Murmur3` has it, and the trie of
`clojure.lang.PersistentHashMap`: 32 children a node, five bits of the hash a level from the lowest.
"""

from __future__ import annotations

import struct
from typing import Any


def _murmur3(data: bytes, seed: int = 0) -> int:
    h = seed
    for (k,) in struct.iter_unpack("<I", data):
        k = k * 0xCC9E2D51 % 2**32
        k = (k << 15 | k >> 17) % 2**32 * 0x1B873593 % 2**32
        h ^= k
        h = ((h << 13 | h >> 19) % 2**32 * 5 + 0xE6546B64) % 2**32
    return _avalanche(h ^ len(data))


def _avalanche(h: int) -> int:
    for shift, factor in ((16, 0x85EBCA6B), (13, 0xC2B2AE35)):
        h = (h ^ h >> shift) * factor % 2**32
    return h ^ h >> 16


def _hash(value: Any) -> int:
    if isinstance(value, str):
        units = struct.unpack(f"<{len(value.encode('utf-16-le')) // 2}H", value.encode("utf-16-le"))
        java = sum(u * 31**i for i, u in enumerate(reversed(units))) % 2**32
        return _murmur3(struct.pack("<I", java)) if java else 0
    return _murmur3(struct.pack("<q", value)) if value else 0


def _vector(values: tuple[Any, ...]) -> int:
    ordered = 31 ** len(values)
    for i, value in enumerate(reversed(values)):
        ordered += _hash(value) * 31**i
    # mixCollHash: one word, then the number of elements where murmur has the number of bytes
    k = ordered * 0xCC9E2D51 % 2**32
    k = (k << 15 | k >> 17) % 2**32 * 0x1B873593 % 2**32
    h = ((k << 13 | k >> 19) % 2**32 * 5 + 0xE6546B64) % 2**32
    return _avalanche(h ^ len(values))


def path(values: tuple[Any, ...]) -> tuple[int, ...]:
    """The child taken at each level; the set gives its members in order of these."""
    hash_ = _vector(values)
    return tuple(hash_ >> shift & 31 for shift in range(0, 32, 5))
