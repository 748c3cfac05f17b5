"""Which faults may stand at the same time, and in what order they come and go.

Two faults overlap only where each can still be proven: a rule that drops packets needs a living
sender, a killed server needs nobody else to restart it. So faults are in lanes, at most one of a
lane stands, and what is not in a lane stands alone: faults that reach into the system compare its
members, faults of the disk wait for writes, and both take for granted that the others are whole.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

__all__ = ["LANES", "UNSETTLING", "Place"]


class Place(NamedTuple):
    """A lane, and the turn in which its faults are injected: lower ones first."""

    lane: str
    turn: int


LANES: Final[Mapping[str, Place]] = {
    # These slow a server down or change its clock: its own traffic proves them.
    "clock": Place("node", 0),
    "slow-disk": Place("node", 0),
    # These need traffic on every path that they touch.
    "partition": Place("network", 1),
    "new-connections": Place("network", 1),
    "loss": Place("network", 1),
    "latency": Place("network", 1),
    "duplicate": Place("network", 1),
    "reorder": Place("network", 1),
    "corrupt": Place("network", 1),
    # These end the traffic of their targets.
    "kill": Place("node", 2),
    "stop": Place("node", 2),
    "pause": Place("node", 2),
}

UNSETTLING: Final = frozenset({"partition", "new-connections", "loss", "corrupt"})
"""Faults under which there may be no leader: one that is for the leader cannot follow them."""
