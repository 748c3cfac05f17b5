"""`aimed`: something is done to a server at a point of its program, and not at a moment of time.

`-o at=` says where (see `nemeses.tools.aim`): a function is entered or goes back, or a system call
is about to be made on a file, in the program as its packages have it. A small program on the node
traces the server and counts; at the N-th hit (`-o hit=N`) it acts before another instruction runs:

- `kill`: all processes of the service end there; `kill-all`: those of the other members follow as
  soon as we are told;
- `pause`: they stand still, by SIGSTOP;
- `delay`: the thread that came there waits for `delay_ms`, and the others run on;
- `errno:NAME`: the system call is not made, and answers with this error.

Injector signal: what that program says: the point was reached so often, by a process and a thread
that belong to the server, and there it was done. Victim signal: the server is gone, or stands, or
one of its threads stands while others run; its clients notice; its log names the error. Control:
the others run, answer, and are traced by nobody. "Never reached" has not landed: what the load
reaches instead is counted at once (`nemeses.process.aimed_points`), and where the point was not
reached then either it is not waited for again. It has healed when nobody traces the server, each
byte of its code that was touched is that of its file, and it serves.

Failures at chosen points of a program: FATE and DESTINI, Gunawi et al., NSDI 2011, section 3.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from dstest.core import protocols
from dstest.core.errors import ConfigError, LabError
from dstest.core.evidence import LandingRecord, ProcessDetails, Signal
from dstest.core.node import Node
from dstest.core.protocols import (
    FaultPlan,
    NemesisContext,
    Option,
    Process,
    Restartable,
    ServerLogs,
    Supervised,
    When,
)
from dstest.core.protocols import Pause as Pausable
from dstest.core.residue import Residue
from nemeses.base.driver import (
    ENDS_TRAFFIC,
    ApplyFailed,
    Choice,
    Facts,
    Healing,
    Observed,
    Proven,
    Standing,
    nodes_of,
    with_facts,
)
from nemeses.base.process_fault import (
    SERVICE_OPTION,
    ProcessFault,
    choose_processes,
    gather_evidence,
    not_serving,
    process_standing,
    start_again,
)
from nemeses.observe.processes import (
    STOPPED,
    ProcessSnapshot,
    processes_before,
    signal_command,
)
from nemeses.process.absence import gone_signal, nobody_runs, old_processes
from nemeses.process.aimed_effects import (
    delayed,
    error_number,
    kill_stuck,
    refused,
    refused_standing,
)
from nemeses.process.aimed_points import (
    AimedDetails,
    counts_around,
    drawn,
    own_hits,
    problems,
    reached_now,
    reached_signal,
    sampled,
    unmet_note,
)
from nemeses.process.pause import standstill
from nemeses.tools import aim
from nemeses.tools.compiled import TOOLS

KILLS: Final = ("kill", "kill-all")
LOOK_S: Final = 0.1
DELAY_MS_LEAST: Final = 100
"""A thread that stands for less is not seen to stand by anybody else."""

_ACTIONS: Final = {"kill": "kill 0", "kill-all": "kill 0", "pause": "pause 0"}
_THEN: Final = "-o then=kill, kill-all, pause, delay, or errno:ENOSPC behind a system call"
_ERROR_EXPLAINS: Final = ["exit", "alarm", "fatal", "panic"]
"""A server to which a call answers with an error ends by its own decision, with loud last words."""


def _then_problem(then: str, steps: Sequence[aim.Step]) -> str:
    """Why that cannot be done at the end of this chain; empty where it can."""
    if then in _ACTIONS or then == "delay":
        return ""
    if not error_number(then):
        return "nothing that is done at a point"
    return "" if steps[-1].kind == "syscall" else "only a system call answers with an error"


def _action(details: AimedDetails) -> tuple[str, int]:
    """What the program on the node is to do, and how often (0: at each hit from then on)."""
    if details.then == "delay":
        return f"delay {int(details.delay_ms * 1000)}", details.times
    if number := error_number(details.then):
        return f"errno {number}", details.times
    return _ACTIONS[details.then], 1


class Aimed(ProcessFault):
    """The `aimed` nemesis."""

    name = "aimed"
    taxdc = "crash-recovery"
    taxdc_tags: frozenset[str] = frozenset({"timing"})
    doc = "kills, stops or delays a server at a point of its program"
    requires: tuple[type, ...] = (Supervised,)
    requires_when = (*ProcessFault.requires_when, When("then", "pause", (Pausable,)))
    residues: tuple[Residue, ...] = (aim.RESIDUE, STOPPED, TOOLS)
    explains: frozenset[str] = frozenset({"exit"})
    overlap = ENDS_TRAFFIC
    options: Mapping[str, Option] = {
        "at": Option(
            type=str,
            default="syscall:fdatasync",
            help="function:NAME, return:NAME or syscall:NAME:GLOB, joined by ' > '; or any:GLOB",
        ),
        "hit": Option(
            type=int,
            default=0,
            least=0,
            most=1_000_000_000,
            help="which hit of it acts; 0: the first",
        ),
        "then": Option(
            type=str,
            default="kill",
            help="kill, kill-all, pause, delay (the thread alone) or errno:NAME (the system call)",
        ),
        "delay_ms": Option(
            type=float, default=500.0, least=DELAY_MS_LEAST, most=60_000, help="how long it waits"
        ),
        "times": Option(
            type=int,
            default=0,
            least=0,
            most=1_000_000_000,
            help="how many hits are delayed or refused; 0: each from then on",
        ),
        "reach_s": Option(
            type=float, default=10.0, least=1, most=100, help="how long the point is waited for"
        ),
        **ProcessFault.options,
        **SERVICE_OPTION,
    }

    def __init__(self) -> None:
        self._unmet: Mapping[tuple[str, str], str] = {}
        """By member and point, the fault that has shown that the load does not come there."""

    def check_options(self, options: Mapping[str, Any], nodes: Sequence[str]) -> None:
        steps, _ = aim.parse(options["at"])
        if problem := _then_problem(options["then"], steps):
            raise ConfigError(f"-o then={options['then']}: {problem}", remedy=_THEN)

    def draw_params(self, rng: random.Random, options: Mapping[str, Any]) -> Facts:
        """The point and what is done there."""
        hit = options["hit"] or aim.parse(options["at"])[1]
        return {
            "hit": hit,
            **{k: options[k] for k in ("at", "then", "times", "delay_ms", "reach_s")},
        }

    def plan(
        self,
        rng: random.Random,
        nodes: Sequence[str],
        time_limit_s: float,
        options: Mapping[str, Any],
    ) -> list[FaultPlan]:
        """As of any fault of processes. The faults of a run walk through what `any:` may draw."""
        plans = super().plan(rng, nodes, time_limit_s, options)
        if aim.parse(options["at"])[0][0].kind != "any":
            return plans
        seed = rng.getrandbits(32)
        return [
            msgspec.structs.replace(plan, facts={**plan.facts, "walk": [seed, place]})
            for place, plan in enumerate(plans)
        ]

    async def clear(self, nodes: Sequence[Node]) -> None:
        await asyncio.gather(*map(aim.stop, nodes))

    async def ready(self, ctx: NemesisContext) -> None:
        await aim.install(self.name, nodes_of(ctx))

    async def choose(self, ctx: NemesisContext, plan: FaultPlan) -> Choice:
        """The members of the scope, and where the point lies in what they run."""
        choice = await choose_processes(ctx, plan)
        if choice.why_not or choice.targets is None:
            return choice
        at, then = plan.facts["at"], plan.facts["then"]
        steps, _ = aim.parse(at)
        if why_not := _then_problem(then, steps) or self._known_unmet(choice.targets, at, then):
            return Choice(facts=choice.facts, why_not=why_not)
        rows = choice.facts["processes"]

        async def one(name: str) -> aim.Sight | str:
            return await aim.sight(ctx.node(name), [row[1] for row in rows[name]], steps)

        seen = dict(
            zip(choice.targets, await asyncio.gather(*map(one, choice.targets)), strict=True)
        )
        facts = {**choice.facts, "aimed_at": list(choice.targets)}
        for name, found in seen.items():
            if isinstance(found, str):
                return Choice(facts=facts, why_not=f"{name}: {found}")
            if steps[0].kind == "any":
                seen[name] = sampled(found, plan.facts["walk"][0])
        facts["sights"] = msgspec.to_builtins(seen)
        if error_number(then):
            facts["explains"] = _ERROR_EXPLAINS
        targets = list(ctx.nodes) if then == "kill-all" else choice.targets
        return Choice(targets=targets, facts=facts)

    def _known_unmet(self, names: Sequence[str], at: str, then: str) -> str:
        """That a try before has shown that this one cannot land; empty where none has."""
        known = {n: self._unmet[n, at] for n in names if (n, at) in self._unmet}
        if not known or (then == "kill-all" and len(known) < len(names)):
            return ""
        tries = ", ".join(dict.fromkeys(known.values()))
        return (
            f"{at} was never reached on {', '.join(known)} in {tries}, and is not waited for again"
        )

    def lease_nodes(self, record: LandingRecord) -> list[str]:
        """On all members points may be counted."""
        return [*dict.fromkeys((*record.targets, *ProcessDetails.of(record).processes))]

    async def before(self, ctx: NemesisContext, record: LandingRecord) -> Facts:
        """How long the logs are."""
        logs = ctx.offered(ServerLogs)
        if logs is None or not error_number(AimedDetails.of(record).then):
            return {}
        return {"log_sizes": await logs.log_sizes(ProcessDetails.of(record).service)}

    async def apply(self, ctx: NemesisContext, record: LandingRecord) -> Facts:
        """Trace them: the point is armed when this returns."""
        details, facts = AimedDetails.of(record), {}
        if details.steps[0].kind == "any":
            try:
                found = await drawn(ctx, details)
            except LabError as error:
                found = f"not armed: {error.message}"
            if isinstance(found, str):
                self._remember(record, details.aimed_at)
                raise ApplyFailed([found])
            facts = found
            details = AimedDetails.of(with_facts(record, facts))
        then, times = _action(details)

        async def one(name: str) -> str:
            seen = msgspec.convert(details.sights[name], aim.Sight)
            spec = aim.spec_of(seen, details.steps, hit=details.hit, times=times, then=then)
            try:
                await aim.start(ctx.node(name), spec)
            except LabError as error:
                return f"not armed: {error.message}"
            return ""

        whys = await asyncio.gather(*map(one, details.aimed_at))
        if any(whys):
            raise ApplyFailed([*filter(None, whys)], facts)
        return facts

    def _remember(self, record: LandingRecord, names: Sequence[str]) -> None:
        at = AimedDetails.of(record).at
        self._unmet = {**self._unmet, **{(name, at): record.fault_id for name in names}}

    async def after_apply(self, ctx: NemesisContext, record: LandingRecord) -> LandingRecord:
        """Wait until the point is reached; where all members are meant, kill the others then. Where
        nobody has come there, count who comes where."""
        details = AimedDetails.of(record)
        until_ns = ctx.clock.now_ns() + int(details.reach_s * 1e9)
        reached = await reached_now(ctx, record)
        while not record.notes and not all(row["fired"] for row in reached.values()):
            if ctx.clock.now_ns() > until_ns:
                break
            if details.then == "kill-all" and any(row["fired"] for row in reached.values()):
                break
            await asyncio.sleep(LOOK_S)
            reached = await reached_now(ctx, record)
        record = with_facts(record, {"reached": reached})
        if details.then == "kill-all" and any(row["fired"] for row in reached.values()):
            await ctx.need(protocols.Kill).kill(record.targets, ProcessDetails.of(record).service)
        details = AimedDetails.of(record)
        if record.notes or details.drawn or not details.unmet or details.fired:
            return record
        counts = await counts_around(ctx, record)
        self._remember(record, [n for n, hits in own_hits(details, counts).items() if not hits])
        record = with_facts(record, {"counts": msgspec.to_builtins(counts)})
        return msgspec.structs.replace(record, notes=[unmet_note(details, counts)])

    def usual_patience_s(self, ctx: NemesisContext, record: LandingRecord) -> float:
        """None where the point was not reached: nothing was done that could show."""
        return 0.0 if problems(record) else super().usual_patience_s(ctx, record)

    async def observe(self, ctx: NemesisContext, record: LandingRecord) -> Observed:
        record = with_facts(record, {"reached": await reached_now(ctx, record)})
        details = AimedDetails.of(record)
        if not details.fired:
            return _nothing_done(record)
        if details.then == "delay":
            return await delayed(ctx, record)
        if error_number(details.then):
            return await refused(ctx, record)
        seen = await gather_evidence(
            ctx, record, standstill if details.then == "pause" else gone_signal
        )
        return msgspec.structs.replace(seen, injector=reached_signal(record, seen.injector))

    def stands(self, earlier: LandingRecord, record: LandingRecord) -> Standing:
        details, before = AimedDetails.of(record), AimedDetails.of(earlier).asleep
        if not details.fired:
            return Standing(present=False)
        if error_number(details.then):
            return refused_standing(AimedDetails.of(earlier), details)
        if details.then != "delay":
            return process_standing(earlier, record)
        if details.times or earlier.landed_at is None:
            return Standing()
        over = [n for n, count in details.asleep.items() if count <= before.get(n, 0)]
        doubts = [f"no thread of {', '.join(over)} stood any more"] if over else []
        return Standing(present=not over, doubts=doubts)

    async def in_force(self, ctx: NemesisContext, record: LandingRecord) -> Mapping[str, str]:
        """That no server runs. A pause and a delay are looked at in mid-window and at its end."""
        return await nobody_runs(ctx, record) if AimedDetails.of(record).then in KILLS else {}

    def heal_commands(
        self, ctx: NemesisContext, record: LandingRecord, name: str
    ) -> list[list[str]]:
        commands = [[aim.OFF]]
        if name not in record.targets:
            return commands
        if AimedDetails.of(record).then == "pause":
            commands.append(signal_command(processes_before(record, name), "CONT"))
        return [*commands, ctx.need(Restartable).restart_command(name)]

    async def revert(self, ctx: NemesisContext, record: LandingRecord) -> None:
        details = AimedDetails.of(record)
        await asyncio.gather(*(aim.stop(ctx.node(name)) for name in details.aimed_at))
        if details.then == "pause":
            service = ProcessDetails.of(record).service
            await ctx.need(Pausable).resume(record.targets, service)
        await kill_stuck(ctx, record)
        await ctx.need(protocols.Kill).restart(record.targets)

    async def missing(
        self, ctx: NemesisContext, record: LandingRecord, healing: Healing
    ) -> Sequence[str]:
        """Who is still traced, or has a byte of ours in its code."""
        found = await asyncio.gather(*(_touched(ctx, record, n) for n in record.targets))
        return [what for rows in found for what in rows]

    def process_problem(
        self, record: LandingRecord, name: str, now: Sequence[Process], snapshot: ProcessSnapshot
    ) -> str | None:
        details = AimedDetails.of(record)
        ended = details.then in KILLS and details.fired
        if ended or details.fates.get(name) == "gone":
            return old_processes(record, name, now, snapshot)
        return not_serving(now, snapshot)

    async def prove(self, ctx: NemesisContext, record: LandingRecord, healing: Healing) -> Proven:
        again: Facts = {}
        if error_number(AimedDetails.of(record).then):
            again = {"started_again": await start_again(ctx, record)}
        proven = await super().prove(ctx, record, healing)
        traced = await asyncio.gather(*(aim.traces(ctx.node(n)) for n in record.targets))
        return msgspec.structs.replace(
            proven,
            injector={n: len(t) for n, t in zip(record.targets, traced, strict=True)},
            facts={**proven.facts, **again},
        )

    async def extra_leaks(
        self, ctx: NemesisContext, node: Node, now: Sequence[Process]
    ) -> list[str]:
        """Our program, or whoever traces the server."""
        found = [f"process {pid} of ours traces" for pid in await aim.traces(node)]
        for process in now:
            tracer = await _tracer(node, process.pid)
            found += [f"process {process.pid} is traced by {tracer}"] if tracer else []
        return found


async def _tracer(node: Node, pid: int) -> int:
    """Who traces a process; 0 where nobody does, or it is gone."""
    argv = ["sed", "-n", "s/^TracerPid:[[:space:]]*//p", f"/proc/{pid}/status"]
    done = await node.run(argv, timeout_s=5.0, check=False)
    return int(done.stdout.strip() or 0)


async def _touched(ctx: NemesisContext, record: LandingRecord, name: str) -> list[str]:
    """What is left in a member's processes of those that it had before."""
    node, found = ctx.node(name), []
    sight = AimedDetails.of(record).sights.get(name)
    for process in processes_before(record, name):
        if tracer := await _tracer(node, process.pid):
            found.append(f"{name}: process {process.pid} is still traced by {tracer}")
        elif sight is not None and str(process.pid) in sight["biases"]:
            addresses = msgspec.convert(sight, aim.Sight).addresses
            try:
                left = await aim.ask(node, "touched", str(process.pid), *addresses)
            except LabError:
                continue  # it is gone, and its code with it
            found += (
                [f"{name}: process {process.pid} has a byte of ours at {left[0]}"] if left else []
            )
    return found


def _nothing_done(record: LandingRecord) -> Observed:
    """Nobody has come to the point: there is no effect to be looked for."""
    none = Signal(signal="none was looked at", detail="nothing was done there")
    return Observed(injector=reached_signal(record, none), victim=none, control=none)


NEMESIS = Aimed()
