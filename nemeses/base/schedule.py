"""When faults stand: warm-up, then fault and quiet windows in turn, then time to recover."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import msgspec

from dstest.core.errors import ConfigError
from dstest.core.evidence import SMOKE_S
from dstest.core.protocols import FaultPlan, Option, When, lacking_of
from dstest.core.run_words import at_least, number

WINDOW_OPTIONS: Final[Mapping[str, Option]] = {
    "targets": Option(
        type=str,
        default="",
        names_nodes=True,
        help="comma-separated nodes, not a random choice",
    ),
    "fault_s": Option(
        type=float, default=6.0, least=0.1, most=86_400, help="how long each fault stands"
    ),
    "quiet_s": Option(
        type=float,
        default=4.0,
        least=0,
        most=86_400,
        help="how long the cluster is whole between two",
    ),
}
"""What all nemeses that come in windows share; in one run they are given once, for all."""

WARMUP_S: Final = 4.0
"""Load without a fault first: the baseline that the audit compares with."""

RECOVERY_S: Final = 7.0
"""Load without a fault last: the oracle is about a cluster that had time to settle."""

_MARGIN_S: Final = 5.0
"""Load is counted from the first invocation to the last, which is less than a run was given."""


def given_targets(options: Mapping[str, Any]) -> list[str]:
    """The nodes of `-o targets=`, empty where the choice is ours."""
    return [name.strip() for name in str(options["targets"]).split(",") if name.strip()]


def time_for(count: int, fault_s: float, quiet_s: float) -> str:
    """For a remedy: the shortest run with as many faults that can be more than PARTIAL."""
    room_s = WARMUP_S + count * fault_s + (count - 1) * quiet_s + RECOVERY_S
    return at_least(max(room_s, SMOKE_S + _MARGIN_S))


def windows(
    nemesis: str, time_limit_s: float, fault_s: float, quiet_s: float
) -> list[tuple[int, int]]:
    """(start_ns, duration_ns) of each fault of a run. ConfigError where not even one fits."""
    if fault_s <= 0 or quiet_s < 0:
        raise ConfigError("fault_s must be above zero and quiet_s not below", remedy="-o fault_s=6")
    found = []
    start_s = WARMUP_S
    while start_s + fault_s + RECOVERY_S <= time_limit_s + 1e-9:
        found.append((int(start_s * 1e9), int(fault_s * 1e9)))
        start_s += fault_s + quiet_s
    if not found:
        needed = time_for(1, fault_s, quiet_s)
        short = f"--time-limit {number(time_limit_s)} leaves no room for"
        raise ConfigError(
            f"{short} a {nemesis} of {number(fault_s)} s",
            remedy=f"--time-limit {needed} or more, a smaller -o fault_s, or --nemesis none",
        )
    return found


def planned(
    nemesis: str,
    time_limit_s: float,
    options: Mapping[str, Any],
    draw: Callable[[], dict[str, Any]],
) -> list[FaultPlan]:
    """A fault per window, its facts drawn in turn, for the nodes that the user asked for."""
    found = windows(nemesis, time_limit_s, options["fault_s"], options["quiet_s"])
    return [
        FaultPlan(
            fault_id=f"f{index}",
            nemesis=nemesis,
            start_ns=start_ns,
            duration_ns=duration_ns,
            facts={"targets": given_targets(options), **draw()},
        )
        for index, (start_ns, duration_ns) in enumerate(found, 1)
    ]


def drawable(
    requires_when: Sequence[When], fact: str, values: Sequence[str], options: Mapping[str, Any]
) -> list[str]:
    """Of these values of a planned fact, those that ask for nothing which the system lacks."""
    lacking = lacking_of(options)
    without = {
        when.value
        for when in requires_when
        if when.fact == fact and lacking.intersection(when.requires)
    }
    return [value for value in values if value not in without]


def check_range(options: Mapping[str, Any], key: str, least: float, most: float) -> None:
    """ConfigError where the number that was given is out of the range that can be proven."""
    value = options[key]
    if not least <= value <= most:
        shown = f"{value:g}" if isinstance(value, float) else str(value)
        raise ConfigError(
            f"-o {key}={shown}: from {least:g} to {most:g}",
            remedy="a number in that range; `dstest options` says what it means",
        )


def carrying(plans: Sequence[FaultPlan], **facts: Any) -> list[FaultPlan]:
    """The plans with these facts as well."""
    return [msgspec.structs.replace(plan, facts={**plan.facts, **facts}) for plan in plans]
