"""`bandwidth`: what a node sends has to fit through a narrow pipe.

Injector signal: packets that the cap made wait. Victim signal: a bulk transfer from the node is at
most a fifth faster than the cap, and was three times as fast before. Control: a transfer between
two other nodes is as fast as ever, and our own connections pass beside the cap. It has healed when
the queue is gone and a transfer is fast again.

Catalogue: N09.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Mapping, Sequence
from typing import Any, Final

from dstest.core.errors import ConfigError
from dstest.core.evidence import LandingRecord, Signal
from dstest.core.node import Node
from dstest.core.protocols import NemesisContext, Option, Process
from dstest.core.residue import Residue
from nemeses.base.driver import Facts, Healing, Observed, Proven
from nemeses.base.process_fault import ProcessFault
from nemeses.base.schedule import check_range
from nemeses.observe.servers import health_of
from nemeses.tools.netem import (
    SHAPER_RESIDUE,
    Shape,
    bulk_kbit,
    cap_rules,
    device_of,
    heal_command,
    shape_of,
)

ABOVE_MAX: Final = 1.2
BEFORE_MIN: Final = 3.0
BASELINE_S: Final = 0.5

Pair = tuple[str, str]


class Bandwidth(ProcessFault):
    """The `bandwidth` nemesis."""

    name = "bandwidth"
    taxdc = "timing"
    doc = "caps what nodes can send, our own connections excepted"
    faults: tuple[str, ...] = ("N09",)
    spares_servers = True
    residues: tuple[Residue, ...] = (SHAPER_RESIDUE,)
    needs: tuple[str, ...] = ("tc-htb",)
    members_least: int = 2
    options: Mapping[str, Option] = {
        "kbit": Option(
            type=int,
            default=1000,
            least=1,
            most=10_000_000,
            help="cap in kbit/s for all that a node sends",
        ),
        **ProcessFault.options,
    }

    def check_options(self, options: Mapping[str, Any], nodes: Sequence[str]) -> None:
        check_range(options, "kbit", 100, 20_000)
        if len(nodes) < self.members_least:
            raise ConfigError(
                f"--nemesis {self.name} with {len(nodes)} member: no transfer between two shows it",
                remedy="more members, or another --nemesis",
            )

    def draw_params(self, rng: random.Random, options: Mapping[str, Any]) -> Facts:
        return {"kbit": options["kbit"]}

    def rules(self, device: str, ctx: NemesisContext, record: LandingRecord) -> str:
        """What `tc` is told; a test sabotages it."""
        return cap_rules(device, ctx.lab, record.facts["kbit"])

    async def before(self, ctx: NemesisContext, record: LandingRecord) -> Facts:
        packets = await _sent(ctx, record.targets)
        devices = {n: await device_of(ctx.node(n), ctx.lab.control) for n in record.targets}
        bulk = await _bulks(ctx, _pairs(ctx, record), record.facts["kbit"])
        return {"devices": devices, "bulk_before_kbit": bulk, "baseline_packets": packets}

    async def apply(self, ctx: NemesisContext, record: LandingRecord) -> None:
        async def cap(name: str) -> None:
            rules = self.rules(record.facts["devices"][name], ctx, record)
            await ctx.node(name).run(["tc", "-batch", "-"], stdin=rules, timeout_s=5.0)

        await asyncio.gather(*map(cap, record.targets))

    async def revert(self, ctx: NemesisContext, record: LandingRecord) -> None:
        async def free(name: str) -> None:
            device = await device_of(ctx.node(name), ctx.lab.control)
            await ctx.node(name).run(heal_command(device), timeout_s=5.0, check=False)

        await asyncio.gather(*map(free, record.targets))

    def heal_commands(
        self, ctx: NemesisContext, record: LandingRecord, name: str
    ) -> list[list[str]]:
        return [heal_command(record.facts["devices"][name])]

    def patience_s(self, record: LandingRecord) -> float:
        """Transfers through the cap take their time."""
        return 15.0

    async def observe(self, ctx: NemesisContext, record: LandingRecord) -> Observed:
        facts = record.facts
        bulk = await _bulks(ctx, _pairs(ctx, record), facts["kbit"])
        found = await asyncio.gather(
            *(shape_of(ctx.node(n), facts["devices"][n]) for n in record.targets)
        )
        shapes = dict(zip(record.targets, found, strict=True))
        return Observed(
            injector=_injector(record, shapes),
            victim=_victim(record, bulk),
            control=_control(record, bulk),
        )

    async def in_force(self, ctx: NemesisContext, record: LandingRecord) -> Mapping[str, str]:
        devices = record.facts["devices"]
        found = await asyncio.gather(*(shape_of(ctx.node(n), devices[n]) for n in record.targets))
        rates = [shape.rate_kbit if shape is not None else 0 for shape in found]
        stands = ["stands" if rate == record.facts["kbit"] else "" for rate in rates]
        return dict(zip(record.targets, stands, strict=True))

    async def prove(self, ctx: NemesisContext, record: LandingRecord, healing: Healing) -> Proven:
        """No cap, a fast transfer, and the servers serve."""
        missing: list[str] = []
        left: dict[str, int] = {}
        for name in record.targets:
            shape = await shape_of(ctx.node(name), record.facts["devices"][name])
            left[name] = 0 if shape is None else 1
            missing += [f"{name}: its cap is still there"] if shape else []
        kbit = record.facts["kbit"]
        pairs = [pair for pair in _pairs(ctx, record) if pair[0] in record.targets]
        bulk = await _bulks(ctx, pairs, kbit)
        missing += [f"slow {p}: {v} kbit/s" for p, v in bulk.items() if v < BEFORE_MIN * kbit]
        healthy = await health_of(ctx)
        missing += [f"{n} does not serve" for n in ctx.nodes if not healthy.get(n)]
        return Proven(missing, left, bulk)

    async def extra_leaks(
        self, ctx: NemesisContext, node: Node, now: Sequence[Process]
    ) -> list[str]:
        """A cap that still stands."""
        device = await device_of(node, ctx.lab.control)
        return [f"a cap on {device}"] if await shape_of(node, device) else []


async def _sent(ctx: NemesisContext, names: Sequence[str]) -> dict[str, int]:
    """Packets that each node sends in half a second of load."""

    async def read() -> list[int]:
        rows = await asyncio.gather(*(ctx.node(n).call("counters") for n in names))
        return [int(row["Ip"]["OutRequests"]) for row in rows]

    earlier = await read()
    await asyncio.sleep(BASELINE_S)
    return {n: b - a for n, a, b in zip(names, earlier, await read(), strict=True)}


def _pairs(ctx: NemesisContext, record: LandingRecord) -> list[Pair]:
    """Transfers to make: from each target to another node, and between two that are none."""
    names = list(ctx.nodes)
    free = [n for n in names if n not in record.targets]
    pairs = [(t, next(n for n in [*free, *names] if n != t)) for t in record.targets]
    return pairs + ([(free[-1], free[0])] if len(free) > 1 else [])


async def _bulks(ctx: NemesisContext, pairs: Sequence[Pair], kbit: int) -> dict[str, float]:
    """`source->destination` -> kbit/s; 0 where nothing arrived."""
    found = await asyncio.gather(
        *(bulk_kbit(ctx.node(a), ctx.node(b), kbit, lane=lane) for lane, (a, b) in enumerate(pairs))
    )
    return {f"{a}->{b}": round(v or 0.0, 1) for (a, b), v in zip(pairs, found, strict=True)}


def _of_targets(record: LandingRecord, bulk: Mapping[str, float]) -> dict[str, float]:
    return {p: v for p, v in bulk.items() if p.partition("->")[0] in record.targets}


def _injector(record: LandingRecord, shapes: Mapping[str, Shape | None]) -> Signal:
    kbit = record.facts["kbit"]
    problems = []
    for name, shape in shapes.items():
        if shape is None:
            problems.append(f"{name}: no cap")
        elif shape.rate_kbit != kbit:
            problems.append(f"{name}: the cap is {shape.rate_kbit} kbit/s, {kbit} asked for")
        elif shape.overlimits == 0:
            problems.append(f"{name}: nothing had to wait yet")
    waited = {n: s.overlimits if s else 0 for n, s in shapes.items()}
    return Signal(
        signal="times that packets had to wait for the cap",
        before=dict.fromkeys(record.targets, 0),
        during=waited,
        moved=bool(record.targets) and not problems,
        detail="; ".join(problems) or f"packets waited {sum(waited.values()):,} times for the cap",
    )


def _victim(record: LandingRecord, bulk: Mapping[str, float]) -> Signal:
    kbit = record.facts["kbit"]
    before: dict[str, float] = record.facts["bulk_before_kbit"]
    now = _of_targets(record, bulk)
    problems = []
    for path, value in now.items():
        if value == 0:
            problems.append(f"no transfer gets through on {path}")
        elif value > ABOVE_MAX * kbit:
            problems.append(f"{path} carries {value:,.0f} kbit/s, {kbit} asked for")
        if before.get(path, 0) < BEFORE_MIN * kbit:
            problems.append(f"{path} was slow before: {before.get(path, 0):,.0f} kbit/s")
    return Signal(
        signal="kbit/s that a transfer from the node gets through",
        before={p: before.get(p, 0) for p in now},
        during=now,
        moved=bool(now) and not problems,
        detail="; ".join(problems)
        or ", ".join(f"{p} carries {v:,.0f} of {before[p]:,.0f} kbit/s" for p, v in now.items()),
    )


def _control(record: LandingRecord, bulk: Mapping[str, float]) -> Signal:
    kbit = record.facts["kbit"]
    before: dict[str, float] = record.facts["bulk_before_kbit"]
    mine = _of_targets(record, bulk)
    others = {p: v for p, v in bulk.items() if p not in mine}
    slow = [f"{p} ({v:,.0f} kbit/s)" for p, v in others.items() if v < BEFORE_MIN * kbit]
    return Signal(
        signal="kbit/s of a transfer between two other nodes",
        before={p: before.get(p, 0) for p in others},
        during=others,
        moved=bool(slow),
        detail=f"hit as well: {', '.join(slow)}"
        if slow
        else ("untouched" if others else "no two nodes were left out"),
    )


NEMESIS = Bandwidth()
