"""Which faults may stand at the same time, and in what order they come and go.

Two faults overlap only where each can still be proven: a rule that drops packets needs a living
sender, a killed server needs nobody else to restart it. So faults are in lanes, at most one of a
lane stands, and what is not in a lane stands alone: faults that reach into the system compare its
members, faults of the disk wait for writes, and both take for granted that the others are whole.
"""

from __future__ import annotations

from typing import Final

import msgspec


class Overlap(msgspec.Struct, frozen=True, kw_only=True):
    """How a nemesis gets on with others in one run.

    `lane`: at most one of a lane stands; empty for a fault that stands alone. Faults due together
    are injected by `inject_order` and healed by `heal_order`, lower ones first.
    `may_lose_leader`: there may be no leader under it, so that a fault that is for the leader
    cannot follow.
    """

    lane: str = ""
    inject_order: int = 0
    heal_order: int = 0
    may_lose_leader: bool = False


SHOWS_IN_ITS_OWN_TRAFFIC: Final = Overlap(lane="node", inject_order=0, heal_order=1)
"""Of faults that slow a server down or change its clock: what it goes on doing proves them."""

NEEDS_TRAFFIC: Final = Overlap(lane="network", inject_order=1)
"""Of faults that need traffic on every path that they touch."""

ENDS_TRAFFIC: Final = Overlap(lane="node", inject_order=2, heal_order=1)
"""Of faults that end the traffic of their targets. A server that comes back needs its peers, so the
network is healed before it."""
