"""Find the runs, sessions, executed plans and nights below a directory, by what lies in them.

No link is followed: the only one that a store has of its own is `latest`, and what it points to is
found by itself. What stands beside a run (`RUN.blame`, `RUN.shrink`) belongs to it.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import Final, Literal

import msgspec

from dstest.core.errors import ConfigError

Kind = Literal["run", "session", "plan", "night"]

ASIDE: Final = (".blame", ".shrink")
"""Ends of the names of directories that are kept beside a run."""

_MARKS: Final = (
    *(("night.json", "night"), ("session.json", "session"), ("execution.json", "plan")),
    ("segments", "run"),
)
_LEFT_OF_A_RUN: Final = (
    *("run.json", "verdict.json", "evidence.json", "history.jsonl", "sha256sums", "sha256sums.sig"),
    *("status", "spec.toml", "schedule.json", "canary.json", "faults.jsonl", "host.jsonl"),
    *("run.log", "live.json", "findings.md", ".ballast"),
)
"""Names that only what dstest made has: a folder with one of them is not passed over."""
_TOLD: Final = {
    "link": "a symbolic link, and a store has none but `latest`",
    "cut": "a part of a run, and its segments are gone",
    "orphan": "it is named as if it belonged to a run that is not there",
    "foreign": "no part of a run, session, plan or night",
    "unreadable": "it cannot be looked at: make it readable",
}
_LATEST: Final = "latest"
_FOLDERS_MAX: Final = 100_000
"""More are no store: somebody has given the root of a disk."""
_EMPTY_MAX: Final = 5_000
"""Folders without anything of ours in them, after which none is expected any more."""


class Place(msgspec.Struct, frozen=True, kw_only=True):
    """A run, a session, an executed plan or a night. `within` is the one that it is a part of, None
    where it stands by itself; `asides` are the directories that belong to a run."""

    path: Path
    kind: Kind
    within: Path | None = None
    asides: tuple[Path, ...] = ()


class Odd(msgspec.Struct, frozen=True, kw_only=True):
    """What should not be there. `why` is `link`, `cut` (a part of a run; the rest is gone),
    `orphan` (it is named as if it belonged to a run that is not there), `unreadable` (nobody lets
    us look) or `foreign` (no part of anything, which does no harm)."""

    path: Path
    why: Literal["link", "cut", "orphan", "unreadable", "foreign"]

    @property
    def told(self) -> str:
        """In words."""
        return _TOLD[self.why]


class Walked(msgspec.Struct, frozen=True, kw_only=True):
    """All that was found, in the order of paths; what has runs stands before them. `folders` are
    those that were looked into, which are no runs: whatever comes or goes changes one of them."""

    places: tuple[Place, ...]
    odd: tuple[Odd, ...]
    folders: tuple[Path, ...] = ()


def walk(store: Path) -> Walked:
    """What lies in this directory, which may be a single one of them as well.

    Raises ConfigError where it is none, or has more folders than any store.
    """
    if not store.is_dir():
        raise ConfigError(f"{store} is no directory", remedy="give a store, or a run of one")
    places: list[Place] = []
    odd: list[Odd] = []
    left: list[tuple[Path, Path | None]] = [(store.resolve(), None)]
    folders: list[Path] = []
    looked = 0
    while left:
        folder, within = left.pop()
        looked += 1
        if looked > _FOLDERS_MAX:
            raise ConfigError(
                f"{store} has more than {_FOLDERS_MAX:,} folders", remedy="give the store alone"
            )
        if looked > _EMPTY_MAX and not places:
            raise ConfigError(
                f"{store} has no run in its first {_EMPTY_MAX:,} folders",
                remedy="give the store alone: a directory of runs, such as ./store",
            )
        before = len(places)
        try:
            below = _here(folder, within, places, odd)
        except PermissionError as error:
            if folder == store.resolve():
                raise ConfigError(
                    f"{store} cannot be looked at: {error.strerror}", remedy="make it readable"
                ) from None
            odd.append(Odd(path=folder, why="unreadable"))
            continue
        left += reversed(below)
        if not any(place.kind == "run" for place in places[before:]):
            folders.append(folder)
    odd += _foreign(store.resolve(), places, {one.path for one in odd})
    return Walked(places=tuple(places), odd=tuple(odd), folders=tuple(folders))


def _foreign(store: Path, places: Sequence[Place], known: Collection[Path]) -> Iterator[Odd]:
    """Files and folders of a store that are no part of anything: beside the folders of its names,
    and in them. Hidden ones are a tool's; beside nights lies what is over many of them."""
    if any(place.path == store for place in places):
        return  # what was given is a run, session, plan or night itself
    names = {place.path.parent for place in places if place.path.parent.parent == store}
    above = {place.path for place in places} | {up for p in places for up in p.path.parents}
    of_nights = {place.path.parent for place in places if place.kind == "night"}
    for folder in [store, *sorted(names - of_nights)] if names else []:
        for entry in _entries(folder):
            path = Path(entry.path)
            mine = path in above or path.suffix in ASIDE or path in known
            hidden = entry.name.startswith(".") or entry.is_symlink()
            if not (mine or hidden or (path.is_dir() and not _entries(path))):
                yield Odd(path=path, why="foreign")


def _here(
    folder: Path, within: Path | None, places: list[Place], odd: list[Odd]
) -> list[tuple[Path, Path | None]]:
    """What this folder is, and the folders below it that are still to be looked at."""
    kind = kind_of(folder)
    if kind is not None:
        places.append(Place(path=folder, kind=kind, within=within, asides=_asides(folder)))
    elif any((folder / name).is_file() for name in _LEFT_OF_A_RUN):
        odd.append(Odd(path=folder, why="cut"))
    if kind == "run":
        return []
    inner = folder if kind is not None else within
    below: list[tuple[Path, Path | None]] = []
    for entry in _entries(folder):
        path = Path(entry.path)
        if entry.is_symlink():
            if not _own_link(path):
                odd.append(Odd(path=path, why="link"))
        elif entry.is_dir(follow_symlinks=False):
            if path.suffix not in ASIDE or _is_run(path):
                below.append((path, inner))
            elif kind_of(path.with_suffix("")) != "run":
                odd.append(Odd(path=path, why="orphan"))
    return below


def _entries(folder: Path) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            return sorted(entries, key=lambda entry: entry.name)
    except PermissionError:
        raise
    except OSError as error:
        raise ConfigError(
            f"{folder} cannot be looked at: {error.strerror}", remedy="is its disk well?"
        ) from None


def kind_of(folder: Path) -> Kind | None:
    """What a folder is by what lies in it, None for no such thing."""
    for name, kind in _MARKS:
        if (folder / name).exists():
            return kind  # type: ignore[return-value]
    return None


def _own_link(path: Path) -> bool:
    """`latest`, which points to what lies beside it."""
    return path.name == _LATEST and path.resolve().is_relative_to(path.parent.resolve())


def _asides(run: Path) -> tuple[Path, ...]:
    beside = [run.with_name(run.name + suffix) for suffix in ASIDE]
    return tuple(
        path for path in beside if path.is_dir() and not path.is_symlink() and not _is_run(path)
    )


def _is_run(aside: Path) -> bool:
    """Is it a run, that was only called as if it belonged to another one?"""
    return kind_of(aside) == "run" or (aside / "verdict.json").exists()


def links_in(run: Path) -> Iterator[Path]:
    """Symbolic links inside a run directory, which has none of its own."""
    with os.scandir(run) as entries:
        for entry in sorted(entries, key=lambda entry: entry.name):
            if entry.is_symlink():
                yield Path(entry.path)
            elif entry.is_dir():
                yield from links_in(Path(entry.path))
