"""What is wrong with a run though its files agree: its name, its clocks, its signature, and whether
it is another run once more.

A copy under another name and seed would make one run two that agree. Two runs on nodes never take
the same nanoseconds: of operations with the same number, hardly any has the same duration in both.
In a copy nearly all have, also where its times were shifted, its seed was changed, or a part of it
was cut away. It is refused. In a simulation one command with one seed gives the same nanoseconds,
whoever makes it again. That is refused for nothing and worth nothing: it is one sample, and of
several that fit one counts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec

from dstest.core.errors import DstestError
from dstest.gate.gather import JudgedRun, Unit, anomalies_in, is_unproven
from dstest.gate.policy import Finding, Rule
from dstest.history.layout import recorded_name
from dstest.history.sums import signer_of
from dstest.store.inventory import links_in, stamp_of, time_of
from dstest.store.verify import RUN_NAME, made_again, whole

_NAMED_WITHIN_S: Final = 600.0
"""A run notes when it started within seconds after its directory was made."""
_AHEAD_S: Final = 120.0
"""So much may two hosts that ask a time server differ."""
_DAY_NS: Final = 86_400 * 1_000_000_000
_SHARE: Final = 0.5


class _Part(NamedTuple):
    """A run of a unit, or the unit itself. `signers` have to have signed, where given."""

    unit: Unit
    run: JudgedRun | None
    now_ns: int
    signers: Path | None

    @property
    def path(self) -> Path:
        return (self.run or self.unit).path


def provenance_findings(
    units: Iterable[Unit], now_ns: int, signers: Path | None
) -> Iterator[Finding]:
    """What is wrong with each unit and its runs."""
    for unit in units:
        for run in (None, *(run for run in unit.every if run.over)):
            seen = _Part(unit, run, now_ns, signers)
            for by in RULES:
                yield from by.findings(seen, where=seen.path)


def _links(seen: _Part) -> Iterator[str]:
    for path in links_in(seen.path) if seen.run is None else ():
        yield f"{path.relative_to(seen.path)} is a symbolic link"


def _unsigned(seen: _Part) -> Iterator[str]:
    """A session is signed as a whole, and a run by itself."""
    unit = seen.unit
    one = unit.kind == "run" if seen.run else unit.kind == "session" and unit.begun
    if seen.signers is None or not one:
        return
    try:
        signer_of(seen.path, seen.signers)
    except DstestError as error:
        yield error.message.removeprefix(f"{seen.path}: ").removeprefix(f"{seen.path} ")


def _misnamed(seen: _Part) -> Iterator[str]:
    """Is its directory called as it was when it was made?"""
    if (run := seen.run) is None:
        return
    name = run.path.name
    sealed = recorded_name(run.path)
    if name != sealed:
        yield f"it was made as {sealed}, and lies here as {name}"
    elif run.asides and not (run.verdict.verdict.failed or run.verdict.evidence.violation):
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


def _clocks(seen: _Part) -> Iterator[str]:
    if (run := seen.run) is None:
        return
    ended = ended_ns(run)
    if ended is None and not run.asked:
        ended = _started_ns(run)
    if ended is None:
        yield "it has not noted what its clocks were, so nothing shows when it was made"
    elif (ended - seen.now_ns) / 1e9 > _AHEAD_S:
        at = stamp_of(ended)
        yield f"by its clocks it ends at {at}, which is in the future"


RULES: Final = (
    Rule("G04", "No link stands in for evidence", _links),
    Rule(
        "G05",
        "Each run lies under the name that it was made with, beside nothing foreign",
        _misnamed,
    ),
    Rule("G07", "The clocks of a run say when it was made, which is past", _clocks),
    Rule("G11", "Whoever is allowed to has signed it", _unsigned),
)


_LOOKED_AT: Final = 2_000
"""Operations from the beginning of each run."""


class Doubles(NamedTuple):
    """`findings` are runs that are other ones under another name. `same` are the runs of
    each simulation that was made again."""

    findings: tuple[Finding, ...]
    same: tuple[frozenset[Path], ...]


class _Line(msgspec.Struct, frozen=True):
    op_id: Any
    invoke_ts: int
    complete_ts: int | None = None


def _durations(run: Path) -> dict[Any, int]:
    """By operation how long it took, of the first that completed."""
    found: dict[Any, int] = {}
    decoder = msgspec.json.Decoder(_Line)
    with (run / "history.jsonl").open("rb") as file:
        file.readline()
        for line in file:
            try:
                op = decoder.decode(line)
            except msgspec.MsgspecError:
                continue  # what cannot be read was found before
            if op.complete_ts is not None:
                found[op.op_id] = op.complete_ts - op.invoke_ts
            if len(found) == _LOOKED_AT:
                break
    return found


def doubles(runs: Sequence[JudgedRun]) -> Doubles:
    """Each run that is another one: those of one recording, under the one that was found first."""
    groups: list[tuple[list[JudgedRun], int]] = []
    of: dict[tuple[Any, int], list[int]] = {}
    """By number and duration of an operation the groups, by their places, that have it."""
    findings: list[Finding] = []
    for run in runs:
        mine = _durations(run.path)
        shared = Counter(at for took in mine.items() for at in of.get(took, ()))
        at = next(
            (at for at, n in sorted(shared.items()) if _alike(n, len(mine), groups[at][1])), None
        )
        if at is None:
            for took in mine.items():
                of.setdefault(took, []).append(len(groups))
            groups.append(([run], len(mine)))
        elif wrong := ONCE.findings((run, groups[at][0]), where=run.path):
            findings += wrong
        else:
            groups[at][0].append(run)
    same = (frozenset(run.path for run in group) for group, _ in groups if len(group) > 1)
    return Doubles(tuple(findings), tuple(same))


def left_out(runs: Iterable[JudgedRun], same: Iterable[Collection[Path]]) -> frozenset[Path]:
    """Those of these runs that others of them stand for. `same` are the runs of one simulation, as
    `doubles` finds them."""
    over = [run for run in runs if run.over]
    groups = [[run for run in over if run.path in group] for group in same]
    again = {path for group in groups for path in _not_counted(group)}
    return frozenset(again | _cut_off([run for run in over if run.path not in again]))


def _cut_off(runs: Sequence[JudgedRun]) -> set[Path]:
    """Simulations that were cut off so early that hardly an operation of them is to be compared,
    and of which another run has come to its end."""
    ended: dict[object, list[JudgedRun]] = {}
    for run in runs:
        if whole(run.meta):
            ended.setdefault(run.meta.spec.get("seed"), []).append(run)
    return {
        run.path
        for run in runs
        if not whole(run.meta)
        and any(
            made_again(run.meta, run.path, other.meta, other.path) and _stands_for(other, run)
            for other in ended.get(run.meta.spec.get("seed"), ())
        )
    }


def _alike(same: int, one: int, other: int) -> bool:
    return same > _SHARE * min(one, other)


def _not_made_again(seen: tuple[JudgedRun, Sequence[JudgedRun]]) -> Sequence[str]:
    """Why a run with the nanoseconds of these is not the same simulation made again."""
    run, group = seen
    for other in group:
        if not made_again(run.meta, run.path, other.meta, other.path):
            more = (
                "; runs of one seed in a simulation, with other words or of another version, may"
                " take the same course: give each a seed of its own"
                if "network" not in (run.meta.transport, other.meta.transport)
                else ""
            )
            return [f"it is {other.path} once more: its operations took the same nanoseconds{more}"]
        if whole(run.meta) and whole(other.meta) and run.meta.digest != other.meta.digest:
            what = "another simulation: one seed gave two, or one of them was edited"
            return [f"it is {other.path} once more, and {what}"]
    return ()


ONCE: Final = Rule("G06", "No run counts twice, under whatever name and seed", _not_made_again)


def _not_counted(group: Sequence[JudgedRun]) -> list[Path]:
    """All runs of one simulation but those that count: of those that came to the same, the newest
    that is whole; and none that found something is left out for one that did not. What was cut
    off has nothing to add to one that is whole."""
    kept: list[JudgedRun] = []
    newest = sorted(group, key=lambda run: run.meta.started or "", reverse=True)
    for run in sorted(newest, key=lambda run: not whole(run.meta)):
        if not any(_stands_for(other, run) for other in kept):
            kept.append(run)
    counted = {run.path for run in kept}
    return [run.path for run in group if run.path not in counted]


def _stands_for(other: JudgedRun, run: JudgedRun) -> bool:
    """Is nothing lost of a run where this other one of the same simulation counts?"""
    if _found_something(run):
        mine, theirs = anomalies_in(run.verdict), anomalies_in(other.verdict)
        return _kind(run) == _kind(other) and mine <= theirs
    return _kind(run) == _kind(other) or (whole(other.meta) and not whole(run.meta))


def _kind(run: JudgedRun) -> str:
    if run.verdict.verdict.failed:
        return "failed"
    if is_unproven(run.verdict):
        return "open, with an anomaly"
    return "passed" if run.passes else "open"


def _found_something(run: JudgedRun) -> bool:
    return run.verdict.verdict.failed or is_unproven(run.verdict)


def once(units: Iterable[Unit], again: Collection[Path]) -> list[Unit]:
    """The same without the runs that are others made again: what is counted is counted once. A
    unit is left without runs where something else than those speaks against it."""
    return [
        less for unit in units for less in [_without(unit, again)] if less.runs or _has_more(unit)
    ]


def _has_more(unit: Unit) -> bool:
    """Did an attempt that was repeated find something, or the whole what no run of it did?"""
    of_itself = unit.state.failed and not any(run.verdict.verdict.failed for run in unit.every)
    return of_itself or any(map(_found_something, unit.earlier))


def _without(unit: Unit, again: Collection[Path]) -> Unit:
    runs = tuple(run for run in unit.runs if run.path not in again)
    return unit if len(runs) == len(unit.runs) else msgspec.structs.replace(unit, runs=runs)
