"""Would dstest execute a scenario? Asked of plug-ins, as when a run is planned, without nodes."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from dstest.core import plugin_files, registry
from dstest.core.errors import ConfigError
from dstest.core.protocols import NemesisTraits
from dstest.core.spec import RunSpec
from dstest.plans.launch import Arm, Budget, Run
from dstest.runner.judges import checkers_of
from dstest.runner.plugins import Plugins, resolve
from dstest.runner.requirements import check_client, check_requires
from nemeses.mix import Mix

__all__ = ["Fit", "fit_of", "planned"]

Where = Literal["", "run", "nemesis", "checker"]


class Fit(msgspec.Struct, frozen=True, kw_only=True):
    """What an arm of a scenario is made of. `nemeses` are the parts of its nemesis by name, without
    those that inject nothing. `problem` is why dstest refuses it, `where` what of it is refused;
    both are empty where nothing is."""

    system: Any = None
    workload: Any = None
    nemeses: dict[str, Any] = {}
    checkers: tuple[str, ...] = ()
    problem: str = ""
    where: Where = ""

    @property
    def faults(self) -> frozenset[str]:
        """The numbers of the catalogue that its nemeses deliver."""
        return frozenset(number for part in self.nemeses.values() for number in part.faults)


def fit_of(run: Run, arm: Arm) -> Fit:
    """What this arm of a run is made of, or why it cannot be."""
    where: Where = "run"
    fit = Fit()
    try:
        plugin_files.use(run.plugin)
        system = registry.load("systems", _named("systems", arm.system or run.system))
        workload = registry.load("workloads", _named("workloads", arm.workload or run.workload))
        fit = Fit(system=system, workload=workload, checkers=tuple(workload.checkers))
        check_client(system, workload)
        where = "nemesis"
        parts = [part.strip() for part in (arm.nemesis or run.nemesis).split(",")]
        loaded = [registry.load("nemeses", _named("nemeses", part)) for part in parts]
        injects = {one.name: one for one in loaded if NemesisTraits.of(one).injects}
        fit = msgspec.structs.replace(fit, nemeses=injects)
        check_requires(system, loaded[0] if len(loaded) == 1 else Mix(loaded))
        where = "checker"
        _check_judges(run, arm, workload)
    except ConfigError as error:
        return msgspec.structs.replace(fit, problem=error.message, where=where)
    return fit


def _named(group: str, given: str) -> str:
    return plugin_files.named_in(group, given)


def _check_judges(run: Run, arm: Arm, workload: Any) -> None:
    checkers_of(workload, arm.model or run.model)
    if run.checkers and {*run.checkers} != {*workload.checkers}:
        raise ConfigError(
            f"the run block names {', '.join(run.checkers)}, {workload.name} is judged by "
            f"{', '.join(workload.checkers)}"
        )


def planned(run: Run, arm: Arm, budget: Budget, size: int) -> Plugins:
    """The run of an arm on a cluster of this size, with its faults planned.

    Raises ConfigError as `dstest run` does.
    """
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
        nemesis=_named("nemeses", arm.nemesis or run.nemesis),
        nodes=size,
        time_limit_s=budget.duration_s,
        files=tuple(map(str, plugin_files.used())),
        **{key: value for key, value in facts.items() if value is not None},  # type: ignore[arg-type]
    )
    options = {**run.options, **arm.options}
    return resolve(spec, [f"{key}={_text(value)}" for key, value in options.items()])


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
