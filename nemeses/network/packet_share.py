"""Faults that do something to a share of the packets: `duplicate`, `reorder`, `corrupt`.

The share is asked for in percent, drawn per packet by the program in the queue, and checked on both
sides: of what the program saw, and of a burst of numbered datagrams on each path.
"""

from __future__ import annotations

import random
from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar

from dstest.core.evidence import LandingRecord, Signal
from dstest.core.protocols import NemesisContext, Option
from nemeses.base.driver import Facts
from nemeses.base.paths import Reached
from nemeses.base.schedule import check_range
from nemeses.network.loss import PACKETS_MIN, right_share
from nemeses.network.queued import ARRIVE_MIN, QueueFault, burst_control, probe_bursts, sent_once
from nemeses.tools.netqueue import Sender


def percent(default: float, what: str) -> Option:
    """The option for how many packets: `share of packets that WHAT`."""
    return Option(
        type=float, default=default, least=0.1, most=100, help=f"share of packets that {what}"
    )


class PacketShareFault(QueueFault):
    """Base. The share's option is called `NAME_percent`."""

    percent_max: ClassVar[float]
    setting: ClassVar[str]
    """What the program calls the share, without `_ppm`."""

    sender_field: ClassVar[str]
    """Field of `Sender` that counts the packets of the share."""

    participle: ClassVar[str]
    """What becomes of these packets."""

    under_way_s: ClassVar[float] = 0.3
    """How long the last datagram of a burst may be under way."""

    @abstractmethod
    def problems(
        self, record: LandingRecord, reach: Reached, moved: Mapping[str, int]
    ) -> tuple[list[str], str]:
        """What speaks against the victim signal, and what it says where nothing does."""

    def more_settings(self, record: LandingRecord) -> Mapping[str, int]:
        """What the program is told besides the share."""
        return {}

    def more_params(self, options: Mapping[str, Any]) -> Facts:
        """What a plan says of its fault besides the share. ConfigError where that cannot be."""
        return {}

    def draw_params(self, rng: random.Random, options: Mapping[str, Any]) -> Facts:
        """The share. ConfigError where it is out of range."""
        key = f"{self.name}_percent"
        check_range(options, key, 1, self.percent_max)
        return {"share": float(options[key]) / 100, **self.more_params(options)}

    def settings(self, record: LandingRecord) -> dict[str, int]:
        share = {f"{self.setting}_ppm": round(record.facts["share"] * 1_000_000)}
        return {**share, **self.more_settings(record)}

    def doubts(self, record: LandingRecord, done: Mapping[str, Sender]) -> list[str]:
        seen = sum(row.seen for row in done.values())
        hit = sum(int(getattr(row, self.sender_field)) for row in done.values())
        share = record.facts["share"]
        if seen >= PACKETS_MIN and right_share(hit, seen, share):
            return []
        return [f"{hit} of {seen} packets {self.participle}, {share:.0%} asked for"]

    async def probe(self, ctx: NemesisContext, token: str) -> Reached:
        return await probe_bursts(ctx, token, settle_s=self.under_way_s)

    def impaired_paths(self, record: LandingRecord, reach: Reached) -> Iterable[str]:
        return [path for path, result in reach.items() if not sent_once(result)]

    def victim(self, record: LandingRecord, reach: Reached, moved: Mapping[str, int]) -> Signal:
        cuts, before = record.facts["cuts"], record.facts["probe_before"]
        problems, good = self.problems(record, reach, moved)
        return Signal(
            signal="datagrams: came, different, late, sent",
            before={p: before[p] for p in cuts},
            during={p: list(reach[p]) for p in cuts},
            moved=bool(cuts) and not problems,
            detail="; ".join(problems) or good,
        )

    def control(self, record: LandingRecord, reach: Reached) -> Signal:
        return burst_control(record, reach)


def loses(path: str, result: Sequence[int]) -> list[str]:
    """That a path loses datagrams, which is another fault; nothing where all but a few arrive."""
    return [f"{path} loses datagrams"] if result[1] < ARRIVE_MIN * result[3] else []
