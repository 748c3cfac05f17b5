"""What of a store may go or stay as one: a run, session, executed plan or night with all that
belongs to it, and whether anything in it has found a violation."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import Final

import msgspec

from dstest.campaign.nightly.controls import found_known_bug
from dstest.core.errors import DstestError
from dstest.core.verdict import State
from dstest.history.layout import RunDir
from dstest.store.inventory import (
    UNREADABLE,
    Inventory,
    Kind,
    Life,
    StorePlace,
    never_started,
    state_of,
    time_of,
    walk,
)
from dstest.store.nights import NIGHT

_FAILED: Final = frozenset(state.value for state in State if state.failed)
_OWED: Final = ("failed", "missed")
"""A later night asks such a seed again, and learns of it here."""


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    """A run, session, executed plan or night that stands by itself, with all that belongs to it.

    `state` is its verdict as it says, `life` whether it is over. `failed`: it, or any run in it,
    says that it found a violation; but for the runs of a night's red controls that are as they must
    be, and with what a night missed. `bytes` is what it takes on disk with its `asides`, `runs` how
    many run directories it has. `started` is as it wrote it down, empty where it did not. `asked`:
    a run of it has asked its system for something, or nobody can say that none has.
    """

    path: Path
    kind: Kind
    state: str
    life: Life
    failed: bool
    started: str
    bytes: int
    runs: int
    asides: tuple[Path, ...] = ()
    asked: bool = True

    def age_days(self, now_ns: int) -> float | None:
        """Since it started; None where nobody knows."""
        began = time_of(self.started)
        return None if began is None else (now_ns / 1e9 - began.timestamp()) / 86_400


def entries(
    store: Path, tell: Callable[[str], None] = lambda what: None
) -> tuple[list[Entry], Inventory]:
    """What stands by itself in a store, oldest first, and all that was found. `tell` is told how
    far it has come."""
    walked = walk(store)
    found = []
    inner = _runs_of_each(walked.places)
    for number, (place, runs) in enumerate(inner, 1):
        tell(f"{store}: {number} of {len(inner)}, {place.path.name}")
        found.append(_entry(place, runs))
    return sorted(found, key=lambda entry: (entry.started, str(entry.path))), walked


def _runs_of_each(places: Sequence[StorePlace]) -> list[tuple[StorePlace, list[StorePlace]]]:
    """What stands by itself, each with its runs. `places` have what has runs before these, so that
    whatever a run lies in is known when it comes."""
    found: dict[Path, tuple[StorePlace, list[StorePlace]]] = {}
    top: dict[Path, Path] = {}
    for place in places:
        above = place.path if place.within is None else top[place.within]
        top[place.path] = above
        _, runs = found.setdefault(above, (place, []))
        if place.kind == "run":
            runs.append(place)
    return list(found.values())


def size_bytes(folder: Path) -> int:
    """What the files below a directory take on its disk; links count as themselves."""
    total = 0
    for at, names, files in os.walk(folder, followlinks=False):
        for name in [*names, *files]:
            try:
                total += Path(at, name).lstat().st_blocks * 512
            except OSError:
                continue  # it went meanwhile
    return total


def _entry(place: StorePlace, inner: Sequence[StorePlace]) -> Entry:
    asides = [aside for run in inner for aside in run.asides]
    outside = [aside for aside in asides if not aside.is_relative_to(place.path)]
    state, life, started = state_of(place)
    failed = state in {*_FAILED, "FAIL"}
    known: Collection[Path] = ()
    if place.kind == "night":
        known = set(found_known_bug(place.path))
        failed = failed or _owes(place.path)
    return Entry(
        path=place.path,
        kind=place.kind,
        state=state,
        life=life,
        failed=failed or any(_found_violation(run.path) for run in inner if run.path not in known),
        started=started,
        bytes=size_bytes(place.path) + sum(map(size_bytes, outside)),
        runs=len(inner),
        asides=tuple(asides),
        asked=_asked_for_anything(place, state, life, inner),
    )


def _owes(night: Path) -> bool:
    """Has a try of it failed, or missed its bug? Nobody can say so of one that cannot be read."""
    try:
        items = (RunDir(night).read_json(NIGHT) or {})["items"]
        return any(one["standing"] in _OWED for item in items for one in item["tries"])
    except (DstestError, AttributeError, KeyError, TypeError, ValueError):
        return True


def _asked_for_anything(
    place: StorePlace, state: str, life: Life, inner: Sequence[StorePlace]
) -> bool:
    if life != "died" or state == UNREADABLE or place.kind not in ("run", "session"):
        return True
    return not all(never_started(run.path) for run in inner)


def _found_violation(path: Path) -> bool:
    """Does a run say that it found a violation, or does its evidence, whatever its verdict?"""
    run = RunDir(path)
    try:
        told = run.read_json("verdict.json") or {}
        evidence = told.get("evidence") or {}
        return told.get("verdict") in _FAILED or bool(evidence.get("violation"))
    except Exception:
        return True  # nobody can say that it did not
