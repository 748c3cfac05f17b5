"""`duplicate`: a share of the packets between nodes arrives twice.

Injector signal: packets that the program in the queue sent once more, per path; their share of what
it saw is the one asked for. Victim signal: as large a share of our datagrams arrives twice, and
TCP notes segments that it had (its DSACK counters). Control: on the other paths each datagram
arrives once. It has healed when that is so on every path.

TCP hides duplicates from what uses it: to a system that speaks TCP only, this is a fault of its
kernel's making, which costs time and must change nothing.

Catalogue: N13.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dstest.core.evidence import LandingRecord
from dstest.core.protocols import Option
from nemeses.base.paths import Reached
from nemeses.network.loss import right_share
from nemeses.network.packet_share import PacketShareFault, loses, percent
from nemeses.network.queued import QueueFault
from nemeses.tools.netqueue import Sender


class Duplicate(PacketShareFault):
    """The `duplicate` nemesis."""

    name = "duplicate"
    taxdc = "ordering"
    taxdc_tags: frozenset[str] = frozenset({"idempotency/dedup"})
    doc = "lets a share of the packets between nodes arrive twice"
    faults: tuple[str, ...] = ("N13",)
    counter = "twice"
    percent_max = 100.0
    setting = "twice"
    sender_field = "twice"
    participle = "sent twice"
    options: Mapping[str, Option] = {
        "duplicate_percent": percent(30.0, "come twice"),
        **QueueFault.options,
    }

    def netem_words(self, record: LandingRecord) -> Mapping[str, Any]:
        return {"duplicate.duplicate": record.facts["share"]}

    def netem_doubts(self, record: LandingRecord, done: Mapping[str, Sender]) -> list[str]:
        """The share of what came into the queues that they let out once more."""
        return self.doubts(record, done)

    def problems(
        self, record: LandingRecord, reach: Reached, moved: Mapping[str, int]
    ) -> tuple[list[str], str]:
        cuts, before = record.facts["cuts"], record.facts["probe_before"]
        share = record.facts["share"]
        came = sum(reach[p][0] for p in cuts)
        different = sum(reach[p][1] for p in cuts)
        problems = []
        for path in cuts:
            if not right_share(reach[path][0] - reach[path][1], reach[path][1], share):
                problems.append(
                    f"{path}: {reach[path][0]} datagrams, {reach[path][1]} different ones"
                )
            problems += loses(path, reach[path])
            if before[path][0] != before[path][1]:
                problems.append(f"{path} doubled datagrams before")
        if not right_share(came - different, different, share):
            problems.append(
                f"{came - different} of {different} datagrams twice, {share:.0%} asked for"
            )
        known = moved["twice_known_to_tcp"] + moved["twice_ahead_in_tcp"]
        if not known:
            problems.append("TCP saw nothing twice")
        return (
            problems,
            f"{came - different} of {different} datagrams twice; TCP noted {known} that it had",
        )


NEMESIS = Duplicate()
