"""`restart`: whole nodes go down at once and come up again on the disks they have.

Everything on the node ends without notice: servers, connections, what was in its memory. It stays
down for the fault's window; with `flaps` above one it comes up and goes down again first. Injector
signal, from the control host: the life of each target that was there before is over and no other
has begun. Victim signal: nobody gets an answer there, clients' operations end badly. Control: the
other nodes live the same life and their servers answer. It has healed when each target lives a new
life, its data directory is the one it had, and its server serves as a member.

A node's own lease would end with it: a process of the control host starts the nodes and their
servers again if we are gone. Where nodes share the host's kernel, that lives on, and nothing that a
server wrote without syncing is lost: that takes `power`. A machine with a kernel of its own loses
it. Which of the two it was is seen from two files, one synced and one not, and the record's
`page_cache` says it. The logs are synced before: what they said is evidence.

Catalogue: N04.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import shlex
from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from dstest.core.errors import FaultRefused, LabError
from dstest.core.evidence import LandingRecord, PageCache, Signal
from dstest.core.node import Node, Reopens, Restarts
from dstest.core.protocols import DataDir, LogFiles, NemesisContext, Option, Restartable, Supervised
from dstest.core.residue import Residue
from nemeses.base.driver import Facts, Healing, Observed, Proven, with_facts
from nemeses.base.process_evidence import gather
from nemeses.base.process_fault import ProcessFault, served_before, whole
from nemeses.base.schedule import check_range
from nemeses.tools.compiled import TOOLS

FOLDER: Final = "/opt/dstest/unsynced"
"""On the disk that the data is on, where that is below /opt; `lay` looks."""

_LAY: Final = (
    'mkdir -p "$0" && [ "$(stat -c %d "$0")" = "$(stat -c %d "$2")" ] || exit 1; '
    'printf %s "$1" >"$0/synced" && sync "$0/synced" "$0" && printf %s "$1" >"$0/unsynced"'
)
_LEFT: Final = (
    'for f in synced unsynced; do echo "$f=$(cat "$0/$f" 2>/dev/null)"; done; rm -rf "$0"'
)
_KEEP: Final = 'for f in "$@"; do [ ! -f "$f" ] || sync "$f" || exit 1; done'


async def keep_logs(ctx: NemesisContext, names: Sequence[str]) -> None:
    """Sync the logs, and nothing else that a server writes: what they said is evidence."""
    logs = ctx.offered(LogFiles)
    paths = {} if logs is None else logs.log_files()

    async def one(name: str) -> None:
        with contextlib.suppress(LabError):
            argv = ["sh", "-c", _KEEP, "sh", *paths.get(name, ())]
            await ctx.node(name).run(argv, timeout_s=5.0, check=False)

    await asyncio.gather(*map(one, names))


async def lay(node: Node, token: str, data: str) -> bool:
    """Write both; False where that fails, or where the data directory is on another disk.

    They are written right before the fault. A machine whose power was cut has the first and not the
    second; where the kernel lived on, both are there. So it is seen what became of unsynced writes,
    and not taken from what a lab is.
    """
    try:
        argv = ["sh", "-c", _LAY, FOLDER, token, data]
        return (await node.run(argv, timeout_s=5.0, check=False)).status == 0
    except LabError:
        return False


async def left_on(node: Node, token: str) -> dict[str, bool]:
    """Which of the two are there, whole; both are removed."""
    found = await node.run(["sh", "-c", _LEFT, FOLDER], timeout_s=5.0)
    rows = dict(line.partition("=")[::2] for line in found.stdout.splitlines())
    return {name: rows.get(name) == token for name in ("synced", "unsynced")}


def what_became(rows: Mapping[str, Mapping[str, bool]]) -> PageCache:
    """Of unsynced writes on these nodes: `lost` where it was on all of them, and the synced ones
    were not; empty where nobody can tell."""
    if not rows or not all(row["synced"] for row in rows.values()):
        return ""
    return "kept" if any(row["unsynced"] for row in rows.values()) else "lost"


FLAPS_MAX: Final = 5

Lives = Mapping[str, str | None]


def lives_over(targets: Sequence[str], before: Lives, now: Lives) -> list[str]:
    """What speaks against all targets being down: those that never were, those that are back."""
    problems = []
    for name in targets:
        if before.get(name) is None:
            problems.append(f"{name} did not run before")
        elif now.get(name) == before[name]:
            problems.append(f"{name} never went down")
        elif now.get(name) is not None:
            problems.append(f"{name} was started again")
    return problems


class Restart(ProcessFault):
    """The `restart` nemesis."""

    name = "restart"
    taxdc = "crash-recovery"
    doc = "stops whole nodes hard and starts them again on the disks they have"
    faults: tuple[str, ...] = ("N04",)
    requires = (Supervised,)
    explains: frozenset[str] = frozenset({"exit"})
    page_cache: PageCache = "kept"
    options: Mapping[str, Option] = {
        **ProcessFault.options,
        "flaps": Option(
            type=int,
            default=1,
            least=1,
            most=100,
            help="how often each target goes down in one fault",
        ),
    }
    residues: tuple[Residue, ...] = (TOOLS,)
    requires_lab: tuple[type, ...] = (Restarts,)
    restarts_nodes = True

    def __init__(self) -> None:
        self._guards: dict[str, Any] = {}
        self._laid: dict[str, str] = {}

    def check_options(self, options: Mapping[str, Any], nodes: Sequence[str]) -> None:
        check_range(options, "flaps", 1, FLAPS_MAX)

    def draw_params(self, rng: random.Random, options: Mapping[str, Any]) -> Facts:
        """How often they go down."""
        return {"flaps": int(options["flaps"])}

    def lab(self, ctx: NemesisContext) -> Restarts:
        """Who can stop and start the nodes. Raises FaultRefused where nobody can."""
        lab = ctx.lab_as(Restarts)
        if lab is None:
            raise FaultRefused(
                f"restart: lab {ctx.lab.kind} cannot stop and start single nodes",
                remedy="--nemesis kill, or --lab lxc",
            )
        return lab

    async def lives(self, ctx: NemesisContext) -> dict[str, str | None]:
        """What tells each node's present life from others; None while it is down."""
        found = await asyncio.to_thread(self.lab(ctx).boots, ctx.lab.lab_id)
        return {name: found.get(name) for name in ctx.nodes}

    async def ready(self, ctx: NemesisContext) -> None:
        await self.lives(ctx)
        if not all(isinstance(ctx.node(n), Reopens) for n in ctx.nodes):
            raise FaultRefused(
                "restart: connections to these nodes cannot be made anew",
                remedy="another --nemesis, such as kill, or a lab whose nodes can be reached again",
            )

    def heal_commands(
        self, ctx: NemesisContext, record: LandingRecord, name: str
    ) -> list[list[str]]:
        return [ctx.need(Restartable).restart_command(name)]

    async def arm(self, ctx: NemesisContext, record: LandingRecord) -> None:
        """A process that starts the nodes where we are gone."""
        healing = {n: as_one(self.heal_commands(ctx, record, n)) for n in record.targets}
        self._guards[record.fault_id] = await asyncio.to_thread(
            self.lab(ctx).guard, ctx.lab.lab_id, healing
        )

    async def disarm(self, ctx: NemesisContext, record: LandingRecord) -> None:
        guard = self._guards.pop(record.fault_id, None)
        if guard is not None:
            await asyncio.to_thread(guard.release)

    async def before(self, ctx: NemesisContext, record: LandingRecord) -> Facts:
        return {
            "lives_before": await self.lives(ctx),
            "lives_between": [],
            "data_before": await _data(ctx, record.targets),
            # Processes on a node that is down cannot be asked after.
            "processes": _without(record.facts["processes"], record.targets),
            "target_processes": {n: record.facts["processes"][n] for n in record.targets},
            "unserved": [text for n in record.targets for text in served_before(record, n)],
        }

    async def apply(self, ctx: NemesisContext, record: LandingRecord) -> Facts:
        """Down and up again as often as asked, then down."""
        between = []
        for index in range(record.facts["flaps"]):
            if index:
                await self.bring_up(ctx, record.targets)
                between.append(await self.lives(ctx))
            await self.take_down(ctx, record.targets)
        return {"lives_between": between}

    async def take_down(self, ctx: NemesisContext, names: Sequence[str]) -> None:
        """Stop nodes without notice; a test sabotages this."""
        await keep_logs(ctx, names)
        await self.lay_unsynced(ctx, names)
        for name in names:
            _reopening(ctx.node(name)).away = True
        await asyncio.to_thread(self.lab(ctx).cut, ctx.lab.lab_id, names)

    async def lay_unsynced(self, ctx: NemesisContext, names: Sequence[str]) -> None:
        """What tells afterwards whether the node's memory was lost."""
        data, self._laid = ctx.offered(DataDir), {}
        if data is None:
            return
        token, path = f"{ctx.lab.lab_id}-{ctx.clock.now_ns()}", data.data_dir()
        done = await asyncio.gather(*(lay(ctx.node(n), token, path) for n in names))
        self._laid = {name: token for name, ok in zip(names, done, strict=True) if ok}

    async def bring_up(self, ctx: NemesisContext, names: Sequence[str]) -> None:
        """Nodes up, connections made anew, servers started on the data they have."""
        await asyncio.to_thread(self.lab(ctx).boot, ctx.lab.lab_id, names)
        nodes = [_reopening(ctx.node(name)) for name in names]
        await asyncio.gather(*(node.reopen() for node in nodes if node.away))
        for node in nodes:
            node.away = False
        await ctx.need(Supervised).restart(names)

    async def observe(self, ctx: NemesisContext, record: LandingRecord) -> Observed:
        lives = await self.lives(ctx)
        record = with_facts(record, {"lives_now": lives})
        record, _, victim, control = await gather(ctx, record)
        before = record.facts["lives_before"]
        hit = [n for n in lives if n not in record.targets and lives[n] != before[n]]
        if hit:
            detail = f"restarted as well: {', '.join(hit)}"
            control = msgspec.structs.replace(control, moved=True, detail=detail)
        return Observed(
            injector=_down(record, lives), victim=victim, control=control, facts=record.facts
        )

    async def revert(self, ctx: NemesisContext, record: LandingRecord) -> None:
        await self.bring_up(ctx, record.targets)

    async def after_heal(self, ctx: NemesisContext, record: LandingRecord) -> Facts:
        """How long the targets served nobody, and what became of what they had not synced."""
        left = {n: await left_on(ctx.node(n), t) for n, t in self._laid.items()}
        self._laid = {}
        found = what_became(left) if {*left} == {*record.targets} else ""
        facts: dict[str, Any] = {"unsynced": left, "page_cache": found} if found else {}
        if record.injected_at is None or record.healed_at is None:
            return facts
        gap_ms = round((record.healed_at - record.injected_at) / 1e6)
        return {**facts, "readiness_gap_ms": gap_ms}

    async def prove(self, ctx: NemesisContext, record: LandingRecord, healing: Healing) -> Proven:
        """A pid of the new life may be the old one's again; the life and the data tell."""
        proven = await whole(ctx, record, healing.counts_before, self.process_problem)
        lives, data = await self.lives(ctx), await _data(ctx, record.targets)
        missing = list(proven.missing)
        for name in record.targets:
            if lives[name] in (None, record.facts["lives_before"][name]):
                missing.append(f"{name} was not restarted")
            if data.get(name) != record.facts["data_before"].get(name):
                missing.append(f"{name} has another data directory than before")
        return msgspec.structs.replace(proven, missing=missing, injector={})


def as_one(commands: Sequence[Sequence[str]]) -> list[str]:
    """One command that runs these one after the other, as a lease does."""
    if len(commands) == 1:
        return [*commands[0]]
    return ["sh", "-c", "; ".join(map(shlex.join, commands))]


def _down(record: LandingRecord, lives: Lives) -> Signal:
    facts, targets = record.facts, record.targets
    problems = [*lives_over(targets, facts["lives_before"], lives), *facts["unserved"]]
    rows = [facts["lives_before"], *facts["lives_between"]]
    if len(rows) != facts["flaps"]:
        problems.append(f"down {len(rows)} times, {facts['flaps']} asked for")
    problems += [
        f"{name} did not come up anew each time"
        for name in targets
        if len({row[name] for row in rows}) != len(rows)
    ]
    return Signal(
        signal="the process that the node runs in, and its start",
        before={n: facts["lives_before"][n] for n in targets},
        during={n: lives[n] for n in targets},
        moved=bool(targets) and not problems,
        detail="; ".join(problems) or f"{', '.join(targets)} down, time {len(rows)} in this fault",
    )


async def _data(ctx: NemesisContext, names: Sequence[str]) -> dict[str, int]:
    """The data directory of each target, as its file system knows it; 0 where there is none."""
    data = ctx.offered(DataDir)
    if data is None:
        return {}
    path = data.data_dir()
    rows = await asyncio.gather(*(ctx.node(n).call("stat", path=path) for n in names))
    return {n: int(row.get("inode", 0)) for n, row in zip(names, rows, strict=True)}


def _without(rows: Mapping[str, Any], names: Sequence[str]) -> dict[str, Any]:
    return {name: row for name, row in rows.items() if name not in names}


def _reopening(node: Node) -> Reopens:
    assert isinstance(node, Reopens)
    return node


NEMESIS = Restart()
