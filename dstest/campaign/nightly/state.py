"""What is kept on disk of a night, replaced atomically at each step, by one process at a time:

store/<name>/index.sqlite       all nights of this name, made anew from their night.json
store/<name>/<utc>-<number>/    nightly.toml   as it was when this began
                                night.json     this file's data
                                report.html    for people
                                junit.xml      for CI servers
                                cells/<cell>.<seed>.<try>/  log.txt, and below store/ the run
"""

from __future__ import annotations

import re
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Final, Literal, NamedTuple

import msgspec

from dstest.campaign.nightly.cells import Expectation
from dstest.campaign.nightly.outcome import IN_PROCESS, Shade, TryResult, shade_of
from dstest.core.errors import ConfigError
from dstest.core.standing import Standing, of_tries
from dstest.history.layout import link_latest, locked, new_directory, whole, write_file
from dstest.runner.session import process_start_time

CONFIG: Final = "nightly.toml"
NIGHT: Final = "night.json"
_NUMBERED: Final = re.compile(r"\d{8}T\d{6}Z-(\d+)(?:-\d+)?")


class Try(msgspec.Struct, kw_only=True):
    """One run of an item. `result` is its run directory, relative to the night's; `lost` how many
    workers were lost with it. `judged` is None until it has come back and was judged; `again` is
    what judging it again said, where that does not replace what was seen then. `left`: it is what a
    worker that was lost has left, and counts because it failed. `exit_code` is that of its command,
    for whoever reads the file: the run directory decides."""

    number: int
    started: str
    ended: str = ""
    took_s: float = 0.0
    exit_code: int | None = None
    worker: str = ""
    lost: int = 0
    result: str = ""
    judged: TryResult | None = None
    again: TryResult | None = None
    standing: Standing = "no-verdict"
    why_not: str = ""
    left: bool = False

    @property
    def holds(self) -> bool:
        """Is its evidence, where it left any, still what it left?"""
        last = self.again or self.judged
        return last is None or last.holds

    @property
    def word(self) -> str:
        """What it came to, for people."""
        if not self.holds:
            return "evidence does not hold"
        return "" if self.judged is None else self.judged.told

    @property
    def reason(self) -> str:
        """Why it does not stand as it must, and what judging it again says otherwise."""
        if self.again is None or self.again.reason in self.why_not:
            return self.why_not
        state = f"{self.again.state.value}: " if self.again.holds else ""
        return f"{self.why_not}; judged again: {state}{self.again.reason}"


class Item(msgspec.Struct, kw_only=True):
    """A cell with a seed. `why` is `new`, `named` where the file names the seed, or `kept` where it
    failed in a night before; `skipped` says why it was never run. `tries` are those that came
    back, from old to new; `died` counts those that ended with the process of the night, and began
    again."""

    id: str
    cell: str
    key: str
    system: str
    version: str
    workload: str
    nemesis: str
    argv: list[str]
    image: list[str] = []
    files: list[str]
    expected: Expectation
    limit_s: float
    seed: int
    why: str
    tries: list[Try] = []
    running: Try | None = None
    skipped: str = ""
    died: int = 0

    @property
    def standing(self) -> Standing:
        """By all tries."""
        return of_tries([(one.standing, one.holds) for one in self.tries])

    @property
    def shown(self) -> Shade:
        """How it stands, in the words that people and the index get."""
        return shade_of(self.standing, red=self.expected.red)

    @property
    def made(self) -> int:
        """How many tries this night has made of it."""
        return sum(not one.left for one in self.tries)

    @property
    def next_number(self) -> int:
        """Of the next try."""
        return 1 + max((one.number for one in self.tries), default=0)

    @property
    def repeats(self) -> bool:
        """Would another try come out the same? So does a simulation of one seed, to the byte."""
        return any(
            one.judged is not None
            and one.judged.transport == IN_PROCESS
            and one.holds
            and one.standing != "no-verdict"
            for one in self.tries
        )

    @property
    def flaky(self) -> bool:
        """As it must be, but not with each try."""
        return self.standing == "as-it-must" and any(
            one.standing != "as-it-must" for one in self.tries
        )

    @property
    def why_not(self) -> str:
        """Why it does not stand as it must: the reason of the try that decides."""
        standing = self.standing
        if standing == "as-it-must":
            return ""
        said = [one for one in self.tries if one.standing == standing]
        said = [one for one in said if not one.holds] or said
        return said[-1].reason if said else self.skipped or "it was not run"


class Night(msgspec.Struct, kw_only=True):
    """One night. `number` counts the nights of this name from 1; `spent_s` is what it has taken of
    its budget so far, without the time that it lay dead; `exit` stands there once it is over.
    `chosen` are the cells that were asked for by name: such a night asks no others. `gone_on` is
    when a process went on with it, whose own had ended or died. `asked_sha256` is that of the ids
    of its items, empty in what older versions wrote; `night_seed` is what its new seeds were drawn
    by, None in what older versions wrote, which drew them by its number; `wrong` is what was found
    that contradicts this file."""

    schema: Literal["dstest.night/1"] = "dstest.night/1"
    name: str
    number: int
    config_sha256: str
    at: str
    workers: int
    budget_s: float
    reruns: int
    passes: int
    dstest: str
    started: str
    spent_s: float = 0.0
    ended: str = ""
    pid: int = 0
    pid_start_time: int | None = None
    items: list[Item]
    exit: int | None = None
    chosen: list[str] = []
    gone_on: list[str] = []
    asked_sha256: str = ""
    night_seed: int | None = None
    wrong: list[str] = []

    @property
    def runs(self) -> bool:
        """Is its process there, on this machine?"""
        started = process_start_time(self.pid)
        return not self.ended and started is not None and started == self.pid_start_time


class NightDir:
    """Paths and atomic writes of one night."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.cells = path / "cells"
        self.config = path / CONFIG

    @classmethod
    def create(cls, store: Path, night: Night, config: bytes) -> NightDir:
        """A new directory; `store/latest` points to it."""
        made = cls(new_directory(store, night.name, night.number))
        with whole(store, made.path):
            made.cells.mkdir()
            made.write(CONFIG, config)
            made.save(night)
            link_latest(store, made.path)
        return made

    @classmethod
    def open(cls, path: Path) -> NightDir:
        """An existing one; ConfigError where `path` is none."""
        if not (path / NIGHT).is_file():
            raise ConfigError(
                f"{path} is not the directory of a night",
                remedy=f"give the directory that holds {NIGHT}, such as store/latest",
            )
        return cls(path.resolve())

    def read(self) -> Night:
        """Raises ConfigError where it cannot be read."""
        try:
            return msgspec.json.decode((self.path / NIGHT).read_bytes(), type=Night)
        except (msgspec.DecodeError, OSError) as error:
            raise ConfigError(
                f"{self.path / NIGHT} cannot be read: {error}",
                remedy="restore it, or move the directory away; the runs below its cells/ stand by "
                "themselves: `dstest report RUN`",
            ) from None

    def save(self, night: Night) -> None:
        """Replace the file."""
        self.write(NIGHT, msgspec.json.format(msgspec.json.encode(night), indent=1) + b"\n")

    def write(self, name: str, data: bytes) -> Path:
        """Write a file atomically."""
        return write_file(self.path, name, data)


class Nights(NamedTuple):
    """The nights of a name from old to new, and what there is to say of those that cannot be read;
    what a kill left before its first save is none."""

    whole: list[tuple[NightDir, Night]]
    damaged: list[str]


def nights_in(folder: Path) -> Nights:
    """The nights in the folder of a name. One that is damaged costs no other one."""
    found = Nights([], [])
    for path in sorted(folder.glob(f"*/{NIGHT}")):
        if path.parent.is_symlink():  # as store/latest
            continue
        directory = NightDir(path.parent.resolve())
        try:
            found.whole.append((directory, directory.read()))
        except ConfigError as error:
            found.damaged.append(f"left out: {error.message}")
    found.whole.sort(key=lambda one: one[1].number)
    return found


def number_after(folder: Path, nights: Nights) -> int:
    """One that no night has, and no directory of one."""
    names = [path.name for path in folder.iterdir()] if folder.is_dir() else []
    taken = [int(found[1]) for name in names if (found := _NUMBERED.fullmatch(name))]
    return 1 + max([*taken, *(night.number for _, night in nights.whole)], default=0)


_NIGHT: Final = ".night.lock"
_INDEX: Final = ".index.lock"


def alone(folder: Path) -> AbstractContextManager[None]:
    """Until the end of the block, or of this process, no other one runs a night in this folder.
    Raises ConfigError where one does."""
    busy = ConfigError(
        f"a night in {folder} is still running",
        remedy="wait for its end (`dstest nightly status DIR`), or give this one another name",
    )
    return locked(folder / _NIGHT, busy)


def in_turn(folder: Path) -> AbstractContextManager[None]:
    """Wait until nobody else makes the index of this folder, and keep others from it."""
    return locked(folder / _INDEX)
