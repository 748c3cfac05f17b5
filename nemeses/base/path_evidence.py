"""Did the partition happen? Counters of the drop rules, directed probes, the leader's term.

A path is *used* where the system says so (`Linked`) or where it carried packets just before. Every
used path must show in the counters, and at least one is used; the others, `idle_paths` of the
record, rest on probes alone. Probe results are keyed by `"source->destination"`, as the drop rules
are.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from dstest.core.details import LeadDetails, PathDetails
from dstest.core.evidence import Landed, LandingRecord, Signal
from dstest.core.protocols import Linked, NemesisContext
from nemeses.base.cluster import nodes_of
from nemeses.base.cut_sets import Path
from nemeses.base.landing import landed
from nemeses.base.leadership import moved, unmoved
from nemeses.base.steps import Observed
from nemeses.observe import probes
from nemeses.observe.relations import links_of
from nemeses.tools import nft

NO_TALK: Final = (
    "where only some members talk, as followers with their leader, `links()` of the system's"
    " deployment says which"
)

Reached = Mapping[str, tuple[int, ...]]
"""`source->destination` -> what a probe found there; what the figures mean is the fault's."""

POLL_S: Final = 0.1


def path_name(path: Path) -> str:
    """`n1->n2`."""
    return f"{path[0]}->{path[1]}"


def path_of(name: str) -> Path:
    """The path that is called `n1->n2`."""
    source, _, destination = name.partition("->")
    return source, destination


def alive(result: tuple[int, ...]) -> bool:
    """Something arrived over every family that the path has."""
    return result[0] > 0 and result[1] != 0


def _dead(result: tuple[int, int]) -> bool:
    return result[0] == 0 and result[1] <= 0


def landed_on_used_paths(record: LandingRecord) -> Landed:
    """As any fault; `yes` needs paths that were in use before, too."""
    before, used = PathDetails.of(record).baseline_packets or {}, used_paths(record)
    idle = not used or any(before.get(path, 0) == 0 for path in used)
    found = landed(record)
    return "ambiguous" if found == "yes" and idle else found


def use_of(ctx: NemesisContext, packets: Mapping[Path, int]) -> dict[str, Any]:
    """What a record says of the paths to be cut, each with its packets in the time just before."""
    listed = links_of(ctx, ctx.need(Linked))
    idle = [path for path, n in packets.items() if not n]
    return {
        "cuts": [path_name(path) for path in packets],
        "baseline_packets": {path_name(path): n for path, n in packets.items()},
        "links": None if listed is None else [path_name(path) for path in listed],
        "idle_paths": [path_name(p) for p in idle if listed is not None and p not in listed],
    }


def used_paths(record: LandingRecord) -> list[str]:
    """The paths of a fault whose rules must have counted."""
    paths = PathDetails.of(record)
    return [path for path in paths.cuts or () if path not in paths.idle_paths]


async def accounts(ctx: NemesisContext) -> dict[Path, int]:
    """Packets that each node received from each peer since setup, probes not counted."""
    nodes = nodes_of(ctx)
    found = await asyncio.gather(*(nft.counters(n, nft.ACCOUNT_TABLE) for n in nodes))
    return {
        (name.removeprefix("from_"), node.name): packets
        for node, counts in zip(nodes, found, strict=True)
        for name, packets in (counts or {}).items()
    }


async def packets_before(ctx: NemesisContext, cuts: Sequence[Path]) -> dict[Path, int]:
    """Packets on each path that is about to be cut, until all have moved or time is up.

    A path that nobody uses cannot show a fault.
    """
    earlier = await accounts(ctx)
    deadline_ns = ctx.clock.now_ns() + int(ctx.deployment.timing.keepalive_s * 1e9)
    while True:
        now = await accounts(ctx)
        seen = {path: now.get(path, 0) - earlier.get(path, 0) for path in cuts}
        if all(seen.values()) or ctx.clock.now_ns() > deadline_ns:
            return seen
        await asyncio.sleep(POLL_S)


async def reach_now(ctx: NemesisContext, token: str) -> dict[str, tuple[int, int]]:
    """One probe round over all pairs."""
    found = await probes.probe(nodes_of(ctx), token)
    return {path_name(path): result for path, result in found.items()}


async def dropped(ctx: NemesisContext, record: LandingRecord) -> dict[str, int]:
    """Packets per drop rule; rules of a table that is gone are missing from the result."""
    names = PathDetails.of(record).affected
    found = await asyncio.gather(*(nft.counters(ctx.node(name), nft.FAULT_TABLE) for name in names))
    return {
        f"{counter.removeprefix('cut_')}->{name}": packets
        for name, counts in zip(names, found, strict=True)
        for counter, packets in (counts or {}).items()
    }


def _injector(record: LandingRecord, counted: Mapping[str, int]) -> Signal:
    paths = PathDetails.of(record)
    clients = [f"clients->{t}" for t in record.targets if paths.clients]
    rules, used = [*(paths.cuts or ()), *clients], used_paths(record)
    silent = [rule for rule in (*used, *clients) if counted.get(rule, 0) == 0]
    during = {rule: counted.get(rule, 0) for rule in rules}
    counting = f"every rule of {len(used)} used paths counted"
    if silent:
        counting = f"no packet yet on {', '.join(silent)}"
    before = paths.baseline_packets or {}
    if idle := [path for path in used if not before.get(path)]:
        counting += f"; {', '.join(idle)} carried nothing before it: {NO_TALK}"
    return Signal(
        signal="nft packets dropped per rule",
        before=dict.fromkeys(rules, 0),
        during=during,
        moved=bool(used) and not silent,
        detail=f"{sum(during.values())} packets dropped by {len(rules)} rules ({counting})",
    )


def _victim(record: LandingRecord, reach: Mapping[str, tuple[int, int]]) -> Signal:
    paths = PathDetails.of(record)
    cuts, before = paths.cuts or [], paths.probe_before
    open_still = [p for p in cuts if not (_dead(reach[p]) and alive(tuple(before[p])))]
    return Signal(
        signal="directed probe datagrams that arrived (IPv4, IPv6)",
        before={p: before[p] for p in cuts},
        during={p: list(reach[p]) for p in cuts},
        moved=bool(cuts) and not open_still,
        detail=f"not cut, or not alive before: {', '.join(open_still)}"
        if open_still
        else "no datagram arrives on any cut path",
    )


def _control(record: LandingRecord, reach: Mapping[str, tuple[int, int]]) -> Signal:
    paths = PathDetails.of(record)
    cuts, before = paths.cuts or [], paths.probe_before
    whole = [p for p in reach if p not in cuts]
    lost = [p for p in whole if not alive(reach[p])]
    return Signal(
        signal="directed probe datagrams on paths that were not cut",
        before={p: before[p] for p in whole},
        during={p: list(reach[p]) for p in whole},
        moved=bool(lost),
        detail=f"hit as well: {', '.join(lost)}" if lost else "untouched",
    )


def token_during(ctx: NemesisContext, record: LandingRecord) -> str:
    """A new token for probes while the fault stands."""
    return f"{record.fault_id}-during-{ctx.clock.now_ns()}"


async def evidence(ctx: NemesisContext, record: LandingRecord, token: str) -> Observed:
    """The three signals of a partition as they are now."""
    facts: dict[str, Any] = {}
    lead = LeadDetails.of(record)
    injector = _injector(record, await dropped(ctx, record))
    reach = await reach_now(ctx, token)
    victim, control = _victim(record, reach), _control(record, reach)
    if PathDetails.of(record).shape == "leader" and not lead.moved:
        facts = await moved(ctx, lead, record.targets)
        if not facts:
            detail = f"{victim.detail}; {unmoved(lead)}"
            victim = msgspec.structs.replace(victim, moved=False, detail=detail)
    return Observed(injector=injector, victim=victim, control=control, facts=facts)
