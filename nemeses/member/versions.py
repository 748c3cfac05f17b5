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
healed when all report what they did before, `upgrade` when all report the other one: a cluster that
was upgraded does not go back.

Catalogue: N28, N29.
"""

from __future__ import annotations

import asyncio
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from dstest.core.errors import ConfigError, FaultRefused, LabError
from dstest.core.evidence import LandingRecord, Signal
from dstest.core.node import Node
from dstest.core.protocols import (
    NemesisContext,
    Option,
    Process,
    Supervised,
)
from nemeses.base.driver import Facts, Healing, Observed, with_facts
from nemeses.base.member_fault import WITHOUT_TARGETS, MemberFault, bystanders, signal
from nemeses.base.process_evidence import with_clients
from nemeses.base.schedule import WINDOW_OPTIONS
from nemeses.member.asked import Builds, Overrides

POLL_S: Final = 0.2

OTHER_BUILD: Final[Mapping[str, Option]] = {
    "other_build": Option(
        type=str, default="", help="the system's server program of another version, on this host"
    ),
}


class BuildFault(MemberFault):
    """Base: members that run as the other build, changed one after the other."""

    faults: tuple[str, ...]
    explains: frozenset[str] = frozenset({"exit"})

    def __init__(self) -> None:
        self._other = ""
        """The version that the other build reports."""

    def check_options(self, options: Mapping[str, Any], nodes: Sequence[str]) -> None:
        """ConfigError where there is no such program."""
        path = options["other_build"]
        if not path or not Path(path).is_file():
            raise ConfigError(
                f"--nemesis {self.name} needs a second build: {path or 'none given'}",
                remedy="-o other_build=PATH, such as the program out of another release's package",
            )

    async def ready(self, ctx: NemesisContext) -> None:
        """Put the build on the nodes. FaultRefused where it is none, or no other."""
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

    async def withdraw(self, ctx: NemesisContext) -> None:
        """No other build on the nodes any more."""
        await ctx.need(Builds).drop_build()

    async def before(self, ctx: NemesisContext, record: LandingRecord) -> Facts:
        return {
            "other": self._other,
            "versions_before": await ctx.need(Builds).versions(),
            "cluster_before": await ctx.need(Builds).cluster_versions(),
            "steps": [],
        }

    async def change(self, ctx: NemesisContext, name: str) -> None:
        """Restart a member as the other build; a test sabotages this."""
        await ctx.need(Builds).use_build(name)

    async def change_all(self, ctx: NemesisContext, names: Sequence[str]) -> list[dict[str, Any]]:
        """One after the other; the next only when the last one serves. What each step has shown."""
        steps = []
        for name in names:
            await self.change(ctx, name)
            await ctx.need(Supervised).restart([name])
            step: dict[str, Any] = {
                "node": name,
                "at_ns": ctx.clock.now_ns(),
                "versions": await ctx.need(Builds).versions(),
            }
            if name in with_clients(ctx):
                step["answered"] = ctx.traffic.by_node()[name]["ok"]
            steps.append(step)
        return steps

    @abstractmethod
    def victim(self, ctx: NemesisContext, record: LandingRecord) -> Signal:
        """What clients, and the cluster, have had of the other build."""

    async def observe(self, ctx: NemesisContext, record: LandingRecord) -> Observed:
        versions, cluster = await asyncio.gather(
            ctx.need(Builds).versions(), ctx.need(Builds).cluster_versions()
        )
        record = with_facts(record, {"versions": versions, "cluster": cluster})
        was, other = record.facts["versions_before"], record.facts["other"]
        others = [n for n in ctx.nodes if n not in record.targets]
        hit = [f"{n} reports {versions[n]} as well" for n in others if versions[n] != was[n]]
        problems = [f"{n} reports {versions[n]}" for n in record.targets if versions[n] != other]
        problems += [f"{n} reported it before" for n in record.targets if was[n] == other]
        injector = signal(
            "version that each member reports",
            was,
            versions,
            [*problems, *one_by_one(record)],
            f"{', '.join(record.targets)} run {other}",
        )
        return Observed(
            injector=injector,
            victim=self.victim(ctx, record),
            control=await bystanders(ctx, record, hit),
            facts=record.facts,
        )

    @abstractmethod
    def versions_after(self, record: LandingRecord) -> Mapping[str, str]:
        """What each member has to report after the heal."""

    async def missing(
        self, ctx: NemesisContext, record: LandingRecord, healing: Healing
    ) -> Sequence[str]:
        now, wanted = await ctx.need(Builds).versions(), self.versions_after(record)
        return [f"{n} reports {now[n]}" for n in ctx.nodes if now[n] != wanted[n]]


def one_by_one(record: LandingRecord) -> list[str]:
    """What is wrong with the steps: at each of them one more member reports the other version."""
    other, problems = record.facts["other"], []
    for index, step in enumerate(record.facts["steps"]):
        count = sum(version == other for version in step["versions"].values())
        if count != index + 1:
            problems.append(f"{count} report {other} after step {index + 1}")
    return problems


def answered_signal(ctx: NemesisContext, record: LandingRecord) -> Signal:
    """Victim: clients were answered by members that run as the other build."""
    now = ctx.traffic.by_node()
    answered = {
        s["node"]: now[s["node"]]["ok"] - s["answered"]
        for s in record.facts["steps"]
        if "answered" in s
    }
    own = [n for n in with_clients(ctx, record) if n in record.targets]
    problems = [f"no client of {n} was answered by it yet" for n in own if not answered.get(n)]
    problems += [] if own else [f"{', '.join(record.targets)} answer no clients themselves"]
    return signal(
        "answers to clients since each member runs as the other build",
        dict.fromkeys(own, 0),
        {n: answered.get(n, 0) for n in own},
        problems,
        f"{sum(answered.values()):,} answers by {record.facts['other']}",
    )


class MixedVersions(BuildFault):
    """The `mixed-versions` nemesis."""

    name = "mixed-versions"
    taxdc = "upgrade"
    doc = "lets some members run as another build of the system (-o other_build=PATH)"
    faults: tuple[str, ...] = ("N28",)
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

    async def apply(self, ctx: NemesisContext, record: LandingRecord) -> Facts:
        return {"steps": await self.change_all(ctx, record.targets)}

    def victim(self, ctx: NemesisContext, record: LandingRecord) -> Signal:
        return answered_signal(ctx, record)

    async def revert(self, ctx: NemesisContext, record: LandingRecord) -> None:
        for name in record.targets:
            await ctx.need(Overrides).unconfigure(name)
            await ctx.need(Overrides).bounce(name)
            await ctx.need(Supervised).restart([name])

    def heal_commands(
        self, ctx: NemesisContext, record: LandingRecord, name: str
    ) -> list[list[str]]:
        return [ctx.need(Overrides).unconfigure_command()]

    def versions_after(self, record: LandingRecord) -> Mapping[str, str]:
        before: dict[str, str] = record.facts["versions_before"]
        return before

    async def extra_leaks(
        self, ctx: NemesisContext, node: Node, now: Sequence[Process]
    ) -> list[str]:
        """Members that would be of the other build after a restart."""
        return ["another build"] if node.name in await ctx.need(Overrides).configured() else []


class Upgrade(BuildFault):
    """The `upgrade` nemesis. What has been upgraded is so: it comes once in a run."""

    name = "upgrade"
    taxdc = "upgrade"
    doc = "makes one member after the other another build, for good (-o other_build=PATH)"
    faults: tuple[str, ...] = ("N29",)
    requires = (Supervised, Builds)
    scope = "all"
    once = True
    options: Mapping[str, Option] = {**OTHER_BUILD, **WITHOUT_TARGETS}

    async def apply(self, ctx: NemesisContext, record: LandingRecord) -> Facts:
        """All of them, then until the common format is raised or will not be."""
        steps = await self.change_all(ctx, record.targets)
        before = set(record.facts["cluster_before"].values())
        deadline_ns = ctx.clock.now_ns() + int(ctx.need(Builds).raised_s * 1e9)
        while ctx.clock.now_ns() < deadline_ns:
            if set((await ctx.need(Builds).cluster_versions()).values()) - before:
                break
            await asyncio.sleep(POLL_S)
        return {"steps": steps}

    def victim(self, ctx: NemesisContext, record: LandingRecord) -> Signal:
        found, facts = answered_signal(ctx, record), record.facts
        was, now = facts["cluster_before"], facts["cluster"]
        same = [f"{n} still has the format of {now[n]}" for n in now if now[n] in (was[n], None)]
        problems = [*same, *([] if found.moved else [found.detail])]
        return signal(
            f"{found.signal}; common format",
            {**found.before, **{f"format@{n}": v for n, v in was.items()}},
            {**found.during, **{f"format@{n}": v for n, v in now.items()}},
            problems,
            f"{found.detail}; common format {', '.join(sorted({str(v) for v in now.values()}))}",
        )

    async def revert(self, ctx: NemesisContext, record: LandingRecord) -> None:
        await ctx.need(Supervised).restart(record.targets)

    def heal_commands(
        self, ctx: NemesisContext, record: LandingRecord, name: str
    ) -> list[list[str]]:
        return [ctx.need(Supervised).restart_command(name)]

    def versions_after(self, record: LandingRecord) -> Mapping[str, str]:
        return dict.fromkeys(record.facts["versions_before"], record.facts["other"])


MIXED = MixedVersions()
UPGRADE = Upgrade()
