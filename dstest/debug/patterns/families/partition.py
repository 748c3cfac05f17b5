"""Partitions and faults: noticed, contained, recovered from."""

from __future__ import annotations

from typing import Final

from dstest.debug.patterns import recovery
from dstest.debug.patterns.model import FAULTS, OPERATIONS, SETTLED, STAMPED, Pattern, Sign

PATTERNS: Final = (
    Pattern(
        id="late-detection",
        number=11,
        name="Partition detection delay",
        family="partition",
        symptoms="members are cut off and nobody acts on it for long",
        causes=("time-outs that are too long", "one-way links that keep a heartbeat alive"),
        mitigations=("heartbeats both ways, time-outs of a few round trips, steps of a phi",),
        measure=("--nemesis partition -o fault_s=30: longer than its time-outs",),
        signs=(
            Sign(
                "silence",
                "the first word of a server after a partition that has landed",
                recovery.noticed_late,
                (FAULTS, STAMPED),
                "strong",
                "high",
                excusable=True,
            ),
        ),
    ),
    Pattern(
        id="cascade",
        number=12,
        name="Cascading partition failure",
        family="partition",
        symptoms="after a fault has ended, members that it was not about fail one after the other",
        causes=("the load of those that failed, on those that are left", "retries without bound"),
        mitigations=("shed load, back off with jitter, limit what one member takes over",),
        measure=("samples of the load by node, after each fault",),
        signs=(
            Sign(
                "onsets",
                "members that begin to fail in turn once a fault was healed",
                recovery.cascades,
                (OPERATIONS, FAULTS),
                "strong",
                "high",
                excusable=True,
            ),
        ),
    ),
    Pattern(
        id="slow-recovery",
        number=24,
        name="Split-brain recovery, or slow recovery",
        family="partition",
        symptoms="a fault was healed, and the load does not go well for long after",
        causes=("catching up that blocks", "connections that are not opened again", "elections"),
        mitigations=("bound each step of recovery, and tell how far it is",),
        measure=("a longer --time-limit behind the last fault", "-o journal=yes"),
        signs=(
            Sign(
                "unsettled",
                "from each heal until the load went well",
                recovery.slow_to_recover,
                (SETTLED,),
                "strong",
                "high",
                excusable=True,
            ),
        ),
    ),
)
