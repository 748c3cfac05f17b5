"""Faults made in a queue in user space: `latency`, `duplicate`, `reorder`, `corrupt`.

Each affected node queues what the others send to it, and a program of ours there lets it go later,
twice or out of order (netqueue.py, csrc/netqueue.c). The injector signal comes from the program's
own counters, compared with those of the rules: a program that is gone, or a queue with another
number, lets all packets pass, and then the rules count what the program never saw.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import msgspec

from dstest.core.evidence import LandingRecord, Signal
from dstest.core.node import Node
from dstest.core.protocols import FaultPlan, NemesisContext, Option
from dstest.core.residue import Residue
from nemeses.base.cluster import nodes_of
from nemeses.base.path_evidence import both_sides, path_name, used_paths
from nemeses.base.path_fault import PATH_OPTIONS, STILL_S, Lifted, PathFault, Reached
from nemeses.base.schedule import WINDOW_OPTIONS
from nemeses.observe import probes
from nemeses.tools import netqueue, nft
from nemeses.tools.compiled import TOOLS
from nemeses.tools.netqueue import Sender, Sight

__all__ = ["ARRIVE_MIN", "BURST", "Burst", "Queued", "sent_once"]

SEEN_MIN: Final = 0.9
"""Of what the rules counted, the program must have seen this much: it may lag by a moment."""

BURST: Final = 100
"""Datagrams per path and family."""

BURST_SPACING_MS: Final = 4
ARRIVE_MIN: Final = 0.95
"""Of a burst on a path without a fault; a busy receiver may miss a few."""


class Queued(PathFault):
    """Base. A fault says what the program shall do, and what counters and probes then show.

    `hook` and `queue` let a test hang the rules where they catch nothing, or queue into the void.
    """

    options: Mapping[str, Option] = {**PATH_OPTIONS, **WINDOW_OPTIONS}
    residues: tuple[Residue, ...] = (nft.RESIDUE, netqueue.RESIDUE, TOOLS)
    looks = 2
    counter: str
    """The program's counter that says it was done to a packet."""

    settle_s = 0.3
    """How long the last datagram of a burst may be under way."""

    def __init__(self, *, hook: str = "INPUT", queue: int = netqueue.QUEUE) -> None:
        self._hook = hook
        self._queue = queue

    def settings(self, record: LandingRecord) -> dict[str, int]:
        """What the program is told."""
        raise NotImplementedError

    def doubts(self, record: LandingRecord, done: Mapping[str, Sender]) -> list[str]:
        """What speaks against the injector, from the counters of all paths that are hit."""
        raise NotImplementedError

    def victim(self, record: LandingRecord, reach: Reached, moved: Mapping[str, int]) -> Signal:
        """What the probes show on the paths that are hit. `moved`: kernel counters since then."""
        raise NotImplementedError

    def control(self, record: LandingRecord, reach: Reached) -> Signal:
        """What they show on the others."""
        raise NotImplementedError

    async def ready(self, ctx: NemesisContext) -> None:
        await netqueue.install(self.name, nodes_of(ctx))

    async def clear(self, nodes: Sequence[Node]) -> None:
        await asyncio.gather(*map(netqueue.stop, nodes))

    def heal_command(self) -> list[str]:
        return [netqueue.OFF]

    async def inject(self, ctx: NemesisContext, plan: FaultPlan) -> LandingRecord:
        """As any fault of paths, with the kernel's counters before."""
        facts = {**plan.facts, "kernel_before": await _kernel(ctx)}
        return await super().inject(ctx, msgspec.structs.replace(plan, facts=facts))

    async def apply(
        self, ctx: NemesisContext, record: LandingRecord, name: str, sources: Sequence[str]
    ) -> None:
        texts = netqueue.rules(
            [ctx.node(s).info for s in sources], hook=self._hook, queue=self._queue
        )
        settings = {**self.settings(record), "seed": record.facts["seed"]}
        await netqueue.start(ctx.node(name), texts, settings)

    async def vanished(self, ctx: NemesisContext, record: LandingRecord) -> dict[str, str]:
        found = {}
        for name, sight in (await _sights(ctx, record)).items():
            if sight.hooked < len(netqueue.FAMILIES) or not sight.counted:
                found[name] = "rules"
            elif not sight.served:
                found[name] = "the program behind the queue"
        return found

    async def lift(self, ctx: NemesisContext, record: LandingRecord) -> Lifted:
        """Rules out, counters read twice, then the program ends and lets go what it holds."""
        nodes = [ctx.node(name) for name in record.facts["affected"]]
        await asyncio.gather(*map(netqueue.unhook, nodes))
        await asyncio.sleep(STILL_S)
        first = await self._done(ctx, record)
        await asyncio.sleep(STILL_S)
        second = await self._done(ctx, record)
        await self.clear(nodes)
        return Lifted(
            {path: row.seen for path, row in first.items()},
            {path: row.seen for path, row in second.items()},
        )

    async def residue(self, node: Node) -> list[str]:
        sight = await netqueue.look(node)
        left = [f"rules of chain {netqueue.CHAIN}"] if sight.hooked or sight.counted else []
        left += [f"process {pid} (netqueue)" for pid in sight.pids]
        return left + (["a bound queue"] if sight.served else [])

    async def evidence(
        self, ctx: NemesisContext, record: LandingRecord, token: str
    ) -> LandingRecord:
        reach = await self.probe(ctx, token)
        # The counters of rules are read before the program's, so that lagging looks no worse.
        sights = await _sights(ctx, record)
        done = _by_path(ctx, record, sights)
        kernel = await _kernel(ctx)
        before = record.facts["kernel_before"]
        moved = {name: n - before[name] for name, n in kernel.items()}
        injector = self.injector(record, sights, done)
        victim, control = self.victim(record, reach, moved), self.control(record, reach)
        facts = {
            **record.facts,
            "done": {path: msgspec.to_builtins(row) for path, row in done.items()},
            "kernel_moved": moved,
        }
        return both_sides(msgspec.structs.replace(record, facts=facts), injector, victim, control)

    async def _done(self, ctx: NemesisContext, record: LandingRecord) -> dict[str, Sender]:
        return _by_path(ctx, record, await _sights(ctx, record))

    def injector(
        self, record: LandingRecord, sights: Mapping[str, Sight], done: Mapping[str, Sender]
    ) -> Signal:
        """What the program did, per path; that all went through it which the rules counted."""
        felt = {path: int(getattr(row, self.counter)) for path, row in done.items()}
        said = [f"{n}: nobody serves the queue" for n, s in sights.items() if not s.served]
        used = used_paths(record)
        silent = [path for path in used if not felt[path]]
        if silent:
            said.append(f"no packet {self.counter} yet on {', '.join(silent)}")
        for name, sight in sights.items():
            counted = sum(sight.counted.values())
            seen = sum(row.seen + row.probes for row in sight.senders.values())
            if seen < SEEN_MIN * counted:
                said.append(f"{name}: the rules counted {counted} packets, the program saw {seen}")
        said += self.doubts(record, done)
        return Signal(
            signal=f"packets {self.counter} per path, by the program in the queue",
            before=dict.fromkeys(felt, 0),
            during=felt,
            moved=bool(used) and not said,
            detail="; ".join(said) or f"{sum(felt.values()):,} packets {self.counter}",
        )


class Burst(Queued):
    """Base of those that show in bursts of numbered datagrams: (came, different, late) per path."""

    async def probe(self, ctx: NemesisContext, token: str) -> Reached:
        found = await probes.arrivals(
            nodes_of(ctx),
            token,
            count=BURST,
            spacing_ms=BURST_SPACING_MS,
            settle_s=self.settle_s,
        )
        return {path_name(p): (a.came, a.different, a.late, a.sent) for p, a in found.items()}

    def unwhole(self, record: LandingRecord, reach: Reached) -> Iterable[str]:
        return [path for path, result in reach.items() if not sent_once(result)]

    def control(self, record: LandingRecord, reach: Reached) -> Signal:
        cuts, before = record.facts["cuts"], record.facts["probe_before"]
        others = [p for p in reach if p not in cuts]
        hit = [p for p in others if not sent_once(reach[p])]
        return Signal(
            signal="datagrams on other paths: came, different, late, sent",
            before={p: before[p] for p in others},
            during={p: list(reach[p]) for p in others},
            moved=bool(hit),
            detail=f"hit as well: {', '.join(hit)}" if hit else "untouched",
        )


def sent_once(result: Sequence[int]) -> bool:
    """(came, different, late, sent) of a path without a fault: all, each once, in order."""
    came, different, late, sent = result
    slack = (1 - ARRIVE_MIN) * sent
    return different >= sent - slack and came == different and late <= slack


async def _sights(ctx: NemesisContext, record: LandingRecord) -> dict[str, Sight]:
    names = record.facts["affected"]
    found = await asyncio.gather(*(netqueue.look(ctx.node(n)) for n in names))
    return dict(zip(names, found, strict=True))


def _by_path(
    ctx: NemesisContext, record: LandingRecord, sights: Mapping[str, Sight]
) -> dict[str, Sender]:
    """What was done per path that is hit, both families together."""
    found = {}
    for path in record.facts["cuts"]:
        source, _, destination = path.partition("->")
        info, senders = ctx.node(source).info, sights[destination].senders
        rows = [senders.get(a or "", Sender()) for a in (info.address, info.address6)]
        found[path] = rows[0].plus(rows[1])
    return found


_KERNEL: Final[Mapping[str, tuple[str, str]]] = {
    "twice_known_to_tcp": ("TcpExt", "TCPDSACKOldSent"),
    "twice_ahead_in_tcp": ("TcpExt", "TCPDSACKOfoSent"),
    "out_of_order_in_tcp": ("TcpExt", "TCPOFOQueue"),
    "tcp_checksum_errors": ("Tcp", "InCsumErrors"),
    "tcp_resent": ("Tcp", "RetransSegs"),
}


async def _kernel(ctx: NemesisContext) -> dict[str, int]:
    """What the kernels of all nodes counted since they booted, summed."""
    rows = await asyncio.gather(*(node.call("counters") for node in nodes_of(ctx)))
    return {
        name: sum(int(row[group].get(key, 0)) for row in rows)
        for name, (group, key) in _KERNEL.items()
    }
