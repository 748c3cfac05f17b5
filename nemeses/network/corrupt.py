"""`corrupt`: a share of the packets between nodes arrives with one bit flipped.

Injector signal: packets that the program in the queue broke, per path; their share of what it saw
is the one asked for. Victim signal: as large a share of our datagrams does not arrive, because
their checksums are wrong, and TCP counts checksums that are wrong (InCsumErrors). Control: on the
other paths all arrive. It has healed when they do on every path.

One flipped bit never passes a checksum of TCP or UDP: a system sees loss, and only proves that it
relies on these checksums. It is no fault of the catalogue of its own.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from dstest.core.evidence import LandingRecord
from dstest.core.protocols import Option
from nemeses.base.driver import NEEDS_TRAFFIC
from nemeses.base.path_fault import LANDING_DEADLINE_S
from nemeses.base.paths import Reached
from nemeses.network.loss import right_share
from nemeses.network.packet_share import PacketShareFault, percent
from nemeses.network.queued import QueueFault, sent_once


class Corrupt(PacketShareFault):
    """The `corrupt` nemesis."""

    name = "corrupt"
    taxdc = "fault-handling"
    doc = "flips one bit in a share of the packets between nodes"
    faults: tuple[str, ...] = ()
    counter = "corrupted"
    needs: tuple[str, ...] = ("nft", "nfqueue", "x86-64")
    overlap = msgspec.structs.replace(NEEDS_TRAFFIC, may_lose_leader=True)
    percent_max = 50.0
    setting = "corrupt"
    sender_field = "corrupted"
    participle = "broken"
    options: Mapping[str, Option] = {
        "corrupt_percent": percent(10.0, "are broken"),
        **QueueFault.options,
    }

    def patience_s(self, record: LandingRecord) -> float:
        """A stream that loses packets is slow, and a share needs many."""
        return 2 * LANDING_DEADLINE_S

    def problems(
        self, record: LandingRecord, reach: Reached, moved: Mapping[str, int]
    ) -> tuple[list[str], str]:
        cuts, before = record.facts["cuts"], record.facts["probe_before"]
        share = record.facts["share"]
        sent = sum(reach[p][3] for p in cuts)
        lost = sent - sum(reach[p][1] for p in cuts)
        problems = []
        for path in cuts:
            missing = reach[path][3] - reach[path][1]
            if not right_share(missing, reach[path][3], share):
                problems.append(f"{path} loses {missing} of {reach[path][3]}")
            if not sent_once(before[path]):
                problems.append(f"{path} was not whole before")
        if not right_share(lost, sent, share):
            problems.append(f"{lost} of {sent} datagrams lost, {share:.0%} asked for")
        wrong = moved["tcp_checksum_errors"]
        if not wrong:
            problems.append("TCP saw no wrong checksum")
        return (
            problems,
            f"{lost} of {sent} datagrams lost; TCP dropped {wrong} for a wrong checksum",
        )


NEMESIS = Corrupt()
