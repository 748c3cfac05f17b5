"""`dstest check` for histories of single objects: the workload's checkers, or one by name."""

from __future__ import annotations

from typing import Any, Final

from msgspec.structs import replace

from dstest.cli.check_models import require_asked
from dstest.cli.check_source import guess
from dstest.core import registry
from dstest.core.check import Budget, CheckResult
from dstest.core.errors import ConfigError
from dstest.core.history import History
from dstest.core.protocols import CheckerTraits
from dstest.judge.budgeted import Job, Source, budgeted, merged, model_of, run_jobs
from dstest.judge.checker_answers import of_all

LINEARIZABLE: Final = "linearizable"

__all__ = ["Source", "judge_by_workload", "require_fitting"]


def require_fitting(workload: str, checker: str) -> None:
    """Raises ConfigError where a checker is asked for that the workload does not have: one of the
    two would be passed over."""
    registry.load("checkers", checker)
    known = registry.load("workloads", workload).checkers
    if checker not in known:
        raise ConfigError(
            f"--checker {checker} does not judge --workload {workload}",
            remedy=f"leave one of them out, or --checker {' or '.join(known)}",
        )


def _default(chosen: Any, history: History) -> str:
    """The model of a checker that nobody named one for: the strongest that knows all operations."""
    if history.header.model in chosen.models:
        return str(history.header.model)
    types = {op.op_type for op in history.ops}
    known = CheckerTraits.of(chosen).op_types
    fit = (m for m in chosen.models if types <= known.get(m, types))
    return str(next(fit, chosen.models[0]))


def _checkers(
    history: History, workload: str | None, model: str | None, checker: str | None
) -> tuple[list[Any], str, str | None]:
    """Checkers, the model they are asked for, and the workload's name."""
    header = history.header
    if checker is not None:
        chosen = registry.load("checkers", checker)
        if model is not None and model not in chosen.models:
            raise ConfigError(
                f"checker {checker} does not know the model {model!r}",
                remedy=f"--model {' or '.join(chosen.models)}",
            )
        return [chosen], model or _default(chosen, history), workload or header.workload
    usual = header.model if workload in (None, header.workload) else None
    name = workload or header.workload
    if name is None:
        try:
            name, usual = guess(history)
        except ConfigError:
            if (only := _only_judge(history, model)) is None:
                raise
            return [only], str(model), None
    plugin = registry.load("workloads", name)
    checkers = [registry.load("checkers", c) for c in plugin.checkers]
    asked = model or usual or plugin.model
    if model is None and not any(asked in c.models for c in checkers):
        asked = plugin.model  # the file is older than the name
    if model == LINEARIZABLE and any(c.name == LINEARIZABLE for c in checkers):
        asked = usual or plugin.model  # what that checker says of any object
    if not any(asked in c.models for c in checkers):
        known = sorted({m for c in checkers for m in c.models})
        raise ConfigError(
            f"no checker of workload {name} knows the model {asked!r}",
            remedy=f"--model {' or '.join(known)}" if known else "choose another --workload",
        )
    return checkers, asked, name


def _only_judge(history: History, model: str | None) -> Any:
    """The one checker that knows the model and all operations; None where that is not one."""
    if model is None:
        return None
    types = {op.op_type for op in history.ops}
    every = [registry.load("checkers", name) for name in registry.names("checkers")]
    knowing = [checker for checker in every if model in checker.models]
    able = [c for c in knowing if types <= CheckerTraits.of(c).op_types.get(model, types)]
    return able[0] if len(able) == 1 else None


def judge_by_workload(
    loaded: History,
    source: Source,
    workload: str | None,
    model: str | None,
    checker: str | None,
    budget: Budget,
    pairs: list[str],
) -> CheckResult:
    """One answer, within the budget; `pairs` are of `-o`. Several checkers work at once, each in
    its own process."""
    able, asked, name = _checkers(loaded, workload, model, checker)
    require_asked([(c, model_of(c, asked)) for c in able], loaded, pairs)
    if len(able) == 1:
        if not CheckerTraits.of(able[0]).tables:
            loaded = replace(loaded, ops=list(loaded.ops))
        result = of_all(budgeted(able[0], loaded, model_of(able[0], asked), budget))
    else:
        options = loaded.header.options
        jobs = [
            Job(source=source, checker=c.name, model=model_of(c, asked), budget=budget,
                options=options)
            for c in able
        ]  # fmt: skip
        result = merged(run_jobs(jobs))
    return replace(result, workload=name)
