"""Faults made in a queue: `latency`, `duplicate`, `reorder`, `corrupt`.

Each affected node queues what the others send to it. Where all nodes have a kernel with netem, that
is the queue (netem.py), and its counters are the injector signal. Else it is one in user space, and
a program of ours there lets packets go later, twice or out of order (netqueue.py and its C file).
The injector signal then comes from the program's own counters, compared with those of the rules: a
program that is gone, or a queue with another number, lets all packets pass, and then the rules
count what the program never saw. The record's `how` says which queue it was. The kernel says what
passed through a queue and how that queue is set, not what became of a single packet (but for those
that left it twice); the victim signal shows the rest, as it always does.
"""

from __future__ import annotations

import asyncio
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Final

import msgspec

from dstest.core.evidence import LandingRecord, PathDetails, Signal
from dstest.core.node import Node
from dstest.core.protocols import NemesisContext, Option, Ticks
from dstest.core.residue import Residue
from nemeses.base.driver import NEEDS_TRAFFIC, Facts, Observed, nodes_of
from nemeses.base.path_fault import PATH_OPTIONS, STILL_S, CountersAfterRemoval, PathFault
from nemeses.base.paths import Reached, path_name, path_of, token_during, used_paths
from nemeses.base.schedule import WINDOW_OPTIONS
from nemeses.observe import probes
from nemeses.tools import netem, netqueue, nft
from nemeses.tools.compiled import TOOLS
from nemeses.tools.netem import NetemSnapshot
from nemeses.tools.netqueue import QueueSnapshot, Sender


async def snapshots(ctx: NemesisContext, record: LandingRecord) -> dict[str, NetemSnapshot]:
    """Of each affected node."""
    names = record.facts["affected"]
    found = await asyncio.gather(*(netem.take_snapshot(ctx.node(n)) for n in names))
    return dict(zip(names, found, strict=True))


def _rows(
    ctx: NemesisContext, path: str, seen: Mapping[str, NetemSnapshot]
) -> list[tuple[Sender, Mapping[str, Any]]]:
    source, destination = path_of(path)
    info, snapshot = ctx.node(source).info, seen[destination]
    addresses = [a for a in (info.address, info.address6) if a]
    return [(snapshot.senders.get(a, Sender()), snapshot.words.get(a, {})) for a in addresses]


def by_path(
    ctx: NemesisContext, record: LandingRecord, seen: Mapping[str, NetemSnapshot]
) -> dict[str, Sender]:
    """What was done per path that is hit, both families together."""
    found = {}
    for path in record.facts["cuts"]:
        total = Sender()
        for row, _ in _rows(ctx, path, seen):
            total = total.plus(row)
        found[path] = total
    return found


def missing_rules(record: LandingRecord, seen: Mapping[str, NetemSnapshot]) -> dict[str, str]:
    """Nodes on which less stands than was laid."""
    found = {}
    for name, snapshot in seen.items():
        if not snapshot.filters:
            found[name] = "filters"
        elif not all(snapshot.words.values()):
            found[name] = "a queue"
    return found


async def left_on(node: Node) -> list[str]:
    """What is left of such a fault on a node."""
    found = await node.run(["sh", "-c", netem.RESIDUE.look], timeout_s=5.0, check=False)
    return [line.removeprefix("ours ") for line in found.stdout.splitlines()]


def injector(
    ctx: NemesisContext,
    record: LandingRecord,
    seen: Mapping[str, NetemSnapshot],
    wanted: Mapping[str, Any],
    doubts: Sequence[str],
) -> Signal:
    """Packets of the system that left the queue of each path; it is set as it was asked for."""
    done = by_path(ctx, record, seen)
    counts = {path: row.delayed for path, row in done.items()}
    used = used_paths(record)
    problems = [f"{n}: {what} missing" for n, what in missing_rules(record, seen).items()]
    silent = [path for path in used if not counts.get(path)]
    if silent:
        problems.append(f"no packet through netem yet on {', '.join(silent)}")
    for path in record.facts["cuts"]:
        for _, words in _rows(ctx, path, seen):
            if odd := _differ(words, wanted):
                problems.append(f"{path}: netem is set to {odd}")
    problems += doubts
    return Signal(
        signal="packets per path that left the kernel's netem queue",
        before=dict.fromkeys(counts, 0),
        during=counts,
        moved=bool(used) and not problems,
        detail="; ".join(problems) or f"{sum(counts.values()):,} packets through netem",
    )


def _differ(words: Mapping[str, Any], wanted: Mapping[str, Any]) -> str:
    """How what is set differs from what was asked for; the kernel keeps shares in 32 bits."""
    for name, value in wanted.items():
        node: Any = words
        for part in name.split("."):
            node = node.get(part, {}) if isinstance(node, Mapping) else {}
        if not isinstance(node, int | float) or abs(node - value) > max(1e-3 * value, 1e-6):
            return f"{name}={node or 'nothing'}, not {value:g}"
    return ""


SEEN_MIN: Final = 0.9
"""Of what the rules counted, the program must have seen this much: it may lag by a moment."""

BURST: Final = 100
"""Datagrams per path and family."""

BURST_SPACING_MS: Final = 4
ARRIVE_MIN: Final = 0.95
"""Of a burst on a path without a fault; a busy receiver may miss a few."""


class QueueFault(PathFault):
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
        able = type(self).netem_words is not QueueFault.netem_words
        peers = {n.name: next((p.info.address for p in nodes if p is not n), "") for n in nodes}
        self._netem = self._netem and able and await netem.is_supported(nodes, peers)
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
            return missing_rules(record, await snapshots(ctx, record))
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
        left = await left_on(node)
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
            seen = await snapshots(ctx, record)
            done = by_path(ctx, record, seen)
            doubts, wanted = self.netem_doubts(record, done), self.netem_words(record)
            return injector(ctx, record, seen, wanted, doubts), done
        queues = await _queues(ctx, record)
        done = _by_path(ctx, record, queues)
        return self.injector(record, queues, done), done

    async def _done(self, ctx: NemesisContext, record: LandingRecord) -> dict[str, Sender]:
        if self._netem:
            return by_path(ctx, record, await snapshots(ctx, record))
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
