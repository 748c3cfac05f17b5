"""`credentials`: one member checks its clients' tokens with a secret that the rest does not have.

As after a rotation that missed a member. All clients carry tokens signed with the cluster's secret;
the member is restarted with another one in its file. Injector signal: the member takes a token that
is signed with the other secret, which nobody took before and nobody else takes. Victim signal: it
refuses the token of its clients as not valid, their operations failed, and none of them has been
answered since. Control: the other members take the clients' token and no other, are the processes
they were, and answer. It has healed when all take it again and none takes the other.

The system must ask for tokens: `-o auth=true`. They are issued by us, once for all: passwords are
replicated by the system itself and cannot diverge.

Catalogue: N31.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, Final

from dstest.core.errors import ConfigError, FaultRefused
from dstest.core.evidence import LandingRecord, Signal
from dstest.core.node import Node
from dstest.core.protocols import (
    REFUSED,
    UNANSWERED,
    NemesisContext,
    Option,
    Process,
    Supervised,
)
from nemeses.base.driver import Facts, Healing, Observed, with_facts
from nemeses.base.member_fault import MemberFault, bystanders, patiently, signal
from nemeses.base.process_evidence import with_clients
from nemeses.base.schedule import WINDOW_OPTIONS
from nemeses.member.asked import Authenticated

OTHER: Final = "rotated-without-the-rest"


class Credentials(MemberFault):
    """The `credentials` nemesis."""

    name = "credentials"
    taxdc = "config"
    doc = "lets one member check tokens with another secret than the rest (with -o auth=true)"
    faults: tuple[str, ...] = ("N31",)
    explains: frozenset[str] = frozenset({"exit"})
    requires = (Supervised, Authenticated)
    options: Mapping[str, Option] = WINDOW_OPTIONS

    def check_options(self, options: Mapping[str, Any], nodes: Sequence[str]) -> None:
        """ConfigError where the system is not told to ask for tokens."""
        if not options.get("auth"):
            raise ConfigError(
                f"--nemesis {self.name} needs a system that asks for tokens", remedy="-o auth=true"
            )

    async def ready(self, ctx: NemesisContext) -> None:
        if not ctx.need(Authenticated).asks_for_tokens:
            raise FaultRefused(f"{self.name}: nobody asks for tokens", remedy="-o auth=true")

    def heal_commands(
        self, ctx: NemesisContext, record: LandingRecord, name: str
    ) -> list[list[str]]:
        return [ctx.need(Authenticated).keep_secret_command()]

    async def before(self, ctx: NemesisContext, record: LandingRecord) -> Facts:
        return await _seen(ctx, "_before")

    async def apply(self, ctx: NemesisContext, record: LandingRecord) -> None:
        for name in record.targets:
            await self.rotate(ctx, name)

    async def rotate(self, ctx: NemesisContext, name: str) -> None:
        """Change the secret of one member; a test sabotages this."""
        await ctx.need(Authenticated).take_secret(name, OTHER)

    async def revert(self, ctx: NemesisContext, record: LandingRecord) -> None:
        for name in record.targets:
            await ctx.need(Authenticated).keep_secret(name)
        await ctx.need(Supervised).restart(record.targets)

    async def observe(self, ctx: NemesisContext, record: LandingRecord) -> Observed:
        facts, targets = {**record.facts, **await _seen(ctx, "")}, record.targets
        if not any(facts["refuses_other"][n] for n in targets):
            now = ctx.traffic.by_node()
            answered = {n: now[n]["ok"] for n in with_clients(ctx, record) if n in targets}
            facts.setdefault("answered_until_then", answered)
        record = with_facts(record, facts)
        others = [n for n in ctx.nodes if n not in targets]
        stale, right = facts["refuses_other"], facts["refuses"]
        problems = [f"{n} took it before" for n in targets if not facts["refuses_other_before"][n]]
        problems += [f"{n}: {stale[n]}" for n in targets if stale[n]]
        injector = signal(
            "why a token of the other secret is refused, empty where it is taken",
            facts["refuses_other_before"],
            stale,
            problems,
            f"{', '.join(targets)} takes it",
        )
        hit = [f"{n} takes the other secret's token" for n in others if not stale[n]]
        hit += [f"{n} refuses as well: {right[n]}" for n in others if right[n]]
        return Observed(
            injector=injector,
            victim=_victim(ctx, record),
            control=await bystanders(ctx, record, hit),
            facts=record.facts,
        )

    async def missing(
        self, ctx: NemesisContext, record: LandingRecord, healing: Healing
    ) -> Sequence[str]:
        """All take the clients' token and nobody the other."""
        seen = await _seen(ctx, "")
        problems = [f"{n} refuses the token: {t}" for n, t in seen["refuses"].items() if t]
        problems += [
            f"{n} takes the other token" for n, t in seen["refuses_other"].items() if not t
        ]
        return problems

    async def extra_leaks(
        self, ctx: NemesisContext, node: Node, now: Sequence[Process]
    ) -> list[str]:
        """A secret that is not the cluster's."""
        strange = await ctx.need(Authenticated).strange_secrets()
        return ["a secret of its own"] if node.name in strange else []


async def _seen(ctx: NemesisContext, suffix: str) -> dict[str, Any]:
    """What each member says to either token."""
    members = ctx.need(Authenticated)

    async def ask() -> dict[str, Any]:
        right, other = await asyncio.gather(members.refused_tokens(), members.refused_tokens(OTHER))
        return {f"refuses{suffix}": right, f"refuses_other{suffix}": other}

    def unresponsive(found: dict[str, Any]) -> bool:
        return any(text.startswith(UNANSWERED) for row in found.values() for text in row.values())

    return await patiently(ask, unresponsive)


def _victim(ctx: NemesisContext, record: LandingRecord) -> Signal:
    facts, targets = record.facts, record.targets
    right, was = facts["refuses"], facts["refuses_before"]
    problems = [f"{n} refused it before: {was[n]}" for n in targets if was[n]]
    problems += [
        f"{n}: {right[n] or 'takes it'}" for n in targets if not right[n].startswith(REFUSED)
    ]
    now, before = ctx.traffic.by_node(), facts["traffic_at_inject"]
    own = with_clients(ctx, record)
    refused = {n: now[n]["fail"] - before[n]["fail"] for n in targets if n in own}
    problems += [f"no client of {n} was refused yet" for n, k in refused.items() if not k]
    then = facts.get("answered_until_then", {})
    problems += [f"clients of {n} were answered since" for n, k in then.items() if now[n]["ok"] > k]
    return signal(
        "why the clients' token is refused, empty where it is taken; clients refused",
        {**was, **{f"clients->{n}": 0 for n in refused}},
        {**right, **{f"clients->{n}": k for n, k in refused.items()}},
        problems,
        f"{', '.join(targets)} refuses it; {sum(refused.values())} operations of clients failed",
    )


NEMESIS = Credentials()
