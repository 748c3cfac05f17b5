"""What a session is going to take, and which parts of its tier its arms cannot supply."""

from __future__ import annotations

from collections.abc import Sequence

from dstest.core.tiers import Tier
from dstest.judge.budgets import SHAPES, TIERS

_AROUND_S = 75.0
"""Set-up, recovery and judging of an arm on a small host, about."""


def lasts_s(arms: int, time_limit_s: float) -> float:
    """About how long a session of so many arms lasts, in seconds."""
    return arms * (time_limit_s + _AROUND_S)


def shortfalls(
    tier: Tier, arms: Sequence[tuple[int, int]], time_limit_s: float, faults: int
) -> list[str]:
    """What the tier asks for and these arms (size, seed) cannot give, a sentence each.

    `faults` is the smallest number of faults planned for an arm.
    """
    need, sizes = TIERS[tier], {size for size, _ in arms}
    seeds = max(len({seed for s, seed in arms if s == size}) for size in sizes)
    given = {
        "seconds of load": (need["duration_s"], time_limit_s),
        "nodes": (need["nodes"], max(sizes)),
        "faults in each arm": (need["faults"], faults),
        "seeds": (need["seeds"], seeds),
        "cluster sizes": (len(SHAPES[tier].sizes), len(sizes)),
    }
    return [
        f"the {tier} budget asks for {wanted:g} {what}, this session has {has:g}"
        for what, (wanted, has) in given.items()
        if has < wanted
    ]
