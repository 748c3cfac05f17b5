"""`clock-step`: the clock of a whole node is set wrong, for all that runs there.

`clock` shifts it for the processes of a server, where nodes share a clock; this one sets it
(clock_settime), and everything on the node sees that: other processes, file times, the kernel's own
timers of the wall clock. The monotonic clock goes on. Evidence as in `node_clock_fault.py`.

Catalogue: N23.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import Any, Final

from dstest.core.errors import ConfigError
from dstest.core.evidence import LandingRecord
from dstest.core.node import Node
from dstest.core.protocols import Option
from nemeses.base.driver import Facts
from nemeses.base.process_fault import ProcessFault
from nemeses.clock.clock import OFFSETS_S
from nemeses.clock.node_clock_fault import NodeClockFault
from nemeses.tools import node_clock
from nemeses.tools.node_clock import Reading

SKEW_MIN_S: Final = 1.0
SLACK_S: Final = 0.05


class ClockStep(NodeClockFault):
    """The `clock-step` nemesis."""

    name = "clock-step"
    taxdc = "timing"
    doc = "sets the clock of whole nodes wrong, where they have one of their own"
    faults: tuple[str, ...] = ("N23",)
    options: Mapping[str, Option] = {
        "step_s": Option(
            type=float,
            default=0.0,
            least=-31_536_000,
            most=31_536_000,
            help="by how many seconds; 0 = drawn",
        ),
        **ProcessFault.options,
    }

    def check_options(self, options: Mapping[str, Any], nodes: Sequence[str]) -> None:
        step_s = float(options["step_s"])
        if 0 < abs(step_s) < SKEW_MIN_S:
            raise ConfigError(
                f"-o step_s={step_s:g}: at least a second, to be told from noise",
                remedy="-o step_s=5, or 0 for one that is drawn",
            )

    def draw_params(self, rng: random.Random, options: Mapping[str, Any]) -> Facts:
        """By how much."""
        drawn = rng.choice(OFFSETS_S)
        return {"skew_s": float(options["step_s"]) or drawn, "rate": 1.0}

    async def wrong(self, node: Node, record: LandingRecord) -> Reading:
        return await node_clock.ask(node, "step", round(record.facts["skew_s"] * 1e9))

    def problems(self, record: LandingRecord, name: str, now: Reading) -> list[str]:
        wanted_s, ahead_s = record.facts["skew_s"], now.ahead_s or 0.0
        off = abs(ahead_s - wanted_s) > SLACK_S
        return [f"moved by {ahead_s:+.3f} s, {wanted_s:+g} s asked for"] if off else []


NEMESIS = ClockStep()
