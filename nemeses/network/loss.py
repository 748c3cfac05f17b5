"""`loss`: a share of the packets between nodes is lost at random, in one or both directions.

Injector signal: of the packets that the rules saw, the share that they dropped. Victim signal: of a
burst of directed datagrams, the share that did not arrive, and segments that the kernel had to send
again. Control: bursts on the other paths arrive. A share is right within a fifth, or within what
chance allows for as many packets. It has healed when bursts arrive on every path.

Catalogue: N07.
"""

from __future__ import annotations

import asyncio
import math
import random
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import msgspec

from dstest.core.errors import ConfigError
from dstest.core.evidence import LandingRecord, Signal
from dstest.core.protocols import NemesisContext, Option
from nemeses.base.driver import NEEDS_TRAFFIC, Facts, Observed, nodes_of
from nemeses.base.path_fault import PATH_OPTIONS
from nemeses.base.paths import Reached, drops, path_name, token_during, used_paths
from nemeses.base.schedule import WINDOW_OPTIONS
from nemeses.network.rules import RuleFault, draw_action
from nemeses.observe import probes
from nemeses.tools import nft

BURST: Final = 100
"""Datagrams per path and family: over one path in both families, 30 % +- 3 is one sigma."""

BURST_SPACING_MS: Final = 4
PACKETS_MIN: Final = 200
"""Fewer packets of the system say little about a share."""

TOLERANCE: Final = 0.2
SIGMAS: Final = 4.0
ARRIVE_MIN: Final = 0.95
"""Of a burst on a path without a fault; a busy receiver may miss a few."""


def right_share(lost: int, total: int, share: float) -> bool:
    """Are `lost` of `total` packets the `share` asked for, within a fifth or what chance allows?"""
    if total == 0:
        return False
    chance = SIGMAS * math.sqrt(share * (1 - share) / total)
    return lost > 0 and abs(lost / total - share) <= max(TOLERANCE * share, chance)


class Loss(RuleFault):
    """The `loss` nemesis."""

    name = "loss"
    taxdc = "partition"
    doc = "loses a share of the packets between nodes, in one or both directions"
    faults: tuple[str, ...] = ("N07",)
    overlap = msgspec.structs.replace(NEEDS_TRAFFIC, may_lose_leader=True)
    options: Mapping[str, Option] = {
        "loss_percent": Option(
            type=float, default=30.0, least=0.1, most=100, help="share of packets that are lost"
        ),
        **PATH_OPTIONS,
        **WINDOW_OPTIONS,
    }

    def check_options(self, options: Mapping[str, Any]) -> None:
        percent = float(options["loss_percent"])
        if not 1 <= percent <= 90:
            raise ConfigError(
                f"-o loss_percent={percent:g}: from 1 to 90", remedy="--nemesis partition for 100"
            )

    def draw_params(self, rng: random.Random, options: Mapping[str, Any]) -> Facts:
        """As for a partition, with a share instead of an action."""
        drawn = draw_action(rng, {"action": "drop"}, clients=False)
        return {**drawn, "action": "lose", "share": float(options["loss_percent"]) / 100}

    async def before(self, ctx: NemesisContext, record: LandingRecord) -> Facts:
        return {"resent_before": await _resent(ctx)}

    def rules(
        self, ctx: NemesisContext, record: LandingRecord, name: str, sources: Sequence[str]
    ) -> str:
        infos = [ctx.node(source).info for source in sources]
        return nft.loss_rules(infos, ctx.lab, record.facts["share"], hook=self.hook)

    async def probe(self, ctx: NemesisContext, token: str) -> Reached:
        found = await probes.probe(nodes_of(ctx), token, count=BURST, spacing_ms=BURST_SPACING_MS)
        return {path_name(path): result for path, result in found.items()}

    def impaired_paths(self, record: LandingRecord, reach: Reached) -> Iterable[str]:
        return [path for path, result in reach.items() if not _whole(result)]

    async def observe(self, ctx: NemesisContext, record: LandingRecord) -> Observed:
        counted, reach, resent = await asyncio.gather(
            drops(ctx, record), self.probe(ctx, token_during(ctx, record)), _resent(ctx)
        )
        seen, lost = _totals(record, counted)
        return Observed(
            injector=_injector(record, counted),
            victim=_victim(record, reach, resent),
            control=_control(record, reach),
            facts={"measured_share": round(lost / seen, 4) if seen else None, "resent": resent},
        )


def _victim(record: LandingRecord, reach: Reached, resent: Mapping[str, int]) -> Signal:
    cuts, share = record.facts["cuts"], record.facts["share"]
    before = record.facts["probe_before"]
    problems = []
    lost_all = sent_all = 0
    for path in cuts:
        sent = BURST * sum(n >= 0 for n in reach[path])
        lost = sent - sum(n for n in reach[path] if n >= 0)
        lost_all, sent_all = lost_all + lost, sent_all + sent
        if not right_share(lost, sent, share):
            problems.append(f"{path} loses {lost} of {sent}")
        if not _whole(before[path]):
            problems.append(f"{path} lost datagrams before")
    again = sum(resent.values()) - sum(record.facts["resent_before"].values())
    if not again:
        problems.append("no segment was sent again")
    if not right_share(lost_all, sent_all, share):
        problems.append(f"{lost_all} of {sent_all} datagrams lost, {share:.0%} asked for")
    return Signal(
        signal=f"datagrams of {BURST} that arrived (IPv4, IPv6)",
        before={p: before[p] for p in cuts},
        during={p: list(reach[p]) for p in cuts},
        moved=bool(cuts) and not problems,
        detail="; ".join(problems)
        or f"{lost_all} of {sent_all} datagrams lost, {again} segments sent again",
    )


def _control(record: LandingRecord, reach: Reached) -> Signal:
    cuts, before = record.facts["cuts"], record.facts["probe_before"]
    others = [p for p in reach if p not in cuts]
    hit = [p for p in others if not _whole(reach[p])]
    return Signal(
        signal=f"datagrams of {BURST} that arrived on the other paths",
        before={p: before[p] for p in others},
        during={p: list(reach[p]) for p in others},
        moved=bool(hit),
        detail=f"hit as well: {', '.join(hit)}" if hit else "untouched",
    )


def _whole(result: Sequence[int]) -> bool:
    """Does a path with this probe result carry what it should?"""
    return all(n < 0 or n >= ARRIVE_MIN * BURST for n in result)


async def _resent(ctx: NemesisContext) -> dict[str, int]:
    """TCP segments that each node has sent again since it booted."""
    nodes = nodes_of(ctx)
    rows = await asyncio.gather(*(node.call("counters") for node in nodes))
    return {n.name: int(row["Tcp"]["RetransSegs"]) for n, row in zip(nodes, rows, strict=True)}


def _totals(record: LandingRecord, counted: Mapping[str, int]) -> tuple[int, int]:
    """The system's packets that all rules saw, and those that they lost."""
    cuts = record.facts["cuts"]
    seen = sum(counted.get(f"seen_{path}", 0) for path in cuts)
    return seen, sum(counted.get(path, 0) for path in cuts)


def _injector(record: LandingRecord, counted: Mapping[str, int]) -> Signal:
    cuts, share = record.facts["cuts"], record.facts["share"]
    seen, lost = _totals(record, counted)
    used = used_paths(record)
    silent = [path for path in used if not counted.get(path)]
    detail = f"{lost} of {seen} packets lost, {share:.0%} asked for"
    if silent:
        detail += f"; none yet on {', '.join(silent)}"
    return Signal(
        signal="packets lost per rule",
        before=dict.fromkeys(cuts, 0),
        during={path: counted.get(path, 0) for path in cuts},
        moved=bool(used) and not silent and seen >= PACKETS_MIN and right_share(lost, seen, share),
        detail=detail,
    )


NEMESIS = Loss()
