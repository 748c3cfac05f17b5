"""What faults of a server's disk share: `faultfs`, a file system of ours under the system's data,
with its counters and leaks; and what became of the servers.

It is laid under the data directory before the system first starts, passes everything through until
a fault is asked for, and is taken away when the system has stopped (csrc/faultfs.h).

A server that runs on may be *refusing*: far more of its clients' operations end badly than before
the fault; or *waiting*: a thread of it is inside the refused call most of the time, and more
operations end badly than before. Clients of some workloads fail now and then on a healthy server (a
compare-and-set that does not match), so that one that fails proves nothing.
"""

from __future__ import annotations

import asyncio
import math
import shlex
from collections.abc import Container, Mapping, Sequence
from typing import Any, Final, Literal

import msgspec

from dstest.core.errors import FaultRefused, LabError
from dstest.core.evidence import LandingRecord, Signal
from dstest.core.node import Node
from dstest.core.protocols import DataDir, NemesisContext, Process, Supervised
from dstest.core.residue import Residue
from nemeses.base.driver import Facts, Healing, Reverted, nodes_of
from nemeses.base.process_evidence import BAD_OUTCOMES
from nemeses.base.process_fault import ProcessFault
from nemeses.observe.processes import processes_before
from nemeses.tools.compiled import HOME, TOOLS, compile_tool

TOOL: Final = f"{HOME}/faultfs"
BACKING: Final = f"{HOME}/disk"
SOCKET: Final = f"{HOME}/faultfs.sock"
LOG: Final = f"{HOME}/faultfs.log"
MOUNTED_LOOKS: Final = 100
UNMOUNT_TRIES: Final = 100
POLL_S: Final = 0.05

_SOURCES: Final = (
    "faultfs.c", "faultfs_names.c", "faultfs_undo.c", "faultfs_journal.c", "faultfs_control.c",
    "faultfs_rot.c",
)  # fmt: skip
_PACKAGES: Final = "gcc libc6-dev libfuse3-dev"

_LAID_BY_US: Final = f"""\
laid_by_us() {{
    [ -z "${{dstest_adopted-}}" ] || [ -S {SOCKET} ] || [ -d {BACKING} ]
}}
"""
"""On machines that dstest has not made, a file system of this name may be somebody else's."""

USERS: Final = """\
users() {
    find /proc/[0-9]*/fd /proc/[0-9]*/cwd -maxdepth 1 \\( -lname "$1" -o -lname "$1/*" \\) \\
        2>/dev/null | cut -d / -f 3 | sort -u
}
"""
"""Prints the pids of processes that have something below a directory open."""

RUNNING: Final = (
    f"for exe in $(pgrep -x faultfs); do case $(readlink /proc/$exe/exe) in"
    f" {TOOL}|'{TOOL} (deleted)') echo $exe ;; esac; done"
)
"""Prints the pids of our program; others may have one of that name."""

RESIDUE: Final = Residue(
    name="faultfs",
    mark="the mounted file system, or the program, is called faultfs",
    look=f"""\
{_LAID_BY_US}while read -r source mount _; do
    [ "$source" = faultfs ] && laid_by_us "$mount" || continue
    echo "ours file system faultfs at $mount"
done </proc/mounts
for pid in $({RUNNING}); do echo "ours process $pid (faultfs)"; done
[ ! -e {BACKING} ] || echo "ours files in {BACKING}"
""",
    remove=f"""\
{_LAID_BY_US}{USERS}while read -r source mount _; do
    [ "$source" = faultfs ] && laid_by_us "$mount" || continue
    # A server whose calls wait cannot even be killed.
    timeout 3 {TOOL} ask {SOCKET} clear >/dev/null
    for _ in $(seq 30); do
        found=$(users "$mount")
        [ -n "$found" ] || break
        kill -9 $found
        sleep 0.1
    done
    umount "$mount" || umount -l "$mount"
    ! mountpoint -q "$mount" && [ -d {BACKING} ] || continue
    # A look at the data should still be possible: it goes to where it seemed to be, in place of
    # what an earlier run may have left below.
    find "$mount" -mindepth 1 -delete
    chown --reference={BACKING} "$mount"
    chmod --reference={BACKING} "$mount"
    rm -rf {BACKING}/.faultfs
    find {BACKING} -mindepth 1 -maxdepth 1 -exec mv -t "$mount" {{}} +
done </proc/mounts
for pid in $({RUNNING}); do kill -9 $pid; done
rm -rf {BACKING} {SOCKET} {LOG}
:
""",
    rank=40,
)

FAULT_SETTINGS: Final = (
    "sync_delay_us", "write_delay_us", "sync_errno", "write_errno", "read_errno", "stall",
    "rotten",
)  # fmt: skip

BAD: Final = BAD_OUTCOMES

BASELINE_S: Final = 2.0
"""How long clients are watched before the fault."""

WINDOW_NS: Final = 2_000_000_000
"""Operations this recent count: a server may notice late, and go on serving until then."""

BAD_MIN: Final = 3
RISE_MIN: Final = 0.25
"""Of the share of operations that ended well before, what must end badly now."""

SIGMAS: Final = 3.0
WAITING_MIN: Final = 0.5
"""Share of samples with a thread inside the refused call; one that returns at once is hardly seen
there."""

Fate = Literal["gone", "closed", "refusing", "waiting", "unharmed"]
"""`closed`: it runs and listens no more, as PostgreSQL does for the seconds in which it ends."""

Counts = Sequence[int]
"""[operations that ended well, operations that ended badly]."""


def asking(*words: str | int) -> list[str]:
    """The command that tells the file system something; its answer is `name=value` pairs."""
    return [TOOL, "ask", SOCKET, *map(str, words)]


async def ask(node: Node, *words: str | int) -> dict[str, int]:
    """Settings and counters after `words`. Raises LabError where it does not answer."""
    done = await node.run(asking(*words), timeout_s=10.0, check=False)
    if done.status != 0:
        why = (done.stderr or done.stdout).strip() or f"status {done.status}"
        raise LabError(f"{node.name}: {why}")
    pairs = (part.split("=", 1) for part in done.stdout.split())
    return {name: int(value) for name, value in pairs}


async def _is_mounted(node: Node, path: str) -> bool:
    found = await node.run(["cat", "/proc/mounts"], timeout_s=5.0)
    return any(line.startswith(f"faultfs {path} ") for line in found.stdout.splitlines())


async def lay(ctx: NemesisContext, nemesis: str) -> None:
    """Put the file system under the data of each node, unless it is there already."""
    path = ctx.need(DataDir).data_dir()
    program = await compile_tool(
        nemesis,
        _SOURCES,
        flags=("-D_FILE_OFFSET_BITS=64",),
        libraries=("-lfuse3", "-lpthread"),
        packages=_PACKAGES,
    )

    async def one(node: Node) -> None:
        if await _is_mounted(node, path):
            return
        if (await node.run(["test", "-c", "/dev/fuse"], check=False)).status != 0:
            raise FaultRefused(
                f"{nemesis}: {node.name} has no /dev/fuse",
                remedy="a host whose kernel has FUSE; then `dstest lab down` and up again",
            )
        await node.run(["rm", "-rf", BACKING, SOCKET])
        await node.run(["mkdir", "-p", BACKING, path])
        # The mounted directory is whose the directory below was.
        await node.run(["chown", f"--reference={path}", BACKING])
        await node.run(["chmod", f"--reference={path}", BACKING])
        await node.put(TOOL, program, mode=0o755)
        await node.call("spawn", argv=[TOOL, path, BACKING, SOCKET], log=LOG, cwd="/")
        for _ in range(MOUNTED_LOOKS):
            if await _is_mounted(node, path):
                return
            await asyncio.sleep(POLL_S)
        raise LabError(
            f"{nemesis}: {node.name} has not mounted the file system",
            remedy=f"see {LOG} on the node",
        )

    await asyncio.gather(*map(one, nodes_of(ctx)))


async def take_away(ctx: NemesisContext, names: Sequence[str]) -> None:
    """Unmount it; the system must have stopped. The data goes with it."""
    path = ctx.need(DataDir).data_dir()

    async def one(node: Node) -> None:
        error = ""
        # A server that was killed may hold its files for a while yet.
        for _ in range(UNMOUNT_TRIES):
            if not await _is_mounted(node, path):
                break
            done = await node.run(["umount", path], timeout_s=10.0, check=False)
            error = done.stderr.strip()
            await asyncio.sleep(POLL_S)
        else:
            raise LabError(f"{node.name}: the file system is still mounted: {error}")
        await node.run(["rm", "-rf", BACKING, SOCKET])

    # One node that fails leaves the others clean.
    ends = await asyncio.gather(*(one(ctx.node(name)) for name in names), return_exceptions=True)
    for end in ends:
        if isinstance(end, BaseException):
            raise end


async def readings(ctx: NemesisContext) -> dict[str, dict[str, int]]:
    """What the file system of each node says of itself."""
    answers = await asyncio.gather(*(ask(ctx.node(n), "get") for n in ctx.nodes))
    return dict(zip(ctx.nodes, answers, strict=True))


async def counted_on(ctx: NemesisContext, record: LandingRecord, counter: str) -> int:
    """How far this counter of the targets' file systems has come since before the fault."""
    now = await asyncio.gather(*(ask(ctx.node(n), "get") for n in record.targets))
    before = record.facts["disk_before"]
    names = record.targets
    return sum(row[counter] - before[n][counter] for n, row in zip(names, now, strict=True))


def faults_in(reading: Mapping[str, int]) -> list[str]:
    """Settings of a file system that still make a fault."""
    return [f"{name}={reading[name]}" for name in FAULT_SETTINGS if reading[name]]


def disk_signal(
    record: LandingRecord, fate: Signal, counter: str, what: str, problems: Sequence[str]
) -> Signal:
    """Injector: what the file systems of the targets did, and what became of their servers.

    `problems` speak against the counters; `fate` is the signal of the servers.
    """
    deltas = counter_delta(record, counter)
    return Signal(
        signal=f"{what} by the file system",
        before=dict.fromkeys(record.targets, 0),
        during={n: deltas[n] for n in record.targets},
        moved=fate.moved and not problems,
        detail="; ".join([*problems, *([] if fate.moved else [fate.detail])])
        or f"{sum(deltas.values()):,} {what}; {fate.detail}",
    )


def disk_control(record: LandingRecord, control: Signal, counter: str) -> Signal:
    """The control signal; the disk of another node that was hit moves it."""
    deltas = counter_delta(record, counter)
    hit = [n for n, count in deltas.items() if count and n not in record.targets]
    if not hit:
        return control
    detail = f"the disk of {', '.join(hit)} was hit as well"
    return msgspec.structs.replace(control, moved=True, detail=detail)


class DiskFault(ProcessFault):
    """Base: the file system under the data, its counters before and now, its leaks."""

    requires = (Supervised, DataDir)
    residues: tuple[Residue, ...] = (RESIDUE, TOOLS)
    needs: tuple[str, ...] = ("fuse", "x86-64")

    async def prepare(self, ctx: NemesisContext) -> None:
        """Lay the file system."""
        await lay(ctx, self.name)

    async def withdraw(self, ctx: NemesisContext) -> None:
        """Take it away with the data."""
        await take_away(ctx, list(ctx.nodes))

    async def before(self, ctx: NemesisContext, record: LandingRecord) -> Facts:
        return {"disk_before": await readings(ctx)}

    def heal_commands(
        self, ctx: NemesisContext, record: LandingRecord, name: str
    ) -> list[list[str]]:
        clear = shlex.join(asking("clear"))
        restart = shlex.join(ctx.need(Supervised).restart_command(name))
        return [["sh", "-c", f"{clear}; exec {restart}"]]

    async def revert(self, ctx: NemesisContext, record: LandingRecord) -> Reverted | None:
        await clear_disks(ctx, record.targets)
        await ctx.need(Supervised).restart(record.targets)
        return None

    async def left(self, ctx: NemesisContext, record: LandingRecord) -> Mapping[str, int]:
        """How many faults each file system makes."""
        found = await readings(ctx)
        return {name: len(faults_in(found[name])) for name in record.targets}

    async def missing(
        self, ctx: NemesisContext, record: LandingRecord, healing: Healing
    ) -> Sequence[str]:
        return await still_faulty(ctx)

    async def extra_leaks(
        self, ctx: NemesisContext, node: Node, now: Sequence[Process]
    ) -> list[str]:
        """Faults that the file system still makes."""
        return [f"its file system has {f}" for f in faults_in(await ask(node, "get"))]


async def clear_disks(ctx: NemesisContext, names: Sequence[str]) -> None:
    """The file systems of these nodes make no more faults."""
    await asyncio.gather(*(ask(ctx.node(n), "clear") for n in names))


async def still_faulty(ctx: NemesisContext) -> list[str]:
    """Settings of any node's file system that still make a fault."""
    found = await readings(ctx)
    return [f"{n}: the file system has {f}" for n, row in found.items() for f in faults_in(row)]


def owner(ctx: NemesisContext) -> str:
    """The service that keeps its data on the disk; empty, which means all, where several do."""
    folder = ctx.need(DataDir).data_dir()
    services = [s for member in ctx.deployment.members.values() for s in member.services]
    found = {s.name for s in services if any(f"{p}/".startswith(f"{folder}/") for p in s.data)}
    return found.pop() if len(found) == 1 else ""


def counter_delta(record: LandingRecord, counter: str) -> dict[str, int]:
    """By how much a counter of each node's file system has risen since before the fault."""
    now, before = record.facts["disk"], record.facts["disk_before"]
    return {n: now[n][counter] - before[n][counter] for n in now}


def pids_of(record: LandingRecord, name: str) -> list[int]:
    """The processes of the server at a node before the fault, the main one first."""
    return [process.pid for process in processes_before(record, name)]


def client_counts(
    ctx: NemesisContext, names: Sequence[str], own: Container[str]
) -> dict[str, list[int]]:
    """Operations of clients of each node since the run began.

    Of a node that does not answer its `own` clients itself: those of all clients.
    """
    rows = ctx.traffic.by_node()
    everywhere = [
        sum(row[kind] + row[f"{kind}_elsewhere"] for row in rows.values() for kind in kinds)
        for kinds in (("ok",), BAD)
    ]
    return {
        n: [rows[n]["ok"], sum(rows[n][kind] for kind in BAD)] if n in own else everywhere
        for n in names
    }


def difference(now: Mapping[str, Counts], before: Mapping[str, Counts]) -> dict[str, list[int]]:
    """What has been counted in between."""
    return {n: [a - b for a, b in zip(now[n], before[n], strict=True)] for n in now}


def with_counts(
    known: Sequence[Sequence[Any]], now_ns: int, counts: Mapping[str, Counts]
) -> list[list[Any]]:
    """Rows of (time, counts) up to now: none older than the newest one that spans the window."""
    rows = [*map(list, known), [now_ns, dict(counts)]]
    spanning = [i for i, row in enumerate(rows) if now_ns - row[0] >= WINDOW_NS]
    return rows[spanning[-1] if spanning else 0 :]


def counts_since(rows: Sequence[Sequence[Any]]) -> dict[str, list[int]]:
    """What the rows span."""
    return difference(rows[-1][1], rows[0][1])


def _share(counts: Counts) -> float:
    return counts[1] / sum(counts) if sum(counts) else 0.0


def is_worse(before: Counts, since: Counts) -> bool:
    """Do far more operations end badly than before, by no accident?"""
    if not before[0] or since[1] < BAD_MIN:
        return False
    was, now = _share(before), _share(since)
    pooled = (before[1] + since[1]) / (sum(before) + sum(since))
    error = math.sqrt(pooled * (1 - pooled) * (1 / sum(before) + 1 / sum(since)))
    return now - was >= max(RISE_MIN * (1 - was), SIGMAS * error)


def fate_of(before: Counts, since: Counts, inside: float, *, own: bool = True) -> Fate:
    """Of a server that runs; `inside`: the share of samples with a thread in the refused call.

    `own` is false where others are hit beside it whose clients cannot be told from its own: that
    operations end badly says then that some server refuses, and not which.
    """
    if own and is_worse(before, since):
        return "refusing"
    more = before[0] > 0 and since[1] > 0 and _share(since) > _share(before)
    return "waiting" if inside >= WAITING_MIN and more else "unharmed"


def _ends_of(record: LandingRecord, name: str) -> str:
    before, since = record.facts["clients_before"][name], record.facts["clients_since"][name]
    return (
        f"{since[1]} of {sum(since)} operations ended badly, "
        f"{before[1]} of {sum(before)} before the fault"
    )


def fate_text(record: LandingRecord, name: str) -> str:
    """A survivor's fate in a few words."""
    if record.facts["fates"][name] == "waiting":
        share = f"{record.facts['inside'][name]:.0%}"
        return f"{name} runs, in {share} of samples with a thread in the call"
    if record.facts["fates"][name] == "closed":
        return f"{name} runs and has closed its port"
    return f"{name} runs and refuses its clients"


def victim(record: LandingRecord, names: Sequence[str]) -> Signal:
    """What clients of the survivors `names` see."""
    facts = record.facts
    unharmed = [n for n in names if facts["fates"][n] == "unharmed"]
    problems = [
        f"{n} runs, and its clients fare as before: {_ends_of(record, n)}" for n in unharmed
    ]
    return Signal(
        signal="operations of clients of a server that runs which ended badly",
        before={f"clients->{n}": facts["clients_before"][n][1] for n in names},
        during={f"clients->{n}": facts["clients_since"][n][1] for n in names},
        moved=bool(names) and not problems,
        detail="; ".join(problems)
        or "; ".join(f"clients of {n}: {_ends_of(record, n)}" for n in names),
    )
