"""What was tried against a mismatch between a model and a system, and whether it helped.

A file of JSON lines, a line for each mismatch that was seen: its fingerprint (action, guards that
refused it, their levels, the fields of the state that they read), the commit under which it was
seen, and how much the harness forgives there. The same fingerprint under three commits or more that
were to mend it means going in circles.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from pathlib import Path
from typing import Final

import msgspec

from dstest.core.errors import ConfigError

__all__ = ["CIRCLE", "Circle", "Mismatch", "circles", "forgiven", "read", "record"]

CIRCLE: Final = 3
"""Commits under which one mismatch has come again."""


class Mismatch(msgspec.Struct, frozen=True, kw_only=True):
    """One sighting. `guards` are labels with their levels; `fields` what they read.

    `ignores`, `dropped_guards` and `tolerance` are what the harness forgave when it was seen.
    """

    action: str
    guards: tuple[tuple[str, str], ...]
    fields: tuple[str, ...]
    commit: str
    ignores: int = 0
    dropped_guards: int = 0
    tolerance: float = 0.0

    @property
    def fingerprint(self) -> str:
        """The same for one mismatch under any commit; 12 hex digits."""
        said = msgspec.json.encode([self.action, sorted(self.guards), sorted(self.fields)])
        return hashlib.sha256(said).hexdigest()[:12]


class Circle(msgspec.Struct, frozen=True):
    """A mismatch that was to be mended by these commits and was not."""

    fingerprint: str
    action: str
    commits: tuple[str, ...]


def record(path: Path, seen: Mismatch) -> None:
    """At the end of the ledger, which is made where it is not there."""
    with path.open("ab") as file:
        file.write(msgspec.json.encode(seen) + b"\n")


def read(path: Path) -> list[Mismatch]:
    """Oldest first; nothing where there is no ledger. Raises ConfigError for a damaged line."""
    if not path.is_file():
        return []
    found = []
    for number, line in enumerate(path.read_bytes().splitlines(), 1):
        try:
            found.append(msgspec.json.decode(line, type=Mismatch))
        except msgspec.DecodeError as error:
            raise ConfigError(
                f"{path}, line {number}: {error}", remedy="mend or remove that line"
            ) from None
    return found


def circles(seen: Iterable[Mismatch]) -> list[Circle]:
    """Those that came again under `CIRCLE` commits or more."""
    by: dict[str, list[Mismatch]] = {}
    for one in seen:
        by.setdefault(one.fingerprint, []).append(one)
    found = []
    for fingerprint, sightings in by.items():
        commits = tuple(dict.fromkeys(one.commit for one in sightings))
        if len(commits) >= CIRCLE:
            found.append(Circle(fingerprint, sightings[0].action, commits))
    return found


def forgiven(seen: Iterable[Mismatch]) -> list[tuple[str, float]]:
    """(commit, ignores + dropped guards + tolerance), the newest sighting of each commit: a harness
    that forgives more and more finds less and less."""
    by = {one.commit: one.ignores + one.dropped_guards + one.tolerance for one in seen}
    return list(by.items())
