"""Who may not hear whom: the shapes of a partition as sets of cut paths; and whether it happened,
by counters of the drop rules, directed probes and the leader's term.

A path `(source, destination)` is cut where the destination drops what the source sends. Shapes are
named as in Jepsen's nemesis; the N numbers are those of the fault catalogue.

    halves            N05  the smaller half and the larger half (holding the majority) part
    one               N10  one node alone
    majority          N11  each node of a majority alone: nobody has a quorum
    majorities-ring        every node sees a majority, no two see the same one
    bridge                 two halves that only one node can talk to
    leader            N12  the current leader alone

One-way forms (N06) cut only what goes `in` to the targets, or only what comes `out` of them. Paths
that the user names one by one are of the shape `paths`; `paths_in` reads them.

A path is *used* where the system says so (`Linked`) or where it carried packets just before. Every
used path must show in the counters, and at least one is used; the others, `idle_paths` of the
record, rest on probes alone. Probe results are keyed by `"source->destination"`, as the drop rules
are.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal, NamedTuple

import msgspec

from dstest.core.evidence import Landed, LandingRecord, LeadDetails, PathDetails, Signal
from dstest.core.protocols import Linked, NemesisContext
from nemeses.base.driver import Observed, landing, nodes_of
from nemeses.base.leadership import new_lead, no_failover
from nemeses.observe import probes
from nemeses.observe.probes import Path
from nemeses.observe.servers import links_of
from nemeses.tools import nft

__all__ = [
    "DIRECTIONS",
    "SHAPES",
    "TARGETED",
    "CutSet",
    "Direction",
    "Path",
    "cuts_for",
    "paths_in",
]

Direction = Literal["both", "in", "out"]

SHAPES: Final = ("halves", "one", "majority", "majorities-ring", "bridge", "leader")
TARGETED: Final = ("one", "halves", "majority")
"""Of them those whose targets can be named."""

DIRECTIONS: Final[tuple[Direction, ...]] = ("both", "in", "out")

NO_TALK: Final = (
    "where only some members talk, as followers with their leader, `links()` of the system's"
    " deployment says which"
)

Reached = Mapping[str, tuple[int, ...]]
"""`source->destination` -> what a probe found there; what the figures mean is the fault's."""

POLL_S: Final = 0.1


class CutSet(NamedTuple):
    """`cuts` are the paths to cut; `targets` the nodes that the fault is about."""

    targets: list[str]
    cuts: list[Path]


def _between(targets: Sequence[str], others: Sequence[str], direction: Direction) -> list[Path]:
    into = [(o, t) for t in targets for o in others] if direction != "out" else []
    out_of = [(t, o) for t in targets for o in others] if direction != "in" else []
    return into + out_of


def _groups(groups: Sequence[Sequence[str]]) -> list[Path]:
    """All paths between different groups."""
    return [(a, b) for g in groups for h in groups if g is not h for a in g for b in h]


def _ring(order: Sequence[str]) -> list[Path]:
    n = len(order)
    reach = n // 2 // 2 + (n // 2) % 2
    return [
        (order[i], order[j])
        for i in range(n)
        for j in range(n)
        if i != j and min((i - j) % n, (j - i) % n) > reach
    ]


def paths_in(text: str, nodes: Sequence[str]) -> list[Path]:
    """The paths of `n1->n2,n3->n4`; `:` is as good as `->`, which a shell wants quoted.

    Raises ValueError for what is no path between two of the nodes.
    """
    found = []
    for part in filter(None, (p.strip() for p in text.split(","))):
        source, arrow, destination = part.replace("->", ":").partition(":")
        path = (source.strip(), destination.strip())
        if not arrow or path[0] == path[1] or not set(path) <= set(nodes):
            raise ValueError(f"{part!r} is no path between two of {', '.join(nodes)}")
        found.append(path)
    return list(dict.fromkeys(found))


def cuts_for(
    shape: str,
    direction: Direction,
    nodes: Sequence[str],
    rng: random.Random,
    *,
    leader: str | None = None,
    targets: Sequence[str] = (),
) -> CutSet:
    """The cut paths of a shape over `nodes` (at least three).

    `leader` is needed for the shape of that name. `targets`, where given, are taken instead of a
    random choice for those of `TARGETED`. Raises ValueError where a shape cannot be made.
    """
    order = list(nodes)
    rng.shuffle(order)
    n = len(order)
    if n < 3:
        raise ValueError(f"a partition needs at least three nodes, not {n}")
    small = n - (n // 2 + 1)
    if targets and shape in TARGETED:
        chosen = list(targets)
    elif shape == "leader":
        if leader is None:
            raise ValueError("no leader is known")
        chosen = [leader]
    elif shape == "one":
        chosen = order[:1]
    elif shape == "halves":
        chosen = order[:small]
    elif shape == "majority":
        chosen = order[: n // 2 + 1]
    elif shape in ("majorities-ring", "bridge"):
        chosen = order
    else:
        raise ValueError(f"unknown shape {shape!r}; one of {', '.join(SHAPES)}")
    others = [name for name in order if name not in chosen]
    if shape == "majority":
        rest = {a: [b for b in order if b != a] for a in chosen}
        one_way = [path for a in chosen for path in _between([a], rest[a], direction)]
        cuts = _groups([others, *([a] for a in chosen)]) if direction == "both" else one_way
        return CutSet(chosen, list(dict.fromkeys(cuts)))
    if shape == "majorities-ring":
        ring = _ring(order)
        if not ring:
            raise ValueError(f"a majorities-ring needs more than {n} nodes")
        return CutSet(order, ring)
    if shape == "bridge":
        left, right = order[:small], order[small + 1 :]
        return CutSet(order, _between(left, right, direction))
    return CutSet(chosen, _between(chosen, others, direction))


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
    found = landing(record)
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


async def drops(ctx: NemesisContext, record: LandingRecord) -> dict[str, int]:
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
    injector = _injector(record, await drops(ctx, record))
    reach = await reach_now(ctx, token)
    victim, control = _victim(record, reach), _control(record, reach)
    if PathDetails.of(record).shape == "leader" and not lead.moved:
        facts = await new_lead(ctx, lead, record.targets)
        if not facts:
            detail = f"{victim.detail}; {no_failover(lead)}"
            victim = msgspec.structs.replace(victim, moved=False, detail=detail)
    return Observed(injector=injector, victim=victim, control=control, facts=facts)
