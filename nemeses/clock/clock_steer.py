"""`clock-steer`: the clock of a whole node runs too fast or too slow, without a jump.

The kernel is told by adjtimex, as a time daemon tells it, that its ticks are longer or shorter: no
jump, and the monotonic clock runs at the wrong pace as well, timers included. Up to a tenth is what
kernels take. Evidence as in `node_clock_fault.py`; the rate is read on the node against its raw
clock, which is not steered, and has to be so for a while until it shows in what a server tells.

Catalogue: N24.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from dstest.core.errors import ConfigError
from dstest.core.evidence import LandingRecord
from dstest.core.node import Node
from dstest.core.protocols import Option
from nemeses.base.driver import Facts
from nemeses.base.process_fault import ProcessFault
from nemeses.clock import clock_evidence
from nemeses.clock.node_clock_fault import NodeClockFault
from nemeses.tools import node_clock
from nemeses.tools.node_clock import Reading

PERCENTS: Final = (9.0, -9.0, 6.0, -6.0)
PERCENT_MIN: Final = 1.0
SLACK: Final = 0.02
SLACK_S: Final = 0.02


class ClockSteer(NodeClockFault):
    """The `clock-steer` nemesis."""

    name = "clock-steer"
    taxdc = "timing"
    doc = "lets the clock of whole nodes run fast or slow, where they have one of their own"
    faults: tuple[str, ...] = ("N24",)
    options: Mapping[str, Option] = {
        "steer_percent": Option(
            type=float,
            default=0.0,
            least=-10,
            most=10,
            help="so much faster, or below zero slower, 1 to 10; 0 = drawn",
        ),
        **ProcessFault.options,
    }

    def check_options(self, options: Mapping[str, Any], nodes: Sequence[str]) -> None:
        percent = float(options["steer_percent"])
        if 0 < abs(percent) < PERCENT_MIN:
            raise ConfigError(
                f"-o steer_percent={percent:g}: 1 to 10, or -10 to -1",
                remedy="-o steer_percent=5, or 0 for one that is drawn",
            )

    def draw_params(self, rng: random.Random, options: Mapping[str, Any]) -> Facts:
        """How fast."""
        percent = float(options["steer_percent"]) or rng.choice(PERCENTS)
        return {"skew_s": 0.0, "rate": 1 + percent / 100}

    def patience_s(self, record: LandingRecord) -> float:
        """Until the rate has become an offset that shows."""
        return 5 * clock_evidence.tolerance_s(0) / abs(float(record.facts["rate"]) - 1)

    async def wrong(self, node: Node, record: LandingRecord) -> Reading:
        return await node_clock.ask(node, "steer", round((record.facts["rate"] - 1) * 1e6))

    def problems(self, record: LandingRecord, name: str, now: Reading) -> list[str]:
        """Since it was applied, by the raw clock."""
        applied = record.facts.get("clock_applied", {}).get(name)
        if applied is None:
            return ["its clock was not steered"]
        then = msgspec.convert(applied, Reading)
        moved_s = (now.distance_ns - then.distance_ns) / 1e9
        wanted_s = (now.raw_ns - then.raw_ns) / 1e9 * (record.facts["rate"] - 1)
        if abs(moved_s - wanted_s) > max(SLACK * abs(wanted_s), SLACK_S):
            return [f"moved by {moved_s:+.3f} s since then, {wanted_s:+.3f} s asked for"]
        return []


NEMESIS = ClockSteer()
