"""L15, L16, L23, L25, L26, L28 to L31, L36 and L37: what runs need and inject, what they are red
under first, how budgets grow, what skeletons leave to a person, and why all of that is enough.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path, PurePosixPath
from typing import Final

from dstest.campaign.fit import Fit, fit_of, planned_faults
from dstest.campaign.launch import Arm, Budget, Red, Run, argv_of, red_side
from dstest.core.errors import ConfigError
from dstest.judge.facts import TIER_NEEDS
from dstest.plans.choice import COUNTS, TECHNIQUES
from dstest.plans.lint.rule import Rule, Where, at
from dstest.plans.model import (
    BUDGETS,
    Plan,
    Scenario,
    Technique,
    Threat,
    injects,
    plain,
    split_names,
)
from dstest.runner.before_load import needs_of
from nemeses.catalogue import CATALOGUE
from nemeses.mix import Mix

BANNED: Final = re.compile(
    r"\b(cannot happen|can not happen|can never happen|guarantees?|guaranteed|impossible|proves?"
    r"|proven|bug-free)\b",
    re.IGNORECASE,
)
_NUMBER: Final = re.compile(r"\bN\d\d\b")
_SENTENCES: Final = (4, 8)

_REASON: Final = re.compile(
    r"not provided\s*(?:—|–|--?)\s*(?P<why>[^.]*\w[^.]*)\.\s*Revisit when:\s*(?P<when>.*\w.*)",
    re.IGNORECASE | re.DOTALL,
)
_NOTHING: Final = re.compile(r"\b(tbd|todo|later|unknown|tba)\b|<|\.\.\.|…", re.IGNORECASE)
_SIDES: Final = ("injector", "victim")
_SEEDS_MAX: Final = 1000
MARK: Final = "AUTO-GENERATED"
REGIONS: Final = ("workload", "faults", "oracle")
_LINK: Final = re.compile(r"\]\(([^)\s]+)\)")
_WEB: Final = re.compile(r"https?://[\w.-]+\.\w+(/\S*)?")


def _rows(plan: Plan) -> Iterable[Where]:
    section = plan.sections.get("7b")
    if section is None:
        yield at(1, "there is no section 7b")
        return
    claims = {claim.id for claim in plan.claims}
    rows = {row.claim for row in plan.adequacy}
    for claim in plan.claims:
        if claim.id not in rows:
            yield at(section, f"nothing is said of whether {claim.id} is tested enough")
    for row in plan.adequacy:
        if row.claim not in claims:
            yield at(row, f"{row.claim!r}: there is no such claim")
        elif not row.why:
            yield at(row, f"{row.claim}: nothing says why that is enough")


def _threats(plan: Plan) -> Iterable[Where]:
    tested = {id for scenario in plan.scenarios for id in scenario.falsifies}
    for row in plan.adequacy:
        if not row.threats and row.claim in tested:
            yield at(row, f"{row.claim} names no threat, as `a: leader isolation (N12)`")
        for threat in row.threats:
            yield from (
                at(row, f"{row.claim}, threat {threat.letter}: {what}")
                for what in _faced(plan, threat)
            )


def _faced(plan: Plan, threat: Threat) -> Iterable[str]:
    """What is wrong with a threat: no scenario is there for it, or none injects it."""
    found = [plan.scenario(id) for id in threat.scenarios]
    known = [scenario for scenario in found if scenario is not None]
    if not threat.scenarios:
        return ["no scenario"]
    if len(known) < len(found):
        return [f"{', '.join(threat.scenarios)}: there is no such scenario"]
    numbers = {*_NUMBER.findall(threat.text)}
    for scenario in known:
        faults = scenario.field("faults")
        if numbers & {*_NUMBER.findall(faults)} or threat.text.casefold() in faults.casefold():
            return []
    return [f"{threat.text} stands in Faults of none of {', '.join(threat.scenarios)}"]


def _residual(plan: Plan) -> Iterable[Where]:
    section = plan.sections.get("7c")
    if section is None:
        yield at(1, "there is no section 7c")
        return
    if bool(plan.residuals) == ("7c" in plan.empty):
        yield at(section, "section 7c needs rows, or the sentence that there is nothing")
    for row in plan.residuals:
        if not (row.uncertainty and row.why and row.acceptable and row.revisit):
            yield at(row, "an uncertainty with an empty cell")
    tested = {id for scenario in plan.scenarios if scenario.arms for id in scenario.falsifies}
    said = " ".join(f"{row.uncertainty} {row.why}" for row in plan.residuals)
    for claim in plan.claims:
        if claim.id not in tested and not re.search(rf"\b{claim.id}\b", said):
            yield at(section, f"no scenario falsifies {claim.id}, and section 7c does not say so")


def sentences_of(text: str) -> list[str]:
    """Its sentences: what ends with a full stop before a capital letter, or at the end."""
    found = re.split(r"(?<=[.!?])\s+(?=[A-Z`\"(])", " ".join(text.split()))
    return [sentence for sentence in found if sentence]


def _confidence(plan: Plan) -> Iterable[Where]:
    section = plan.sections.get("7d")
    if section is None:
        yield at(1, "there is no section 7d")
        return
    if banned := BANNED.search(section.text):
        yield at(section, f"{banned[0]!r} is more than any test can say")
    number = len(sentences_of(section.text))
    if not _SENTENCES[0] <= number <= _SENTENCES[1]:
        yield at(section, f"section 7d has {number} sentences")


ADEQUACY_RULES: Final = (
    Rule(
        id="L28",
        title="for each claim something says why its tests are enough",
        remedy="a row in section 7b for each claim",
        find=_rows,
    ),
    Rule(
        id="L29",
        title="each threat has a scenario that injects it",
        remedy="threats as `a: pause (N03); b: ...`, scenarios as `a: S1; b: S2`, whose Faults "
        "name the number or the words of the threat",
        find=_threats,
    ),
    Rule(
        id="L30",
        title="section 7c says what stays uncertain",
        remedy="rows with all cells, among them each claim without a scenario",
        find=_residual,
    ),
    Rule(
        id="L31",
        title="section 7d is short and careful",
        remedy="four to eight sentences: we have not observed X under the tested threats",
        find=_confidence,
    ),
)


def _stronger(plan: Plan) -> Iterable[Where]:
    for scenario in plan.scenarios:
        smoke, hardening = (scenario.budgets.get(tier) for tier in BUDGETS[:2])
        if smoke is not None and hardening is not None:
            line = scenario.place("hardening budget")
            for what in _no_more(scenario, smoke, hardening):
                yield at(line, f"{scenario.id}: hardening asks for no more {what} than smoke")
        yield from _release(scenario, hardening)
        yield from _reached(scenario)


def _no_more(scenario: Scenario, less: Budget, more: Budget) -> Iterator[str]:
    sizes = (max(less.nodes), len(less.nodes)) < (max(more.nodes), len(more.nodes))
    if not sizes and not _of_one_size(scenario):
        yield "nodes"
    if more.duration_s <= less.duration_s:
        yield "seconds"
    if more.faults <= less.faults and (injects(scenario) or more.faults != less.faults):
        yield "faults"
    if more.seeds <= less.seeds:
        yield "seeds"


def _most_members(scenario: Scenario) -> int | None:
    """The most members that each system of the scenario has, None where one has no bound."""
    run = scenario.run
    found = []
    for fit in [fit_of(run, arm) for arm in scenario.arms] if run is not None else []:
        most = None if fit.system is None else fit.system.members_most
        found.append(most)
    return None if not found or None in found else max(most for most in found if most is not None)


def _of_one_size(scenario: Scenario) -> bool:
    return _most_members(scenario) is not None


def _release(scenario: Scenario, hardening: Budget | None) -> Iterator[Where]:
    line, release = scenario.place("release budget"), scenario.budgets.get(BUDGETS[-1])
    reason = scenario.reasons.get(BUDGETS[-1])
    if reason is not None:
        said = _REASON.fullmatch(" ".join(reason.split()))
        if said is None or _NOTHING.search(said["why"]) or _NOTHING.search(said["when"]):
            yield at(line, f"{scenario.id}: the release budget is neither numbers nor a reason")
    elif release is not None and hardening is not None:
        less = (
            max(release.nodes) < max(hardening.nodes)
            or release.duration_s < hardening.duration_s
            or release.faults < hardening.faults
            or release.seeds < hardening.seeds
        )
        if less:
            yield at(line, f"{scenario.id}: release asks for less than hardening")


def _reached(scenario: Scenario) -> Iterator[Where]:
    """What is asked for is what dstest counts as the tier, and its faults fit into the time."""
    run = scenario.run
    if run is None:
        return
    for tier, budget in scenario.budgets.items():
        line = scenario.place(f"{tier} budget")
        if short := _short_of(scenario, tier, budget):
            yield at(line, f"{scenario.id}: {tier} of dstest asks for {short}")
        if budget.faults and not injects(scenario):
            yield at(line, f"{scenario.id}: {tier} asks for faults, and none is injected")
        for arm in scenario.arms:
            fit = fit_of(run, arm)
            if not fit.problem and fit.nemeses and (few := _fewer(run, budget, arm)):
                yield at(line, f"{scenario.arm_id(arm)}: {tier} {few}")


def _short_of(scenario: Scenario, tier: str, budget: Budget) -> str:
    need = next(numbers for name, numbers in TIER_NEEDS.items() if name == tier)
    most = _most_members(scenario)
    nodes = need["nodes"] if most is None else min(need["nodes"], most)
    given = {
        "nodes": (max(budget.nodes), nodes),
        "duration_s": (budget.duration_s, need["duration_s"]),
        "faults": (budget.faults, need["faults"] if injects(scenario) else 0),
        "seeds": (budget.seeds, need["seeds"]),
    }
    lacking = [f"{wanted:g} {key}" for key, (has, wanted) in given.items() if has < wanted]
    return ", ".join(lacking)


def _fewer(run: Run, budget: Budget, arm: Arm) -> str:
    """How the time of the budget is too short for its faults; empty where it is not."""
    try:
        found = min(planned_faults(run, arm, budget, size) for size in budget.nodes)
    except ConfigError:
        return ""  # L17
    if found >= budget.faults:
        return ""
    return f"asks for {budget.faults} faults, and {budget.duration_s:g} s have room for {found}"


BUDGET_RULES: Final = (
    Rule(
        id="L25",
        title="hardening is stronger than smoke in every respect; release is numbers or a reason",
        remedy="more nodes (or more sizes), seconds, faults and seeds, and no fewer than `dstest "
        "run --tier` asks for; or `not provided - why. Revisit when: what.`",
        find=_stronger,
    ),
)


_FAULT_NUMBER: Final = re.compile(r"\bN\d+\b")


def _catalogue(plan: Plan) -> Iterable[Where]:
    known = {fault.number for fault in CATALOGUE}
    for scenario in plan.scenarios:
        line, text = scenario.place("faults"), scenario.field("faults")
        for number in dict.fromkeys(_FAULT_NUMBER.findall(text)):
            if number not in known:
                yield at(line, f"{scenario.id}: {number} is no fault of the catalogue")
        yield from _injected(scenario, line, text, known)
        yield from _both_sides(scenario)


def _fits(scenario: Scenario) -> list[tuple[str, Fit]]:
    run = scenario.run
    return (
        [] if run is None else [(scenario.arm_id(arm), fit_of(run, arm)) for arm in scenario.arms]
    )


def _injected(scenario: Scenario, line: int, text: str, known: set[str]) -> Iterator[Where]:
    fits = _fits(scenario)
    if not text or scenario.run is None:
        return  # L17
    for name, fit in fits:
        if fit.where == "nemesis":
            yield at(scenario.run.line, f"{name}: {fit.problem}")
    if any(fit.where in ("nemesis", "run") for _, fit in fits):
        return
    given = {*_FAULT_NUMBER.findall(text)} & known
    delivered = frozenset().union(*(fit.faults for _, fit in fits))
    parts = {part: plugin for _, fit in fits for part, plugin in fit.nemeses.items()}
    for number in sorted(given - delivered):
        yield at(line, f"{scenario.id}: {number} is not injected by {scenario.run.nemesis}")
    for part, plugin in parts.items():
        if not given & {*plugin.faults} and not re.search(rf"(?<![\w-]){part}(?![\w-])", text):
            yield at(line, f"{scenario.id}: Faults says nothing of {part}, which is injected")


def _both_sides(scenario: Scenario) -> Iterator[Where]:
    """The landing evidence has a part of the injector's and one of the victim's side."""
    text = "" if scenario.gated is None else scenario.gated.field("nemesis + landing evidence")
    faultless = plain(text).casefold().startswith("none") and not injects(scenario)
    if scenario.gated is None or not text or faultless:
        return
    absent = [side for side in _SIDES if not re.search(rf"\b{side}s?:\s*\S", text, re.IGNORECASE)]
    if absent:
        what = f"{scenario.id}: no landing evidence of the {' and the '.join(absent)}'s side"
        yield at(scenario.gated, what)


FAULT_RULES: Final = (
    Rule(
        id="L23",
        title="faults are in the catalogue, are injected, and are seen from both sides",
        remedy="numbers of `dstest nemeses` that the nemesis of the run block delivers; evidence "
        "as `injector: ... > 0; victim: ... = 0`",
        find=_catalogue,
    ),
)


def _named(plan: Plan) -> Iterable[Where]:
    for scenario in plan.scenarios:
        if scenario.run is None or not plan.serious(scenario):
            continue  # L17
        absent = [arm for arm in scenario.arms if scenario.red_of(arm) is None]
        for arm in absent:
            what = f"{scenario.arm_id(arm)}: nothing says under what it has to be red first"
            yield at(scenario.run.line, what)


def _sound(plan: Plan) -> Iterable[Where]:
    for scenario in plan.scenarios:
        run = scenario.run
        for arm in scenario.arms if run is not None else ():
            red = scenario.red_of(arm)
            if run is not None and red is not None:
                for what in _wrong(scenario, run, arm, red):
                    yield at(run.line, f"{scenario.arm_id(arm)}: its red side {what}")


def _wrong(scenario: Scenario, run: Run, arm: Arm, red: Red) -> Iterator[str]:
    if red.canary == red.builds:
        yield "is either `canary` or a build with a known bug, one of the two"
    elif red.canary and (red.anomalies or red.seeds is not None):
        yield "is of its own runs: anomalies and seeds are those of a build"
    elif red.builds:
        yield from _build(scenario, run, arm, red)


def _build(scenario: Scenario, run: Run, arm: Arm, red: Red) -> Iterator[str]:
    if not red.anomalies:
        yield "names no anomaly by which its bug shows, so that any failure would do"
    if red.seeds is not None and not 1 <= red.seeds <= _SEEDS_MAX:
        yield f"asks for {red.seeds} seeds"
    bad = red_side(run, arm, red)
    for budget in scenario.budgets.values():
        if argv_of(*bad, "smoke", budget) == argv_of(run, arm, "smoke", budget):
            yield "is the scenario itself"
            return
    for budget in scenario.budgets.values():
        if _refused(run, arm, budget):
            return  # L17
        if why := _refused(*bad, budget):
            yield f"cannot be run: {why}"
            return


def _refused(run: Run, arm: Arm, budget: Budget) -> str:
    """Why dstest would not execute it; empty where it would."""
    try:
        planned_faults(run, arm, budget, budget.nodes[0])
    except ConfigError as error:
        return error.message
    return ""


RED_RULES: Final = (
    Rule(
        id="L36",
        title="a scenario that needs a history says under what it has to be red first",
        remedy="`[red]` in its run block: `options` or `system-version` of a build with a known "
        "bug and the `anomalies` by which it shows, or `canary = true`",
        find=_named,
    ),
    Rule(
        id="L37",
        title="what a scenario has to be red under is another run than its own, and can be run",
        remedy="`[red]` with `options = { bug = ... }` (or `system`, `plugin`, `system-version`) "
        "and `anomalies`; or with `canary = true` alone",
        find=_sound,
    ),
)


def _skeletons(plan: Plan) -> Iterable[Where]:
    targets = Counter(plain(s.field("target test file")) for s in plan.scenarios)
    name = PurePosixPath(plan.path).name
    for scenario in plan.scenarios:
        target = plain(scenario.field("target test file"))
        line = scenario.place("target test file")
        if target and "auto" not in PurePosixPath(target).parts[:-1]:
            yield at(line, f"{scenario.id}: {target} is in no directory `auto`")
        elif target and targets[target] > 1:
            yield at(line, f"{scenario.id}: {target} is the target of {targets[target]} scenarios")
        if scenario.skeleton is None:
            continue  # L17
        text, place = scenario.skeleton.text, scenario.skeleton.line
        if MARK not in text:
            yield at(place, f"{scenario.id}: the skeleton does not say {MARK}")
        if name not in text or not re.search(rf"\b{scenario.id}\b", text):
            yield at(place, f"{scenario.id}: the skeleton names not both its plan and its scenario")
        if not re.search(r"\bsha256\b", text):
            yield at(place, f"{scenario.id}: the skeleton has no place for the sha256 of the plan")
        absent = [one for one in REGIONS if not re.search(rf"TODO\W+{one}\b", text)]
        if absent:
            yield at(place, f"{scenario.id}: the skeleton has no TODO for {', '.join(absent)}")


SKELETON_RULES: Final = (
    Rule(
        id="L26",
        title="a skeleton says where it comes from, and what is to be filled in",
        remedy=f"{MARK}, the file of the plan, the id of the scenario, sha256; `TODO workload`, "
        "`TODO faults`, `TODO oracle`; a target of its own below a directory `auto`",
        find=_skeletons,
    ),
)


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


def _techniques(plan: Plan) -> Iterable[Where]:
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
        for name in split_names(scenario.field("technique")):
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


def _environment(plan: Plan) -> Iterable[Where]:
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


TOOL_RULES: Final = (
    Rule(
        id="L15",
        title="more than one technique, each with a reference that leads somewhere",
        remedy=f"two and more of {', '.join(TECHNIQUES)}; a file beside the plan or an address",
        find=_techniques,
    ),
    Rule(
        id="L16",
        title="what scenarios need stands in section 6b, with the scenarios that need it",
        remedy="`dstest plan toolbox` lists what they need",
        find=_environment,
    ),
)

RULES: Final[tuple[Rule, ...]] = (
    *ADEQUACY_RULES,
    *BUDGET_RULES,
    *FAULT_RULES,
    *RED_RULES,
    *SKELETON_RULES,
    *TOOL_RULES,
)
