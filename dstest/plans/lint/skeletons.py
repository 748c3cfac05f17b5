"""L26: a skeleton says where it comes from, and what a person has to fill in."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from pathlib import PurePosixPath
from typing import Final

from dstest.plans.lint.rule import Place, Rule, at
from dstest.plans.model import Plan
from dstest.plans.words import plain

MARK: Final = "AUTO-GENERATED"
REGIONS: Final = ("workload", "faults", "oracle")


def _skeletons(plan: Plan) -> Iterable[Place]:
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


RULES: Final = (
    Rule(
        id="L26",
        title="a skeleton says where it comes from, and what is to be filled in",
        remedy=f"{MARK}, the file of the plan, the id of the scenario, sha256; `TODO workload`, "
        "`TODO faults`, `TODO oracle`; a target of its own below a directory `auto`",
        check=_skeletons,
    ),
)
