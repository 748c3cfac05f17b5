"""`mixed-versions` and `upgrade`: members of two builds in one cluster, under load.

The other build is a program on the control host (`-o other_build=PATH`) that is put on the nodes
before the load. One that reports the version that runs anyway is refused: the same program under
another name is no other version.

    mixed-versions  N28  some members run as the other build while the fault stands, then go back
    upgrade         N29  one member after the other becomes the other build, each waited for, and
                         stays so; once in a run

Injector signal: the version that each member reports: two of them in the cluster, for `upgrade` the
other one at each step on one more member. Victim signal: clients of each restarted member were
answered by it as the other build; for `upgrade` also the version of the cluster's common format,
which was raised everywhere when the last member had come. Control: the other servers are the
processes they were, report the old version, and their clients are answered. `mixed-versions` has
healed when all report what they did before, `upgrade` when all report the other one.

Catalogue: N28, N29.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec

from dstest.core.errors import ConfigError, FaultRefused, LabError
from dstest.core.evidence import LandingRecord, Signal
from dstest.core.node import Node
from dstest.core.protocols import (
    Builds,
    FaultPlan,
    NemesisContext,
    Option,
    Overrides,
    Process,
    Supervised,
)
from nemeses.base.member_fault import UNAIMED, MemberFault, bystanders, signal
from nemeses.base.process_fault import Proven
from nemeses.base.schedule import WINDOW_OPTIONS

__all__ = ["MIXED", "UPGRADE", "MixedVersions", "Upgrade"]

POLL_S: Final = 0.2
RAISED_S: Final = 15.0
"""etcd looks every five seconds whether all members can do more."""

OTHER_BUILD: Final[Mapping[str, Option]] = {
    "other_build": Option(
        type=str, default="", help="the system's server program of another version, on this host"
    ),
}


class MixedVersions(MemberFault):
    """The `mixed-versions` nemesis."""

    name = "mixed-versions"
    doc = "lets some members run as another build of the system (-o other_build=PATH)"
    faults: tuple[str, ...] = ("N28",)
    explains: frozenset[str] = frozenset({"exit"})
    _other: str
    requires: tuple[type, ...] = (Supervised, Builds, Overrides)
    options: Mapping[str, Option] = {
        "scope": Option(
            type=str,
            default="minority",
            choices=("one", "minority", "majority"),
            help="how many members run as the other build",
        ),
        **OTHER_BUILD,
        **WINDOW_OPTIONS,
    }

    def plan(
        self,
        rng: random.Random,
        nodes: Sequence[str],
        time_limit_s: float,
        options: Mapping[str, Any],
    ) -> list[FaultPlan]:
        """ConfigError where there is no such program."""
        path = options["other_build"]
        if not path or not Path(path).is_file():
            raise ConfigError(
                f"--nemesis {self.name} needs a second build: {path or 'none given'}",
                remedy="-o other_build=PATH, such as usr/bin/etcd out of another release's package",
            )
        return super().plan(rng, nodes, time_limit_s, options)

    async def setup(self, ctx: NemesisContext) -> None:
        """Put the build on the nodes. FaultRefused where it is none, or no other."""
        await super().setup(ctx)
        program = await asyncio.to_thread(Path(ctx.options["other_build"]).read_bytes)
        try:
            other = await ctx.need(Builds).take_build(program)
        except LabError as error:
            raise FaultRefused(
                f"{self.name}: {error.message}", remedy="-o other_build=PATH"
            ) from None
        known = set((await ctx.need(Builds).versions()).values())
        if other in known:
            raise FaultRefused(
                f"{self.name}: the members run {other} already: one version is no mixture",
                remedy="-o other_build= a build of another version",
            )
        self._other = other

    async def prepare(self, ctx: NemesisContext) -> None:
        """Nothing yet: which version runs shows only when it does."""

    async def withdraw(self, ctx: NemesisContext) -> None:
        """No other build on the nodes any more."""
        await ctx.need(Builds).drop_build()

    def heal_command(self, ctx: NemesisContext, record: LandingRecord, name: str) -> list[str]:
        return ctx.need(Overrides).unconfigure_command()

    async def _before(self, ctx: NemesisContext, record: LandingRecord) -> LandingRecord:
        record = await super()._before(ctx, record)
        facts = {
            **record.facts,
            "other": self._other,
            "versions_before": await ctx.need(Builds).versions(),
            "cluster_before": await ctx.need(Builds).cluster_versions(),
            "steps": [],
        }
        return msgspec.structs.replace(record, facts=facts)

    async def apply(self, ctx: NemesisContext, record: LandingRecord) -> dict[str, Any]:
        """One after the other; the next only when the last one serves."""
        steps = []
        for name in record.targets:
            await self.change(ctx, name)
            await ctx.need(Supervised).restart([name])
            step = {
                "node": name,
                "at_ns": ctx.clock.now_ns(),
                "versions": await ctx.need(Builds).versions(),
                "answered": ctx.traffic.by_node()[name]["ok"],
            }
            steps.append(step)
        return {"steps": steps}

    async def change(self, ctx: NemesisContext, name: str) -> None:
        """Restart a member as the other build; a test sabotages this."""
        await ctx.need(Builds).use_build(name)

    async def undo(self, ctx: NemesisContext, names: Sequence[str]) -> None:
        for name in names:
            await ctx.need(Overrides).unconfigure(name)
            await ctx.need(Overrides).bounce(name)
            await ctx.need(Supervised).restart([name])

    async def evidence(
        self, ctx: NemesisContext, record: LandingRecord
    ) -> tuple[LandingRecord, Signal, Signal, Signal]:
        versions, cluster = await asyncio.gather(
            ctx.need(Builds).versions(), ctx.need(Builds).cluster_versions()
        )
        facts = {**record.facts, "versions": versions, "cluster": cluster}
        record = msgspec.structs.replace(record, facts=facts)
        was, other = facts["versions_before"], facts["other"]
        others = [n for n in ctx.nodes if n not in record.targets]
        hit = [f"{n} reports {versions[n]} as well" for n in others if versions[n] != was[n]]
        said = [f"{n} reports {versions[n]}" for n in record.targets if versions[n] != other]
        said += [f"{n} reported it before" for n in record.targets if was[n] == other]
        injector = signal(
            "version that each member reports",
            was,
            versions,
            [*said, *self.one_by_one(record)],
            f"{', '.join(record.targets)} run {other}",
        )
        return record, injector, self.victim(ctx, record), await bystanders(ctx, record, hit)

    def one_by_one(self, record: LandingRecord) -> list[str]:
        """What is wrong with the steps: at each of them one more member reports the other one."""
        other, said = record.facts["other"], []
        for index, step in enumerate(record.facts["steps"]):
            count = sum(version == other for version in step["versions"].values())
            if count != index + 1:
                said.append(f"{count} report {other} after step {index + 1}")
        return said

    def victim(self, ctx: NemesisContext, record: LandingRecord) -> Signal:
        """Clients were answered by members that run as the other build."""
        now = ctx.traffic.by_node()
        answered = {s["node"]: now[s["node"]]["ok"] - s["answered"] for s in record.facts["steps"]}
        lacking = [n for n in record.targets if not answered.get(n)]
        return signal(
            "answers to clients since each member runs as the other build",
            dict.fromkeys(record.targets, 0),
            {n: answered.get(n, 0) for n in record.targets},
            [f"no client of {n} was answered by it yet" for n in lacking],
            f"{sum(answered.values()):,} answers by {record.facts['other']}",
        )

    async def _whole(
        self, ctx: NemesisContext, record: LandingRecord, before: Mapping[str, Any]
    ) -> Proven:
        proven = await super()._whole(ctx, record, before)
        now = await ctx.need(Builds).versions()
        wanted = self.wanted(record)
        said = [f"{n} reports {now[n]}" for n in ctx.nodes if now[n] != wanted[n]]
        return msgspec.structs.replace(proven, missing=[*said, *proven.missing])

    def wanted(self, record: LandingRecord) -> dict[str, str]:
        """What each member has to report afterwards."""
        found: dict[str, str] = record.facts["versions_before"]
        return found

    async def extra_leaks(
        self, ctx: NemesisContext, node: Node, now: Sequence[Process]
    ) -> list[str]:
        """Members that would be of the other build after a restart."""
        return ["another build"] if node.name in await ctx.need(Overrides).configured() else []


class Upgrade(MixedVersions):
    """The `upgrade` nemesis."""

    name = "upgrade"
    doc = "makes one member after the other another build, for good (-o other_build=PATH)"
    faults: tuple[str, ...] = ("N29",)
    requires = (Supervised, Builds)
    scope = "all"
    options: Mapping[str, Option] = {**OTHER_BUILD, **UNAIMED}

    def plan(
        self,
        rng: random.Random,
        nodes: Sequence[str],
        time_limit_s: float,
        options: Mapping[str, Any],
    ) -> list[FaultPlan]:
        """Once: what has been upgraded is so."""
        return super().plan(rng, nodes, time_limit_s, options)[:1]

    def heal_command(self, ctx: NemesisContext, record: LandingRecord, name: str) -> list[str]:
        return ctx.need(Supervised).restart_command(name)

    async def apply(self, ctx: NemesisContext, record: LandingRecord) -> dict[str, Any]:
        """All of them, then until the common format is raised or will not be."""
        said = await super().apply(ctx, record)
        deadline_ns = ctx.clock.now_ns() + int(RAISED_S * 1e9)
        while ctx.clock.now_ns() < deadline_ns:
            if set((await ctx.need(Builds).cluster_versions()).values()) - set(
                record.facts["cluster_before"].values()
            ):
                break
            await asyncio.sleep(POLL_S)
        return said

    async def undo(self, ctx: NemesisContext, names: Sequence[str]) -> None:
        await ctx.need(Supervised).restart(names)

    def victim(self, ctx: NemesisContext, record: LandingRecord) -> Signal:
        found, facts = super().victim(ctx, record), record.facts
        was, now = facts["cluster_before"], facts["cluster"]
        same = [f"{n} still has the format of {now[n]}" for n in now if now[n] in (was[n], None)]
        said = [*same, *([] if found.moved else [found.detail])]
        return signal(
            f"{found.signal}; common format",
            {**found.before, **{f"format@{n}": v for n, v in was.items()}},
            {**found.during, **{f"format@{n}": v for n, v in now.items()}},
            said,
            f"{found.detail}; common format {', '.join(sorted({str(v) for v in now.values()}))}",
        )

    def wanted(self, record: LandingRecord) -> dict[str, str]:
        return dict.fromkeys(record.facts["versions_before"], record.facts["other"])

    async def extra_leaks(
        self, ctx: NemesisContext, node: Node, now: Sequence[Process]
    ) -> list[str]:
        return []  # the other build is what it has become


MIXED = MixedVersions()
UPGRADE = Upgrade()
