"""Which runs of a store are exact copies of others, under another name."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import PurePosixPath
from typing import Any

from dstest.retention.identity import RUN_NAME
from dstest.serve.row import Row

__all__ = ["copies_in"]


def copies_in(rows: Iterable[Row]) -> dict[str, str]:
    """By `ref` of each copy that of the run which counts: the one whose directory has a name as
    dstest gives it (who has the name of another run is damaged), else the first by its path. Only
    judged runs are compared: those whose files may be believed to be what their sums say."""
    by_sums: dict[str, list[str]] = {}
    for row in rows:
        if row.judged and row.sums:
            by_sums.setdefault(row.sums, []).append(row.ref)
    found: dict[str, str] = {}
    for refs in by_sums.values():
        first = min(refs, key=_rank)
        found.update((ref, first) for ref in refs if ref != first)
    return found


def _rank(ref: str) -> tuple[Any, ...]:
    path = PurePosixPath(ref)
    return RUN_NAME.fullmatch(path.name) is None, len(path.parts), ref
