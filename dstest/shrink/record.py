"""What a reduction has tried: `RUN.shrink/progress.json`, from which it goes on.

The run itself is sealed and stays as it is. Every attempt is a run directory below; whether the
violation came in it is asked of that directory again whenever the file is read.
"""

from __future__ import annotations

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import msgspec

from dstest.core.errors import ConfigError, DstestError, EvidenceError
from dstest.core.reproducer import REPRODUCER, Rate, Reproducer
from dstest.core.verdict import Verdict
from dstest.judge.blame_file import digest_of
from dstest.judge.fingerprint import all_fingerprints
from dstest.runner.integrity import verified
from dstest.shrink.candidate import Candidate
from dstest.store.layout import RunDir, disk_full, write_file

__all__ = [
    "ENOUGH",
    "PROGRESS",
    "RUNS",
    "Attempt",
    "Progress",
    "Tried",
    "alone",
    "aside_of",
    "came_in",
    "read_progress",
    "read_reproducer",
    "write_progress",
]

PROGRESS: Final = "progress.json"
RUNS: Final = "runs"
"""Directory of the attempts, beside the file that names them."""

ENOUGH: Final = 0.8
"""A reproducer whose violation comes in a smaller share of its runs is no good one: steps are taken
back for it."""

SCHEMA: Final = "dstest.shrink/1"


class Attempt(msgspec.Struct, frozen=True, kw_only=True):
    """One run of a candidate. `path` is below the directory of the file. `judged`: a checker had
    its say; only then it counts. `came`: it found the violation in question. `landed`: faults that
    were proven. `targets`: nodes that they hit in all. `ops`: what clients asked for. `why_not`:
    why it does not count. `confirms`: made to measure how often it comes, and for nothing else."""

    path: str = ""
    judged: bool = False
    came: bool = False
    landed: int = 0
    targets: int = 0
    ops: int = 0
    why_not: str = ""
    confirms: bool = False


class Tried(msgspec.Struct, frozen=True, kw_only=True):
    """A candidate and its runs so far. `refused`: why it cannot be run at all."""

    candidate: Candidate
    attempts: list[Attempt] = msgspec.field(default_factory=list)
    refused: str = ""

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
        return Rate(runs=len(told), came=sum(one.came for one in told))


class Progress(msgspec.Struct, frozen=True, kw_only=True):
    """`history_sha256` and `fingerprint` say which run and which violation of it this is about;
    `tried` is by the key of the candidate, in the order of the first run."""

    schema: str = SCHEMA
    run: str
    history_sha256: str
    fingerprint: str
    tried: dict[str, Tried] = msgspec.field(default_factory=dict)

    @property
    def runs(self) -> int:
        """Made so far, also those that do not count."""
        return sum(len(one.attempts) for one in self.tried.values())


def aside_of(run: Path) -> Path:
    """Where the file and the runs that it names are."""
    return run.with_name(f"{run.name}.shrink")


@contextmanager
def alone(run: Path) -> Iterator[None]:
    """Two reductions of one run would forget each other's attempts: the second is refused, by
    ConfigError."""
    aside = aside_of(run)
    try:
        aside.mkdir(exist_ok=True)
        file = (aside / ".lock").open("wb")
    except OSError as error:
        raise disk_full(aside, error) from None
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise ConfigError(
                f"{run} is being made smaller by another process", remedy="wait for its end"
            ) from None
        yield


def write_progress(run: Path, progress: Progress) -> None:
    """Replaced atomically."""
    data = msgspec.json.format(msgspec.json.encode(progress), indent=1)
    write_file(aside_of(run), PROGRESS, data + b"\n")


def read_progress(run: Path) -> Progress | None:
    """None where nothing was tried yet. Raises EvidenceError where the file cannot be read, is
    about another run, or says of a run what is not so."""
    path = aside_of(run) / PROGRESS
    if not path.is_file():
        return None
    try:
        kept = msgspec.json.decode(path.read_bytes(), type=Progress)
    except msgspec.MsgspecError as error:
        raise _wrong(path, f"it cannot be read: {error}") from None
    if kept.schema != SCHEMA or kept.history_sha256 != digest_of(run):
        raise _wrong(path, f"it is not about {run}")
    if kept.run != run.name:
        raise _wrong(path, f"it is about {kept.run}")
    seen: set[str] = set()
    for key, tried in kept.tried.items():
        if key != tried.candidate.key:
            raise _wrong(path, f"{key} is another candidate than it says")
        for one in tried.attempts:
            if one.judged:
                _hold(path, kept, tried.candidate, one, seen)
    return kept


def _hold(path: Path, kept: Progress, candidate: Candidate, one: Attempt, seen: set[str]) -> None:
    """Raises EvidenceError where this is no run of the candidate, or found something else."""
    place = path.parent / one.path
    if one.path in seen or not place.resolve().is_relative_to((path.parent / RUNS).resolve()):
        raise _wrong(path, f"{one.path} is no run of its own")
    seen.add(one.path)
    if came_in(place, kept.fingerprint) != one.came:
        raise _wrong(path, f"{one.path} found something else than it says")
    if not _is_of(place, candidate):
        raise _wrong(path, f"{one.path} is a run of something else")


def _is_of(run: Path, candidate: Candidate) -> bool:
    """Was this run made of this candidate, by what it has recorded of itself?"""
    try:
        meta = RunDir.open(run).read_meta()
        schedule = msgspec.json.decode((run / "schedule.json").read_bytes())
    except (OSError, DstestError, msgspec.MsgspecError):
        return False
    spec = {} if meta is None else meta.spec
    return (
        (spec.get("nodes"), spec.get("concurrency"), spec.get("rate"))
        == (candidate.nodes, candidate.concurrency, candidate.rate)
        and spec.get("time_limit_s") == candidate.time_limit_s
        and meta is not None
        and meta.options_given == candidate.pairs
        and schedule.get("plans") == msgspec.to_builtins(list(candidate.plans))
    )


def read_reproducer(run: Path) -> Reproducer | None:
    """What the reduction of a run came to, None where there was none. Raises EvidenceError where it
    is not what its runs have shown."""
    path = aside_of(run) / REPRODUCER
    if not path.is_file():
        return None
    try:
        found = msgspec.json.decode(path.read_bytes(), type=Reproducer)
    except msgspec.MsgspecError as error:
        raise _wrong(path, f"it cannot be read: {error}") from None
    progress = read_progress(run)
    if progress is None or found.history_sha256 != progress.history_sha256:
        raise _wrong(path, f"it is not about {run}")
    tried = progress.tried.get(found.candidate)
    if tried is None or found.fingerprint != progress.fingerprint:
        raise _wrong(path, "nothing shows what it says")
    small, seen = tried.candidate, tried.rate
    told = found.after
    if found.rate_after != seen or found.runs != progress.runs:
        raise _wrong(path, f"its runs show the violation in {seen.came} of {seen.runs}")
    if found.confirmed and seen.share < ENOUGH:
        raise _wrong(path, "it is called confirmed, and came too rarely")
    if (told.events, told.nodes, told.clients, told.rate, told.kinds, told.time_limit_s) != (
        *(small.events, small.nodes, small.concurrency, small.rate, small.kinds),
        small.time_limit_s,
    ):
        raise _wrong(path, f"its runs were of {small.said()}")
    landed = min((one.landed for one in tried.attempts if one.came), default=0)
    if found.landed != landed:
        raise _wrong(path, f"{landed} faults landed in its runs")
    _judge_again(path, tried, found.fingerprint)
    return found


def _judge_again(path: Path, tried: Tried, fingerprint: str) -> None:
    """Raises EvidenceError where a run that made the rate is not what its own evidence gives."""
    for one in tried.attempts:
        if not (one.judged and one.confirms):
            continue
        try:
            verdict = verified(RunDir.open(path.parent / one.path)).verdict
        except DstestError as error:
            raise _wrong(path, f"of its runs, {error.message}") from None
        if (fingerprint in all_fingerprints(verdict)) != one.came:
            raise _wrong(path, f"{one.path} found something else than it says")


def came_in(run: Path, fingerprint: str) -> bool | None:
    """Is this violation among those of a run? None where its verdict cannot be read."""
    try:
        data = (run / "verdict.json").read_bytes()
        return fingerprint in all_fingerprints(msgspec.json.decode(data, type=Verdict))
    except (OSError, ValueError, msgspec.MsgspecError):
        return None


def _wrong(path: Path, why: str) -> EvidenceError:
    return EvidenceError(f"{path}: {why}", remedy="remove its directory and run `dstest shrink`")
