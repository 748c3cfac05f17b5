"""Smaller candidates by fewer, shorter and narrower faults (discipline 3.3, R2 and R4)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec

from dstest.core import registry
from dstest.core.protocols import FaultPlan, Option
from dstest.shrink.candidate import Candidate, compact
from dstest.shrink.ddmin import ddmin

SHORTEST_NS: Final = 1_000_000_000
"""What is shorter may end before it has landed."""

FEW: Final = (1, 4, 16)

Shows = Callable[[Candidate], bool]

First = Callable[[Sequence[Candidate]], Candidate | None]
"""The first of some candidates that still shows the violation."""


def guessed(candidate: Candidate, near: Sequence[str], before_ns: int | None) -> list[Candidate]:
    """What the violation itself suggests, smallest first: the faults that stood by it, then those
    up to it, then twice as many each time. `near` are ids of faults, `before_ns` is when its last
    operation ended.

    A loss is known when the element is missed, which may be many faults after it was lost: of many
    the first ones are the likeliest. What a fault brings about in a third of the cases needs some
    of its like to come reliably, and these are still fewer than all.
    """
    beside = [plan for plan in candidate.plans if plan.fault_id in near]
    counts = (*(few for few in FEW if few < len(beside)), len(beside))
    parts = [beside[:count] for count in counts]
    if before_ns is not None:
        earlier = [plan for plan in candidate.plans if plan.start_ns <= before_ns]
        kinds = {plan.nemesis for plan in beside}
        parts += [[p for p in earlier if p.nemesis in kinds], earlier]
    count = max(2, *(2 * len(part) for part in parts))
    while count < len(candidate.plans):
        parts.append(list(candidate.plans[:count]))
        count *= 2
    found = (compact(candidate.with_plans(part)) for part in parts if part)
    return list({one.key: one for one in found}.values())


def fewer(candidate: Candidate, first: First) -> Candidate:
    """Whole kinds of faults left out, then faults, until none can be (`ddmin`)."""
    for kind in candidate.kinds:
        rest = [plan for plan in candidate.plans if plan.nemesis != kind]
        smaller = compact(candidate.with_plans(rest))
        if rest and first([smaller]):
            candidate = smaller
    whole = candidate

    def still(parts: list[list[FaultPlan]]) -> list[FaultPlan] | None:
        smaller = [compact(whole.with_plans(part)) for part in parts]
        shown = first(smaller)
        return None if shown is None else parts[smaller.index(shown)]

    left = ddmin(whole.plans, still)
    return candidate if len(left) == len(whole.plans) else compact(whole.with_plans(left))


def none_spare(candidate: Candidate, first: First) -> Candidate:
    """Without each fault that it can do without, but for a last one (`bare`)."""
    names = [plan.fault_id for plan in candidate.plans]
    while names and len(candidate.plans) > 1:
        smaller = [
            compact(candidate.with_plans([p for p in candidate.plans if p.fault_id != name]))
            for name in names
        ]
        if (shown := first(smaller)) is None:
            break
        names = names[smaller.index(shown) + 1 :]
        candidate = shown
    return candidate


def bare(candidate: Candidate) -> Candidate:
    """Without any fault: what comes in it needs none."""
    return compact(candidate.with_plans(()))


def shorter(candidate: Candidate, shows: Shows) -> Candidate:
    """With all windows halved, as often as it goes."""
    while any(plan.duration_ns > SHORTEST_NS for plan in candidate.plans):
        plans = [
            msgspec.structs.replace(plan, duration_ns=max(SHORTEST_NS, plan.duration_ns // 2))
            if plan.duration_ns > SHORTEST_NS
            else plan
            for plan in candidate.plans
        ]
        smaller = compact(candidate.with_plans(plans))
        if not shows(smaller):
            break
        candidate = smaller
    return candidate


def other_scopes(candidate: Candidate) -> Iterator[Candidate]:
    """With each choice that an option of its nemesis leaves for a fact of its faults. Which of them
    hit fewer nodes, only their runs can tell."""
    for kind in candidate.kinds:
        options: Mapping[str, Option] = registry.load("nemeses", kind).options
        facts = {key for plan in candidate.plans if plan.nemesis == kind for key in plan.facts}
        for key in sorted(facts & options.keys()):
            for choice in options[key].choices:
                changed = _with_fact(candidate, kind, key, choice)
                if changed != candidate:
                    yield changed


def _with_fact(candidate: Candidate, kind: str, key: str, value: Any) -> Candidate:
    return candidate.with_plans(
        [
            msgspec.structs.replace(plan, facts={**plan.facts, key: value})
            if plan.nemesis == kind and key in plan.facts
            else plan
            for plan in candidate.plans
        ]
    )
