"""Test budgets: how much a run must have done to count as smoke, hardening or release.

A tier is met when every one of its numbers is reached. Without a nemesis the number of faults is
not asked for.
"""

from __future__ import annotations

import math
from collections.abc import Collection
from typing import Final

import msgspec

from dstest.core.evidence import Budgets
from dstest.core.tiers import SMOKE_S, Tier

TIERS: Final[dict[Tier, dict[str, float]]] = {
    "smoke": {"duration_s": SMOKE_S, "nodes": 3, "faults": 1, "seeds": 1, "ops": 500},
    "hardening": {"duration_s": 300, "nodes": 5, "faults": 10, "seeds": 3, "ops": 20_000},
    "release": {"duration_s": 3600, "nodes": 5, "faults": 100, "seeds": 10, "ops": 1_000_000},
}


class Shape(msgspec.Struct, frozen=True, kw_only=True):
    """The arms that a tier asks for: so many seeds at the first cluster size, and the first of
    them at each other size as well. `time_limit_s` is the load of each arm.
    """

    seeds: int
    sizes: tuple[int, ...]
    time_limit_s: float


SHAPES: Final[dict[Tier, Shape]] = {
    "smoke": Shape(seeds=1, sizes=(5,), time_limit_s=60.0),
    "hardening": Shape(seeds=3, sizes=(5, 3), time_limit_s=305.0),
    "release": Shape(seeds=10, sizes=(5, 3), time_limit_s=3605.0),
}
"""A little more load than the budget asks for: its seconds are those between the first invocation
and the last."""

UNITS: Final = {
    "duration_s": "seconds of load",
    "nodes": "nodes",
    "faults": "landed faults",
    "seeds": "agreeing seeds",
    "ops": "operations",
}


def _number(value: float) -> str:
    return f"{value:,.0f}" if value == int(value) else f"{value:,.1f}"


def budgets(
    measured: dict[str, float], *, nemesis: bool, members_most: int | None = None
) -> Budgets:
    """The highest tier that `measured` (keys as in `TIERS`) meets; an absent number counts as 0.

    Of a system that never has more members than `members_most` no more are asked for.
    """
    most = {"nodes": math.inf if members_most is None else members_most}
    if not nemesis:
        most["faults"] = 0
    declared: dict[str, dict[str, float]] = {
        tier: {key: float(min(n, most.get(key, n))) for key, n in need.items()}
        for tier, need in TIERS.items()
    }
    met: Tier = "none"
    for tier in TIERS:
        if any(measured.get(key, 0) < need for key, need in declared[tier].items()):
            break
        met = tier
    return Budgets(declared=declared, met=met, measured=dict(measured))


def gaps(budget: Budgets, tier: Tier, *, already_named: Collection[str] = ()) -> list[str]:
    """One sentence per number of `tier` that was not reached, but for those `already_named`."""
    need = budget.declared.get(tier)
    if not need:
        return [f"The {tier} budget was not declared, so nothing shows that it was met."]
    problems = [
        f"The {tier} budget asks for {_number(wanted)} {UNITS.get(key, key)}; "
        f"this run had {_number(budget.measured.get(key, 0))}."
        for key, wanted in need.items()
        if budget.measured.get(key, 0) < wanted and key not in already_named
    ]
    return problems if problems or already_named else [f"The {tier} budget was not met."]
