"""`memory`: no memory for a server beyond what it has, by a control group of its own.

The servers are started in a group of ours on each node from the first time on, so that all of their
memory is the group's; it has no limit until a fault is due. Then the limit becomes what is in use,
and follows downwards whatever the server gives back; in version 2 of control groups, a server that
does without more is then left less than it has. What comes of it is up to `mode`:

- `oom`: the kernel kills the server.
- `stall`: nobody is killed. Threads that touch new memory wait for it, calls that need it fail.
  A server may wait, or end by its own decision, and then stays down.

Of members with several services it is about one, the first unless `-o service` names another: all
are in the group, and which of them still needs memory once one is gone is up to them.

Injector signal: the limit as the node reads it, allocations that met it (failcnt), and the kernel's
count of processes killed in this group, or tasks that wait for memory. Victim signal: as for
`kill`. Control: other servers answer, and their groups' counters stand still. It has healed when
the limits are gone and the servers, started again where they ended, serve in their groups.

Reclaim alone, without either, is not offered: of a server like etcd, on nodes without swap, less
than a mebibyte can be reclaimed, and no limit in that range stays where it is for long.
"""

from __future__ import annotations

import asyncio
import random
import shlex
from collections.abc import Mapping, Sequence
from typing import Any, Final, Protocol, runtime_checkable

import msgspec

from dstest.core.errors import FaultRefused, LabError
from dstest.core.evidence import LandingRecord, Signal
from dstest.core.node import Node
from dstest.core.protocols import (
    FaultPlan,
    NemesisContext,
    Option,
    Process,
    Supervised,
)
from dstest.core.residue import Residue
from nemeses.base.driver import Choice, Facts, Healing, Observed, Proven, nodes_of, with_facts
from nemeses.base.process_evidence import Snapshots
from nemeses.base.process_fault import (
    SERVICE_OPTION,
    ProcessFault,
    choose_processes,
    gather_evidence,
    not_serving,
    served_before,
    whole,
)
from nemeses.observe.processes import ProcessSnapshot, processes_before, running
from nemeses.observe.servers import services_of
from nemeses.tools.groups import V2, Group


@runtime_checkable
class ControlGroups(Protocol):
    """Servers that join a control group before they start."""

    async def start_in(self, group: str) -> None:
        """Servers that are started from now on join the group of this absolute path on their node;
        an empty path for none."""
        ...


MEMORY: Final = Group("memory")

UNLIMITED_BYTES: Final = 1 << 60
"""A limit of this or more is none; the kernel's own figure depends on the size of a page."""

SLACK_BYTES: Final = 1 << 13
"""A server that stays this far below its limit is not under pressure."""

START_TRIES: Final = 3
START_SHARE: Final = 0.3
"""Of the time that a heal has, what each try may take."""

_SQUEEZE: Final = (
    'if [ -e "$0/memory.max" ]; then used=$(cat "$0/memory.current"); '
    'if [ "$(cat "$0/memory.max")" != max ]; then '
    'own=$(sed -n "s/^anon //p" "$0/memory.stat"); used=$((${own:-$used} * 3 / 4)); fi; '
    'echo "$used" >"$0/memory.max"; exit; fi; '
    'echo "$1" >"$0/memory.oom_control" || exit 1; used=$(cat "$0/memory.usage_in_bytes"); '
    "for step in $(seq 0 256); do "
    'echo $((used + step * 16384)) 2>/dev/null >"$0/memory.limit_in_bytes" && exit 0; done; exit 1'
)
"""Version 1 refuses a limit that it cannot bring the group below; version 2 kills somebody then.
There what was read from files counts as well, and is dropped and read again without an end: where a
limit stands, less than what the server has made itself is left to it."""

_LOOSEN: Final = (
    '[ -d "$0" ] || exit 0; if [ -e "$0/memory.max" ]; then echo max >"$0/memory.max"; exit; fi; '
    'echo -1 >"$0/memory.limit_in_bytes" && echo 0 >"$0/memory.oom_control"'
)
_READ: Final = (
    'cd "$0" || exit 1; if [ -e memory.max ]; then '
    f"echo limit_in_bytes $(sed s/max/{UNLIMITED_BYTES}/ memory.max); "
    "echo usage_in_bytes $(cat memory.current); "
    "sed -n 's/^max /failcnt /p; /^oom_kill /p' memory.events; "
    "for p in $(cat cgroup.procs */cgroup.procs 2>/dev/null); do echo pid$p 1; done; exit; fi; "
    "for f in limit_in_bytes usage_in_bytes failcnt; do "
    "echo $f $(cat memory.$f); done; cat memory.oom_control; "
    "for p in $(cat cgroup.procs); do echo pid$p 1; done"
)


class Memory(ProcessFault):
    """The `memory` nemesis."""

    name = "memory"
    taxdc = "crash-recovery"
    disturbs_host: frozenset[str] = frozenset({"oom-kill", "memory-stall", "swap", "throttled"})
    doc = "leaves a server no memory beyond what it has, by a control group"
    faults: tuple[str, ...] = ()
    requires = (Supervised, ControlGroups)
    residues: tuple[Residue, ...] = (MEMORY.residue,)
    needs: tuple[str, ...] = ("memory-group",)
    explains: frozenset[str] = frozenset({"exit", "oom", "fatal", "panic"})
    options: Mapping[str, Option] = {
        "mode": Option(
            type=str,
            default="oom",
            choices=("oom", "stall"),
            help="the kernel kills the server; or it waits, and calls that need memory fail",
        ),
        **ProcessFault.options,
        **SERVICE_OPTION,
    }

    def __init__(self) -> None:
        self._versions: dict[str, str] = {}

    def draw_params(self, rng: random.Random, options: Mapping[str, Any]) -> Facts:
        return {"mode": options["mode"]}

    async def choose(self, ctx: NemesisContext, plan: FaultPlan) -> Choice:
        service = plan.facts.get("service") or services_of(ctx, next(iter(ctx.nodes)))[0].name
        return await choose_processes(ctx, plan, service=service)

    async def prepare(self, ctx: NemesisContext) -> None:
        """A group on each node, which the servers join when they start."""
        nodes = nodes_of(ctx)
        await asyncio.gather(*(MEMORY.make(node, self.name) for node in nodes))
        self._versions = dict(
            zip(ctx.nodes, await asyncio.gather(*map(MEMORY.version, nodes)), strict=True)
        )
        if ctx.options.get("mode") == "stall" and V2 in self._versions.values():
            raise FaultRefused(
                "memory: mode=stall needs nodes with version 1 of control groups; in version 2 the"
                " kernel lets no task wait for memory",
                remedy="-o mode=oom",
            )
        await ctx.need(ControlGroups).start_in(MEMORY.path)

    async def withdraw(self, ctx: NemesisContext) -> None:
        """Nothing starts in it any more; no group and no mount."""
        await ctx.need(ControlGroups).start_in("")
        await asyncio.gather(*map(MEMORY.withdraw, nodes_of(ctx)))

    async def before(self, ctx: NemesisContext, record: LandingRecord) -> Facts:
        how = sorted({self._versions[n] for n in record.targets if n in self._versions})
        return {"memory_before": await _readings(ctx), "how": ", ".join(how)}

    def patience_s(self, record: LandingRecord) -> float:
        """A server that hardly needs any more memory meets its limit late."""
        return 20.0

    async def apply(self, ctx: NemesisContext, record: LandingRecord) -> None:
        await asyncio.gather(*(self.squeeze(ctx, record, n) for n in record.targets))

    async def squeeze(self, ctx: NemesisContext, record: LandingRecord, name: str) -> None:
        """The limit becomes what the group uses; a test sabotages it."""
        disabled = int(record.facts["mode"] == "stall")
        argv = ["sh", "-c", _SQUEEZE, MEMORY.path, str(disabled)]
        await ctx.node(name).run(argv, timeout_s=5.0, check=False)

    async def revert(self, ctx: NemesisContext, record: LandingRecord) -> None:
        """No limit; a server that was refused memory may end only now that it can go on."""
        argv, names = ["sh", "-c", _LOOSEN, MEMORY.path], record.targets
        await asyncio.gather(*(ctx.node(n).run(argv, timeout_s=5.0) for n in names))
        within_s = START_SHARE * ctx.deployment.timing.restart_s
        for _ in range(START_TRIES):
            try:
                async with asyncio.timeout(within_s):
                    return await ctx.need(Supervised).restart(names)
            except TimeoutError:
                continue
        raise LabError(f"{', '.join(names)} do not serve")

    def heal_commands(
        self, ctx: NemesisContext, record: LandingRecord, name: str
    ) -> list[list[str]]:
        """As `revert`, twice, for the same reason."""
        start = shlex.join(ctx.need(Supervised).restart_command(name))
        return [
            ["sh", "-c", _LOOSEN, MEMORY.path],
            ["sh", "-c", f"sleep 1; exec {start}"],
            ["sh", "-c", f"sleep 3; exec {start}"],
        ]

    async def observe(self, ctx: NemesisContext, record: LandingRecord) -> Observed:
        now = await _readings(ctx)
        for name in record.targets:
            row = now[name]
            inside = any(f"pid{p.pid}" in row for p in processes_before(record, name))
            room = row["limit_in_bytes"] - row["usage_in_bytes"] if inside else 0
            if inside and (room > SLACK_BYTES or self._versions.get(name) == V2):
                await self.squeeze(ctx, record, name)
        record = with_facts(record, {"memory": await _readings(ctx)})
        seen = await gather_evidence(ctx, record, limit_signal)
        others = [n for n in ctx.nodes if n not in record.targets]
        hit = [n for n in others if any(_counter_delta(record, n).values())]
        if not hit:
            return seen
        detail = f"servers of {', '.join(hit)} met a limit as well"
        control = msgspec.structs.replace(seen.control, moved=True, detail=detail)
        return msgspec.structs.replace(seen, control=control)

    def process_problem(
        self, record: LandingRecord, name: str, now: Sequence[Process], snapshot: ProcessSnapshot
    ) -> str | None:
        """A server that only waited may be the processes that it was."""
        left = [p.pid for p in processes_before(record, name) if p.main and p in now]
        if record.facts["mode"] == "oom" and left:
            return f"process {left[0]} is the old one: it was never gone"
        return not_serving(now, snapshot)

    async def prove(self, ctx: NemesisContext, record: LandingRecord, healing: Healing) -> Proven:
        """As for `kill`; no limit, and the server is in its group again."""
        proven = await whole(ctx, record, healing.counts_before, self.process_problem)
        found, now = await asyncio.gather(_readings(ctx), running(ctx))
        wrong = [f"{n}: {text}" for n, row in found.items() for text in group_leaks(row)]
        wrong += [
            f"{n}: process {p.pid} of its server is not in its group"
            for n in record.targets
            for p in now.get(n, ())
            if f"pid{p.pid}" not in found[n]
        ]
        left = {n: len(group_leaks(found[n])) for n in record.targets}
        return Proven([*wrong, *proven.missing], left, proven.victim)

    async def extra_leaks(
        self, ctx: NemesisContext, node: Node, now: Sequence[Process]
    ) -> list[str]:
        """A limit that a group still has."""
        return group_leaks(await read(node))


def limit_signal(record: LandingRecord, snapshots: Snapshots) -> Signal:
    """The limit stands and was met, and by what the kernel says the server suffers from it."""
    problems = [text for n in record.targets for text in _missing(record, n, snapshots[n][1])]
    rows = {n: _counter_delta(record, n) for n in record.targets}
    kind = "oom_kill" if record.facts["mode"] == "oom" else "failcnt"
    return Signal(
        signal={
            "oom_kill": "processes of the group that the kernel killed for lack of memory",
            "failcnt": "allocations of the group that met its limit",
        }[kind],
        before=dict.fromkeys(record.targets, 0),
        during={n: row[kind] for n, row in rows.items()},
        moved=bool(record.targets) and not problems,
        detail="; ".join(problems) or "; ".join(_told(record, n, snapshots[n][1]) for n in rows),
    )


async def read(node: Node) -> dict[str, int]:
    """Counters of a node's group, and `pidN` for what is in it; {} without a group."""
    found = await node.run(["sh", "-c", _READ, MEMORY.path], timeout_s=5.0, check=False)
    rows = (line.split() for line in found.stdout.splitlines())
    return {row[0]: int(row[1]) for row in rows if len(row) == 2}


async def _readings(ctx: NemesisContext) -> dict[str, dict[str, int]]:
    """By node."""
    nodes = nodes_of(ctx)
    found = await asyncio.gather(*map(read, nodes))
    return {node.name: row for node, row in zip(nodes, found, strict=True)}


def group_leaks(row: Mapping[str, int]) -> list[str]:
    """What of a fault is left in the readings of a group."""
    limit = row.get("limit_in_bytes", UNLIMITED_BYTES)
    found = [f"its memory is limited to {limit:,} bytes"] if limit < UNLIMITED_BYTES else []
    return found + (["its group lets tasks wait"] if row.get("oom_kill_disable") else [])


def _counter_delta(record: LandingRecord, name: str) -> dict[str, int]:
    """What the limit of a node's group has done since before the fault."""
    now, before = record.facts["memory"][name], record.facts["memory_before"][name]
    return {k: now.get(k, 0) - before.get(k, 0) for k in ("failcnt", "oom_kill")}


def _missing(record: LandingRecord, name: str, snapshot: ProcessSnapshot) -> list[str]:
    """What speaks against the fault on one target."""
    facts, moved, now = record.facts, _counter_delta(record, name), record.facts["memory"][name]
    pid = facts["pids"][name][0]
    problems = served_before(record, name)
    problems += [
        f"{name}: process {p.pid} was not in its group"
        for p in processes_before(record, name)
        if f"pid{p.pid}" not in facts["memory_before"][name]
    ]
    if now.get("limit_in_bytes", UNLIMITED_BYTES) >= UNLIMITED_BYTES:
        problems.append(f"{name}: its memory is not limited")
    if not moved["failcnt"]:
        problems.append(f"{name}: the limit was not met")
    if facts["mode"] == "oom":
        problems += [] if moved["oom_kill"] else [f"{name}: the kernel killed nothing"]
        problems += [] if snapshot.lost else [f"{name}: process {pid} is still there"]
    elif snapshot.alive and not now.get("under_oom"):
        problems.append(f"{name}: nothing waits for memory")
    if snapshot.lost and snapshot.listener is not None:
        problems.append(f"{name}: process {snapshot.listener} serves in its place")
    return problems


def _told(record: LandingRecord, name: str, snapshot: ProcessSnapshot) -> str:
    moved, before = _counter_delta(record, name), record.facts["memory_before"][name]
    came = "waits for memory" if not snapshot.lost else "ended for lack of memory"
    if moved["oom_kill"]:
        came = "was killed by the kernel"
    mib = before["usage_in_bytes"] / (1 << 20)
    return f"{name}: the server, {mib:.1f} MiB, {came}, its limit met {moved['failcnt']:,} times"


NEMESIS = Memory()
