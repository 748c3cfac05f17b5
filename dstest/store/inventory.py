"""What lies in a store: runs, sessions, executed plans and nights, found by what lies in them, and
what each says of itself at a glance. Nothing here is judged again.

No link is followed: the only one that a store has of its own is `latest`, and what it points to is
found by itself. Whoever copies a store may follow it: a directory `latest` that is the same, file
by file, as what lies beside it stands for that and is left out. What stands beside a run
(`RUN.blame`, `RUN.shrink`) belongs to it.
"""

from __future__ import annotations

import datetime
import filecmp
import os
import stat
from collections.abc import Collection, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final, Literal

import msgspec

from dstest.core.errors import ConfigError, Exit
from dstest.history.layout import RunDir
from dstest.history.segment import Damage, read_lines
from dstest.history.sums import SUMS
from dstest.runner.integrity import is_finished
from dstest.runner.session import process_start_time
from dstest.store.nights import differing

_INVOCATION: Final = b'["i",'
_JUDGED: Final = ("verdict.json", "evidence.json", "sha256sums")
Kind = Literal["run", "session", "plan", "night"]

ASIDE: Final = (".blame", ".shrink")
"""Ends of the names of directories that are kept beside a run."""

_MARKS: Final = (
    ("segments", "run"),
    *(("night.json", "night"), ("session.json", "session"), ("execution.json", "plan")),
)
"""What has segments is a run, whatever else somebody has put into it."""
_LEFT_OF_A_RUN: Final = (
    *("run.json", "verdict.json", "evidence.json", "history.jsonl", "sha256sums", "sha256sums.sig"),
    *("status", "spec.toml", "schedule.json", "canary.json", "faults.jsonl", "host.jsonl"),
    *("run.log", "live.json", "findings.md", ".ballast"),
)
"""Names that only what dstest made has: a folder with one of them is not passed over."""

_LATEST: Final = "latest"
_NAMES_DEEP: Final = 3
"""Folders that the name of a test may be deep."""
_FOLDERS_MAX: Final = 100_000
"""More are no store: somebody has given the root of a disk."""
_EMPTY_MAX: Final = 5_000
"""Folders without anything of ours in them, after which none is expected any more."""

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
UNREADABLE: Final = "unreadable"
Life = Literal["over", "running", "died"]


def asked_anything(run: Path) -> bool:
    """Has it recorded an operation? What cannot be read may hold one.

    One that has not found nothing, and hides nothing: its lab did not come up, its servers did not
    start, or it was interrupted before.
    """
    damage: list[Damage] = []
    try:
        for path in sorted((run / "segments").glob("worker-*")):
            if any(line.startswith(_INVOCATION) for line in read_lines(path, damage)):
                return True
        return any(found.lines for found in damage) or _sealed_operations(run / "history.jsonl")
    except OSError:
        return True


def _sealed_operations(history: Path) -> bool:
    """Is there a line after the first, which is no operation?"""
    if not history.is_file():
        return False
    with history.open("rb") as file:
        file.readline()
        return bool(file.readline())


def never_started(run: Path) -> bool:
    """Did it end, without a verdict, before it asked for anything?"""
    return not any((run / name).exists() for name in _JUDGED) and not asked_anything(run)


_FORM: Final = "%Y%m%dT%H%M%SZ"


def time_of(stamp: str | None) -> datetime.datetime | None:
    """The time, None where it is no such stamp."""
    try:
        return datetime.datetime.strptime(f"{stamp}+0000", f"{_FORM}%z")
    except ValueError:
        return None


def stamp_of(time_ns: int) -> str:
    """The stamp of a wall clock."""
    return datetime.datetime.fromtimestamp(time_ns / 1e9, datetime.UTC).strftime(_FORM)


_TOLD: Final = {
    "link": "a symbolic link, and a store has none but `latest`",
    "cut": "a part of a run, and its segments are gone",
    "orphan": "it is named as if it belonged to a run that is not there",
    "foreign": "no part of a run, session, plan or night",
    "unreadable": "it cannot be looked at: make it readable",
    "latest": "the same, file by file, as what `latest` stood for",
    "night": "it is not what its night says",
}


class StorePlace(msgspec.Struct, frozen=True, kw_only=True):
    """A run, a session, an executed plan or a night. `within` is the one that it is a part of, None
    where it stands by itself; `asides` are the directories that belong to a run."""

    path: Path
    kind: Kind
    within: Path | None = None
    asides: tuple[Path, ...] = ()


class Stray(msgspec.Struct, frozen=True, kw_only=True):
    """What should not be there, or should. `why` is `link`, `cut` (a part of a run; the rest is
    gone), `orphan` (it is named as if it belonged to a run that is not there), `unreadable` (nobody
    lets us look), `night` (the run of a night that is gone, or not what the night says); or, which
    does no harm, `foreign` (no part of anything) or `latest` (a whole copy of what `of` is, made by
    whoever followed that link). `what` says more; `failed`: it had shown a violation, and was no
    red control."""

    path: Path
    why: Literal["link", "cut", "orphan", "unreadable", "foreign", "latest", "night"]
    of: Path | None = None
    what: str = ""
    failed: bool = False

    @property
    def told(self) -> str:
        """In words."""
        said = self.what or _TOLD[self.why]
        return said + (f": {self.of}" if self.of is not None else "")

    @property
    def harmless(self) -> bool:
        """Is nothing wrong with the store for it?"""
        return self.why in ("foreign", "latest")


class Inventory(msgspec.Struct, frozen=True, kw_only=True):
    """All that was found, in the order of paths; what has runs stands before them. `folders` are
    those that were looked into, which are no runs: whatever comes or goes changes one of them."""

    places: tuple[StorePlace, ...]
    odd: tuple[Stray, ...]
    folders: tuple[Path, ...] = ()


def left_out(odd: Iterable[Stray]) -> Iterator[str]:
    """The line that says which directories `latest` are left out; none where there are none."""
    copies = [one for one in odd if one.why == "latest"]
    if copies:
        count, first = len(copies), copies[0]
        many = "is a whole copy" if count == 1 else f"and others, {count} directories, are copies"
        yield f"left out: {first.path} {many} of what the link `latest` stood for, {first.of}" + (
            "" if count == 1 else " first"
        )


def walk(store: Path) -> Inventory:
    """What lies in this directory, which may be a single one of them as well.

    Raises ConfigError where it is none, or has more folders than any store.
    """
    if not store.is_dir():
        raise ConfigError(f"{store} is no directory", remedy="give a store, or a run of one")
    places: list[StorePlace] = []
    odd: list[Stray] = []
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
            odd.append(Stray(path=folder, why="unreadable"))
            continue
        left += reversed(below)
        if not any(place.kind == "run" for place in places[before:]):
            folders.append(folder)
    odd += _foreign(store.resolve(), places, {one.path for one in odd})
    odd += _not_as_nights_say(places)
    return Inventory(places=tuple(places), odd=tuple(odd), folders=tuple(folders))


def _not_as_nights_say(places: Sequence[StorePlace]) -> Iterator[Stray]:
    """Runs that nights name and that are gone, or are not what the nights say."""
    for place in places:
        for found in differing(place.path) if place.kind == "night" else ():
            yield Stray(path=found.path, why="night", what=found.what, failed=found.failed)


def _foreign(store: Path, places: Sequence[StorePlace], known: Collection[Path]) -> Iterator[Stray]:
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
                yield Stray(path=path, why="foreign")


def _here(
    folder: Path, within: Path | None, places: list[StorePlace], odd: list[Stray]
) -> list[tuple[Path, Path | None]]:
    """What this folder is, and the folders below it that are still to be looked at."""
    kind = kind_of(folder)
    if kind is not None:
        places.append(StorePlace(path=folder, kind=kind, within=within, asides=_asides(folder)))
    elif any((folder / name).is_file() for name in _LEFT_OF_A_RUN):
        odd.append(Stray(path=folder, why="cut"))
    if kind == "run":
        return []
    inner = folder if kind is not None else within
    below: list[tuple[Path, Path | None]] = []
    for entry in _entries(folder):
        path = Path(entry.path)
        if entry.is_symlink():
            if not _own_link(path):
                odd.append(Stray(path=path, why="link"))
        elif entry.is_dir(follow_symlinks=False):
            if entry.name == _LATEST and (original := _stands_for(path)) is not None:
                odd.append(Stray(path=path, why="latest", of=original))
            elif path.suffix not in ASIDE or _is_run(path):
                below.append((path, inner))
            elif kind_of(path.with_suffix("")) != "run":
                odd.append(Stray(path=path, why="orphan"))
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


def _stands_for(latest: Path) -> Path | None:
    """What a directory called `latest` is a whole copy of: beside it, or in a folder beside it."""
    kind = kind_of(latest)
    if kind is None:
        return None
    filecmp.clear_cache()
    others = (other for other in _topmost(latest.parent) if kind_of(other) == kind)
    return next((other for other in others if _same_files(latest, other)), None)


def _topmost(folder: Path, depth: int = _NAMES_DEEP) -> Iterator[Path]:
    """Runs, sessions, plans and nights below a folder, newest names first, without what lies in
    them."""
    try:
        inner = [
            Path(entry.path) for entry in _entries(folder) if entry.is_dir(follow_symlinks=False)
        ]
    except (OSError, ConfigError):
        return
    for path in reversed(inner):
        if path.name == _LATEST:
            continue
        if kind_of(path) is not None:
            yield path
        elif depth:
            yield from _topmost(path, depth - 1)


def _same_files(one: Path, other: Path) -> bool:
    """Are two directories the same, all that lies in them byte by byte?"""
    try:
        mine, its = _entries(one), _entries(other)
        if [_form(entry) for entry in mine] != [_form(entry) for entry in its]:
            return False
        return all(
            _same_files(Path(a.path), Path(b.path))
            if a.is_dir(follow_symlinks=False)
            else a.is_symlink() or filecmp.cmp(a.path, b.path, shallow=False)
            for a, b in zip(mine, its, strict=True)
        )
    except (OSError, ConfigError):
        return False


def _form(entry: os.DirEntry[str]) -> tuple[str, int, int | str]:
    """Name, kind, and what a file's size or a link's target is."""
    seen = entry.stat(follow_symlinks=False)
    kind = stat.S_IFMT(seen.st_mode)
    if stat.S_ISLNK(seen.st_mode):
        return entry.name, kind, os.readlink(entry.path)
    return entry.name, kind, seen.st_size if stat.S_ISREG(seen.st_mode) else 0


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


def state_of(place: StorePlace) -> tuple[str, Life, str]:
    """The state that it says it came to, whether it is over, when it started."""
    name = _FACTS[place.kind]
    try:
        plain = RunDir(place.path).read_json(name) or {}
        state, over = _verdict(place, plain)
        started = str(plain.get("started") or _stamp_of(place.path))
        alive = _alive(plain)
    except Exception:  # whatever lies there: nobody else can be kept from being shown by it
        return UNREADABLE, "died", _stamp_of(place.path)
    # Whoever made it may still be at it, also after its verdict.
    if alive:
        return state or "running", "running", started
    return (state, "over", started) if over else ("died", "died", started)


def _verdict(place: StorePlace, plain: dict[str, Any]) -> tuple[str, bool]:
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
    return str(told.get("verdict") or ""), bool(told) and is_finished(run)


def _alive(plain: dict[str, Any]) -> bool:
    began = process_start_time(int(plain.get("pid") or 0))
    return began is not None and began == plain.get("pid_start_time")


def _stamp_of(path: Path) -> str:
    return path.name.partition("-")[0]
