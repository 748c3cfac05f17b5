"""What of a night a store has to keep, as its night.json says; it is not judged again."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from dstest.core.errors import DstestError
from dstest.core.standing import Standing, Stood, of_tries, owed_after
from dstest.store.layout import RunDir

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


class _Told(NamedTuple):
    """What the seeds of the next night follow from; see `dstest.core.standing`."""

    number: int
    path: Path
    passes: int
    stood: Stood


class Rows:
    """The nights of each name that a store still has. Which seeds the next one asks again follows
    from all of them: also from one that passed, which shortens a row, and from one without a
    verdict, which begins it anew."""

    def __init__(self, nights: Iterable[Path]) -> None:
        self._of: dict[Path, list[_Told]] = {}
        self._unclear: set[Path] = set()
        for path in nights:
            told = _told(path)
            if told is None:
                self._unclear.add(path)
            else:
                self._of.setdefault(path.parent, []).append(told)
        for row in self._of.values():
            row.sort()

    def ask_otherwise_without(self, path: Path) -> bool:
        """Would the next night ask a seed again, or let one go, that it otherwise would not?"""
        if path in self._unclear:
            return True
        row = self._of.get(path.parent, [])
        passes = row[-1].passes if row else 1
        whole = owed_after([one.stood for one in row], passes)
        return owed_after([one.stood for one in row if one.path != path], passes) != whole

    def forget(self, path: Path) -> None:
        """It goes."""
        self._of[path.parent] = [one for one in self._of[path.parent] if one.path != path]


def _told(path: Path) -> _Told | None:
    try:
        facts = RunDir(path).read_json("night.json") or {}
        seeds = [((item["key"], item["seed"]), _standing(item)) for item in facts["items"]]
        stood = Stood(seeds, bool(facts.get("chosen")))
        return _Told(int(facts["number"]), path, int(facts["passes"]), stood)
    except (DstestError, AttributeError, KeyError, TypeError, ValueError):
        return None


def _standing(item: Mapping[str, Any]) -> Standing:
    tries = []
    for one in item["tries"]:
        last = one.get("again") or one.get("judged") or {}
        tries.append((one["standing"], last.get("holds", True)))
    return of_tries(tries)
