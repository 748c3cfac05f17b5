"""Pages of the plug-ins of this distribution: what they are, what they take by `-o`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from dstest.core import registry
from dstest.core.option_words import allowed, written
from dstest.core.protocols import Caution, CheckerTraits, Option, SystemTraits
from dstest.reference.tables import code, table
from dstest.runner.plugins import RUN_OPTIONS
from nemeses.mix import Mix

_MADE: Final = "Written by `python -m dstest.reference`; do not edit.\n"


def _all(group: str) -> Iterator[tuple[str, Any]]:
    for name in registry.names(group):
        yield name, registry.load(group, name)


def _names(names: Iterable[str]) -> str:
    return ", ".join(map(code, sorted(names))) or "none"


def _options(options: Mapping[str, Option]) -> list[str]:
    rows = (
        (code(name), code(written(option.default)), allowed(option), option.help)
        for name, option in options.items()
    )
    return [*table(("`-o`", "default", "may be", ""), rows), ""] if options else []


def _when(row: Caution) -> str:
    said = [f"`-o {name}={' or '.join(map(written, values))}`" for name, values in row.when.items()]
    said += [
        f"`-o {name}` other than {' or '.join(map(written, values))}"
        for name, values in row.unless.items()
    ]
    return f"With {' and '.join(said)} " if said else ""


def systems_page() -> str:
    lines = ["# Systems", "", _MADE]
    lines += ["What fits which says `dstest list --system NAME`; faults that landed on each are in"]
    lines += ["[systems.md](../systems.md).", ""]
    for name, system in _all("systems"):
        lines += [f"## {name}", "", f"{system.doc}.", ""]
        lines += [f"Clients: {_names(system.capabilities)}.", ""]
        if relaxed := SystemTraits.of(system).relaxations:
            lines += ["What it promises less by an option:", ""]
            lines += table(
                ("with", "model", "source"),
                ((code(f"-o {r.option}={r.value}"), r.model, r.source) for r in relaxed),
            )
            lines += [""]
        if warned := SystemTraits.of(system).cautions:
            lines += ["What it warns of:", ""]
            lines += [
                f"- {_when(row)}it documents that {row.says} ({row.source})." for row in warned
            ]
            lines += [""]
        lines += _options(system.options)
    return "\n".join(lines)


def workloads_page() -> str:
    lines = ["# Workloads", "", _MADE]
    for name, workload in _all("workloads"):
        lines += [f"## {name}", "", f"{workload.doc}.", ""]
        said = (
            f"needs clients of {code(workload.capability)}",
            f"operations: {_names(workload.op_types)}",
            f"judged by {_names(workload.checkers)}, by itself as {code(workload.model)}",
            f"claims: {_names(workload.claims)}",
        )
        lines += [*(f"- {line}" for line in said), ""]
        lines += _options(workload.options)
    return "\n".join([*lines, "## Every run", "", *_options(RUN_OPTIONS)])


def nemeses_page() -> str:
    lines = ["# Options of the nemeses", "", _MADE]
    lines += ["What each breaks, and how it is proven: [nemeses.md](../nemeses.md).", ""]
    found = dict(_all("nemeses"))
    for name, nemesis in found.items():
        lines += [f"## {name}", "", f"{nemesis.doc}.", ""]
        if nemesis.faults:
            lines += [f"Faults: {', '.join(nemesis.faults)}.", ""]
        lines += _options(nemesis.options)
    mixed = Mix(list(found.values())[:2]).options
    alone = {name for nemesis in found.values() for name in nemesis.options}
    only = {name: option for name, option in mixed.items() if name.split(".")[-1] not in alone}
    return "\n".join([*lines, "## Several in one run", "", *_options(only)])


def checkers_page() -> str:
    lines = ["# Checkers", "", _MADE]
    lines += ["Models and what they rule out: [models.md](models.md).", ""]
    for name, checker in _all("checkers"):
        traits = CheckerTraits.of(checker)
        lines += [f"## {name}", "", f"Models: {_names(checker.models)}.", ""]
        rows = (
            (code(model), _names(traits.op_types.get(model, ())), traits.initial.get(model) or "")
            for model in checker.models
        )
        if traits.op_types:
            lines += [*table(("model", "operations", "`--initial`"), rows), ""]
        lines += _options(traits.options)
    return "\n".join(lines)


def labs_page() -> str:
    lines = ["# Labs", "", _MADE, "How to use each: [labs.md](../labs.md).", ""]
    rows = ((code(name), lab.doc) for name, lab in _all("labs"))
    return "\n".join([*lines, *table(("`--lab`", "is"), rows), ""])
