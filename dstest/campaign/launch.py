"""How a scenario is executed: its run block and its budgets, as arguments of `dstest run`."""

from __future__ import annotations

from typing import Final

import msgspec

from dstest.core.run_words import pair_of, run_words
from dstest.judge.facts import SHAPES


class Budget(msgspec.Struct, frozen=True, kw_only=True):
    """How much a scenario is to do: cluster sizes, seconds of load of each run, faults that land in
    each run, and seeds."""

    nodes: tuple[int, ...]
    duration_s: float
    faults: int
    seeds: int


class Red(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="kebab"):
    """What a scenario has to be red under before its pass is worth anything.

    Either the same run of a build with a known bug (`system`, `plugin`, `system_version`,
    `options`: what is different there), which has to fail by one of its `anomalies`, in one of
    `seeds` runs at least; or `canary`: broken copies of the scenario's own histories, each of which
    its checkers have to reject.
    """

    canary: bool = False
    anomalies: tuple[str, ...] = ()
    system: str | None = None
    plugin: tuple[str, ...] = ()
    system_version: tuple[str, ...] = ()
    options: dict[str, str | int | float | bool] = {}
    seeds: int | None = None

    @property
    def builds(self) -> bool:
        """Does it name a build with a known bug?"""
        return bool(self.system or self.plugin or self.system_version or self.options)


class Arm(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One surface or driver of a scenario, and what is different there. `expected` is `run`, or the
    state that is expected of an arm that is planned and not tested, with its `reason`. `red` is its
    own, where it is another one than that of its scenario."""

    name: str
    surface: str = ""
    expected: str = "run"
    reason: str = ""
    system: str | None = None
    workload: str | None = None
    nemesis: str | None = None
    model: str | None = None
    options: dict[str, str | int | float | bool] = {}
    red: Red | None = None

    @property
    def runs(self) -> bool:
        """Is it executed?"""
        return self.expected == "run"


class Run(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="kebab"):
    """The block `toml run` of a scenario: what `dstest run` is given besides the budget.

    Names are those of its flags. `checker` are those that are asked besides the workload's own;
    `checkers` are all that are to judge it: looked at before and afterwards, and given to nobody.
    """

    system: str
    workload: str
    nemesis: str
    checkers: tuple[str, ...] = ()
    checker: tuple[str, ...] = ()
    model: str | None = None
    lab: str | None = None
    concurrency: int | None = None
    rate: float | None = None
    seed: int | None = None
    plugin: tuple[str, ...] = ()
    system_version: tuple[str, ...] = ()
    options: dict[str, str | int | float | bool] = {}
    arms: tuple[Arm, ...] = ()
    red: Red | None = None
    line: int = 0


def red_side(run: Run, arm: Arm, red: Red) -> tuple[Run, Arm]:
    """The run and the arm of it with the known bug: nothing else is different."""
    bad_run = msgspec.structs.replace(
        run,
        plugin=tuple(dict.fromkeys([*run.plugin, *red.plugin])),
        system_version=red.system_version or run.system_version,
    )
    bad_arm = msgspec.structs.replace(
        arm, system=red.system or arm.system, options={**arm.options, **red.options}
    )
    return bad_run, bad_arm


_FIRST: Final = (
    *("system", "workload", "nemesis", "files", "builds", "checkers", "lab", "model", "tier"),
    *("nodes", "time_limit_s", "seed", "seeds", "concurrency", "rate", "options"),
)
"""In this order: by their words a night knows a cell of an earlier one again."""


def argv_of(
    run: Run, arm: Arm, tier: str, budget: Budget, *, stop_on_violation: bool = False
) -> list[str]:
    """The words behind `dstest` for one arm of a scenario with this budget.

    Several sizes or seeds, and each tier above smoke, make a session of runs. Where the sizes are
    those of the tier they are left to it, since only its first seed then runs at every size.
    """
    said = {
        "system": arm.system or run.system,
        "workload": arm.workload or run.workload,
        "nemesis": arm.nemesis or run.nemesis,
        "files": run.plugin,
        "builds": run.system_version,
        "checkers": run.checker,
        "lab": run.lab,
        "model": arm.model or run.model,
        "tier": tier,
        "nodes": _sizes(tier, budget),
        "time_limit_s": budget.duration_s,
        "seed": run.seed,
        "seeds": budget.seeds,
        "concurrency": run.concurrency,
        "rate": run.rate,
        "stop_on_violation": stop_on_violation,
    }
    options = {**run.options, **arm.options}
    return run_words(said, [pair_of(*one) for one in options.items()], _FIRST)


def _sizes(tier: str, budget: Budget) -> str | None:
    of_tier = next(shape.sizes for name, shape in SHAPES.items() if name == tier)
    many = len(budget.nodes) > 1
    return None if many and budget.nodes == of_tier else ",".join(map(str, budget.nodes))
