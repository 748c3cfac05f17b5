"""`store-outage`: members no longer reach the other system that they agree by.

The store goes on, and serves everybody else: a member that is hit sends nothing to it any more. The
connections that stand are reset, new ones are dropped or rejected, by the sender's user and the
store's port.

Injector signal: attempts to connect that each member's rule has stopped. Victim signal: what each
member says of when it last reached the store stands still, and its log tells of errors of that one
class; of a fault for the leader, another one leads. Control: all other members reach their store,
the store itself answers on every node, and all servers are the processes that they were. It has
healed when nothing is stopped any more, each member has reached its store again, and all are whole.

Catalogue: N15.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Mapping, Sequence
from typing import Any, Final, Protocol, runtime_checkable

from dstest.core.evidence import LandingRecord, LeadDetails, Signal
from dstest.core.node import Node
from dstest.core.protocols import (
    NemesisContext,
    Option,
    ServerLogs,
    Store,
    Supervised,
    Ticks,
)
from dstest.core.residue import Residue
from nemeses.base.driver import Facts, Healing, Observed, Reverted, Standing
from nemeses.base.leadership import new_lead, no_failover, voters
from nemeses.base.member_fault import signal
from nemeses.base.process_fault import ProcessFault
from nemeses.network.rules import (
    ACTION_OPTION,
    HEAL_COMMAND,
    clear_rules,
    draw_action,
    leftover_rules,
    without_rules,
)
from nemeses.observe.processes import replacements, running
from nemeses.observe.servers import ask_from_control, services_of
from nemeses.tools import nft


@runtime_checkable
class DependsOnStore(Protocol):
    """Members that agree by what another system keeps for them (etcd, ZooKeeper).

    The service that asks it runs as a user that no other program of its node is run as.
    """

    def store(self) -> Store:
        """The system that they depend on."""
        ...

    async def store_seen(self) -> dict[str, int | None]:
        """When each member has last reached its store, as it says itself: a number that grows each
        time it does; None = no answer."""
        ...


STILL_S: Final = 0.15
LATE_S: Final = 10.0
"""A member that is not hit reaches its store more often than this, on a busy machine too."""

QUIET_S: Final = 5.0
"""Longer than any two times apart at which a member reaches it that can."""

PATIENCE_S: Final = 30.0
"""A member asks again and again before it says that it reaches nobody."""

Reading = tuple[int | None, int]
"""What a member says of when it reached its store, and since when (run time) it has said that."""


def read_on(
    earlier: Mapping[str, Sequence[Any]], said: Mapping[str, int | None], now_ns: int
) -> dict[str, Reading]:
    """The readings after these answers. A member has reached its store anew where it says a greater
    number than before; what it says first is of a time that nobody knows."""
    found: dict[str, Reading] = {}
    for name, value in said.items():
        was, since_ns = earlier.get(name, (None, now_ns))
        if value is None or (was is not None and value <= was):
            found[name] = (was, since_ns)
        else:
            found[name] = (value, since_ns if was is None else now_ns)
    return found


class StoreOutage(ProcessFault):
    """The `store-outage` nemesis. `user` lets a test stop what nobody sends."""

    name = "store-outage"
    taxdc = "partition"
    doc = "keeps members from the other system that they agree by; others go on reaching it"
    faults: tuple[str, ...] = ("N15",)
    requires = (Supervised, ServerLogs, DependsOnStore)
    residues: tuple[Residue, ...] = (nft.RESIDUE,)
    needs: tuple[str, ...] = ("nft",)
    options: Mapping[str, Option] = {**ProcessFault.options, **ACTION_OPTION}

    def __init__(self, *, user: str = "") -> None:
        self.user = user

    def draw_params(self, rng: random.Random, options: Mapping[str, Any]) -> Facts:
        return {"action": draw_action(rng, options, clients=False)["action"]}

    async def clear(self, nodes: Sequence[Node]) -> None:
        await clear_rules(nodes)

    async def before(self, ctx: NemesisContext, record: LandingRecord) -> Facts:
        """What members say of their store, once each of them has reached it anew."""
        began_ns = ctx.clock.now_ns()
        seen = read_on({}, await ctx.need(DependsOnStore).store_seen(), began_ns)
        deadline_ns = began_ns + int(LATE_S * 1e9)
        while any(since <= began_ns for _, since in seen.values()):
            if ctx.clock.now_ns() > deadline_ns:
                break
            await asyncio.sleep(STILL_S)
            seen = read_on(seen, await ctx.need(DependsOnStore).store_seen(), ctx.clock.now_ns())
        service = ctx.need(DependsOnStore).store().service
        return {
            "seen_before": {n: value for n, (value, _) in seen.items()},
            "never_seen": sorted(n for n, (_, since) in seen.items() if since <= began_ns),
            "log_bytes_before": await ctx.need(ServerLogs).log_sizes(service),
        }

    def heal_commands(
        self, ctx: NemesisContext, record: LandingRecord, name: str
    ) -> list[list[str]]:
        return [list(HEAL_COMMAND)]

    async def apply(self, ctx: NemesisContext, record: LandingRecord) -> None:
        store = ctx.need(DependsOnStore).store()

        async def cut_off(name: str) -> None:
            (service,) = services_of(ctx, name, store.service)
            rules = nft.store_rules(
                name, self.user or service.user, store.port, record.facts["action"]
            )
            await nft.load(ctx.node(name), rules)

        await asyncio.gather(*map(cut_off, record.targets))

    def patience_s(self, record: LandingRecord) -> float:
        return PATIENCE_S

    async def ticks(self, ctx: NemesisContext, record: LandingRecord) -> Ticks | None:
        return Ticks("connections stopped", sum((await _counted(ctx, record)).values()))

    async def observe(self, ctx: NemesisContext, record: LandingRecord) -> Observed:
        facts, lead = record.facts, LeadDetails.of(record)
        depends = ctx.need(DependsOnStore)
        counted, said, errors, silent, now = await asyncio.gather(
            _counted(ctx, record),
            depends.store_seen(),
            _errors(ctx, record),
            _silent_stores(ctx),
            running(ctx),
        )
        found: Facts = {}
        if lead.leader_before in record.targets and not lead.moved:
            found = await new_lead(ctx, lead, record.targets)
        seen = read_on(facts.get("seen", {}), said, ctx.clock.now_ns())
        hit = [f"{n} has another process" for n in replacements(record, now, ctx.nodes)]
        hit += [f"the store of {n} does not answer" for n in silent]
        unled: list[str] = []
        if facts["scope"] == "primaries" and not (lead.moved or found):
            unled = [no_failover(lead)] if set(voters(ctx)) - {*record.targets} else []
        mute = [n for n, value in said.items() if value is None]
        return signals_of(
            record, counted, seen, errors, mute, hit, unled, ctx.clock.now_ns(), found
        )

    async def in_force(self, ctx: NemesisContext, record: LandingRecord) -> Mapping[str, str]:
        return await nft.marks([ctx.node(name) for name in record.targets], nft.FAULT_TABLE)

    async def vanished(
        self, ctx: NemesisContext, record: LandingRecord
    ) -> Mapping[str, str] | None:
        return await without_rules(ctx, record.targets)

    def stands(self, earlier: LandingRecord, record: LandingRecord) -> Standing:
        if earlier.landed_at is None:
            return Standing()
        was, now = earlier.facts["seen"], record.facts["seen"]
        late = [n for n in record.targets if now[n][0] != was[n][0]]
        mute = [n for n in record.targets if n in record.facts["mute"]]
        doubts = [f"{', '.join(late)} reached the store inside the window"] if late else []
        doubts += [f"{n} does not say when it reached its store" for n in mute]
        return Standing(doubts=doubts)

    async def revert(self, ctx: NemesisContext, record: LandingRecord) -> Reverted:
        """Rules first, for their counters are to be read once more; then the tables."""
        said = await ctx.need(DependsOnStore).store_seen()
        nodes = [ctx.node(name) for name in record.targets]
        await asyncio.gather(*map(nft.flush_chain, nodes))
        first = await _counted(ctx, record)
        await asyncio.sleep(STILL_S)
        second = await _counted(ctx, record)
        await self.clear(nodes)
        return Reverted(facts={"seen_at_heal": said}, first=first, second=second)

    async def missing(
        self, ctx: NemesisContext, record: LandingRecord, healing: Healing
    ) -> Sequence[str]:
        said, before = await ctx.need(DependsOnStore).store_seen(), record.facts["seen_before"]
        at_heal = record.facts.get("seen_at_heal", {})  # absent where reverting has failed
        missing = [
            f"{n} has not reached its store yet"
            for n in record.targets
            if (said[n] or 0) <= max(at_heal.get(n) or 0, before[n] or 0)
        ]
        if healing.reverted.first != healing.reverted.second:
            missing.append("a counter still moved after the rules were taken out")
        return missing

    async def extra_leaks(self, ctx: NemesisContext, node: Node, now: Sequence[Any]) -> list[str]:
        return await leftover_rules(node)


async def _counted(ctx: NemesisContext, record: LandingRecord) -> dict[str, int]:
    """Per member its attempts to connect that were stopped; those without rules are missing."""
    nodes = [ctx.node(name) for name in record.targets]
    found = await asyncio.gather(*(nft.counters(node, nft.FAULT_TABLE) for node in nodes))
    return {
        node.name: counts[f"cut_{node.name}"]
        for node, counts in zip(nodes, found, strict=True)
        if counts is not None
    }


async def _errors(ctx: NemesisContext, record: LandingRecord) -> dict[str, int]:
    """Per member how many lines since the fault say that it reaches no store."""
    store, logs = ctx.need(DependsOnStore).store(), ctx.need(ServerLogs)
    since = record.facts["log_bytes_before"]
    texts = await asyncio.gather(
        *(logs.log_since(name, since[name], store.service) for name in record.targets)
    )
    return {
        name: sum(any(words in line for words in store.errors) for line in text.splitlines())
        for name, text in zip(record.targets, texts, strict=True)
    }


async def _silent_stores(ctx: NemesisContext) -> list[str]:
    """Nodes of a store that runs beside the members and does not answer us."""
    port = ctx.need(DependsOnStore).store().port
    beside = [(n, s) for n in ctx.nodes for s in services_of(ctx, n) if s.probe.port == port]
    answered = await asyncio.gather(
        *(ask_from_control(ctx.node(n).info.address, s.probe) for n, s in beside)
    )
    return [n for (n, _), answers in zip(beside, answered, strict=True) if not answers]


def signals_of(
    record: LandingRecord,
    counted: Mapping[str, int],
    seen: Mapping[str, Reading],
    errors: Mapping[str, int],
    mute: Sequence[str],
    hit: Sequence[str],
    unled: Sequence[str],
    now_ns: int,
    found: Facts,
) -> Observed:
    """The signals, from what the rules counted and what members say; `mute` do not say when they
    reached their store, `hit` speaks for others having been hit as well, `unled` against the lead
    having moved."""
    targets, before = record.targets, record.facts["seen_before"]
    still_s = {n: (now_ns - since) / 1e9 for n, (_, since) in seen.items()}
    problems = [f"{n} did not reach its store before" for n in record.facts["never_seen"]]
    problems += [
        f"{n} may have reached it {still_s[n]:.1f} s ago" for n in targets if still_s[n] < QUIET_S
    ]
    problems += [f"{n} has logged no error of it" for n in targets if not errors[n]]
    problems += [f"{n} does not say when it reached it" for n in targets if n in mute]
    others = [n for n in seen if n not in targets]
    late = [
        f"{n} does not reach its store either"
        for n in others
        if (seen[n][0] or 0) <= (before[n] or 0) or still_s[n] > LATE_S or n in mute
    ]
    silent = [n for n in targets if not counted.get(n)]
    return Observed(
        injector=signal(
            "attempts to connect to the store that were stopped",
            dict.fromkeys(targets, 0),
            {n: counted.get(n, 0) for n in targets},
            [f"{n} has not tried yet" for n in silent],
            f"{sum(counted.values())} attempts stopped",
        ),
        victim=signal(
            "lines of the log about a store that is not reached",
            dict.fromkeys(targets, 0),
            dict(errors),
            [*problems, *unled],
            "none has reached its store since",
        ),
        control=Signal(
            signal="when the others last reached their store, as they say",
            before={n: before[n] for n in others},
            during={n: seen[n][0] for n in others},
            moved=bool([*hit, *late]),
            detail="; ".join([*hit, *late])
            or ("untouched" if others else "no member was left out"),
        ),
        facts={**found, "seen": {n: list(row) for n, row in seen.items()}, "mute": [*mute]},
    )


NEMESIS = StoreOutage()
