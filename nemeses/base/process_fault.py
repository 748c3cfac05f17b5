"""The family of faults of server processes: whom they hit, and what shows on those and the others.

A nemesis says how processes are hit and brought back, and by which injector signal that shows on
their nodes (`gather_evidence`); who answers, who listens and what clients see is the same for all.
A fault hits one node, a minority, a majority, all, or the leaders. Its heal is proven where the
servers are whole again and nothing of it is left on a node.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from typing import Any, ClassVar, Final

import msgspec

from dstest.core import limits
from dstest.core.errors import LabError
from dstest.core.evidence import LandingRecord, ProcessDetails, Signal
from dstest.core.node import Node
from dstest.core.protocols import (
    FaultPlan,
    Leadership,
    NemesisContext,
    Option,
    PlanOptions,
    Process,
    Processes,
    Restartable,
    When,
    lacking_of,
)
from nemeses.base.driver import (
    Choice,
    Driver,
    Facts,
    Healing,
    Observed,
    Proven,
    Standing,
    audit_each,
)
from nemeses.base.leadership import agreement, lead_when_known, voters
from nemeses.base.process_evidence import Snapshots, all_ok, gather, with_clients
from nemeses.base.schedule import WINDOW_OPTIONS, drawable, given_targets, planned
from nemeses.observe.processes import (
    ProcessSnapshot,
    listeners,
    mains,
    probes_of,
    processes_before,
    running,
    take_snapshot,
    take_snapshots,
)
from nemeses.observe.servers import ask_all, health_of, leaders_of, probe_pairs, services_of

Healed = Callable[[LandingRecord, str, Sequence[Process], ProcessSnapshot], str | None]
"""What is wrong with a target's processes, None where nothing is."""

Extra = Callable[[NemesisContext, Node, Sequence[Process]], Awaitable[list[str]]]


def not_serving(now: Sequence[Process], snapshot: ProcessSnapshot) -> str | None:
    """That the processes which run `now` do not listen at their ports, None where they do."""
    pids = ", ".join(str(p.pid) for p in now)
    return None if snapshot.serves else f"processes {pids} do not serve"


def incomplete(ctx: NemesisContext, name: str, now: Sequence[Process]) -> str | None:
    """Which services of a member have no main process, None where all have one."""
    there = {p.service for p in now if p.main}
    lost = [s.name for s in services_of(ctx, name) if s.name not in there]
    if not lost:
        return None
    return f"{', '.join(lost)} does not run" if there else "its server does not run"


def still_standing(snapshot: ProcessSnapshot) -> str | None:
    """What still stands, stopped or frozen."""
    pids = ", ".join(map(str, snapshot.standing))
    return f"process {pids} still stands, stopped or frozen" if pids else None


async def whole(
    ctx: NemesisContext, record: LandingRecord, before: Mapping[str, Any], healed: Healed
) -> Proven:
    """Processes, answers, health, one leader for all, clients: what is missing?

    `before` are the counts of the load from before the heal.
    """
    names = record.targets
    now = await running(ctx)
    snapshots = await take_snapshots(ctx, {n: now[n] for n in names if n in now}, now)
    missing: list[str] = []
    for name in names:
        lost = incomplete(ctx, name, now.get(name, ()))
        wrong = (
            lost
            or still_standing(snapshots[name])
            or healed(record, name, now[name], snapshots[name])
        )
        missing += [f"{name}: {wrong}"] if wrong else []
    served = {n: (snapshots[n].listener or 0) if n in snapshots else 0 for n in names}
    asked = await ask_all(ctx, probe_pairs(list(ctx.nodes), names))
    missing += [
        f"no answer {path}"
        for path, n in asked.items()
        if n < len(services_of(ctx, path.rpartition("->")[2]))
    ]
    healthy = await health_of(ctx)
    missing += [f"{n} does not serve" for n in names if not healthy.get(n)]
    led = ctx.offered(Leadership)
    missing += agreement(await leaders_of(ctx, led), ctx.nodes) if led else []
    traffic = ctx.traffic.by_node()
    own = [n for n in with_clients(ctx, record) if n in names]
    answered = {n: all_ok(traffic[n]) - all_ok(before[n]) for n in own}
    missing += [f"clients of {n} are not answered yet" for n, k in answered.items() if not k]
    paths = {p: n for p, n in asked.items() if p.rpartition("->")[2] in names}
    clients = {f"clients->{n}": k for n, k in answered.items()}
    return Proven(missing, served, {**paths, **clients})


async def leaks(ctx: NemesisContext, extra: Extra) -> dict[str, list[str]]:
    """Per node: servers that do not run, are stopped or frozen, what `extra` finds, and leases."""
    now = await running(ctx)

    async def check(node: Node) -> list[str]:
        rows = now.get(node.name, [])
        wrong = incomplete(ctx, node.name, rows)
        if wrong:
            return [wrong]
        found: list[str] = []
        for one in rows:
            seen = await take_snapshot(node, [one], [one], probes_of(ctx, node.name))
            stands = "stopped" if seen.stopped else ""
            stands = f"frozen in {seen.frozen}" if seen.frozen else stands
            found += [f"process {one.pid} is {stands}"] if stands else []
        return [*found, *await extra(ctx, node, rows)]

    return await audit_each(ctx, check)


SCOPES: Final = ("one", "minority", "majority", "all", "primaries")


def fitting(nodes: int) -> list[str]:
    """Scopes that mean something, each another thing, in a cluster of this size."""
    if nodes < 2:
        return ["one"]
    if nodes < 3:
        return ["one", "all", "primaries"]
    return [s for s in SCOPES if s != "minority" or nodes > 4]


def victims(
    scope: str,
    nodes: Sequence[str],
    rng: random.Random,
    *,
    leader: str | None = None,
    targets: Sequence[str] = (),
    voting: Collection[str],
) -> list[str]:
    """The nodes to hit; `targets`, where given, are taken as they are.

    A majority and a minority are of those that count for one, `voting`.

    Raises ValueError where no leader is known or the scope is unknown.
    """
    order = list(nodes)
    rng.shuffle(order)
    voters = [name for name in order if name in voting]
    majority = len(voters) // 2 + 1
    if targets:
        return list(targets)
    if scope == "primaries":
        if leader is None:
            raise ValueError("no leader is known")
        return [leader]
    found = {
        "one": order[:1],
        "minority": voters[: max(1, len(voters) - majority)],
        "majority": voters[:majority],
        "all": order,
    }
    if scope not in found:
        raise ValueError(f"unknown scope {scope!r}; one of {', '.join(SCOPES)}")
    return sorted(found[scope])


LANDING_SLACK_S: Final = 5.0
"""On top of the time after which a client gives up on an operation."""

SERVICE_OPTION: Final[Mapping[str, Option]] = {
    "service": Option(
        type=str,
        default="",
        names_service=True,
        help="strike this service of the members alone; all of them where none is named",
    )
}


def served_before(record: LandingRecord, name: str) -> list[str]:
    """What speaks against the processes that were hit having been those that served."""
    own = {p.pid for p in processes_before(record, name)}
    details = ProcessDetails.of(record)
    heard = details.listening_before[name]
    if heard and {*heard} <= own:
        return []
    return [f"{name}: process {details.pids[name][0]} was not the one that served"]


async def choose_processes(ctx: NemesisContext, plan: FaultPlan, **decided: Any) -> Choice:
    """The members of the planned scope, with their processes; `decided` go before the plan's facts.

    Where the plan names a service, they are chosen among the members that have it. Nothing is
    injected where no leader is known that the scope asks for, or a server does not run.
    """
    wanted = {**plan.facts, **decided}
    scope, seed = wanted["scope"], wanted["seed"]
    service = wanted.get("service", "")
    having = [n for n in ctx.nodes if services_of(ctx, n, service)] if service else [*ctx.nodes]
    if not having:
        return Choice(facts=decided, why_not=f"no member has a service {service!r}")
    lead = await lead_when_known(ctx, wanted=scope == "primaries", seed=seed)
    try:
        chosen = victims(
            scope,
            having,
            random.Random(seed),
            leader=lead.leader,
            voting=[n for n in voters(ctx) if n in having],
            targets=wanted["targets"],
        )
    except ValueError as error:
        return Choice(facts=decided, why_not=str(error))
    lacking = [n for n in chosen if n not in having]
    if lacking:
        return Choice(facts=decided, why_not=f"{', '.join(lacking)} has no service {service!r}")
    found = await running(ctx, service)
    facts = {
        **decided,
        **lead.facts(),
        "pids": mains(found),
        "processes": msgspec.to_builtins(found),
    }
    lacking = [n for n in having if n not in facts["pids"]]
    why_not = f"no server runs on {', '.join(lacking)}" if lacking else ""
    return Choice(targets=chosen, facts=facts, why_not=why_not)


async def gather_evidence(
    ctx: NemesisContext,
    record: LandingRecord,
    injector: Callable[[LandingRecord, Snapshots], Signal],
) -> Observed:
    """What the targets and the others show, with the signal that `injector` makes of the targets'
    processes."""
    record, snapshots, victim, control = await gather(ctx, record)
    return Observed(
        injector=injector(record, snapshots), victim=victim, control=control, facts=record.facts
    )


STARTS_MAX: Final = 2
"""After the heal: one may be too early for a server that is still ending."""

START_S: Final = 10.0


async def start_again(ctx: NemesisContext, record: LandingRecord) -> dict[str, int]:
    """How often targets were started after the heal. A server that ran at the heal may end only
    then: what it read or wrote had failed. It is started again, but not for ever."""
    now = await running(ctx)
    starts: dict[str, int] = {**record.facts.get("started_again", {})}
    for name in record.targets:
        if incomplete(ctx, name, now.get(name, ())) and starts.get(name, 0) < STARTS_MAX:
            starts[name] = starts.get(name, 0) + 1
            start = ctx.need(Restartable).restart_command(name)
            await ctx.node(name).run(start, timeout_s=START_S, check=False)
    return starts


def process_standing(earlier: LandingRecord, record: LandingRecord) -> Standing:
    """Are the targets still as they were hit, and do they still answer nobody?"""
    injector = record.injector
    if injector is None or not injector.moved:
        detail = injector.detail if injector else "no look could be taken"
        return Standing(present=False, doubts=[f"the fault did not stand: {detail}"])
    answered = {n: row[0] for n, row in ProcessDetails.of(earlier).quiet.items()}
    quiet = ProcessDetails.of(record).quiet
    stood = earlier.landed_at is not None
    late = [n for n, ok in answered.items() if stood and (n not in quiet or quiet[n][0] != ok)]
    doubts = [f"clients of {', '.join(late)} were answered inside the window"] if late else []
    return Standing(doubts=doubts)


class ProcessFault(Driver):
    """Base of the process nemeses."""

    requires: tuple[type, ...] = (Processes,)
    requires_when: tuple[When, ...] = (When("scope", "primaries", (Leadership,)),)
    tolerated = (TimeoutError, LabError)
    missing_prefix = "after the heal: "
    counts_pids: ClassVar[bool] = False
    """Is the injector signal the pid that serves? Then it is so after the heal as well."""

    once: ClassVar[bool] = False
    """Is there one fault in a run, and no more?"""

    options: Mapping[str, Option] = {
        "scope": Option(
            type=str,
            default="random",
            choices=("random", *SCOPES),
            help="whose processes: one node's, a minority's, a majority's, all, the leader's",
        ),
        **WINDOW_OPTIONS,
    }

    def check_options(self, options: Mapping[str, Any], nodes: Sequence[str]) -> None:
        """ConfigError where no fault can be made of them."""

    def plan_options(self, options: Mapping[str, Any]) -> Mapping[str, Any]:
        """The options that a plan is made with: some are not the user's to choose."""
        return options

    def draw_params(self, rng: random.Random, options: Mapping[str, Any]) -> Facts:
        """What else a plan says of its fault."""
        return {}

    def plan(
        self,
        rng: random.Random,
        nodes: Sequence[str],
        time_limit_s: float,
        options: Mapping[str, Any],
    ) -> list[FaultPlan]:
        """Fault windows over the run; scopes in a shuffled order, so that all come in turn."""
        self.check_options(options, nodes)
        options = PlanOptions(self.plan_options(options), lacking_of(options))
        scopes: list[str] = []
        given = given_targets(options)
        # In a mix there are options of others besides.
        service = options["service"] if "service" in self.options else ""
        chosen = {"service": service} if service else {}

        def draw() -> dict[str, Any]:
            if not scopes:
                scopes.extend(drawable(self.requires_when, "scope", fitting(len(nodes)), options))
                rng.shuffle(scopes)
            drawn = scopes.pop()
            scope = drawn if options["scope"] == "random" else options["scope"]
            named = "given" if given else scope
            return {"scope": named, "seed": rng.getrandbits(32), **chosen}

        plans = planned(self.name, time_limit_s, options, draw)
        plans = plans[:1] if self.once else plans
        return [
            msgspec.structs.replace(plan, facts={**plan.facts, **self.draw_params(rng, options)})
            for plan in plans
        ]

    async def choose(self, ctx: NemesisContext, plan: FaultPlan) -> Choice:
        return await choose_processes(ctx, plan)

    async def baseline(self, ctx: NemesisContext, record: LandingRecord) -> Facts:
        """Who listens, who answers."""
        names, service = list(ctx.nodes), ProcessDetails.of(record).service
        asked = await ask_all(
            ctx, probe_pairs(names, record.targets), service=service, retry_for=names
        )
        heard = await asyncio.gather(
            *(listeners(ctx.node(n), probes_of(ctx, n, service)) for n in record.targets)
        )
        return {
            "asked_before": asked,
            "listening_before": {
                n: sorted(pids) for n, pids in zip(record.targets, heard, strict=True)
            },
        }

    def usual_patience_s(self, ctx: NemesisContext, record: LandingRecord) -> float:
        """Until clients have given up; of a fault for the leader, until there is another."""
        slack_s = LANDING_SLACK_S * ctx.deployment.timing.slowness
        clients_s = float(ctx.options.get("op_timeout_s", 2.0)) + slack_s
        led = ProcessDetails.of(record).scope == "primaries"
        return max(clients_s, ctx.deployment.timing.failover_s if led else 0.0)

    def stands(self, earlier: LandingRecord, record: LandingRecord) -> Standing:
        return process_standing(earlier, record)

    def heal_step_s(self, ctx: NemesisContext) -> float:
        """It may have to start the servers."""
        return max(limits.HEAL_STEP_S, ctx.deployment.timing.restart_s)

    def revert_within_s(self, ctx: NemesisContext) -> float | None:
        return ctx.deployment.timing.restart_s

    def heal_within_s(self, ctx: NemesisContext) -> float:
        return ctx.deployment.timing.rejoin_s

    def process_problem(
        self, record: LandingRecord, name: str, now: Sequence[Process], snapshot: ProcessSnapshot
    ) -> str | None:
        """What is wrong with a target's processes after the heal, None where nothing is.

        `snapshot` is of those that run `now`; there is at least one.
        """
        return not_serving(now, snapshot)

    async def prove(self, ctx: NemesisContext, record: LandingRecord, healing: Healing) -> Proven:
        """They serve, and as members of one cluster."""
        proven = await whole(ctx, record, healing.counts_before, self.process_problem)
        figures = proven.injector if self.counts_pids else await self.left(ctx, record)
        return msgspec.structs.replace(proven, injector=figures)

    async def left(self, ctx: NemesisContext, record: LandingRecord) -> Mapping[str, int]:
        """What the injector still does after the heal, where that can be counted."""
        return {}

    async def extra_leaks(
        self, ctx: NemesisContext, node: Node, now: Sequence[Process]
    ) -> list[str]:
        """What else of ours may still be on the node or in its server processes."""
        return []

    async def audit(self, ctx: NemesisContext) -> dict[str, list[str]]:
        """Servers that do not run, are stopped or frozen, and leases that stand."""
        return await leaks(ctx, self.extra_leaks)
