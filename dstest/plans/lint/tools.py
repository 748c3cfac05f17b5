"""L15 and L16: techniques, and what the machines must have."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from dstest.plans.fit import fit_of
from dstest.plans.launch import Arm, Run
from dstest.plans.lint.rule import Place, Rule, at
from dstest.plans.model import Plan, Technique
from dstest.plans.techniques import COUNTS, TECHNIQUES
from dstest.plans.words import listed, plain
from dstest.runner.node_check import needs_of
from nemeses.mix import Mix

_LINK: Final = re.compile(r"\]\(([^)\s]+)\)")
_WEB: Final = re.compile(r"https?://[\w.-]+\.\w+(/\S*)?")


def needed(run: Run, arms: Iterable[Arm]) -> list[str]:
    """What the arms of a run need, as section 6b names it; of `feature netem|nfqueue` either."""
    found: dict[str, None] = {}
    for arm in arms:
        fit = fit_of(run, arm)
        parts = list(fit.nemeses.values())
        needs = () if not parts else needs_of(parts[0] if len(parts) == 1 else Mix(parts))
        names = [
            *([] if fit.system is None else [f"system {fit.system.name}"]),
            *(f"checker {name}" for name in fit.checkers),
            *(f"nemesis {name}" for name in fit.nemeses),
            *(f"feature {need}" for need in needs),
        ]
        found |= dict.fromkeys(names)
    return [*found]


def _techniques(plan: Plan) -> Iterable[Place]:
    line = plan.line_of("6")
    least, most = COUNTS.get(plan.front.mode, (2, 7))
    names = [row.name for row in plan.techniques]
    if not least <= len({*names}) <= most:
        yield at(line, f"{len({*names})} techniques: from {least} to {most} are asked for")
    for row in plan.techniques:
        if row.name not in TECHNIQUES:
            yield at(row, f"{row.name!r} is none of the eight techniques")
        elif not (row.hypotheses and row.catches and row.cost):
            yield at(row, f"{row.name} has an empty cell")
        elif what := _unresolved(plan, row):
            yield at(row, f"{row.name}: {what}")
    for scenario in plan.scenarios:
        for name in listed(scenario.field("technique")):
            if name not in names:
                yield at(scenario.place("technique"), f"{name!r} is not in section 6")


def _unresolved(plan: Plan, row: Technique) -> str:
    """What is wrong with the reference of a technique; empty where it leads somewhere."""
    links = _LINK.findall(row.reference) or [plain(row.reference)]
    folders = [Path(plan.path).absolute().parent, Path.cwd()]
    for link in links:
        if _WEB.fullmatch(link):
            continue
        file = link.partition("#")[0]
        if not file or not any((folder / file).exists() for folder in folders):
            return f"the reference {link!r} leads nowhere"
    return ""


def _environment(plan: Plan) -> Iterable[Place]:
    section = plan.sections.get("6b")
    if section is None:
        yield at(1, "there is no section 6b")
        return
    known = {scenario.id for scenario in plan.scenarios}
    for row in plan.requirements:
        if not row.scenarios:
            yield at(row, f"{row.needs} names no scenario")
        for id in row.scenarios:
            if id not in known:
                yield at(row, f"{row.needs} names {id}, and there is no such scenario")
        if not (row.needs and row.floor and row.install):
            yield at(row, f"{row.needs or 'a requirement'} has an empty cell")
    for scenario in plan.scenarios:
        listed_for = {row.needs for row in plan.requirements if scenario.id in row.scenarios}
        if scenario.run is None:
            continue  # L17
        for need in needed(scenario.run, scenario.arms):
            if not listed_for & {*_either(need)}:
                yield at(section, f"{scenario.id} needs {need}, and no row says so")


def _either(need: str) -> Iterator[str]:
    kind, _, names = need.partition(" ")
    yield need
    yield from (f"{kind} {name}" for name in names.split("|"))


RULES: Final = (
    Rule(
        id="L15",
        title="more than one technique, each with a reference that leads somewhere",
        remedy=f"two and more of {', '.join(TECHNIQUES)}; a file beside the plan or an address",
        check=_techniques,
    ),
    Rule(
        id="L16",
        title="what scenarios need stands in section 6b, with the scenarios that need it",
        remedy="`dstest plan toolbox` lists what they need",
        check=_environment,
    ),
)
