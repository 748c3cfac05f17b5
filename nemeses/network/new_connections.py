"""`new-connections`: nodes can open no connection to one another, while datagrams still arrive.

It is what a full table of a firewall does, or a listener that is out of order: whoever holds a
connection notices nothing, whoever needs a new one fails. With `reset` (the default) connections
that the sources had opened are reset first, so that they need new ones; without it the standing
ones go on, and the fault has landed only where the system itself has tried to open one. Connections
that the destination has opened go on in both cases, and carry data both ways.

Injector signal: the system's own attempts that each rule stopped. Victim signal: connections of our
own that cannot be opened any more on any cut path. Control: on every other path they can, and
datagrams arrive on all paths, the cut ones too. It has healed when the rules are gone, their
counters stand still and connections can be opened on every path.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import msgspec

from dstest.core.evidence import LandingRecord, Signal
from dstest.core.protocols import NemesisContext, Option
from nemeses.base.driver import NEEDS_TRAFFIC, Facts, Observed, nodes_of, with_facts
from nemeses.base.paths import Reached, drops, path_name, token_during, used_paths
from nemeses.network.rules import RULE_OPTIONS, RuleFault, draw_action
from nemeses.observe import probes
from nemeses.tools import nft

OPEN_S: Final = 0.5
"""An attempt that is not answered by then has failed; the first SYN is repeated after a second."""

LANDING_S: Final = 10.0
"""A system may wait a while before it opens a connection anew."""


class Openings(RuleFault):
    """The `new-connections` nemesis. What a probe finds on a path are connections that were opened
    over IPv4 and over IPv6, then datagrams that arrived over each."""

    name = "new-connections"
    taxdc = "partition"
    doc = "lets nodes open no connection to one another; resets those that stand, or lets them be"
    faults: tuple[str, ...] = ()
    overlap = msgspec.structs.replace(NEEDS_TRAFFIC, may_lose_leader=True)
    options: Mapping[str, Option] = {
        "reset": Option(
            type=bool,
            default=True,
            help="reset standing connections; without it the system has to open one by itself",
        ),
        **RULE_OPTIONS,
    }

    def draw_params(self, rng: random.Random, options: Mapping[str, Any]) -> Facts:
        """As for a partition, and whether standing connections are reset."""
        drawn = draw_action(rng, options, clients=False)
        return {**drawn, "reset": bool(options["reset"])}

    def rules(
        self, ctx: NemesisContext, record: LandingRecord, name: str, sources: Sequence[str]
    ) -> str:
        infos = [ctx.node(source).info for source in sources]
        facts = record.facts
        return nft.opening_rules(infos, ctx.lab, facts["action"], facts["reset"], hook=self.hook)

    async def probe(self, ctx: NemesisContext, token: str) -> Reached:
        nodes = nodes_of(ctx)
        opened, arrived = await asyncio.gather(
            probes.connects(nodes, wait_s=OPEN_S), probes.probe(nodes, token)
        )
        return {path_name(path): (*opened[path], *arrived[path]) for path in opened}

    def impaired_paths(self, record: LandingRecord, reach: Reached) -> Iterable[str]:
        return [path for path, result in reach.items() if 0 in result]

    def usual_patience_s(self, ctx: NemesisContext, record: LandingRecord) -> float:
        return LANDING_S

    async def observe(self, ctx: NemesisContext, record: LandingRecord) -> Observed:
        token = token_during(ctx, record)
        return signals_of(record, *await asyncio.gather(drops(ctx, record), self.probe(ctx, token)))


def signals_of(record: LandingRecord, counted: Mapping[str, int], reach: Reached) -> Observed:
    """The signals, from what the rules counted and what the probes found."""
    cuts = record.facts["cuts"]
    stood = {what: {p: counted.get(f"{what}_{p}", 0) for p in cuts} for what in ("reset", "kept")}
    record = with_facts(record, {"stood": stood})
    return Observed(
        injector=_injector(record, counted),
        victim=_victim(record, reach),
        control=_control(record, reach),
        facts={"stood": stood},
    )


def _injector(record: LandingRecord, counted: Mapping[str, int]) -> Signal:
    cuts = record.facts["cuts"]
    reset, kept = (sum(record.facts["stood"][what].values()) for what in ("reset", "kept"))
    tried = {path: counted.get(path, 0) for path in cuts}
    used = used_paths(record)
    silent = [path for path in used if not tried[path]]
    return Signal(
        signal="connections of the system that could not be opened, attempts per rule",
        before=dict.fromkeys(cuts, 0),
        during=tried,
        moved=bool(used) and not silent,
        detail=f"nobody has tried yet on {', '.join(silent)}"
        if silent
        else f"{sum(tried.values())} attempts stopped; of standing connections {reset} packets "
        f"were answered with a reset, {kept} let pass",
    )


def _victim(record: LandingRecord, reach: Reached) -> Signal:
    cuts, before = record.facts["cuts"], record.facts["probe_before"]
    problems = [f"{p} can be opened" for p in cuts if max(reach[p][:2]) > 0]
    problems += [f"{p} could not be opened before" for p in cuts if 0 in before[p][:2]]
    return Signal(
        signal="connections of our own that were opened (IPv4, IPv6)",
        before={p: list(before[p][:2]) for p in cuts},
        during={p: list(reach[p][:2]) for p in cuts},
        moved=bool(cuts) and not problems,
        detail="; ".join(problems) or "none can be opened on any cut path",
    )


def _control(record: LandingRecord, reach: Reached) -> Signal:
    cuts, before = record.facts["cuts"], record.facts["probe_before"]
    hit = [p for p in reach if p not in cuts and 0 in reach[p][:2]]
    lost = [p for p in reach if 0 in reach[p][2:]]
    problems = [f"cannot be opened either: {', '.join(hit)}"] if hit else []
    problems += [f"datagrams are lost: {', '.join(lost)}"] if lost else []
    return Signal(
        signal="connections opened on the other paths, datagrams that arrived on all (IPv4, IPv6)",
        before={p: list(before[p]) for p in reach},
        during={p: list(reach[p]) for p in reach},
        moved=bool(problems),
        detail="; ".join(problems) or "untouched",
    )


NEMESIS = Openings()
