"""Would dstest execute a scenario? Asked of plug-ins, as when a run is planned, without nodes."""

from __future__ import annotations

import math
from functools import lru_cache
from pathlib import Path
from typing import Any, Final, Literal

import msgspec

from dstest.campaign.launch import Arm, Budget, Run
from dstest.core import registry
from dstest.core.errors import ConfigError
from dstest.core.run_record import RunSpec
from dstest.runner.plugins import Plugins, checkers_of, resolve
from dstest.runner.requirements import check_client, check_requires
from nemeses.mix import Mix

Where = Literal["", "run", "nemesis", "checker"]
_KEPT: Final = 1024
_FINITE: Final = "give a number, or leave it out"


class Fit(msgspec.Struct, frozen=True, kw_only=True):
    """What an arm of a scenario is made of. `nemeses` are the parts of its nemesis by name, without
    those that inject nothing. `problem` is why dstest refuses it, `where` what of it is refused
    and `remedy` what is to be done; empty where nothing is."""

    system: Any = None
    workload: Any = None
    nemeses: dict[str, Any] = {}
    checkers: tuple[str, ...] = ()
    problem: str = ""
    where: Where = ""
    remedy: str = ""

    @property
    def faults(self) -> frozenset[str]:
        """The numbers of the catalogue that its nemeses deliver."""
        return frozenset(number for part in self.nemeses.values() for number in part.faults)


def fit_of(run: Run, arm: Arm) -> Fit:
    """What this arm of a run is made of, or why it cannot be."""
    if problem := _not_finite(run, arm):
        return Fit(problem=problem, where="run", remedy=_FINITE)
    return _fit(_key(run, arm), tuple(registry.files_in_use()))


def _not_finite(run: Run, arm: Arm) -> str:
    """What is said that is no number, as nobody can run it: `-o fault_s=nan`."""
    said = {
        "--rate ": run.rate,
        **{f"-o {k}=": v for k, v in {**run.options, **arm.options}.items()},
    }
    wrong = [(k, v) for k, v in said.items() if isinstance(v, float) and not math.isfinite(v)]
    return "".join(f"{key}{value}: not a finite number" for key, value in wrong[:1])


def _key(*parts: Run | Arm | Budget | int) -> bytes:
    """What they say, wherever in a plan that is said."""
    bare = [msgspec.structs.replace(p, line=0) if isinstance(p, Run) else p for p in parts]
    return msgspec.json.encode(bare)


@lru_cache(maxsize=_KEPT)
def _fit(key: bytes, used: tuple[Path, ...]) -> Fit:
    """Rules ask for the same again and again, and a plan is planned anew for each."""
    run, arm = msgspec.json.decode(key, type=tuple[Run, Arm])
    where: Where = "run"
    fit = Fit()
    try:
        registry.use(run.plugin)
        system = registry.load("systems", _named("systems", arm.system or run.system))
        workload = registry.load("workloads", _named("workloads", arm.workload or run.workload))
        fit = Fit(system=system, workload=workload, checkers=tuple(workload.checkers))
        check_client(system, workload)
        where = "nemesis"
        parts = [part.strip() for part in (arm.nemesis or run.nemesis).split(",")]
        loaded = [registry.load("nemeses", _named("nemeses", part)) for part in parts]
        injects = {one.name: one for one in loaded if one.injects}
        fit = msgspec.structs.replace(fit, nemeses=injects)
        check_requires(system, loaded[0] if len(loaded) == 1 else Mix(loaded))
        where = "checker"
        judges = checkers_of(workload, arm.model or run.model, _judges(run))
        fit = msgspec.structs.replace(fit, checkers=tuple(one.name for one in judges))
        if run.checkers and arm.workload is None and {*run.checkers} != {*fit.checkers}:
            raise ConfigError(
                f"{workload.name} is judged by {', '.join(fit.checkers)}, and the run block names "
                f"{', '.join(run.checkers)}",
                remedy="leave `checkers` out of the run block, or name those of the workload",
            )
    except ConfigError as error:
        remedy = error.remedy or ""
        return msgspec.structs.replace(fit, problem=error.message, where=where, remedy=remedy)
    return fit


def _named(group: str, given: str) -> str:
    return registry.named_in(group, given)


def _judges(run: Run) -> tuple[str, ...]:
    return tuple(_named("checkers", name) for name in run.checker)


def planned_faults(run: Run, arm: Arm, budget: Budget, size: int, *, stops: bool = False) -> int:
    """How many faults an arm has on a cluster of this size in the time of this budget; `stops`: it
    ends at the first violation.

    Raises ConfigError as `dstest run` does.
    """
    if problem := _not_finite(run, arm):
        raise ConfigError(problem, remedy=_FINITE)
    key = _key(run, arm, budget, size)
    count, message, remedy = _planned(key, tuple(registry.files_in_use()), stops=stops)
    if message:
        raise ConfigError(message, remedy=remedy)
    return count


@lru_cache(maxsize=_KEPT)
def _planned(key: bytes, used: tuple[Path, ...], *, stops: bool) -> tuple[int, str, str]:
    """(number of faults, why it cannot be planned, what is to be done)"""
    run, arm, budget, size = msgspec.json.decode(key, type=tuple[Run, Arm, Budget, int])
    try:
        return len(_resolved(run, arm, budget, size, stops=stops).plans), "", ""
    except ConfigError as error:
        return 0, error.message, error.remedy or "change what is run, or its budget"


def _resolved(run: Run, arm: Arm, budget: Budget, size: int, *, stops: bool) -> Plugins:
    registry.use(run.plugin)
    facts = {
        "lab": run.lab,
        "rate": run.rate,
        "concurrency": run.concurrency,
        "seed": run.seed,
        "model": arm.model or run.model,
    }
    spec = RunSpec(
        system=_named("systems", arm.system or run.system),
        workload=_named("workloads", arm.workload or run.workload),
        nemesis=",".join(
            _named("nemeses", part.strip()) for part in (arm.nemesis or run.nemesis).split(",")
        ),
        nodes=size,
        time_limit_s=budget.duration_s,
        stop_on_violation=stops,
        builds=run.system_version,
        checkers=_judges(run),
        files=tuple(map(str, registry.files_in_use())),
        **{key: value for key, value in facts.items() if value is not None},  # type: ignore[arg-type]
    )
    options = {**run.options, **arm.options}
    return resolve(spec, [f"{key}={_text(value)}" for key, value in options.items()])


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
