"""What there is to test a system's claims with: checkers, workloads and nemeses that fit it, by
category of claims; and what is missing, with the command that writes a beginning of it."""

from __future__ import annotations

from typing import Any

import msgspec

from dstest.core import registry
from dstest.core.claims import CATEGORIES
from dstest.core.errors import ConfigError
from dstest.core.protocols import NemesisTraits
from dstest.plans.picker import PICKER, Choice, checkers_of, workloads_of
from dstest.plans.pitfalls import PITFALLS, Pattern
from dstest.runner.requirements import check_client, check_requires


class Missing(msgspec.Struct, frozen=True, kw_only=True):
    """What no plug-in does, and the command that writes the beginning of one; empty where a file of
    the system itself is what lacks something."""

    what: str
    command: str = ""


class Tool(msgspec.Struct, frozen=True, kw_only=True):
    """A row of the picker on a system. `besides`: its checkers are asked with --checker, beside
    those of any workload. `nemeses` bring about the pitfalls of such claims, best first."""

    category: str
    model: str
    kind: str
    checkers: list[str]
    besides: bool
    workloads: list[str]
    nemeses: list[str]
    missing: list[Missing]

    @property
    def usable(self) -> bool:
        """Can a claim of this kind be tested on the system?"""
        return bool(self.checkers and self.workloads)


class Toolbox(msgspec.Struct, frozen=True, kw_only=True):
    """All of that. `untested` are categories of claims for which there is nothing at all; `refused`
    are nemeses that the system cannot have, with the reason."""

    system: str
    tools: list[Tool]
    refused: dict[str, str]
    untested: list[Missing]


def fitting_nemeses(system: Any) -> tuple[dict[str, Any], dict[str, str]]:
    """The nemeses that inject something and fit the system; why the others do not."""
    fits, refused = {}, {}
    for name in registry.names("nemeses"):
        nemesis = registry.load("nemeses", name)
        if not NemesisTraits.of(nemesis).injects:
            continue
        try:
            check_requires(system, nemesis)
            fits[name] = nemesis
        except ConfigError as error:
            refused[name] = error.message
    return fits, refused


def patterns_of(row: Choice) -> list[Pattern]:
    """The pitfalls of such claims, those that a checker of the row would see first."""
    mine = [pattern for pattern in PITFALLS if row.category in pattern.categories]
    return sorted(mine, key=lambda pattern: not {*pattern.models} & row.judged_by)


def toolbox(name: str) -> Toolbox:
    """What there is for the system of this name. Raises ConfigError where there is no such."""
    system = registry.load("systems", name)
    fits, refused = fitting_nemeses(system)
    tools = [_tool(system, row, fits) for row in PICKER]
    known = {row.category for row in PICKER}
    return Toolbox(
        system=name,
        tools=tools,
        refused=refused,
        untested=[
            Missing(
                what=f"no checker and no workload for claims of the category {category}",
                command=f"dstest new checker {category}; dstest new workload {category}-load",
            )
            for category in sorted(CATEGORIES - known)
        ],
    )


def _tool(system: Any, row: Choice, fits: dict[str, Any]) -> Tool:
    checkers = checkers_of([row])
    own = workloads_of(row)
    besides = not own and bool(checkers)
    able, unable = _clients(system, registry.names("workloads") if besides else own)
    missing = []
    if not checkers:
        missing.append(
            Missing(
                what=f"no checker knows {' or '.join(sorted(row.judged_by))}",
                command=f"dstest new checker {_called(row)}",
            )
        )
    if not own and not besides:
        command = f"dstest new workload {_called(row)}"
        missing.append(Missing(what=f"no workload is judged by {row.kind}", command=command))
    elif not able:
        missing += [Missing(what=why) for why in dict.fromkeys(unable.values())]
    nemeses, lacking = _faults(row, fits)
    return Tool(
        category=row.category,
        model=row.model,
        kind=row.kind,
        checkers=checkers,
        besides=besides,
        workloads=able,
        nemeses=nemeses,
        missing=missing + lacking,
    )


def _called(row: Choice) -> str:
    return f"{row.model}-{row.category}".casefold()[:30].strip("-")


def _clients(system: Any, names: list[str]) -> tuple[list[str], dict[str, str]]:
    """The workloads that a client of the system can do, and why not the others."""
    able, unable = [], {}
    for name in names:
        work = registry.load("workloads", name)
        try:
            if work.capability not in system.capabilities:
                raise ConfigError(
                    f"{system.name} offers no client for {work.capability} ({name})",
                    remedy="another workload: `dstest list` says which fit",
                )
            check_client(system, work)
            able.append(name)
        except ConfigError as error:
            unable[name] = error.message
    return able, unable


def _faults(row: Choice, fits: dict[str, Any]) -> tuple[list[str], list[Missing]]:
    """Nemeses for the pitfalls of a row that fit the system; what no nemesis delivers at all."""
    every = {name: registry.load("nemeses", name) for name in registry.names("nemeses")}
    found: dict[str, None] = {}
    lacking: dict[str, Missing] = {}
    for pattern in patterns_of(row):
        for number in pattern.faults:
            found |= dict.fromkeys(name for name, one in fits.items() if number in one.faults)
            if not any(number in one.faults for one in every.values()):
                command = f"dstest new nemesis {number.casefold()}"
                lacking[number] = Missing(what=f"no nemesis delivers {number}", command=command)
    return [*found], [*lacking.values()]
