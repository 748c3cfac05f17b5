"""Faults made in a queue: `latency`, `duplicate`, `reorder`, `corrupt`.

Each affected node queues what the others send to it. Where all nodes have a kernel with netem, that
is the queue (netem.py), and its counters are the injector signal. Else it is one in user space, and
a program of ours there lets packets go later, twice or out of order (netqueue.py and its C file).
The injector signal then comes from the program's own counters, compared with those of the rules: a
program that is gone, or a queue with another number, lets all packets pass, and then the rules
count what the program never saw. The record's `how` says which queue it was.
"""

from __future__ import annotations

import asyncio
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Final

import msgspec

from dstest.core.details import PathDetails
from dstest.core.evidence import LandingRecord, Signal
from dstest.core.node import Node
from dstest.core.protocols import NemesisContext, Option, Ticks
from dstest.core.residue import Residue
from nemeses.base.cluster import nodes_of
from nemeses.base.overlap import NEEDS_TRAFFIC
from nemeses.base.path_evidence import Reached, path_name, path_of, token_during, used_paths
from nemeses.base.path_fault import PATH_OPTIONS, STILL_S, CountersAfterRemoval, PathFault
from nemeses.base.schedule import WINDOW_OPTIONS
from nemeses.base.steps import Facts, Observed
from nemeses.network import by_netem
from nemeses.observe import probes
from nemeses.tools import netem, netqueue, nft
from nemeses.tools.compiled import TOOLS
from nemeses.tools.netqueue import QueueSnapshot, Sender

SEEN_MIN: Final = 0.9
"""Of what the rules counted, the program must have seen this much: it may lag by a moment."""

BURST: Final = 100
"""Datagrams per path and family."""

BURST_SPACING_MS: Final = 4
ARRIVE_MIN: Final = 0.95
"""Of a burst on a path without a fault; a busy receiver may miss a few."""


class Queued(PathFault):
    """Base. A fault says what the program shall do, and what counters and probes then show.

    `hook` and `queue` let a test hang the rules where they catch nothing, or queue into the void;
    `netem=False` keeps to our own queue.
    """

    options: Mapping[str, Option] = {**PATH_OPTIONS, **WINDOW_OPTIONS}
    overlap = NEEDS_TRAFFIC
    residues: tuple[Residue, ...] = (nft.RESIDUE, netqueue.RESIDUE, netem.RESIDUE, TOOLS)
    needs: tuple[str, ...] = ("nft", "netem|nfqueue")
    observations = 2
    counter: ClassVar[str]
    """The program's counter that says it was done to a packet."""

    def __init__(
        self, *, hook: str = "INPUT", queue: int = netqueue.QUEUE, netem: bool = True
    ) -> None:
        self.hook, self.queue = hook, queue
        self._netem = netem

    @abstractmethod
    def settings(self, record: LandingRecord) -> dict[str, int]:
        """What the program is told."""

    @abstractmethod
    def doubts(self, record: LandingRecord, done: Mapping[str, Sender]) -> list[str]:
        """What speaks against the injector, from the counters of all paths that are hit."""

    @abstractmethod
    def victim(self, record: LandingRecord, reach: Reached, moved: Mapping[str, int]) -> Signal:
        """What the probes show on the paths that are hit. `moved`: kernel counters since then."""

    @abstractmethod
    def control(self, record: LandingRecord, reach: Reached) -> Signal:
        """What they show on the others."""

    def netem_words(self, record: LandingRecord) -> Mapping[str, Any]:
        """What the kernel's netem is set to, as `tc -j` shows it (`delay.delay` in seconds, shares
        from 0 to 1); empty where it cannot do this as it is meant."""
        return {}

    def netem_doubts(self, record: LandingRecord, done: Mapping[str, Sender]) -> list[str]:
        """What speaks against the injector, from what netem's queues have done."""
        return []

    async def ready(self, ctx: NemesisContext) -> None:
        nodes = nodes_of(ctx)
        able = type(self).netem_words is not Queued.netem_words
        peers = {n.name: next((p.info.address for p in nodes if p is not n), "") for n in nodes}
        self._netem = self._netem and able and await netem.offered(nodes, peers)
        if self._netem:
            await self.clear(nodes)
        else:
            await netqueue.install(self.name, nodes)

    async def clear(self, nodes: Sequence[Node]) -> None:
        await asyncio.gather(*map(netqueue.stop, nodes), *map(netem.clear, nodes))

    def heal_command(self) -> list[str]:
        return ["sh", "-c", netem.OFF] if self._netem else [netqueue.OFF]

    async def before(self, ctx: NemesisContext, record: LandingRecord) -> Facts:
        """The kernel's counters, and whose queue it is."""
        how = "netem" if self._netem else "nfqueue"
        return {"kernel_before": await _kernel(ctx), "how": how}

    async def apply_to(
        self, ctx: NemesisContext, record: LandingRecord, name: str, sources: Sequence[str]
    ) -> None:
        if self._netem:
            words = netem.words_of(self.netem_words(record))
            await netem.start(ctx.node(name), [ctx.node(s).info for s in sources], words)
            return
        texts = netqueue.rules(
            [ctx.node(s).info for s in sources], hook=self.hook, queue=self.queue
        )
        settings = {**self.settings(record), "seed": record.facts["seed"]}
        await netqueue.start(ctx.node(name), texts, settings)

    async def in_force(self, ctx: NemesisContext, record: LandingRecord) -> Mapping[str, str]:
        gone = await self.vanished(ctx, record) or {}
        return {n: "" if n in gone else "stands" for n in PathDetails.of(record).affected}

    async def vanished(
        self, ctx: NemesisContext, record: LandingRecord
    ) -> Mapping[str, str] | None:
        if self._netem:
            return by_netem.vanished(record, await by_netem.snapshots(ctx, record))
        found = {}
        for name, queue in (await _queues(ctx, record)).items():
            if queue.hooked < len(netqueue.FAMILIES) or not queue.counted:
                found[name] = "rules"
            elif not queue.served:
                found[name] = "the program behind the queue"
        return found

    async def remove(self, ctx: NemesisContext, record: LandingRecord) -> CountersAfterRemoval:
        """Rules out, counters read twice, then the program ends and lets go what it holds."""
        nodes = [ctx.node(name) for name in record.facts["affected"]]
        await asyncio.gather(*map(netem.unhook if self._netem else netqueue.unhook, nodes))
        await asyncio.sleep(STILL_S)
        first = await self._done(ctx, record)
        await asyncio.sleep(STILL_S)
        second = await self._done(ctx, record)
        await self.clear(nodes)
        return CountersAfterRemoval(
            {path: row.seen for path, row in first.items()},
            {path: row.seen for path, row in second.items()},
        )

    async def residue(self, node: Node) -> list[str]:
        queue = await netqueue.take_snapshot(node)
        left = await by_netem.left_on(node)
        left += [f"rules of chain {netqueue.CHAIN}"] if queue.hooked or queue.counted else []
        left += [f"process {pid} (netqueue)" for pid in queue.pids]
        return left + (["a bound queue"] if queue.served else [])

    async def ticks(self, ctx: NemesisContext, record: LandingRecord) -> Ticks | None:
        counter = "delayed" if self._netem else self.counter
        what = "through netem" if self._netem else self.counter
        done = await self._done(ctx, record)
        return Ticks(f"packets {what}", sum(getattr(row, counter) for row in done.values()))

    async def observe(self, ctx: NemesisContext, record: LandingRecord) -> Observed:
        reach = await self.probe(ctx, token_during(ctx, record))
        # The counters of rules are read before the program's, so that lagging looks no worse.
        injector, done = await self._injected(ctx, record)
        before = record.facts["kernel_before"]
        moved = {name: n - before[name] for name, n in (await _kernel(ctx)).items()}
        return Observed(
            injector=injector,
            victim=self.victim(record, reach, moved),
            control=self.control(record, reach),
            facts={
                "done": {path: msgspec.to_builtins(row) for path, row in done.items()},
                "kernel_moved": moved,
            },
        )

    async def _injected(
        self, ctx: NemesisContext, record: LandingRecord
    ) -> tuple[Signal, dict[str, Sender]]:
        if self._netem:
            seen = await by_netem.snapshots(ctx, record)
            done = by_netem.by_path(ctx, record, seen)
            doubts, wanted = self.netem_doubts(record, done), self.netem_words(record)
            return by_netem.injector(ctx, record, seen, wanted, doubts), done
        queues = await _queues(ctx, record)
        done = _by_path(ctx, record, queues)
        return self.injector(record, queues, done), done

    async def _done(self, ctx: NemesisContext, record: LandingRecord) -> dict[str, Sender]:
        if self._netem:
            return by_netem.by_path(ctx, record, await by_netem.snapshots(ctx, record))
        return _by_path(ctx, record, await _queues(ctx, record))

    def injector(
        self, record: LandingRecord, queues: Mapping[str, QueueSnapshot], done: Mapping[str, Sender]
    ) -> Signal:
        """What the program did, per path; that all went through it which the rules counted."""
        counts = {path: int(getattr(row, self.counter)) for path, row in done.items()}
        problems = [f"{n}: nobody serves the queue" for n, q in queues.items() if not q.served]
        used = used_paths(record)
        silent = [path for path in used if not counts.get(path)]
        if silent:
            problems.append(f"no packet {self.counter} yet on {', '.join(silent)}")
        for name, queue in queues.items():
            counted = sum(queue.counted.values())
            seen = sum(row.seen + row.probes for row in queue.senders.values())
            if seen < SEEN_MIN * counted:
                problems.append(
                    f"{name}: the rules counted {counted} packets, the program saw {seen}"
                )
        problems += self.doubts(record, done)
        return Signal(
            signal=f"packets {self.counter} per path, by the program in the queue",
            before=dict.fromkeys(counts, 0),
            during=counts,
            moved=bool(used) and not problems,
            detail="; ".join(problems) or f"{sum(counts.values()):,} packets {self.counter}",
        )


async def probe_bursts(ctx: NemesisContext, token: str, *, settle_s: float) -> Reached:
    """Bursts of numbered datagrams on every path: (came, different, late, sent).

    The last of a burst may be under way for `settle_s`.
    """
    found = await probes.arrivals(
        nodes_of(ctx), token, count=BURST, spacing_ms=BURST_SPACING_MS, settle_s=settle_s
    )
    return {path_name(p): (a.came, a.different, a.late, a.sent) for p, a in found.items()}


def burst_control(record: LandingRecord, reach: Reached) -> Signal:
    """Control, from bursts on the paths that are not hit."""
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


async def _queues(ctx: NemesisContext, record: LandingRecord) -> dict[str, QueueSnapshot]:
    names = record.facts["affected"]
    found = await asyncio.gather(*(netqueue.take_snapshot(ctx.node(n)) for n in names))
    return dict(zip(names, found, strict=True))


def _by_path(
    ctx: NemesisContext, record: LandingRecord, queues: Mapping[str, QueueSnapshot]
) -> dict[str, Sender]:
    """What was done per path that is hit, both families together."""
    found = {}
    for path in record.facts["cuts"]:
        source, destination = path_of(path)
        info, senders = ctx.node(source).info, queues[destination].senders
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
