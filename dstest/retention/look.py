"""What each thing in a store says of itself, at a glance: nothing here is judged again."""

from __future__ import annotations

import os
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any, Final, Literal

import msgspec

from dstest.core.errors import Exit
from dstest.core.verdict import State
from dstest.retention.asked import never_started
from dstest.retention.nights import of_night
from dstest.retention.stamps import time_of
from dstest.retention.walk import Kind, Place, Walked, walk
from dstest.runner.integrity import finished
from dstest.runner.session import process_start_time
from dstest.store.layout import RunDir
from dstest.store.sums import SUMS

_FAILED: Final = frozenset(state.value for state in State if state.failed)
_OF_A_NIGHT: Final[dict[Any, str]] = {
    int(Exit.PASS): "PASS",
    int(Exit.FAIL): "FAIL",
    int(Exit.NOT_PROVEN): "NOT PROVEN",
}
_FACTS: Final[dict[Kind, str]] = {
    "run": "run.json",
    "session": "session.json",
    "plan": "execution.json",
    "night": "night.json",
}
_UNKNOWN: Final = "unreadable"
Life = Literal["over", "running", "died"]


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


def entries(store: Path) -> tuple[list[Entry], Walked]:
    """What stands by itself in a store, oldest first, and all that was found."""
    walked = walk(store)
    inner = _runs_of_each(walked.places)
    found = [_entry(place, runs) for place, runs in inner]
    return sorted(found, key=lambda entry: (entry.started, str(entry.path))), walked


def _runs_of_each(places: Sequence[Place]) -> list[tuple[Place, list[Place]]]:
    """What stands by itself, each with its runs. `places` have what has runs before these, so that
    whatever a run lies in is known when it comes."""
    found: dict[Path, tuple[Place, list[Place]]] = {}
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


def _entry(place: Place, inner: Sequence[Place]) -> Entry:
    asides = [aside for run in inner for aside in run.asides]
    outside = [aside for aside in asides if not aside.is_relative_to(place.path)]
    state, life, started = said(place)
    failed = state in {*_FAILED, "FAIL"}
    known: Collection[Path] = ()
    if place.kind == "night":
        known, missed = of_night(place.path)
        failed = failed or missed
    return Entry(
        path=place.path,
        kind=place.kind,
        state=state,
        life=life,
        failed=failed or any(_found(run.path) for run in inner if run.path not in known),
        started=started,
        bytes=size_bytes(place.path) + sum(map(size_bytes, outside)),
        runs=len(inner),
        asides=tuple(asides),
        asked=_asked(place, state, life, inner),
    )


def _asked(place: Place, state: str, life: Life, inner: Sequence[Place]) -> bool:
    if life != "died" or state == _UNKNOWN or place.kind not in ("run", "session"):
        return True
    return not all(never_started(run.path) for run in inner)


def said(place: Place) -> tuple[str, Life, str]:
    """The state that it says it came to, whether it is over, when it started."""
    name = _FACTS[place.kind]
    try:
        plain = RunDir(place.path).read_json(name) or {}
        state, over = _verdict(place, plain)
        started = str(plain.get("started") or _stamp_of(place.path))
        alive = _alive(plain)
    except Exception:  # whatever lies there: nobody else can be kept from being shown by it
        return _UNKNOWN, "died", _stamp_of(place.path)
    # Whoever made it may still be at it, also after its verdict.
    if alive:
        return state or "running", "running", started
    return (state, "over", started) if over else ("died", "died", started)


def _verdict(place: Place, plain: dict[str, Any]) -> tuple[str, bool]:
    """What it says that it came to, and whether that is its last word."""
    if place.kind == "night":
        return _OF_A_NIGHT.get(plain.get("exit"), ""), bool(plain.get("ended"))
    if place.kind == "plan":
        state = str(plain.get("outcome") or "")
        return state, bool(state)
    if place.kind == "session":
        state = str((plain.get("verdict") or {}).get("state") or "")
        return state, bool(state) and (place.path / SUMS).is_file()
    run = RunDir(place.path)
    told = run.read_json("verdict.json") or {}
    return str(told.get("verdict") or ""), bool(told) and finished(run)


def _found(path: Path) -> bool:
    """Does a run say that it found a violation, or does its evidence, whatever its verdict?"""
    run = RunDir(path)
    try:
        told, evidence = (run.read_json(name) or {} for name in ("verdict.json", "evidence.json"))
        kept = told.get("evidence") or {}
        return told.get("verdict") in _FAILED or bool(
            evidence.get("violation") or kept.get("violation")
        )
    except Exception:
        return True  # nobody can say that it did not


def _alive(plain: dict[str, Any]) -> bool:
    began = process_start_time(int(plain.get("pid") or 0))
    return began is not None and began == plain.get("pid_start_time")


def _stamp_of(path: Path) -> str:
    return path.name.partition("-")[0]
