"""`clock`: server processes whose clock is wrong, by an offset or a rate, one process at a time.

Nodes that share a kernel share its clock, so nothing is set: what the vDSO answers to the server
process is shifted. The host, other processes and other nodes keep the right time.

Injector signal: the shift in force, read back from the process, and how often it has read the
shifted clock since. Victim signal: the time in the server's own answers, minus ours. Control: the
other servers and another process on each node tell the right time. It has healed when the vDSO is
as the kernel made it and the server tells the right time again. A rate is proven by its slope over
half a minute, a strobe by answers that tell now one time, now the other.

Catalogue: N23 (offset), N24 (rate).
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from dstest.core import clock
from dstest.core.errors import ConfigError, LabError
from dstest.core.evidence import Landed, LandingRecord, Signal
from dstest.core.node import Node
from dstest.core.protocols import FaultPlan, NemesisContext, Option
from nemeses.clock_tool import TOOL, Patch, build, command, shift
from nemeses.cluster import nodes_of
from nemeses.process import ProcessFault, Proven
from nemeses.process_evidence import demote
from nemeses.process_sight import Sight
from nemeses.service_clock import Skew, Strobe, skew_of, strobe_of

__all__ = ["NEMESIS", "Clock"]

OFFSETS_S: Final = (30.0, -5.0, 300.0, -90.0)
SKEW_MIN_S: Final = 1.0
TOLERANCE: Final = 0.1
TOLERANCE_MIN_S: Final = 0.3
RATE_WINDOW_S: Final = 30.0
"""A rate is told from noise by its slope over at least this long."""

RATE_MIN: Final = 0.02
STROBE_MIN_MS: Final = 20
STROBE_JUMPS_MIN: Final = 2


def _tolerance_s(expected_s: float) -> float:
    return max(TOLERANCE * abs(expected_s), TOLERANCE_MIN_S)


class Clock(ProcessFault):
    """The `clock` nemesis."""

    name = "clock"
    doc = "shifts the clock of server processes by an offset or a rate, and nobody else's"
    faults: tuple[str, ...] = ("N23", "N24")
    options: Mapping[str, Option] = {
        "skew_s": Option(
            type=float, default=0.0, help="offset in seconds; 0 = drawn, or none with a rate"
        ),
        "rate": Option(
            type=float, default=1.0, help="speed of the clock; needs fault_s of 32 or more"
        ),
        "strobe_ms": Option(
            type=int, default=0, help="the offset comes and goes at this pace; 0 = it stays"
        ),
        "monotonic": Option(type=bool, default=False, help="shift CLOCK_MONOTONIC as well"),
        **ProcessFault.options,
    }

    def plan(
        self,
        rng: random.Random,
        nodes: Sequence[str],
        time_limit_s: float,
        options: Mapping[str, Any],
    ) -> list[FaultPlan]:
        """As for any process fault, each with its offset and rate."""
        skew_s, rate = float(options["skew_s"]), float(options["rate"])
        if skew_s and abs(skew_s) < SKEW_MIN_S:
            raise ConfigError(f"-o skew_s={skew_s:g}: at least a second, to be told from noise")
        if rate != 1.0 and not RATE_MIN <= abs(rate - 1.0) <= 1.0:
            raise ConfigError(f"-o rate={rate:g}: from 0 to 2, and 0.02 or more away from 1")
        strobe_ms = int(options["strobe_ms"])
        if strobe_ms and (rate != 1.0 or strobe_ms < STROBE_MIN_MS or 0 < abs(skew_s) < 5):
            raise ConfigError(
                f"-o strobe_ms={strobe_ms}: {STROBE_MIN_MS} or more, with an offset of 5 s or more"
                " and no rate"
            )
        if rate != 1.0 and options["fault_s"] < RATE_WINDOW_S + 2:
            raise ConfigError(
                f"-o rate={rate:g}: its slope shows in faults of half a minute only",
                remedy=f"-o fault_s={RATE_WINDOW_S + 2:g} and a longer --time-limit",
            )
        plans = []
        for plan in super().plan(rng, nodes, time_limit_s, options):
            drawn = rng.choice(OFFSETS_S) if rate == 1.0 else 0.0
            facts = {
                **plan.facts,
                "skew_s": skew_s or drawn,
                "rate": rate,
                "strobe_ms": strobe_ms,
                "monotonic": bool(options["monotonic"]),
            }
            plans.append(msgspec.structs.replace(plan, facts=facts))
        return plans

    async def setup(self, ctx: NemesisContext) -> None:
        """Put the program on the nodes."""
        await super().setup(ctx)
        data = await build()
        await asyncio.gather(*(node.put(TOOL, data, mode=0o755) for node in nodes_of(ctx)))

    async def apply(self, ctx: NemesisContext, record: LandingRecord) -> None:
        facts = record.facts
        words = [
            "set",
            round(facts["skew_s"] * 1e9),
            round((facts["rate"] - 1.0) * 1e6),
            int(facts["monotonic"]),
            facts["strobe_ms"] * 1_000_000,
        ]
        await asyncio.gather(*(_ask(ctx, n, facts["pids"][n], words) for n in record.targets))

    async def undo(self, ctx: NemesisContext, names: Sequence[str]) -> None:
        pids = await ctx.deployment.processes()
        await asyncio.gather(*(_ask(ctx, n, pids[n], ["off"]) for n in names if n in pids))

    def heal_command(self, ctx: NemesisContext, record: LandingRecord, name: str) -> list[str]:
        pid, start = record.facts["pids"][name]
        return command(pid, start, ["off"])

    def patience_s(self, record: LandingRecord) -> float:
        """Until a rate has become an offset that shows."""
        away = abs(record.facts["rate"] - 1.0)
        return 5 * TOLERANCE_MIN_S / away if away else 0.0

    async def _before(self, ctx: NemesisContext, record: LandingRecord) -> LandingRecord:
        record = await super()._before(ctx, record)
        skews = await _skews(ctx, record.targets)
        facts = {**record.facts, "skew_before_s": {n: _number(s) for n, s in skews.items()}}
        return msgspec.structs.replace(record, facts=facts)

    async def _look(self, ctx: NemesisContext, record: LandingRecord) -> LandingRecord:
        async def read(name: str) -> Patch | None:
            try:
                return await _ask(ctx, name, record.facts["pids"][name], ["read"])
            except LabError:
                return None

        hosts = dict(
            zip(ctx.nodes, await asyncio.gather(*map(_host_skew, nodes_of(ctx))), strict=True)
        )
        at_ns = ctx.clock.now_ns()
        strobing = bool(record.facts["strobe_ms"])
        told = [n for n in ctx.nodes if not (strobing and n in record.targets)]
        skews = await _skews(ctx, told)
        took_ns = ctx.clock.now_ns() - at_ns
        found = await asyncio.gather(*map(read, record.targets))
        patches = dict(zip(record.targets, found, strict=True))
        middle_ns = at_ns + took_ns // 2
        seen = list(record.facts.get("skew_seen_s", []))
        injector = _injector(record, patches)
        if strobing:
            victim = _strobing(record, await _strobes(ctx, record))
        else:
            seen.append([middle_ns, *_row(record, skews)])
            victim = _victim(record, skews, middle_ns)
        control = _control(record, skews, hosts)
        hits = {n: p.hits if p else 0 for n, p in patches.items()}
        return msgspec.structs.replace(
            record,
            injector=injector,
            victim=victim,
            control=control,
            facts={**record.facts, "hits": hits, "skew_seen_s": seen},
            landed=_landed(record, injector, victim, control),
        )

    async def recheck(self, ctx: NemesisContext, record: LandingRecord) -> LandingRecord:
        """As for any process fault; at the end a rate must have had its slope."""
        record = await super().recheck(ctx, record)
        if record.facts["rate"] == 1.0 or len(record.facts["rechecks"]) < 2:
            return record
        wrong, slopes = _slopes(record)
        record = msgspec.structs.replace(record, facts={**record.facts, "slopes": slopes})
        return demote(record, wrong) if wrong else record

    async def _whole(
        self, ctx: NemesisContext, record: LandingRecord, before: Mapping[str, Any]
    ) -> Proven:
        """Nothing patched, the right time, and the servers serve."""
        missing: list[str] = []
        left: dict[str, int] = {}
        for name in record.targets:
            patch = await _ask(ctx, name, record.facts["pids"][name], ["read"])
            left[name] = patch.patched if patch else 0
            if patch is None:
                missing.append(f"{name}: its server is not the one it was")
            elif patch.patched:
                missing.append(f"{name}: its clock is still shifted")
        skews = await _skews(ctx, record.targets)
        for name, skew in skews.items():
            if skew is None or abs(skew.seconds) > _tolerance_s(0) + skew.doubt_s:
                missing.append(f"{name}: its clock is wrong by {_number(skew)} s")
        healthy = await ctx.deployment.healthy()
        missing += [f"{n} does not serve" for n in record.targets if not healthy.get(n)]
        shown = {n: _number(s) or 0.0 for n, s in skews.items()}
        return Proven(missing, left, shown)

    async def extra_leaks(self, ctx: NemesisContext, node: Node, pid: int, start: int) -> list[str]:
        """A clock that is still shifted."""
        patch = await shift(node, pid, start, ["read"])
        return ["the clock of its server is shifted"] if patch and patch.patched else []

    def healed(self, record: LandingRecord, name: str, pid: int, sight: Sight | None) -> str | None:
        return None


async def _ask(
    ctx: NemesisContext, name: str, process: Sequence[int], words: Sequence[str | int]
) -> Patch | None:
    pid, start = process
    return await shift(ctx.node(name), pid, start, words)


async def _skews(ctx: NemesisContext, names: Sequence[str]) -> dict[str, Skew | None]:
    deployment = ctx.deployment
    found = await asyncio.gather(
        *(
            skew_of(ctx.node(n).info.address, deployment.service_port, deployment.service_request)
            for n in names
        )
    )
    return dict(zip(names, found, strict=True))


def _number(skew: Skew | None) -> float | None:
    return None if skew is None else round(skew.seconds, 3)


def _row(record: LandingRecord, skews: Mapping[str, Skew | None]) -> list[float | None]:
    return [_number(skews[name]) for name in record.targets]


def _expected_s(record: LandingRecord, at_ns: int) -> float:
    ran_s = (at_ns - (record.injected_at or at_ns)) / 1e9
    expected: float = record.facts["skew_s"] + ran_s * (record.facts["rate"] - 1.0)
    return expected


def _injector(record: LandingRecord, patches: Mapping[str, Patch | None]) -> Signal:
    facts = record.facts
    wanted = Patch(
        patched=1,
        offset_ns=round(facts["skew_s"] * 1e9),
        rate_ppm=round((facts["rate"] - 1.0) * 1e6),
        mono=int(facts["monotonic"]),
        strobe_ns=facts["strobe_ms"] * 1_000_000,
        hits=0,
    )
    earlier = facts.get("hits", {})
    said = []
    for name, patch in patches.items():
        pid = facts["pids"][name][0]
        if facts["listening_before"][name] != [pid]:
            said.append(f"{name}: process {pid} was not the one that served")
        if patch is None:
            said.append(f"{name}: process {pid} is gone")
        elif msgspec.structs.replace(patch, hits=0) != wanted:
            said.append(f"{name}: the clock of process {pid} is not shifted as asked for")
        elif patch.hits <= earlier.get(name, 0):
            said.append(f"{name}: process {pid} has not read the shifted clock")
    hits = {name: patch.hits if patch else 0 for name, patch in patches.items()}
    return Signal(
        signal="readings of the shifted clock",
        before=dict.fromkeys(record.targets, 0),
        during=hits,
        moved=bool(record.targets) and not said,
        detail="; ".join(said) or f"the shifted clock was read {sum(hits.values()):,} times",
    )


def _victim(record: LandingRecord, skews: Mapping[str, Skew | None], at_ns: int) -> Signal:
    expected_s = _expected_s(record, at_ns)
    tolerance_s = _tolerance_s(expected_s)
    before = record.facts["skew_before_s"]
    said = []
    for name in record.targets:
        skew, was = skews[name], before[name]
        if skew is None:
            said.append(f"{name} tells no time")
        elif skew.doubt_s > tolerance_s:
            said.append(f"{name} answers too slowly to tell its time")
        elif abs(skew.seconds - expected_s) > tolerance_s:
            said.append(f"{name} is {skew.seconds:+.2f} s off, {expected_s:+.2f} s asked for")
        elif abs(skew.seconds) <= 2 * TOLERANCE_MIN_S:
            said.append(f"{name} is only {skew.seconds:+.2f} s off as yet")
        if was is None or abs(was) > 1.0:
            said.append(f"{name} was {was} s off before")
    shown = {n: _number(skews[n]) for n in record.targets}
    return Signal(
        signal="seconds that the server's Date is ahead of ours",
        before=dict(before),
        during=shown,
        moved=bool(record.targets) and not said,
        detail="; ".join(said)
        or "off by " + ", ".join(f"{v:+.2f} s on {n}" for n, v in shown.items() if v is not None),
    )


async def _strobes(ctx: NemesisContext, record: LandingRecord) -> dict[str, Strobe]:
    deployment, offset_s = ctx.deployment, record.facts["skew_s"]
    port, request = deployment.service_port, deployment.service_request
    found = await asyncio.gather(
        *(strobe_of(ctx.node(n).info.address, port, request, offset_s) for n in record.targets)
    )
    return dict(zip(record.targets, found, strict=True))


def _strobing(record: LandingRecord, strobes: Mapping[str, Strobe]) -> Signal:
    said = [
        f"{n} told the right time {s.right} times, the shifted one {s.off} times, another "
        f"{s.other} times"
        for n, s in strobes.items()
        if not (s.right and s.off and s.jumps >= STROBE_JUMPS_MIN and s.other <= s.off // 4)
    ]
    jumps = {n: s.jumps for n, s in strobes.items()}
    return Signal(
        signal="jumps of the server's Date between two times",
        before=dict.fromkeys(record.targets, 0),
        during=jumps,
        moved=bool(strobes) and not said,
        detail="; ".join(said) or f"the time jumped {sum(jumps.values())} times",
    )


async def _host_skew(node: Node) -> Skew:
    """How far the clock of the node itself is ahead, as another process of its reads it."""
    asked_ns = clock.wall_ns()
    answer = await node.call("ping")
    answered_ns = clock.wall_ns()
    middle_ns = (asked_ns + answered_ns) // 2
    return Skew((answer["wall_ns"] - middle_ns) / 1e9, (answered_ns - asked_ns) / 2e9)


def _control(
    record: LandingRecord, skews: Mapping[str, Skew | None], hosts: Mapping[str, Skew]
) -> Signal:
    others = {n: s for n, s in skews.items() if n not in record.targets}
    others |= {f"agent of {n}": s for n, s in hosts.items()}
    hit = [
        n for n, s in others.items() if s is None or abs(s.seconds) > TOLERANCE_MIN_S + s.doubt_s
    ]
    return Signal(
        signal="seconds that other servers, and other processes of each node, are ahead of us",
        before={},
        during={n: _number(s) for n, s in others.items()},
        moved=bool(hit),
        detail=f"hit as well: {', '.join(hit)}" if hit else "untouched",
    )


def _landed(record: LandingRecord, injector: Signal, victim: Signal, control: Signal) -> Landed:
    if not injector.moved and not victim.moved:
        return "no"
    whole = injector.moved and victim.moved and not control.moved
    return "yes" if whole and not record.facts.get("ended_early") else "ambiguous"


def _slopes(record: LandingRecord) -> tuple[str | None, dict[str, float]]:
    """What is wrong with the slope of a target's clock, None where all are right; the slopes."""
    seen = [row for row in record.facts["skew_seen_s"] if None not in row]
    if len(seen) < 2 or seen[-1][0] - seen[0][0] < RATE_WINDOW_S * 0.9e9:
        return "the clock was not watched for long enough to tell its rate", {}
    first, last = seen[0], seen[-1]
    span_s = (last[0] - first[0]) / 1e9
    wanted = record.facts["rate"] - 1.0
    slopes = {
        name: round((last[i + 1] - first[i + 1]) / span_s, 4)
        for i, name in enumerate(record.targets)
    }
    # The two ends are known to a few hundredths of a second each.
    allowed = max(TOLERANCE * abs(wanted), 0.2 / span_s)
    off = [f"{n} {v:+.4f}" for n, v in slopes.items() if abs(v - wanted) > allowed]
    if off:
        return f"slope of the clock is {', '.join(off)}, {wanted:+.4f} asked for", slopes
    return None, slopes


NEMESIS = Clock()
