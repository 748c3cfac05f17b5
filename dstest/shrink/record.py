"""What a reduction has tried: `RUN.shrink/progress.json`, from which it goes on.

The run itself is sealed and stays as it is. Every attempt is a run directory below; what it says is
asked of that directory again whenever the file is read (`reread.py`).
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from pathlib import Path
from typing import Final

import msgspec

from dstest.core.errors import ConfigError
from dstest.core.reproducer import Rate
from dstest.shrink.candidate import Candidate
from dstest.store.layout import write_file
from dstest.store.lock import held, locked

PROGRESS: Final = "progress.json"
HISTORY: Final = "history.jsonl"
"""Beside the reproducer: the part of the run's history that shows the violation alone."""

RUNS: Final = "runs"
"""Directory of the attempts, beside the file that names them."""

_LOCK: Final = ".lock"

ENOUGH: Final = 0.8
"""A reproducer whose violation comes in a smaller share of its runs is no good one: steps are taken
back for it."""

SCHEMA: Final = "dstest.shrink/1"


class Attempt(msgspec.Struct, frozen=True, kw_only=True):
    """One run of a candidate. `path` is below the directory of the file. `judged`: a checker had
    its say, and its faults landed or it came all the same; only then it counts. `came`: it found
    the violation in question. `landed`: faults that were proven. `targets`: nodes that they hit in
    all. `ops`: what clients asked for. `why_not`: why it does not count. `confirms`: made to
    measure how often it comes, and for nothing else. `digest`: which simulation it was; unset on
    nodes."""

    path: str = ""
    judged: bool = False
    came: bool = False
    landed: int = 0
    targets: int = 0
    ops: int = 0
    why_not: str = ""
    confirms: bool = False
    digest: str | msgspec.UnsetType = msgspec.UNSET


class Tried(msgspec.Struct, frozen=True, kw_only=True):
    """A candidate and its runs so far."""

    candidate: Candidate
    attempts: list[Attempt] = msgspec.field(default_factory=list)

    @property
    def came(self) -> int:
        """In how many runs that count the violation came."""
        return sum(one.judged and one.came for one in self.attempts)

    @property
    def gone(self) -> int:
        """In how many it did not."""
        return sum(one.judged and not one.came for one in self.attempts)

    @property
    def rate(self) -> Rate:
        """How often it came in the runs that were made to measure that. Those that decided whether
        the candidate is taken do not count: they would have been others, had it not come."""
        told = [one for one in self.attempts if one.judged and one.confirms]
        digests = {one.digest for one in told} - {msgspec.UNSET}
        return Rate(
            runs=len(told),
            came=sum(one.came for one in told),
            simulations=len(digests) or msgspec.UNSET,
        )


class Progress(msgspec.Struct, frozen=True, kw_only=True):
    """`history_sha256` and `fingerprint` say which run and which violation of it this is about;
    `tried` is by the key of the candidate, in the order of the first run."""

    schema: str = SCHEMA
    run: str
    history_sha256: str
    fingerprint: str
    tried: dict[str, Tried] = msgspec.field(default_factory=dict)

    def rate_of(self, candidate: Candidate) -> Rate:
        """See `Tried.rate`."""
        tried = self.tried.get(candidate.key)
        return Rate() if tried is None else tried.rate

    @property
    def runs(self) -> int:
        """Made so far, also those that do not count."""
        return sum(len(one.attempts) for one in self.tried.values())


def aside_of(run: Path) -> Path:
    """Where the file and the runs that it names are."""
    return run.with_name(f"{run.name}.shrink")


def alone(run: Path) -> AbstractContextManager[None]:
    """Two reductions of one run would forget each other's attempts: the second is refused, by
    ConfigError."""
    busy = ConfigError(f"{run} is being made smaller by another process", remedy="wait for its end")
    return locked(aside_of(run) / _LOCK, busy)


def going_on(run: Path) -> bool:
    """Is it being made smaller now?"""
    return held(aside_of(run) / _LOCK)


def write_progress(run: Path, progress: Progress) -> None:
    """Replaced atomically."""
    data = msgspec.json.format(msgspec.json.encode(progress), indent=1)
    write_file(aside_of(run), PROGRESS, data + b"\n")
