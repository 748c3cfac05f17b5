"""The commands that supply what is missing for a claim or a control: for what is not there, and for
no more; with the load of the runs that are there."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec

from dstest.core import registry
from dstest.core.errors import ConfigError, DstestError
from dstest.core.run_record import RunSpec
from dstest.core.run_words import command_of
from dstest.gate.policy import Claim, Control, RequiredTest
from dstest.history.layout import RunDir
from dstest.judge.facts import SHAPES

NIGHT: Final = "night.json"
_LOAD: Final = ("rate", "concurrency", "monitor", "files", "time_limit_s")
"""What a run has been given besides what a policy asks for, by field of its spec."""

_MARGIN: Final = 1.2


class Like(NamedTuple):
    """A run of the same test: where it lies, and its spec."""

    path: Path
    spec: dict[str, Any]


class Lacking(NamedTuple):
    """What is not there: so many more seeds, these sizes, so many more runs for faults and
    operations. `whole`: no run reaches the tier, so that all of it is to be made."""

    seeds: int
    sizes: tuple[int, ...]
    runs: int = 1
    whole: bool = False

    @property
    def more(self) -> int:
        """How many seeds to ask for at the first size."""
        return max(1, self.seeds, self.runs)


class Supply(NamedTuple):
    """`command` makes what is missing; `night` says the same for a night, where runs of one are
    there, else empty."""

    command: str
    night: str = ""


def runs_for(wanted: float, there: float, runs: int) -> int:
    """How many more runs come to a number, when those that are there have come to so much; with a
    margin, since no two runs do the same."""
    if there >= wanted:
        return 0
    return math.ceil(_MARGIN * (wanted - there) / (there / runs)) if there and runs else 1


def for_claim(claim: Claim, lacking: Lacking, like: Like | None) -> Supply:
    """What supplies what a claim lacks."""
    shape = SHAPES[claim.tier]
    keeps = claim.tier == "smoke" or not lacking.whole  # else its load is the tier's
    words = {**_words(claim), **_load(like, time=keeps), "tier": claim.tier}
    if claim.tier == "smoke":
        first, *others = lacking.sizes or claim.sizes[:1]
        jobs: list[dict[str, Any]] = [{"nodes": first, "seeds": lacking.more}]
        jobs += [{"nodes": ",".join(map(str, others)), "seeds": 1}] if others else []
        jobs = [{**job, "seeds": None if job["seeds"] == 1 else job["seeds"]} for job in jobs]
    else:
        # Each session has to meet the budget of its tier by itself.
        most, sizes = max(shape.sizes), [*lacking.sizes]
        sizes = [] if {*sizes} <= {*shape.sizes} else sizes
        sizes = [most, *sizes] if sizes and max(sizes) < most else sizes
        seeds = max(shape.seeds, lacking.more)
        jobs = [
            {
                "nodes": ",".join(map(str, sizes)) or None,
                "seeds": seeds if seeds > shape.seeds else None,
            }
        ]
    commands = [command_of({**words, **job}, claim.options) for job in jobs]
    return Supply("; ".join(commands), _in_night(like, lacking))


def for_control(control: Control, seeds: int, like: Like | None) -> Supply:
    """So many more runs of a control."""
    words = {**_words(control), **_load(like, time=True)}
    if like is not None and like.spec.get("nodes") != RunSpec().nodes:
        words["nodes"] = like.spec.get("nodes")
    words["seeds"] = seeds if seeds > 1 else None
    return Supply(command_of(words, control.options), _in_night(like, Lacking(seeds, ())))


def _load(like: Like | None, *, time: bool) -> dict[str, Any]:
    """The words of the load that a run had, but for those that every run has."""
    if like is None:
        return {}
    usual = msgspec.to_builtins(RunSpec())
    names = _LOAD if time else _LOAD[:-1]
    said = {name: like.spec[name] for name in names if name in like.spec}
    return {name: value for name, value in said.items() if value != usual.get(name)}


def _in_night(like: Like | None, lacking: Lacking) -> str:
    """The same, said of the cell that the run was of."""
    night = None if like is None else _night_of(like.path)
    if like is None or night is None:
        return ""
    cell = like.path.relative_to(night).parts[1].rsplit(".", 2)[0]
    said = []
    if not lacking.sizes or lacking.seeds > 1 or lacking.runs > 1:
        more = lacking.more + (_seeds_in(night, cell) if not lacking.sizes else 0)
        said.append(f"`seeds = {more}` in the cell {cell}")
    if lacking.sizes:
        sizes = " and ".join(f"`nodes = {size}`" for size in lacking.sizes)
        said.append(f"a cell like {cell} with {sizes}")
    return f"in the nightly: {', '.join(said)}"


def _night_of(path: Path) -> Path | None:
    return next(
        (up for up in path.parents if (up / NIGHT).is_file() and path.is_relative_to(up / "cells")),
        None,
    )


def _seeds_in(night: Path, cell: str) -> int:
    """How many seeds its file asks for of a cell."""
    try:
        items = (RunDir(night).read_json(NIGHT) or {})["items"]
        return sum(item["cell"] == cell and item["why"] != "kept" for item in items)
    except (DstestError, KeyError, TypeError):
        return 0


def like_of(runs: Sequence[Like]) -> Like | None:
    """The run whose load is kept: the last."""
    return runs[-1] if runs else None


def _words(asked: RequiredTest) -> dict[str, Any]:
    checkers = getattr(asked, "checkers", ())
    model = asked.model
    try:
        workload = registry.load("workloads", asked.workload)
    except ConfigError:
        usual: tuple[str, ...] = ()
    else:
        usual = tuple(workload.checkers)
        model = None if model == workload.model else model
    return {
        "system": asked.system,
        "workload": asked.workload,
        "nemesis": asked.nemesis,
        "lab": asked.lab,
        "builds": [name.rpartition("@")[0] or name for name in asked.builds],
        "checkers": [name for name in checkers if name not in usual],
        "model": model,
    }
