"""`config`: one member runs with other settings than the rest.

It is killed and started again with them, and so it is brought back. It takes only transactions of
one operation then, and has a quota of its own, which does nothing but can be read back.

Injector signal: the quota as each server itself reports it, another one on the target alone. Victim
signal: it behaves accordingly: a transaction that all took before is refused by the target.
Control: the other servers are the processes they were, their settings too, they take what they
took, and their clients are answered. It has healed when every server reports and does what it did
before.

Catalogue: N30.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, Final

from dstest.core.evidence import LandingRecord, Signal
from dstest.core.node import Node
from dstest.core.protocols import Divergent, NemesisContext, Overrides, Process, Supervised
from nemeses.base.member_fault import MemberFault, bystanders, patiently, signal
from nemeses.base.steps import Facts, Healing, Observed, with_facts

__all__ = ["NEMESIS", "Config"]

QUOTA_BYTES: Final = 3 << 30
"""etcd's own default is two, its advice at most eight."""

OPERATIONS: Final = 2
"""Of the transaction that tells members of different limits apart."""

FLAGS: Final = (f"--quota-backend-bytes={QUOTA_BYTES}", "--max-txn-ops=1")


class Config(MemberFault):
    """The `config` nemesis."""

    name = "config"
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
        for name in record.targets:
            await self.configure(ctx, name, FLAGS)
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
        quotas, was = facts["quotas"], facts["quotas_before"]
        injector = signal(
            "bytes that each server says its store may have",
            was,
            quotas,
            [f"{n} has {quotas[n]}" for n in targets if quotas[n] in (was[n], None)],
            f"{', '.join(targets)} alone has {QUOTA_BYTES:,}",
        )
        others = [n for n in ctx.nodes if n not in targets]
        hit = [f"{n} has {quotas[n]} as well" for n in others if quotas[n] != was[n]]
        hit += [f"{n} refuses as well: {facts['takes'][n]}" for n in others if facts["takes"][n]]
        return Observed(
            injector=injector,
            victim=_victim(record),
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
            for key in ("quotas", "takes")
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
        quotas, takes = await asyncio.gather(
            ctx.need(Divergent).quotas(), ctx.need(Divergent).takes_transactions_of(OPERATIONS)
        )
        return {f"quotas{suffix}": quotas, f"takes{suffix}": takes}

    def unresponsive(found: dict[str, Any]) -> bool:
        problems = {*found[f"takes{suffix}"].values()}
        return None in found[f"quotas{suffix}"].values() or "Deadline Exceeded" in problems

    return await patiently(ask, unresponsive)


def _victim(record: LandingRecord) -> Signal:
    facts = record.facts
    takes, was = facts["takes"], facts["takes_before"]
    refusal = "too many operations"
    problems = [f"{n} refused before: {was[n]}" for n in record.targets if was[n]]
    problems += [
        f"{n}: {takes[n] or 'takes it'}" for n in record.targets if refusal not in takes[n]
    ]
    return signal(
        f"a transaction of {OPERATIONS} operations, empty where it is taken",
        was,
        takes,
        problems,
        f"{', '.join(record.targets)} refuses what it took before",
    )


NEMESIS = Config()
