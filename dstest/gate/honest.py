"""What is wrong with a run though its files agree: its name, its clocks, its signature."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from dstest.core.errors import DstestError
from dstest.gate.judged import JudgedRun, Unit
from dstest.gate.rules import Finding
from dstest.retention.identity import RUN_NAME, recorded_name
from dstest.retention.stamps import stamp_of, time_of
from dstest.retention.walk import links_in
from dstest.store.signing import signer_of

_NAMED_WITHIN_S: Final = 600.0
"""A run notes when it started within seconds after its directory was made."""
_AHEAD_S: Final = 120.0
"""So much may two hosts that ask a time server differ."""
_DAY_NS: Final = 86_400 * 1_000_000_000


def dishonest(units: Iterable[Unit], now_ns: int, signers: Path | None) -> Iterator[Finding]:
    """What is wrong with each unit and its runs. `signers` have to have signed, where given."""
    for unit in units:
        yield from _links(unit)
        if unit.kind == "session" and unit.begun:
            yield from _signed(unit.path, signers)
        for run in filter(_over, unit.every):
            where = str(run.path)
            yield from (Finding(rule="G05", what=what, where=where) for what in _misnamed(run))
            yield from (
                Finding(rule="G07", what=what, where=where) for what in _clocks(run, now_ns)
            )
            if unit.kind == "run":
                yield from _signed(run.path, signers)


def _over(run: JudgedRun) -> bool:
    return run.over


def _links(unit: Unit) -> Iterator[Finding]:
    for path in links_in(unit.path):
        what = f"{path.relative_to(unit.path)} is a symbolic link"
        yield Finding(rule="G04", what=what, where=str(unit.path))


def _signed(path: Path, signers: Path | None) -> Iterator[Finding]:
    if signers is None:
        return
    try:
        signer_of(path, signers)
    except DstestError as error:
        what = error.message.removeprefix(f"{path}: ").removeprefix(f"{path} ")
        yield Finding(rule="G11", what=what, where=str(path))


def _misnamed(run: JudgedRun) -> Iterator[str]:
    """Is its directory called as it was when it was made?"""
    name = run.path.name
    sealed = recorded_name(run.path)
    if name != sealed:
        yield f"it was made as {sealed}, and lies here as {name}"
        return
    if run.asides and not (run.verdict.verdict.failed or run.verdict.evidence.violation):
        beside = " and ".join(path.name for path in run.asides)
        yield f"{beside} lies beside it, and it has found no violation to be looked into"


def _origin_ns(run: JudgedRun) -> int | None:
    """The wall clock at the first moment of run time."""
    meta = run.meta
    if meta.clock_start_ns is None or meta.origin_ns is None:
        return None
    return meta.clock_start_ns + meta.origin_ns


def ended_ns(run: JudgedRun) -> int | None:
    """The wall clock at the end of the load; None where no clock was read."""
    origin = _origin_ns(run)
    return None if origin is None else origin + int((run.meta.load_s or 0) * 1e9)


def _started_ns(run: JudgedRun) -> int | None:
    """When it began, as it wrote down, where its directory was named at the same time."""
    match = RUN_NAME.fullmatch(run.path.name)
    named, started = time_of(match[1] if match else None), time_of(run.meta.started)
    if named is None or started is None:
        return None
    apart_s = abs((started - named).total_seconds())
    return int(started.timestamp() * 1e9) if apart_s <= _NAMED_WITHIN_S else None


def age_days(run: JudgedRun, now_ns: int) -> float | None:
    """Since the end of its load, by its clocks and never by the times of its files. One that asked
    for nothing has noted no clocks: since its beginning."""
    ended = ended_ns(run)
    if ended is None and not run.asked:
        ended = _started_ns(run)
    return None if ended is None else (now_ns - ended) / _DAY_NS


def _clocks(run: JudgedRun, now_ns: int) -> Iterator[str]:
    ended = ended_ns(run)
    if ended is None and not run.asked:
        ended = _started_ns(run)
    if ended is None:
        yield "it has not noted what its clocks were, so nothing shows when it was made"
    elif (ended - now_ns) / 1e9 > _AHEAD_S:
        at = stamp_of(ended)
        yield f"by its clocks it ends at {at}, which is in the future"
