"""`corrupt`: a share of the packets between nodes arrives with one bit flipped.

Injector signal: packets that the program in the queue broke, per path; their share of what it saw
is the one asked for. Victim signal: as large a share of our datagrams does not arrive, because
their checksums are wrong, and TCP counts checksums that are wrong (InCsumErrors). Control: on the
other paths all arrive. It has healed when they do on every path.

One flipped bit never passes a checksum of TCP or UDP: a system sees loss, and only proves that it
relies on these checksums. It is no fault of the catalogue of its own.
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
from nemeses.queued import Burst, sent_once, share_settings

__all__ = ["NEMESIS", "Corrupt"]

PACKETS_MIN: Final = 200
"""Fewer packets of the system say little about a share."""


class Corrupt(Burst):
    """The `corrupt` nemesis."""

    name = "corrupt"
    doc = "flips one bit in a share of the packets between nodes"
    faults: tuple[str, ...] = ()
    counter = "corrupted"
    options: Mapping[str, Option] = {
        "corrupt_percent": Option(
            type=float, default=10.0, help="share of packets that are broken"
        ),
        **Burst.options,
    }

    def drawn(self, rng: random.Random, options: Mapping[str, Any]) -> dict[str, Any]:
        """The share. ConfigError where it is out of range."""
        percent = float(options["corrupt_percent"])
        if not 1 <= percent <= 50:
            raise ConfigError(f"-o corrupt_percent={percent:g}: from 1 to 50")
        return {"share": percent / 100}

    def settings(self, record: LandingRecord) -> dict[str, int]:
        return share_settings(100 * record.facts["share"], "corrupt")

    def patience_s(self, record: LandingRecord) -> float:
        """A stream that loses packets is slow, and a share needs many."""
        return 2 * super().patience_s(record)

    def doubts(self, record: LandingRecord, done: Mapping[str, Sender]) -> list[str]:
        seen = sum(row.seen for row in done.values())
        broken = sum(row.corrupted for row in done.values())
        share = record.facts["share"]
        if seen >= PACKETS_MIN and right_share(broken, seen, share):
            return []
        return [f"{broken} of {seen} packets broken, {share:.0%} asked for"]

    def victim(self, record: LandingRecord, reach: Reached, moved: Mapping[str, int]) -> Signal:
        cuts, before = record.facts["cuts"], record.facts["probe_before"]
        share = record.facts["share"]
        sent = sum(reach[p][3] for p in cuts)
        lost = sent - sum(reach[p][1] for p in cuts)
        said = []
        for path in cuts:
            missing = reach[path][3] - reach[path][1]
            if not right_share(missing, reach[path][3], share):
                said.append(f"{path} loses {missing} of {reach[path][3]}")
            if not sent_once(before[path]):
                said.append(f"{path} was not whole before")
        if not right_share(lost, sent, share):
            said.append(f"{lost} of {sent} datagrams lost, {share:.0%} asked for")
        wrong = moved["tcp_checksum_errors"]
        if not wrong:
            said.append("TCP saw no wrong checksum")
        return Signal(
            signal="datagrams: came, different, late, sent",
            before={p: before[p] for p in cuts},
            during={p: list(reach[p]) for p in cuts},
            moved=bool(cuts) and not said,
            detail="; ".join(said)
            or f"{lost} of {sent} datagrams lost; TCP dropped {wrong} for a wrong checksum",
        )


NEMESIS = Corrupt()
