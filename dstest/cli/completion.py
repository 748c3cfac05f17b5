"""What a shell is offered for values: names of plug-ins, `-o` of the run on the line, runs.

Nothing here raises: a shell that completes has no place for an error."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from typing import Any, Final

import typer

_RUNS_MAX: Final = 40
"""Of a store the newest."""


def systems(incomplete: str) -> list[str]:
    """Names of systems."""
    return _names("systems", incomplete)


def workloads(incomplete: str) -> list[str]:
    """Names of workloads."""
    return _names("workloads", incomplete)


def checkers(incomplete: str) -> list[str]:
    """Names of checkers."""
    return _names("checkers", incomplete)


def nemeses(incomplete: str) -> list[str]:
    """Names of nemeses; behind a comma one more."""
    before, comma, last = incomplete.rpartition(",")
    return [f"{before}{comma}{name}" for name in _names("nemeses", last)]


def one_nemesis(incomplete: str) -> list[str]:
    """Names of nemeses, where several make no sense."""
    return _names("nemeses", incomplete)


def simulated_systems(incomplete: str) -> list[str]:
    """Names of systems that can be simulated."""
    from dstest.sim.simulate import simulable_names

    try:
        return [name for name in simulable_names() if name.startswith(incomplete)]
    except Exception:
        return []


def simulated_faults(incomplete: str) -> list[str]:
    """Kinds of simulated faults; behind a comma one more that is not there yet."""
    from dstest.sim.world import KINDS, NO_KIND

    before, comma, last = incomplete.rpartition(",")
    kinds = [kind for kind in KINDS if kind not in before.split(",")]
    offered = kinds if comma else [*kinds, NO_KIND]
    return [f"{before}{comma}{kind}" for kind in offered if kind.startswith(last)]


def simulated_pairs(ctx: typer.Context, incomplete: str) -> list[tuple[str, str]]:
    """`-o` of the system and workload on the line; behind the `=` what it may be."""
    try:
        return list(_simulated_pairs(ctx, incomplete))
    except Exception:
        return []


def models(ctx: typer.Context, incomplete: str) -> list[str]:
    """Models that the checkers of the workload on the line judge by, else all that are known."""
    try:
        return sorted({name for name in _models(ctx) if name.startswith(incomplete)})
    except Exception:
        return []


def pairs(ctx: typer.Context, incomplete: str) -> list[tuple[str, str]]:
    """`-o` of the system, workload and nemesis on the line, as `dstest options` lists them; behind
    the `=` what it may be."""
    try:
        return list(_pairs(ctx, incomplete))
    except Exception:
        return []


def runs(incomplete: str) -> list[str]:
    """Directories, those of runs first to be told: `store/NAME/STAMP-SEED`."""
    try:
        return sorted(_below(incomplete))[:_RUNS_MAX] if incomplete else _newest("store")
    except OSError:
        return []


def _names(group: str, incomplete: str) -> list[str]:
    from dstest.core import registry

    try:
        return [name for name in registry.names(group) if name.startswith(incomplete)]
    except Exception:
        return []


def _models(ctx: typer.Context) -> Iterator[str]:
    from dstest.core import registry

    given = ctx.params.get("workload")
    if given is None:
        names = registry.names("checkers", ours=True)
    else:
        names = list(registry.load("workloads", given).checkers)
    for name in names:
        yield from registry.load("checkers", name).models


def _pairs(ctx: typer.Context, incomplete: str) -> Iterator[tuple[str, str]]:
    from dstest.core.run_record import RunSpec
    from dstest.runner.plugins import options_of

    usual = RunSpec()
    on_line = [ctx.params.get(name) for name in ("system", "workload", "nemesis")]
    asked = [given or one for given, one in zip(on_line, _three(usual), strict=True)]
    yield from _fitting(((name, option) for _, name, option in options_of(*asked)), incomplete)


def _simulated_pairs(ctx: typer.Context, incomplete: str) -> Iterator[tuple[str, str]]:
    from dstest.core import registry
    from dstest.core.run_record import RunSpec
    from dstest.sim.simulate import simulable_names

    system = registry.load("systems", ctx.params.get("system") or simulable_names()[0])
    workload = registry.load("workloads", ctx.params.get("workload") or RunSpec().workload)
    yield from _fitting({**system.options, **workload.options}.items(), incomplete)


def _fitting(options: Iterable[tuple[str, Any]], incomplete: str) -> Iterator[tuple[str, str]]:
    wanted, behind, begun = incomplete.partition("=")
    for name, option in options:
        if not behind and name.startswith(wanted):
            yield f"{name}=", option.help
        elif behind and name == wanted:
            may_be: list[Any] = list(option.choices)
            may_be = ["true", "false"] if option.type is bool else may_be
            yield from ((f"{name}={one}", "") for one in may_be if str(one).startswith(begun))


def _three(usual: Any) -> tuple[str, str, str]:
    return usual.system, usual.workload, usual.nemesis


def _below(incomplete: str) -> Iterator[str]:
    folder, name = os.path.split(incomplete)
    with os.scandir(folder or ".") as entries:
        for entry in entries:
            if entry.name.startswith(name) and not entry.name.startswith(".") and entry.is_dir():
                path = os.path.join(folder, entry.name)
                yield path if _is_run(path) else f"{path}/"


def _newest(store: str) -> list[str]:
    """The last runs of the store that is here."""
    found = [path for name in _below(f"{store}/") for path in _below(name) if name != path]
    ran = [path for path in found if _is_run(path) and os.path.basename(path)[:1].isdigit()]
    latest = [f"{store}/latest"] if _is_run(f"{store}/latest") else []
    newest = sorted(ran, key=os.path.basename, reverse=True)[:_RUNS_MAX]
    return [*latest, *newest] or [*_below("")]


def _is_run(path: str) -> bool:
    return os.path.isdir(os.path.join(path, "segments")) or os.path.isfile(
        os.path.join(path, "session.json")
    )
