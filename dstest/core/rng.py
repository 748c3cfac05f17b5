"""The only maker of random generators: named streams from one seed.

A stream depends on the seed and on its name alone, so adding a stream never shifts another, and
the same spec and seed give the same operations and the same fault schedule on any machine.
"""

from __future__ import annotations

import hashlib
import random
import secrets

__all__ = ["fresh_seed", "stream", "stream_seed"]


def fresh_seed(below: int = 1_000_000) -> int:
    """A seed that nobody chose; small enough to be typed again."""
    return secrets.randbelow(below)


def stream_seed(seed: int, *name: str | int) -> int:
    """A 64-bit seed for the stream called `name` (its parts joined by `/`)."""
    text = "/".join([str(seed), *map(str, name)])
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big")


def stream(seed: int, *name: str | int) -> random.Random:
    """A generator of its own for the stream called `name`."""
    return random.Random(stream_seed(seed, *name))
