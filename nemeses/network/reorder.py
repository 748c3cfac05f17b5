"""`reorder`: a share of the packets between nodes is held back and overtaken by later ones.

Injector signal: packets that the program in the queue let go after later ones of the same sender,
per path. Victim signal: our numbered datagrams arrive late, and TCP queues segments that came
before their turn (TCPOFOQueue). Control: on the other paths datagrams arrive in order. It has
healed when they do on every path.

TCP puts segments in order again: what uses it sees a stream that halts now and then. What is held
back arrives later than it would, by `hold_ms`.

Catalogue: N14.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from dstest.core.evidence import LandingRecord
from dstest.core.protocols import Option
from nemeses.base.driver import Facts
from nemeses.base.path_fault import LANDING_DEADLINE_S
from nemeses.base.paths import Reached
from nemeses.base.schedule import check_range
from nemeses.network.packet_share import PacketShareFault, loses, percent
from nemeses.network.queued import ARRIVE_MIN, QueueFault

LATE_MIN: Final = 0.5
"""Late datagrams as a share of those held back: the last of a burst are overtaken by nothing."""


class Reorder(PacketShareFault):
    """The `reorder` nemesis."""

    name = "reorder"
    taxdc = "ordering"
    doc = "holds a share of the packets between nodes back until later ones have overtaken them"
    faults: tuple[str, ...] = ("N14",)
    counter = "overtaken"
    percent_max = 75.0
    setting = "hold"
    sender_field = "held"
    participle = "held back"
    options: Mapping[str, Option] = {
        "reorder_percent": percent(25.0, "are held back"),
        "reorder_ms": Option(
            type=float, default=50.0, least=1, most=60_000, help="how long they are held back"
        ),
        **QueueFault.options,
    }

    def more_params(self, options: Mapping[str, Any]) -> Facts:
        check_range(options, "reorder_ms", 20, 200)
        return {"hold_ms": float(options["reorder_ms"])}

    def more_settings(self, record: LandingRecord) -> Mapping[str, int]:
        return {"hold_us": round(record.facts["hold_ms"] * 1000)}

    def netem_words(self, record: LandingRecord) -> Mapping[str, Any]:
        """All wait but those that netem calls reordered, which overtake them."""
        facts = record.facts
        return {"delay.delay": facts["hold_ms"] / 1000, "reorder.reorder": 1 - facts["share"]}

    def patience_s(self, record: LandingRecord) -> float:
        """On a path with little traffic what is held back is seldom overtaken."""
        return 2 * LANDING_DEADLINE_S

    def problems(
        self, record: LandingRecord, reach: Reached, moved: Mapping[str, int]
    ) -> tuple[list[str], str]:
        cuts, before = record.facts["cuts"], record.facts["probe_before"]
        least = LATE_MIN * record.facts["share"]
        late = sum(reach[p][2] for p in cuts)
        problems = []
        for path in cuts:
            if not reach[path][2]:
                problems.append(f"{path}: all datagrams in order")
            problems += loses(path, reach[path])
            if before[path][2] > (1 - ARRIVE_MIN) * before[path][3]:
                problems.append(f"{path} was out of order before")
        sent = sum(reach[p][3] for p in cuts)
        if late < least * sent:
            problems.append(
                f"{late} of {sent} datagrams late, {record.facts['share']:.0%} held back"
            )
        early = moved["out_of_order_in_tcp"]
        if not early:
            problems.append("TCP saw nothing out of order")
        return (
            problems,
            f"{late} of {sent} datagrams came late; TCP had to sort {early} segments",
        )


NEMESIS = Reorder()
