"""`dstest check` of everything that is read as operations: load, lint, then judge."""

from __future__ import annotations

import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from dstest.cli.check_lints import require_sound, weakened
from dstest.cli.check_models import judge_objects, with_options
from dstest.cli.check_notes import noted, of_asked
from dstest.cli.check_source import looks_independent, object_of
from dstest.cli.check_table import read_table
from dstest.cli.check_workload import Source, judge_by_workload
from dstest.core import registry
from dstest.core.clock import monotonic_ns
from dstest.core.errors import ConfigError, MemorySpent
from dstest.judge.budgeted import size_bytes

if TYPE_CHECKING:
    from dstest.core.check import Budget, CheckResult
    from dstest.core.history import Header, History


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
            from dstest.store.importers import load_history

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
