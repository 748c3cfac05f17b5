"""`dstest check` of everything that is read as operations: load, lint, then judge, by the
workload's checkers, by one by name, or by `--model` (`fifo-queue` and the like) as objects that no
workload of ours drives."""

from __future__ import annotations

import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from msgspec.structs import replace

from dstest.check.notes import noted, of_asked
from dstest.check.source import (
    guess,
    looks_independent,
    object_of,
    read_table,
    require_sound,
    weakened,
)
from dstest.core import registry
from dstest.core.check import Budget, CheckResult
from dstest.core.clock import monotonic_ns
from dstest.core.errors import ConfigError, MemorySpent
from dstest.core.history import INITIAL, History
from dstest.core.registry import parse_options
from dstest.judge.checker_answers import (
    Job,
    Source,
    ask_checker,
    bounded_answer,
    merge_answers,
    model_of,
    of_all,
    run_jobs,
    size_bytes,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from dstest.core.history import Header
    from dstest.core.protocols import Checker, Option

__all__ = [
    "Source",
    "judge_by_workload",
    "require_fitting",
]


def _declared() -> dict[str, Option]:
    """What checkers may be told of a history."""
    found: dict[str, Option] = {}
    for name in registry.names("checkers"):
        found |= registry.load("checkers", name).options
    return found


def _require_typed(options: dict[str, Any], declared: Mapping[str, Option]) -> None:
    """Raises ConfigError where the header has an option that `-o` would not take so."""
    for name, value in options.items():
        if name not in declared or value is None:
            continue
        wanted = declared[name].type
        fits = type(value) is wanted or (wanted is float and type(value) is int)
        if not fits:
            raise ConfigError(
                f"the header's option {name} is {value!r}, not a {wanted.__name__}",
                remedy=f"write a {wanted.__name__} there; {name}: {declared[name].help}",
            )
        parse_options([f"{name}={value}"], declared, of="checking operations")


def with_options(history: History, pairs: list[str], initial: str | None = None) -> History:
    """The history, its header's options overridden by `-o`, and by the JSON of `--initial`. Raises
    ConfigError for an unknown one, and for one of the header that has another type."""
    from msgspec.structs import replace

    if initial is not None:
        started = {**history.header.options, INITIAL: json_of(initial)}
        history = replace(history, header=replace(history.header, options=started))
    if not pairs and not history.header.options:
        return history
    declared = _declared()
    _require_typed(history.header.options, declared)
    if not pairs:
        return history
    typed = parse_options(pairs, declared, of="checking operations")
    given = {k: v for k, v in typed.items() if v is not None}
    header = replace(history.header, options={**history.header.options, **given})
    return replace(history, header=header)


def json_of(text: str) -> Any:
    """The value of `--initial`. Raises ConfigError for what is no JSON."""
    import msgspec

    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError) as error:
        raise ConfigError(
            f"--initial {text[:40]}: {error}",
            remedy="""JSON: 0, '"a"', '[1, 2]', or a value by key: '{"x": 0, "y": 1}'""",
        ) from None


def _of(option: str) -> str:
    """Names of the checkers that have an option, or take an initial state."""
    checkers = [registry.load("checkers", name) for name in registry.names("checkers")]
    return ", ".join(
        one.name for one in checkers if option in one.options or (option == INITIAL and one.initial)
    )


def require_asked(
    judges: Sequence[tuple[Checker, str]], history: History, pairs: Iterable[str]
) -> None:
    """Raises ConfigError for an option of `-o`, and for an initial state, that one of the `judges`
    (checkers, each with its model) would pass over."""
    known = {option for checker, _ in judges for option in checker.options}
    for option in (pair.partition("=")[0] for pair in pairs):
        if option not in known:
            raise ConfigError(
                f"-o {option}: {' and '.join(one.name for one, _ in judges)} would pass it over",
                remedy=f"known here: {', '.join(sorted(known)) or 'no option'}; {option} is for "
                f"{_of(option)}",
            )
    for one, model in judges if INITIAL in history.header.options else ():
        if model not in one.initial:
            raise ConfigError(
                f"checker {one.name} has no initial state under {model}: it would be passed over",
                remedy=f"leave --initial out, or ask {_of(INITIAL)}: `dstest models --objects` "
                "says which --model starts as what",
            )


def judge_objects(
    history: History, model: str | None, budget: Budget, pairs: Iterable[str] = ()
) -> CheckResult | None:
    """The answer of the linearizability checker; None where it does not know the model, or where
    the model is one of registers, which workloads have."""
    from checkers.lin.catalogue import MODELS, REGISTERS
    from checkers.linearizable import CHECKER

    if model is None or model in REGISTERS or model not in MODELS:
        return None
    require_asked([(CHECKER, model)], history, pairs)
    return of_all(ask_checker(CHECKER, history, model, budget))


LINEARIZABLE: Final = "linearizable"


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
    known = chosen.op_types
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
    able = [c for c in knowing if types <= c.op_types.get(model, types)]
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
        if not able[0].tables:
            loaded = replace(loaded, ops=list(loaded.ops))
        result = of_all(bounded_answer(able[0], loaded, model_of(able[0], asked), budget))
    else:
        options = loaded.header.options
        jobs = [
            Job(source=source, checker=c.name, model=model_of(c, asked), budget=budget,
                options=options)
            for c in able
        ]  # fmt: skip
        result = merge_answers(run_jobs(jobs))
    return replace(result, workload=name)


@contextmanager
def memory_limit(limit_mb: int) -> Iterator[None]:
    """Raises MemorySpent where the process grows by more."""
    before = resource.getrlimit(resource.RLIMIT_AS)
    wanted = size_bytes() + (limit_mb << 20)
    soft = wanted if before[1] == resource.RLIM_INFINITY else min(wanted, before[1])
    try:
        resource.setrlimit(resource.RLIMIT_AS, (soft, before[1]))
        yield
    except MemoryError:
        raise MemorySpent(
            f"memory budget of {limit_mb} MB used up on reading",
            remedy="a larger --budget-mb, or a part of the history",
        ) from None
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)


def _loaded(
    path: Path, format_: str, independent: bool | None, budget: Budget, weak: list[str]
) -> History:
    """The history; `weak` is what it lacks. Raises ConfigError where its values may be tuples and
    nobody says so."""
    with memory_limit(budget.memory_mb):
        ours = format_ in ("auto", "dstest")
        history = read_table(path, budget.memory_mb) if ours else None
        if history is None:
            from dstest.history.importers import load_history

            history = load_history(path, format_, independent=independent, weak=weak)
    foreign = history.header.source is not None and history.header.workload is None
    if independent is None and foreign and _may_be_tuples(history):
        raise ConfigError(
            "the values may be [key value] tuples of independent objects, or pairs",
            remedy="say which: --independent or --no-independent",
        )
    if foreign and (pair := _added_otherwise(history)) is not None:
        raise ConfigError(
            f"what was added are pairs such as {pair}, and what was read are none of them",
            remedy="write what is added as it is read; --independent where both are [key value]",
        )
    return history


def _added_otherwise(history: History) -> object:
    """A pair that was added, where all are pairs and none of the reads holds one; else None."""
    added = [op.input for op in history.ops if op.op_type == "add" and op.key is None]
    read = [op.output for op in history.ops if op.op_type == "read" and op.key is None]
    elements = [one for found in read if isinstance(found, list) for one in found]
    if not elements or not all(isinstance(one, list) and len(one) == 2 for one in added):
        return None
    return None if any(isinstance(one, list) for one in elements) else next(iter(added), None)


def _may_be_tuples(history: History) -> bool:
    return all(op.key is None for op in history.ops) and looks_independent(history)


def _knows(checker: str | None, header: Header) -> bool:
    """Does it know the model that the history is of? So does whoever is not named."""
    return checker is None or header.model in registry.load("checkers", checker).models


def _of_object(
    loaded: History, source: Source, model: str, budget: Budget, option: list[str]
) -> CheckResult | None:
    """The exact answer about a foreign object. Where a workload of that name has a checker that
    sees at once what is far from right, its violation is told instead."""
    if model in registry.names("workloads"):
        found = judge_by_workload(loaded, source, model, None, None, budget, option)
        if found.valid is False:
            return found
    return judge_objects(loaded, model, budget, option)


def judge_file(
    path: Path,
    workload: str | None,
    model: str | None,
    checker: str | None,
    format_: str,
    independent: bool | None,
    option: list[str],
    budget: Budget,
    initial: str | None = None,
) -> CheckResult:
    """The answer about a file. Raises HistoryError where it is unreadable or corrupt, MemorySpent
    where reading takes more than the budget, ConfigError for what cannot be asked."""
    started = monotonic_ns()
    weak: list[str] = []
    loaded = _loaded(path, format_, independent, budget, weak)
    loaded = of_asked(loaded, model, alone=workload is None and _knows(checker, loaded.header))
    loaded = with_options(loaded, option, initial)
    weak += require_sound(loaded, weak)
    load_s = (monotonic_ns() - started) / 1e9
    plain = workload is None and checker is None
    source = Source(path=str(path), format=format_, independent=bool(independent))
    exact = None
    if plain and model is None and loaded.header.workload is None:
        model = loaded.header.model
        exact = object_of(loaded, option) if model is None else None
    if exact is not None:
        result = _of_object(loaded, source, exact, budget, option)
    else:
        result = judge_objects(loaded, model, budget, option) if plain else None
    if result is None:
        result = judge_by_workload(loaded, source, workload, model, checker, budget, option)
    result = replace(result, seconds=replace(result.seconds, load=load_s))
    return noted(weakened(result, weak), loaded.header, initial)
