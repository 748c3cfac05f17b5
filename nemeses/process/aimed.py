"""`aimed`: something is done to a server at a point of its program, and not at a moment of time.

`-o at=` says where (see `nemeses.tools.aim`): a function is entered or goes back, or a system call
is about to be made on a file, in the program as its packages have it. A small program on the node
traces the server and counts; at the N-th hit (`-o hit=N`) it acts before another instruction runs:

- `kill`: all processes of the service end there; `kill-all`: those of the other members follow as
  soon as we are told;
- `pause`: they stand still, by SIGSTOP;
- `delay`: the thread that came there waits for `delay_ms`, and the others run on.

Injector signal: what that program says: the point was reached so often, by a process and a thread
that belong to the server, and there it was done. Victim signal: the server is gone, or stands, or
one of its threads stands while others run; its clients notice. Control: the others run, answer, and
are traced by nobody. "Never reached" has not landed. It has healed when nobody traces the server,
each byte of its code that was touched is that of its file, and it serves.

Failures at chosen points of a program: FATE and DESTINI, Gunawi et al., NSDI 2011, section 3.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from dstest.core import protocols
from dstest.core.errors import LabError
from dstest.core.evidence import Details, LandingRecord, ProcessDetails, Signal
from dstest.core.node import Node
from dstest.core.protocols import (
    FaultPlan,
    NemesisContext,
    Option,
    Process,
    Restartable,
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
from nemeses.base.process_evidence import Snapshots, control
from nemeses.base.process_fault import (
    SERVICE_OPTION,
    ProcessFault,
    choose_processes,
    gather_evidence,
    not_serving,
    process_standing,
)
from nemeses.observe.processes import (
    STOPPED,
    ProcessSnapshot,
    processes_before,
    signal_command,
    take_two_snapshots,
)
from nemeses.observe.servers import ask_all, probe_pairs
from nemeses.process.absence import gone_signal, nobody_runs, old_processes
from nemeses.process.pause import standstill
from nemeses.tools import aim
from nemeses.tools.compiled import TOOLS

KILLS: Final = ("kill", "kill-all")
LOOK_S: Final = 0.1
DELAY_MS_LEAST: Final = 100
"""A thread that stands for less is not seen to stand by anybody else."""

_ACTIONS: Final = {"kill": "kill 0", "kill-all": "kill 0", "pause": "pause 0"}


class AimedDetails(Details, frozen=True, kw_only=True):
    """Of a fault at a point: what was asked for; the programs, and where the point lies in them, by
    member (`sights`); what was told of the first act (`reached`, by member: `hits`, `fired`,
    `pid`, `tid`, `callers`, ..). `asleep` counts samples by member in which a thread stood and
    others ran, `aimed_at` are the members that were traced."""

    at: str = ""
    hit: int = 1
    then: str = "kill"
    times: int = 0
    delay_ms: float = 0.0
    reach_s: float = 10.0
    aimed_at: list[str] = []
    sights: dict[str, dict[str, Any]] = {}
    reached: dict[str, dict[str, Any]] = {}
    asleep: dict[str, int] = {}


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
            help="function:NAME, return:NAME or syscall:NAME:GLOB, joined by ' > '",
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
            choices=("kill", "kill-all", "pause", "delay"),
            help="what is done there; delay: to the thread alone",
        ),
        "delay_ms": Option(
            type=float, default=500.0, least=DELAY_MS_LEAST, most=60_000, help="how long it waits"
        ),
        "times": Option(
            type=int,
            default=0,
            least=0,
            most=1_000_000_000,
            help="how many hits are delayed; 0: each from then on",
        ),
        "reach_s": Option(
            type=float, default=10.0, least=1, most=100, help="how long the point is waited for"
        ),
        **ProcessFault.options,
        **SERVICE_OPTION,
    }

    def check_options(self, options: Mapping[str, Any], nodes: Sequence[str]) -> None:
        aim.parse(options["at"])

    def draw_params(self, rng: random.Random, options: Mapping[str, Any]) -> Facts:
        """The point and what is done there."""
        hit = options["hit"] or aim.parse(options["at"])[1]
        return {
            "hit": hit,
            **{k: options[k] for k in ("at", "then", "times", "delay_ms", "reach_s")},
        }

    async def clear(self, nodes: Sequence[Node]) -> None:
        await asyncio.gather(*map(aim.stop, nodes))

    async def ready(self, ctx: NemesisContext) -> None:
        await aim.install(self.name, nodes_of(ctx))

    async def choose(self, ctx: NemesisContext, plan: FaultPlan) -> Choice:
        """The members of the scope, and where the point lies in what they run."""
        choice = await choose_processes(ctx, plan)
        if choice.why_not or choice.targets is None:
            return choice
        steps, _ = aim.parse(plan.facts["at"])
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
        facts["sights"] = msgspec.to_builtins(seen)
        targets = list(ctx.nodes) if plan.facts["then"] == "kill-all" else choice.targets
        return Choice(targets=targets, facts=facts)

    async def apply(self, ctx: NemesisContext, record: LandingRecord) -> Facts:
        """Trace them: the point is armed when this returns."""
        details = AimedDetails.of(record)
        steps, _ = aim.parse(details.at)
        delays = details.then == "delay"
        then = f"delay {int(details.delay_ms * 1000)}" if delays else _ACTIONS[details.then]
        times = details.times if delays else 1

        async def one(name: str) -> aim.AimStatus:
            seen = msgspec.convert(details.sights[name], aim.Sight)
            spec = aim.spec_of(seen, steps, hit=details.hit, times=times, then=then)
            return await aim.start(ctx.node(name), spec)

        try:
            await asyncio.gather(*map(one, details.aimed_at))
        except LabError as error:
            raise ApplyFailed([f"not armed: {error.message}"]) from None
        return {}

    async def after_apply(self, ctx: NemesisContext, record: LandingRecord) -> LandingRecord:
        """Wait until the point is reached; where all members are meant, kill the others then."""
        details = AimedDetails.of(record)
        until_ns = ctx.clock.now_ns() + int(details.reach_s * 1e9)
        reached = await _reached(ctx, record)
        while not record.notes and not all(row["fired"] for row in reached.values()):
            if ctx.clock.now_ns() > until_ns:
                break
            if details.then == "kill-all" and any(row["fired"] for row in reached.values()):
                break
            await asyncio.sleep(LOOK_S)
            reached = await _reached(ctx, record)
        record = with_facts(record, {"reached": reached})
        if details.then == "kill-all" and any(row["fired"] for row in reached.values()):
            await ctx.need(protocols.Kill).kill(record.targets, ProcessDetails.of(record).service)
        return record

    def usual_patience_s(self, ctx: NemesisContext, record: LandingRecord) -> float:
        """None where the point was not reached: nothing was done that could show."""
        return 0.0 if _problems(record) else super().usual_patience_s(ctx, record)

    async def observe(self, ctx: NemesisContext, record: LandingRecord) -> Observed:
        record = with_facts(record, {"reached": await _reached(ctx, record)})
        details = AimedDetails.of(record)
        if details.then == "delay":
            return await _delayed(ctx, record)
        seen = await gather_evidence(
            ctx, record, standstill if details.then == "pause" else gone_signal
        )
        return msgspec.structs.replace(seen, injector=_aimed(record, seen.injector))

    def stands(self, earlier: LandingRecord, record: LandingRecord) -> Standing:
        details, before = AimedDetails.of(record), AimedDetails.of(earlier).asleep
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
        if AimedDetails.of(record).then == "pause":
            commands.append(signal_command(processes_before(record, name), "CONT"))
        return [*commands, ctx.need(Restartable).restart_command(name)]

    async def revert(self, ctx: NemesisContext, record: LandingRecord) -> None:
        details = AimedDetails.of(record)
        await asyncio.gather(*(aim.stop(ctx.node(name)) for name in details.aimed_at))
        if details.then == "pause":
            service = ProcessDetails.of(record).service
            await ctx.need(Pausable).resume(record.targets, service)
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
        fired = any(row["fired"] for row in details.reached.values())
        if details.then in KILLS and fired:
            return old_processes(record, name, now, snapshot)
        return not_serving(now, snapshot)

    async def prove(self, ctx: NemesisContext, record: LandingRecord, healing: Healing) -> Proven:
        proven = await super().prove(ctx, record, healing)
        traced = await asyncio.gather(*(aim.traces(ctx.node(n)) for n in record.targets))
        return msgspec.structs.replace(
            proven, injector={n: len(t) for n, t in zip(record.targets, traced, strict=True)}
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


async def _reached(ctx: NemesisContext, record: LandingRecord) -> dict[str, dict[str, Any]]:
    """What the program on each node that is aimed at says now, with names for its addresses once it
    has acted. What it has said is kept where it says nothing any more."""
    details = AimedDetails.of(record)

    async def one(name: str) -> dict[str, Any]:
        node, known = ctx.node(name), details.reached.get(name, {})
        status = await aim.status_of(node)
        if not status.armed_ns and known:
            return known
        row = {
            field: getattr(status, field)
            for field in (
                "hits",
                "fired",
                "step",
                "pid",
                "tid",
                "root",
                "file",
                "stops",
                "stop_ns",
                "lost",
            )
        }
        row |= {"stop_ns_max": status.stop_ns_max, "delayed": status.delayed}
        acted_ns = status.fired_ns - status.armed_ns if status.fired else 0
        row |= {"acted_after_s": round(acted_ns / 1e9, 3)}
        callers = known.get("callers", [])
        if status.fired and not callers and status.frames:
            callers = await _names(node, details.sights[name], status.frames)
        return {**row, "callers": callers}

    rows = await asyncio.gather(*map(one, details.aimed_at))
    return dict(zip(details.aimed_at, rows, strict=True))


async def _names(node: Node, sight: Mapping[str, Any], addresses: Sequence[str]) -> list[str]:
    try:
        return [name for name in await aim.ask(node, "names", sight["exe"], *addresses) if name]
    except LabError:
        return []


def _problems(record: LandingRecord) -> list[str]:
    """Why it has not happened at the point, or not to the server."""
    details, problems = AimedDetails.of(record), []
    some = details.then == "kill-all"
    fired = {n: row for n, row in details.reached.items() if row["fired"]}
    for name in details.aimed_at:
        row = details.reached.get(name)
        if row is None or (not row["fired"] and not (some and fired)):
            hits = row["hits"] if row else 0
            of = f"{hits} of {details.hit} hits" if hits else "never reached"
            steps = details.at.split(" > ")
            first = row["step"] if row else 0
            where = f", {steps[first].strip()} was waited for" if len(steps) > 1 else ""
            problems.append(f"{name}: {details.at}: {of} in {details.reach_s:g} s{where}")
        elif row["fired"] and row["root"] not in {p.pid for p in processes_before(record, name)}:
            problems.append(f"{name}: process {row['pid']} came there, which is none of its server")
        elif row["lost"]:
            problems.append(f"{name}: somebody else has changed the code that is traced")
    return problems


def _aimed(record: LandingRecord, effect: Signal) -> Signal:
    """The point was reached, and its effect on the processes shows."""
    details, problems = AimedDetails.of(record), _problems(record)
    problems += [] if effect.moved or problems else [effect.detail]
    told = "; ".join(
        f"{n}: thread {row['tid']} of process {row['pid']} came there"
        f" {row['acted_after_s']:g} s after it was armed (hit {row['hits']})"
        for n, row in details.reached.items()
        if row["fired"]
    )
    return Signal(
        signal=f"hits of {details.at}, and what was done there: {details.then}",
        before=dict.fromkeys(details.aimed_at, 0),
        during={n: row["hits"] for n, row in details.reached.items()},
        moved=bool(details.reached) and not problems,
        detail="; ".join(problems) or f"{told}; {effect.detail}",
    )


async def _delayed(ctx: NemesisContext, record: LandingRecord) -> Observed:
    """One thread stands and the others run: seen from beside, whoever makes it stand."""
    details, service = AimedDetails.of(record), ProcessDetails.of(record).service
    names = list(ctx.nodes)
    was = {n: processes_before(record, n) for n in ProcessDetails.of(record).processes}

    async def asleep(name: str) -> int:
        pids = [str(p.pid) for p in was[name]]
        return int(await aim.ask(ctx.node(name), "asleep", "1", *pids))

    asked, snapshots, found = await asyncio.gather(
        ask_all(ctx, probe_pairs(names, record.targets), service=service, retry_for=names),
        take_two_snapshots(ctx, was, service),
        asyncio.gather(*map(asleep, record.targets)),
    )
    before = details.asleep
    now = {n: before.get(n, 0) + k for n, k in zip(record.targets, found, strict=True)}
    problems = [
        f"{n}: no thread was seen to stand while others ran" for n, k in now.items() if not k
    ]
    others: Snapshots = {n: pair for n, pair in snapshots.items() if n not in record.targets}
    reached = _problems(record)
    delayed = {n: row["delayed"] for n, row in details.reached.items()}
    return Observed(
        injector=Signal(
            signal=f"hits of {details.at} at which a thread was held",
            before=dict.fromkeys(details.aimed_at, 0),
            during=delayed,
            moved=bool(delayed) and not reached,
            detail="; ".join(reached)
            or f"held for {details.delay_ms:g} ms, {sum(delayed.values())} times",
        ),
        victim=Signal(
            signal="samples in which one thread of the server stood and others ran",
            before=dict.fromkeys(record.targets, 0),
            during=now,
            moved=bool(now) and not problems,
            detail="; ".join(problems) or f"seen in {sum(now.values())} samples",
        ),
        control=control(record, asked, others),
        facts={**record.facts, "asleep": now},
    )


NEMESIS = Aimed()
