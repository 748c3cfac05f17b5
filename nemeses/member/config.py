"""`config`: one member runs with other settings than the rest.

It is killed and started again with them, and so it is brought back. Which settings these are, what
the member reports then and which request it refuses, the system says (`Divergent.divergence`).
Another election timeout would show nothing under load: every entry that a member gets renews its
patience.

Injector signal: the setting as each server itself reports it, another one on the target alone.
Victim signal: it behaves accordingly: a request that all took before is refused by the target.
Control: the other servers are the processes they were, their settings too, they take what they
took, and their clients are answered. It has healed when every server reports and does what it did
before.

Catalogue: N30.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from dstest.core.evidence import LandingRecord, Signal
from dstest.core.node import Node
from dstest.core.protocols import (
    REFUSED,
    UNANSWERED,
    NemesisContext,
    Process,
    Supervised,
)
from nemeses.base.driver import Facts, Healing, Observed, with_facts
from nemeses.base.member_fault import MemberFault, bystanders, patiently, signal
from nemeses.member.asked import Divergent, Overrides


class Config(MemberFault):
    """The `config` nemesis."""

    name = "config"
    taxdc = "config"
    doc = "lets one member run with other settings than the rest"
    faults: tuple[str, ...] = ("N30",)
    explains: frozenset[str] = frozenset({"exit"})
    requires = (Supervised, Divergent, Overrides)

    def heal_commands(
        self, ctx: NemesisContext, record: LandingRecord, name: str
    ) -> list[list[str]]:
        return [ctx.need(Overrides).unconfigure_command()]

    async def before(self, ctx: NemesisContext, record: LandingRecord) -> Facts:
        return await _seen(ctx, "_before")

    async def apply(self, ctx: NemesisContext, record: LandingRecord) -> None:
        flags = ctx.need(Divergent).divergence().flags
        for name in record.targets:
            await self.configure(ctx, name, flags)
            await ctx.need(Overrides).bounce(name)

    async def configure(self, ctx: NemesisContext, name: str, flags: Sequence[str]) -> None:
        """Write the settings down; a test sabotages this."""
        await ctx.need(Divergent).configure(name, flags)

    async def revert(self, ctx: NemesisContext, record: LandingRecord) -> None:
        for name in record.targets:
            await ctx.need(Overrides).unconfigure(name)
            await ctx.need(Overrides).bounce(name)
        await ctx.need(Supervised).restart(record.targets)

    async def observe(self, ctx: NemesisContext, record: LandingRecord) -> Observed:
        record = with_facts(record, await _seen(ctx, ""))
        facts, targets = record.facts, record.targets
        other = ctx.need(Divergent).divergence()
        settings, was = facts["settings"], facts["settings_before"]
        injector = signal(
            other.setting,
            was,
            settings,
            [f"{n} has {settings[n]}" for n in targets if settings[n] != other.value]
            + [f"{n} had that before" for n in targets if was[n] == other.value],
            f"{', '.join(targets)} alone has {other.value:,}",
        )
        others = [n for n in ctx.nodes if n not in targets]
        hit = [f"{n} has {settings[n]} as well" for n in others if settings[n] != was[n]]
        hit += [
            f"{n} refuses as well: {facts['refusals'][n]}" for n in others if facts["refusals"][n]
        ]
        return Observed(
            injector=injector,
            victim=_victim(record, other.request),
            control=await bystanders(ctx, record, hit),
            facts=record.facts,
        )

    async def missing(
        self, ctx: NemesisContext, record: LandingRecord, healing: Healing
    ) -> Sequence[str]:
        """All report and take what they did before."""
        now = await _seen(ctx, "")
        return [
            f"{n}: {key} is {now[key][n]!r}, was {record.facts[f'{key}_before'][n]!r}"
            for key in ("settings", "refusals")
            for n in ctx.nodes
            if f"{key}_before" in record.facts and now[key][n] != record.facts[f"{key}_before"][n]
        ]

    async def extra_leaks(
        self, ctx: NemesisContext, node: Node, now: Sequence[Process]
    ) -> list[str]:
        """Settings that would be there after a restart."""
        differing = await ctx.need(Overrides).configured()
        return ["settings of its own"] if node.name in differing else []


async def _seen(ctx: NemesisContext, suffix: str) -> dict[str, Any]:
    """What each server reports and takes."""

    async def ask() -> dict[str, Any]:
        settings, refusals = await asyncio.gather(
            ctx.need(Divergent).settings(), ctx.need(Divergent).refusals()
        )
        return {f"settings{suffix}": settings, f"refusals{suffix}": refusals}

    def unresponsive(found: dict[str, Any]) -> bool:
        texts = found[f"refusals{suffix}"].values()
        late = any(text.startswith(UNANSWERED) for text in texts)
        return late or None in found[f"settings{suffix}"].values()

    return await patiently(ask, unresponsive)


def _victim(record: LandingRecord, request: str) -> Signal:
    facts = record.facts
    refusals, was = facts["refusals"], facts["refusals_before"]
    problems = [f"{n} refused before: {was[n]}" for n in record.targets if was[n]]
    problems += [
        f"{n}: {refusals[n] or 'takes it'}"
        for n in record.targets
        if not refusals[n].startswith(REFUSED)
    ]
    return signal(
        f"{request}, empty where it is taken",
        was,
        refusals,
        problems,
        f"{', '.join(record.targets)} refuses what it took before",
    )


NEMESIS = Config()
