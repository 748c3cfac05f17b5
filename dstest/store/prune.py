"""What of a store may go, and why the rest stays.

Whole things go: a run with what is beside it, a session with its arms, an executed plan with its
artifacts, a night with its cells, so that nothing which stays refers to what is gone. What found a
violation stays, with its reproducers; so does what is running or was never judged, unless it never
asked its system for anything; what was touched, what a policy still asks for, and the newest.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec

from dstest.core.errors import ConfigError, DstestError, HarnessError
from dstest.core.standing import PreviousNight, Standing, of_tries, owed_after
from dstest.history.layout import RunDir
from dstest.history.sums import SUMS
from dstest.runner.integrity import is_finished
from dstest.store.entries import Entry, entries
from dstest.store.inventory import walk
from dstest.store.verify import wrong_sums

_BEGINS_DAYS: Final = 0.1
"""A run has a directory before it has a record: for some minutes it looks like one that died."""


class _NightOutcome(NamedTuple):
    """What the seeds of the next night follow from; see `dstest.core.standing`."""

    number: int
    path: Path
    passes: int
    stood: PreviousNight


class NightRows:
    """The nights of each name that a store still has. Which seeds the next one asks again follows
    from all of them: also from one that passed, which shortens a row, and from one without a
    verdict, which begins it anew."""

    def __init__(self, nights: Iterable[Path]) -> None:
        self._of: dict[Path, list[_NightOutcome]] = {}
        self._unclear: set[Path] = set()
        for path in nights:
            told = _night_outcome(path)
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


def _night_outcome(path: Path) -> _NightOutcome | None:
    try:
        facts = RunDir(path).read_json("night.json") or {}
        seeds = [((item["key"], item["seed"]), _standing(item)) for item in facts["items"]]
        stood = PreviousNight(seeds, bool(facts.get("chosen")))
        return _NightOutcome(int(facts["number"]), path, int(facts["passes"]), stood)
    except (DstestError, AttributeError, KeyError, TypeError, ValueError):
        return None


def _standing(item: Mapping[str, Any]) -> Standing:
    tries = []
    for one in item["tries"]:
        last = one.get("again") or one.get("judged") or {}
        tries.append((one["standing"], last.get("holds", True)))
    return of_tries(tries)


class KeptEntry(msgspec.Struct, frozen=True, kw_only=True):
    """What stays, and why."""

    entry: Entry
    why: str


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """What is to go, oldest first, and what stays. `short_bytes` is by how much the store is still
    larger than was asked when all that may go is gone."""

    store: Path
    going: tuple[Entry, ...]
    staying: tuple[KeptEntry, ...]
    bytes_before: int
    bytes_after: int
    short_bytes: int = 0


def plan(
    store: Path,
    *,
    now_ns: int,
    max_gb: float | None = None,
    keep_days: float | None = None,
    needed: Mapping[Path, str] | None = None,
    tell: Callable[[str], None] = lambda what: None,
) -> Plan:
    """What goes: the oldest until the store has at most `max_gb` (10^9 bytes), or without that all
    that may; nothing younger than `keep_days`. `needed` are directories that somebody asks for,
    and who does. Raises ConfigError where neither is given."""
    if max_gb is None and keep_days is None:
        raise ConfigError("nothing says what may go", remedy="--max-gb, --keep-days, or both")
    found, _ = entries(store, tell)
    total = left = sum(entry.bytes for entry in found)
    most = None if max_gb is None else int(max_gb * 1e9)
    going: list[Entry] = []
    staying: list[KeptEntry] = []
    newest = _newest(found)
    rows = NightRows(entry.path for entry in found if entry.kind == "night")
    for entry in found:
        why = _why(entry, newest, now_ns, keep_days, needed or {})
        if not why and most is not None and left <= most:
            why = "the store is small enough"
        if not why and entry.asked and (touched := _touched(entry)):
            why = f"its files are not as they were summed up: {touched}"
        if not why and entry.kind == "night" and rows.ask_otherwise_without(entry.path):
            why = "by it the next night knows which seeds that failed it has to ask again"
        if why:
            staying.append(KeptEntry(entry=entry, why=why))
        else:
            going.append(entry)
            if entry.kind == "night":
                rows.forget(entry.path)
            left -= entry.bytes
    return Plan(
        store=store,
        going=tuple(going),
        staying=tuple(staying),
        bytes_before=total,
        bytes_after=left,
        short_bytes=0 if most is None else max(0, left - most),
    )


def _why(
    entry: Entry,
    newest: Collection[Path],
    now_ns: int,
    keep_days: float | None,
    needed: Mapping[Path, str],
) -> str:
    """Why it stays whatever its size; empty where nothing keeps it."""
    if entry.life == "running":
        return "it is running"
    if entry.life == "died" and entry.asked:
        if (entry.path / SUMS).is_file() and (touched := wrong_sums(entry.path)):
            return f"its files are not as they were summed up: {touched}"
        return "it was not judged to its end: `dstest recover` or `dstest resume` does"
    if entry.failed:
        return "it found a violation, and is kept with its reproducers"
    age = entry.age_days(now_ns)
    if not entry.asked and (age is None or age < _BEGINS_DAYS):
        return "it may have begun just now"
    asked = next((who for path, who in needed.items() if path.is_relative_to(entry.path)), "")
    if asked:
        return f"{asked} asks for it"
    if entry.path in newest:
        return "it is the newest that is over"
    if age is None:
        return "it does not say when it was made"
    if keep_days is not None and age < keep_days:
        return f"it is {age:.1f} days old"
    return ""


def _newest(found: Sequence[Entry]) -> set[Path]:
    """Of all that is over, and of the nights of each name, which the next one is numbered after."""
    over = [entry for entry in found if entry.life == "over"]
    nights = {entry.path.parent: entry.path for entry in over if entry.kind == "night"}
    return {*nights.values(), *(entry.path for entry in over[-1:])}


def _touched(entry: Entry) -> str:
    """A verdict that was edited might hide a violation: such a thing is not thrown away."""
    if entry.kind == "plan":
        return ""
    if entry.kind == "night":
        walked = walk(entry.path)
        told = [f"{one.path.name}: {one.told}" for one in walked.odd if one.why == "night"]
        runs = [place.path for place in walked.places if place.kind == "run"]
        wrong = (why for run in runs if is_finished(RunDir(run)) and (why := wrong_sums(run)))
        return next(chain(told, wrong), "")
    return wrong_sums(entry.path)


def delete(found: Plan) -> int:
    """Delete what is to go; how many bytes that were. Each is looked at once more: who has begun to
    use it meanwhile keeps it. Raises HarnessError where something cannot be deleted."""
    gone = 0
    again = {entry.path: entry for entry in entries(found.store)[0]}
    for entry in found.going:
        now = again.get(entry.path)
        idle = now is not None and (now.life == "over" or (now.life == "died" and not now.asked))
        if now is None or not idle or now.failed:
            continue
        try:
            for path in (*_outside(entry), entry.path):
                shutil.rmtree(path)
        except OSError as error:
            raise HarnessError(
                f"cannot delete {entry.path}: {error.strerror}",
                remedy="what was deleted before is gone, the rest is as it was",
            ) from None
        gone += entry.bytes
        _tidy(entry.path.parent, found.store)
    return gone


def _outside(entry: Entry) -> Collection[Path]:
    return [aside for aside in entry.asides if not aside.is_relative_to(entry.path)]


def _tidy(folder: Path, store: Path) -> None:
    """The folder of a name with no run left."""
    if folder != store.resolve() and not any(folder.iterdir()):
        folder.rmdir()
