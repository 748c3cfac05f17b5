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

import random
from collections.abc import Mapping
from typing import Any, Final

from dstest.core.errors import ConfigError
from dstest.core.evidence import LandingRecord, Signal
from dstest.core.protocols import Option
from nemeses.loss import right_share
from nemeses.netqueue import Sender
from nemeses.paths import Reached
from nemeses.queued import ARRIVE_MIN, Burst, share_settings

__all__ = ["NEMESIS", "Duplicate"]

PACKETS_MIN: Final = 200
"""Fewer packets of the system say little about a share."""


class Duplicate(Burst):
    """The `duplicate` nemesis."""

    name = "duplicate"
    doc = "lets a share of the packets between nodes arrive twice"
    faults: tuple[str, ...] = ("N13",)
    counter = "twice"
    options: Mapping[str, Option] = {
        "duplicate_percent": Option(
            type=float, default=30.0, help="share of packets that come twice"
        ),
        **Burst.options,
    }

    def drawn(self, rng: random.Random, options: Mapping[str, Any]) -> dict[str, Any]:
        """The share. ConfigError where it is out of range."""
        percent = float(options["duplicate_percent"])
        if not 1 <= percent <= 100:
            raise ConfigError(f"-o duplicate_percent={percent:g}: from 1 to 100")
        return {"share": percent / 100}

    def settings(self, record: LandingRecord) -> dict[str, int]:
        return share_settings(100 * record.facts["share"], "twice")

    def doubts(self, record: LandingRecord, done: Mapping[str, Sender]) -> list[str]:
        seen, twice = sum(r.seen for r in done.values()), sum(r.twice for r in done.values())
        share = record.facts["share"]
        if seen >= PACKETS_MIN and right_share(twice, seen, share):
            return []
        return [f"{twice} of {seen} packets sent twice, {share:.0%} asked for"]

    def victim(self, record: LandingRecord, reach: Reached, moved: Mapping[str, int]) -> Signal:
        cuts, before = record.facts["cuts"], record.facts["probe_before"]
        share = record.facts["share"]
        came = sum(reach[p][0] for p in cuts)
        different = sum(reach[p][1] for p in cuts)
        said = []
        for path in cuts:
            if not right_share(reach[path][0] - reach[path][1], reach[path][1], share):
                said.append(f"{path}: {reach[path][0]} datagrams, {reach[path][1]} different ones")
            if reach[path][1] < ARRIVE_MIN * reach[path][3]:
                said.append(f"{path} loses datagrams")
            if before[path][0] != before[path][1]:
                said.append(f"{path} doubled datagrams before")
        if not right_share(came - different, different, share):
            said.append(f"{came - different} of {different} datagrams twice, {share:.0%} asked for")
        known = moved["twice_known_to_tcp"] + moved["twice_ahead_in_tcp"]
        if not known:
            said.append("TCP saw nothing twice")
        return Signal(
            signal="datagrams: came, different, late, sent",
            before={p: before[p] for p in cuts},
            during={p: list(reach[p]) for p in cuts},
            moved=bool(cuts) and not said,
            detail="; ".join(said)
            or f"{came - different} of {different} datagrams came twice; TCP noted {known} segments"
            " that it had",
        )


NEMESIS = Duplicate()
