"""Delta debugging: a part of a list that still fails, none of whose elements can be left out.

Zeller and Hildebrandt, "Simplifying and Isolating Failure-Inducing Input", IEEE Transactions on
Software Engineering 28 (2002), section 3.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import TypeVar

T = TypeVar("T")


def ddmin(items: Sequence[T], failing: Callable[[list[list[T]]], list[T] | None]) -> list[T]:
    """The part, in order. `failing` gives the first of some lists that fails, None where none does;
    all `items` failed, and it is never asked about nothing.

    The part is 1-minimal if `failing` always says the same of the same list.
    """
    left, pieces = list(items), 2
    while len(left) > 1:
        chunks = _chunks(left, pieces)
        smaller = failing(chunks)
        if smaller is not None:
            left, pieces = smaller, 2
            continue
        # With two pieces, what is left without one of them is the other.
        rests = [_without(chunks, index) for index in range(len(chunks))] if pieces > 2 else []
        smaller = failing(rests)
        if smaller is not None:
            left, pieces = smaller, max(2, pieces - 1)
        elif pieces >= len(left):
            break
        else:
            pieces = min(len(left), 2 * pieces)
    return left


def _chunks(items: Sequence[T], pieces: int) -> list[list[T]]:
    bounds = [len(items) * index // pieces for index in range(pieces + 1)]
    return [list(items[a:b]) for a, b in pairwise(bounds) if b > a]


def _without(chunks: Sequence[list[T]], index: int) -> list[T]:
    return [item for at, chunk in enumerate(chunks) if at != index for item in chunk]
