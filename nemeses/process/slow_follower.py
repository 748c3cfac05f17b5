"""`slow-follower`: one server that does not lead gets a small share of a processor.

Its processes are moved into a control group of ours on its node, with a quota: what was asked for,
and never more than a thirtieth of what the server used before: a share that is enough for the
load of the moment slows nothing down. Injector signal: periods in which that group was throttled,
with all processes of the server in it. Victim signal: in the middle of `SAMPLES` samples the log
that the follower has applied is behind the furthest one, by what the system says is no ordinary
lag, or it cannot tell within a second where its log is. Control: the
others keep up with each other. A fault that hits the leader is another fault and does not count. It
has healed when the group is gone and the follower has caught up.

Catalogue: N27.
"""

from __future__ import annotations

import asyncio
import random
import statistics
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final

from dstest.core.evidence import LandingRecord, Signal
from dstest.core.node import Node
from dstest.core.protocols import (
    FaultPlan,
    Leadership,
    NemesisContext,
    Option,
    Process,
    Replication,
    Unit,
)
from dstest.core.residue import Residue
from nemeses.base.driver import Choice, Facts, Healing, Observed, Proven, nodes_of, with_facts
from nemeses.base.leadership import lead_when_known, leading
from nemeses.base.process_fault import ProcessFault, choose_processes
from nemeses.base.schedule import WINDOW_OPTIONS, check_range
from nemeses.observe.processes import probes_of, processes_before, running, take_snapshot
from nemeses.observe.servers import SILENT, health_of, lags
from nemeses.tools.groups import Group

CPU: Final = Group("cpu")
PERIOD_US: Final = 100_000
QUOTA_US_MIN: Final = 1_000
PERIOD_US_MAX: Final = 1_000_000
"""The kernel's own bounds."""

USED_SHARE: Final = 1 / 30
"""Of the processor time that the follower used before, what it keeps at most."""

MEASURED_S: Final = 1.0
TICKS_PER_S: Final = 100
"""Of /proc/PID/stat."""

SAMPLES: Final = 5
ENTER_TRIES: Final = 5
SAMPLE_GAP_S: Final = 0.2

_THROTTLE: Final = (
    'if [ -e "$0/cpu.max" ]; then echo "$2 $1" >"$0/cpu.max"; exit; fi; '
    'echo "$1" >"$0/cpu.cfs_period_us" && echo "$2" >"$0/cpu.cfs_quota_us"'
)


class SlowFollower(ProcessFault):
    """The `slow-follower` nemesis."""

    name = "slow-follower"
    taxdc = "timing"
    taxdc_tags: frozenset[str] = frozenset({"replication"})
    disturbs_host: frozenset[str] = frozenset({"throttled"})
    doc = "gives one server that does not lead a small share of a processor"
    faults: tuple[str, ...] = ("N27",)
    requires = (*ProcessFault.requires, Leadership, Replication)
    residues: tuple[Residue, ...] = (CPU.residue,)
    needs: tuple[str, ...] = ("cpu-group",)
    options: Mapping[str, Option] = {
        "cpu_percent": Option(
            type=float,
            default=2.0,
            least=0.1,
            most=100,
            help="of one processor for the follower, at most",
        ),
        **{k: v for k, v in WINDOW_OPTIONS.items() if k != "targets"},
    }

    def check_options(self, options: Mapping[str, Any], nodes: Sequence[str]) -> None:
        check_range(options, "cpu_percent", 1, 50)

    def plan_options(self, options: Mapping[str, Any]) -> Mapping[str, Any]:
        """Who follows shows only when the fault is due."""
        return {**options, "scope": "one", "targets": ""}

    def draw_params(self, rng: random.Random, options: Mapping[str, Any]) -> Facts:
        return {"cpu_percent": options["cpu_percent"]}

    async def ready(self, ctx: NemesisContext) -> None:
        await asyncio.gather(*(CPU.make(node, self.name) for node in nodes_of(ctx)))

    async def remove_instruments(self, ctx: NemesisContext) -> None:
        """Take group and mount away on every node."""
        await asyncio.gather(*map(CPU.withdraw, nodes_of(ctx)))

    async def choose(self, ctx: NemesisContext, plan: FaultPlan) -> Choice:
        """A follower of this moment."""
        await lead_when_known(ctx)
        leaders = await leading(ctx)
        followers = [n for n in ctx.nodes if n not in leaders]
        if not followers:
            return Choice(why_not="every member leads a group")
        chosen = random.Random(plan.facts["seed"]).choice(followers)
        return await choose_processes(ctx, plan, targets=[chosen], scope="given")

    async def before(self, ctx: NemesisContext, record: LandingRecord) -> Facts:
        """What the follower uses, and the share that it is left."""
        (name,) = record.targets
        was, seen = processes_before(record, name), []
        for pause_s in (0.0, MEASURED_S):
            await asyncio.sleep(pause_s)
            snapshot = await take_snapshot(ctx.node(name), was, was, probes_of(ctx, name))
            seen.append((ctx.clock.now_ns(), snapshot.ticks))
        (then_ns, then), (now_ns, now) = seen
        used_percent = (now - then) / TICKS_PER_S / ((now_ns - then_ns) / 1e9) * 100
        left_percent = min(record.facts["cpu_percent"], USED_SHARE * used_percent)
        return {
            "used_percent": round(used_percent, 2),
            "left_percent": left_percent,
            "how": await CPU.version(ctx.node(name)),
        }

    async def apply(self, ctx: NemesisContext, record: LandingRecord) -> None:
        quota_us, period_us = quota(record.facts["left_percent"])
        argv = ["sh", "-c", _THROTTLE, CPU.path, str(period_us), str(quota_us)]
        for name in record.targets:
            await ctx.node(name).run(argv, timeout_s=5.0)
        await self.enter(ctx, record)

    async def enter(self, ctx: NemesisContext, record: LandingRecord) -> None:
        """All processes of the targets into the group, again while more are forked outside."""
        for _ in range(ENTER_TRIES):
            outside = await _outside(ctx, record)
            if not any(outside.values()):
                return
            for name, rows in outside.items():
                await CPU.enter(ctx.node(name), [p.pid for p in rows])

    async def revert(self, ctx: NemesisContext, record: LandingRecord) -> None:
        for name in record.targets:
            await ctx.node(name).run(CPU.dissolve_command(), timeout_s=5.0)
            await CPU.make(ctx.node(name), self.name)

    def heal_commands(
        self, ctx: NemesisContext, record: LandingRecord, name: str
    ) -> list[list[str]]:
        return [CPU.dissolve_command()]

    async def observe(self, ctx: NemesisContext, record: LandingRecord) -> Observed:
        behind = await _behind(ctx)
        throttled, leaders, outside = await asyncio.gather(
            _throttled(ctx), leading(ctx), _outside(ctx, record)
        )
        record = with_facts(
            record, {"throttled_before": record.facts.get("throttled_before", throttled)}
        )
        unit = ctx.need(Replication).replication_unit
        return Observed(
            injector=_injector(record, throttled, outside),
            victim=_victim(record, behind, leaders, unit),
            control=_control(record, behind, throttled, unit),
            facts=record.facts,
        )

    async def prove(self, ctx: NemesisContext, record: LandingRecord, healing: Healing) -> Proven:
        """Nothing is in the group, the follower keeps up, and all serve."""
        behind = await _behind(ctx)
        unit = ctx.need(Replication).replication_unit
        late = [n for n in record.targets if behind[n] >= unit.lag_min]
        missing = [f"{n} is {_far(behind[n], unit)}" for n in late]
        left: dict[str, int] = {}
        for name in record.targets:
            left[name] = len(await CPU.throttled(ctx.node(name)))
            missing += [f"{name}: its server is still throttled"] if left[name] else []
        healthy = await health_of(ctx)
        missing += [f"{n} does not serve" for n in ctx.nodes if not healthy.get(n)]
        return Proven(missing, left, {n: _figure(behind[n]) for n in record.targets})

    async def extra_leaks(
        self, ctx: NemesisContext, node: Node, now: Sequence[Process]
    ) -> list[str]:
        """A server that is still in our group, or the group itself."""
        return await CPU.leaks(node)


def quota(percent: float) -> tuple[int, int]:
    """(quota, period) in microseconds for a share of one processor, in the kernel's bounds."""
    if percent / 100 * PERIOD_US >= QUOTA_US_MIN:
        return int(percent / 100 * PERIOD_US), PERIOD_US
    smallest = QUOTA_US_MIN / PERIOD_US_MAX * 100
    return QUOTA_US_MIN, min(PERIOD_US_MAX, int(QUOTA_US_MIN / max(percent, smallest) * 100))


async def _throttled(ctx: NemesisContext) -> dict[str, int]:
    """Periods in which each node's group had to wait; 0 where nothing was in it."""

    async def read(node: Node) -> int:
        found = await node.run(["cat", f"{CPU.path}/cpu.stat"], timeout_s=5.0, check=False)
        rows = dict(line.split() for line in found.stdout.splitlines())
        return int(rows.get("nr_throttled", 0))

    nodes = nodes_of(ctx)
    counts = await asyncio.gather(*map(read, nodes))
    return {node.name: n for node, n in zip(nodes, counts, strict=True)}


async def _behind(ctx: NemesisContext) -> dict[str, int]:
    """How far each server is behind the furthest of its group, in the middle of some samples."""
    samples: dict[str, list[int]] = {n: [] for n in ctx.nodes}
    for _ in range(SAMPLES):
        for name, lag in lags(await ctx.need(Replication).progress()).items():
            samples[name].append(lag)
        await asyncio.sleep(SAMPLE_GAP_S)
    return {n: int(statistics.median(found)) for n, found in samples.items()}


async def _outside(ctx: NemesisContext, record: LandingRecord) -> dict[str, list[Process]]:
    """The processes of each target that are not in our group."""
    now = await running(ctx)
    found = {}
    for name in record.targets:
        inside = await CPU.processes(ctx.node(name))
        found[name] = [p for p in now.get(name, ()) if p.pid not in inside]
    return found


def _far(behind: int, unit: Unit) -> str:
    return "silent" if behind >= SILENT else f"{behind:,} {unit.name} behind"


def _figure(behind: int) -> int | str:
    return "silent" if behind >= SILENT else behind


def _injector(
    record: LandingRecord,
    throttled: Mapping[str, int],
    outside: Mapping[str, Sequence[Process]],
) -> Signal:
    before = record.facts["throttled_before"]
    periods = {n: throttled[n] - before[n] for n in record.targets}
    problems = [f"{n}: it was never throttled" for n, count in periods.items() if not count]
    problems += [
        f"{n}: process {rows[0].pid} is not throttled" for n, rows in outside.items() if rows
    ]
    return Signal(
        signal="periods in which the server had to wait for its share",
        before=dict.fromkeys(record.targets, 0),
        during=periods,
        moved=bool(periods) and not problems,
        detail="; ".join(problems) or f"throttled in {sum(periods.values())} periods",
    )


def _victim(
    record: LandingRecord, behind: Mapping[str, int], leaders: Collection[str], unit: Unit
) -> Signal:
    targets = record.targets
    problems = [f"{n} is {_far(behind[n], unit)}" for n in targets if behind[n] < unit.lag_min]
    problems += [f"{n} leads" for n in targets if n in leaders]
    return Signal(
        signal=f"{unit.name} of the log that it has not applied",
        before=dict.fromkeys(targets, 0),
        during={n: _figure(behind[n]) for n in targets},
        moved=bool(targets) and not problems,
        detail="; ".join(problems) or ", ".join(f"{n} is {_far(behind[n], unit)}" for n in targets),
    )


def _control(
    record: LandingRecord, behind: Mapping[str, int], throttled: Mapping[str, int], unit: Unit
) -> Signal:
    others = [n for n in behind if n not in record.targets]
    before = record.facts["throttled_before"]
    hit = [n for n in others if behind[n] >= unit.lag_min or throttled[n] > before[n]]
    return Signal(
        signal=f"{unit.name} of the log that the other servers have not applied",
        before=dict.fromkeys(others, 0),
        during={n: _figure(behind[n]) for n in others},
        moved=bool(hit),
        detail=f"hit as well: {', '.join(hit)}" if hit else "untouched",
    )


NEMESIS = SlowFollower()
