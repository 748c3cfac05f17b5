"""Smaller candidates: fewer, shorter and narrower faults, fewer nodes, clients and operations.

`ddmin`: Zeller and Hildebrandt, "Simplifying and Isolating Failure-Inducing Input", IEEE
Transactions on Software Engineering 28 (2002), section 3.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any, Final, TypeVar

import msgspec

from dstest.campaign.shrink.candidate import Candidate, compact
from dstest.core import registry
from dstest.core.protocols import FaultPlan, Option

T = TypeVar("T")

SHORTEST_NS: Final = 1_000_000_000
"""What is shorter may end before it has landed."""
FEW: Final = (1, 4, 16)
Shows = Callable[[Candidate], bool]

First = Callable[[Sequence[Candidate]], Candidate | None]
"""The first of some candidates that still shows the violation."""

NODES_LEAST: Final = 3
"""Of a cluster with a majority that outlives a fault of one."""
RATES: Final = (20.0, 100.0, 500.0)
"""Operations per second that are tried, instead of as many as the clients can."""
TAIL_S: Final = 1.0


def ddmin(items: Sequence[T], failing: Callable[[list[list[T]]], list[T] | None]) -> list[T]:
    """The part, in order. `failing` gives the first of some lists that fails, None where none does;
    all `items` failed, and it is never asked about nothing.

    The part is 1-minimal if `failing` always says the same of the same list.

    None of its elements can be left out. Delta debugging: Zeller and Hildebrandt, "Simplifying and
    Isolating Failure-Inducing Input", IEEE Transactions on Software Engineering 28 (2002), section
    3.
    """
    left, pieces = list(items), 2
    while len(left) > 1:
        chunks = _chunks(left, pieces)
        smaller = failing(chunks)
        if smaller is not None:
            left, pieces = smaller, 2
            continue
        # With two pieces, what is left without one of them is the other.
        rests = [_without(chunks, index) for index in range(len(chunks))] if pieces > 2 else []
        smaller = failing(rests)
        if smaller is not None:
            left, pieces = smaller, max(2, pieces - 1)
        elif pieces >= len(left):
            break
        else:
            pieces = min(len(left), 2 * pieces)
    return left


def _chunks(items: Sequence[T], pieces: int) -> list[list[T]]:
    bounds = [len(items) * index // pieces for index in range(pieces + 1)]
    return [list(items[a:b]) for a, b in pairwise(bounds) if b > a]


def _without(chunks: Sequence[list[T]], index: int) -> list[T]:
    return [item for at, chunk in enumerate(chunks) if at != index for item in chunk]


def guesses(candidate: Candidate, near: Sequence[str], before_ns: int | None) -> list[Candidate]:
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


def fewer_nodes(candidate: Candidate) -> Iterator[Candidate]:
    """The smallest cluster first."""
    for nodes in range(NODES_LEAST, candidate.nodes, 2):
        yield msgspec.structs.replace(candidate, nodes=nodes)


def fewer_clients(candidate: Candidate, shows: Shows) -> Candidate:
    """Half of them, as often as it goes; one per node at least."""
    while candidate.concurrency > candidate.nodes:
        half = max(candidate.nodes, candidate.concurrency // 2)
        smaller = msgspec.structs.replace(candidate, concurrency=half)
        if not shows(smaller):
            break
        candidate = smaller
    return candidate


def lighter(candidate: Candidate) -> Iterator[Candidate]:
    """At a rate that is offered, the lowest first."""
    for rate in RATES:
        if candidate.rate is None or rate < candidate.rate:
            yield msgspec.structs.replace(candidate, rate=rate)


def fewer_types(candidate: Candidate, op_types: Collection[str]) -> Iterator[Candidate]:
    """Without one more type of operation, each of those that are left but for the last."""
    left = sorted({*op_types} - {*candidate.without})
    if len(left) < 2:
        return
    for op_type in left:
        yield msgspec.structs.replace(
            candidate, without=tuple(sorted({*candidate.without, op_type}))
        )


def sooner_over(candidate: Candidate) -> Iterator[Candidate]:
    """With less load after the last fault."""
    end_s = candidate.end_s + TAIL_S
    if candidate.plans and end_s < candidate.time_limit_s:
        yield msgspec.structs.replace(candidate, time_limit_s=end_s)
