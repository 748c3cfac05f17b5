"""The commands that make what a claim or a control is short of. A claim has all words of one."""

from __future__ import annotations

from typing import Any

from dstest.core import registry
from dstest.core.errors import ConfigError
from dstest.gate.policy import Asked, Claim, Control
from dstest.judge.budgets import SHAPES
from dstest.report.command import command_of


def commands_of_claim(claim: Claim) -> list[str]:
    """A session of the tier, and a run or session at each size that the tier does not have."""
    shape = SHAPES[claim.tier]
    sizes = [size for size in claim.sizes if size not in shape.sizes]
    words = {**_words(claim), "tier": claim.tier}
    whole: list[dict[str, Any]] = [{}] if len(sizes) < len(claim.sizes) else []
    return [
        command_of({**words, **more}, claim.options)
        for more in (*whole, *({"nodes": size} for size in sizes))
    ]


def command_of_control(control: Control) -> str:
    """A run of it."""
    return command_of(_words(control), control.options)


def _words(asked: Asked) -> dict[str, Any]:
    checkers = getattr(asked, "checkers", ())
    model = asked.model
    try:
        workload = registry.load("workloads", asked.workload)
    except ConfigError:
        usual: tuple[str, ...] = ()
    else:
        usual = tuple(workload.checkers)
        model = None if model == workload.model else model
    return {
        "system": asked.system,
        "workload": asked.workload,
        "nemesis": asked.nemesis,
        "lab": asked.lab,
        "builds": [name.rpartition("@")[0] or name for name in asked.builds],
        "checkers": [name for name in checkers if name not in usual],
        "model": model,
    }
