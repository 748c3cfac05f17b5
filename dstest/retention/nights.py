"""What of a night a store has to keep, as its night.json says; it is not judged again."""

from __future__ import annotations

from pathlib import Path

from dstest.core.errors import DstestError
from dstest.store.layout import RunDir

__all__ = ["of_night"]

_OWED = ("failed", "missed")
"""A later night asks such a seed again, and learns of it here."""


def of_night(path: Path) -> tuple[set[Path], bool]:
    """(the runs that found a known bug as they must, whether a try failed or a control missed)"""
    try:
        items = (RunDir(path).read_json("night.json") or {})["items"]
        tries = [(item["expected"]["control"], one) for item in items for one in item["tries"]]
        known = {
            path / one["result"]
            for control, one in tries
            if control == "red" and one["standing"] == "as-it-must" and one["result"]
        }
        return known, any(one["standing"] in _OWED for _, one in tries)
    except (DstestError, AttributeError, KeyError, TypeError, ValueError):
        return set(), True
