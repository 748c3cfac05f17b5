"""Are two runs one? A copy under another name and seed would make one run two that agree.

Two runs on nodes never take the same nanoseconds: of operations with the same number, hardly any
has the same duration in both. In a copy nearly all have, also where its times were shifted, its
seed was changed, or a part of it was cut away. It is refused.

In a simulation one command with one seed gives the same nanoseconds, whoever makes it again. That
is refused for nothing and worth nothing: it is one sample, and of several that fit one counts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec

from dstest.gate.anomalies import anomalies_in, is_unproven
from dstest.gate.judged import JudgedRun, Unit
from dstest.gate.rules import Finding
from dstest.retention.simulated import made_again, whole

_LOOKED_AT: Final = 2_000
"""Operations from the beginning of each run."""
_SHARE: Final = 0.5


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
    findings = []
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
        elif why := _why_not_again(run, groups[at][0]):
            findings.append(Finding(rule="G06", what=why, where=str(run.path)))
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


def _why_not_again(run: JudgedRun, group: Sequence[JudgedRun]) -> str:
    """Why a run with the nanoseconds of these is not the same simulation made again; empty where
    it is."""
    for other in group:
        if not made_again(run.meta, run.path, other.meta, other.path):
            more = (
                "; runs of one seed in a simulation, with other words or of another version, may"
                " take the same course: give each a seed of its own"
                if "network" not in (run.meta.transport, other.meta.transport)
                else ""
            )
            return f"it is {other.path} once more: its operations took the same nanoseconds{more}"
        if whole(run.meta) and whole(other.meta) and run.meta.digest != other.meta.digest:
            return (
                f"it is {other.path} once more, and another simulation: one seed gave two, or one"
                " of them was edited"
            )
    return ""


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
