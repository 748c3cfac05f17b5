"""`fds`: a server that can open no file and accept no connection any more.

The soft limit of open files (RLIMIT_NOFILE) of all its processes is lowered from outside to the
standard streams, which are never closed: with a limit at what is open now, whatever the server
closes would make room for a new connection. What is open stays open, so clients that are connected
are served.

Injector signal: the limit as /proc tells it, and no number below it that is free. A server that
ended because of that, by its own log, counts as well. Victim signal: new connections, from the
control host and from another node, get no answer, and did before (etcd ends within half a minute,
when it looks for old snapshots). Control: other servers answer
them and their limits are what they were. It has healed when the limit is back and new connections
are answered.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from dstest.core.evidence import LandingRecord, Signal
from dstest.core.node import Node
from dstest.core.protocols import NemesisContext, Process, ServerLogs, Supervised
from dstest.core.residue import MAY_TOUCH, Residue
from nemeses.base.driver import Facts, Healing, Observed, Proven
from nemeses.base.member_fault import signal
from nemeses.base.process_evidence import Snapshots, control
from nemeses.base.process_fault import ProcessFault, served_before, whole
from nemeses.observe.processes import probes_of, processes_before, running, take_two_snapshots
from nemeses.observe.servers import ask_all, probe_pairs, services_of

LEAK_SPARE: Final = 16
"""A server that may open fewer files than this, though it could be allowed more, is not healed."""

CONNECT_S: Final = 1.0

LOWERED_MAX: Final = 64
"""Nobody else lets a process open so few files."""

_SET: Final = """\
of() { sed -n "s/^$2:[[:space:]]*\\([0-9]*\\).*/\\1/p" "/proc/$1/status"; }
set_limit() {
    setpriv --reuid "$(of "$1" Uid)" --regid "$(of "$1" Gid)" --clear-groups \\
        prlimit --pid "$1" --nofile="$2:"
}
"""
"""A process's soft limit, set by its own user: root may not where it lacks CAP_SYS_RESOURCE."""

_EACH_LOWERED: Final = f"""\
{MAY_TOUCH}
grep -H '^Max open files' /proc/[0-9]*/limits 2>/dev/null |
while read -r pid _ _ soft hard _; do
    pid=${{pid#/proc/}} pid=${{pid%%/*}}
    may_touch "$pid" || continue
    case $soft in *[!0-9]*) continue ;; esac
    [ "$soft" -lt {LOWERED_MAX} ] || continue
    # What a process took from itself for good, as sshd does before a login, is not ours.
    [ "$hard" = unlimited ] || [ "$soft" -lt "$hard" ] || continue
"""

LIMITS: Final = Residue(
    name="open files",
    mark=f"a process may open fewer than {LOWERED_MAX} files, and could allow itself more",
    look=f'{_EACH_LOWERED}    echo "ours limit of $soft open files on process $pid"\ndone\n',
    remove=f'{_SET}{_EACH_LOWERED}    set_limit "$pid" "$hard"\ndone\n:\n',
    rank=10,
)

_SAME: Final = '[ "$(sed "s/.*) //" /proc/$0/stat 2>/dev/null | cut -d" " -f20)" = "$1" ]'
"""Is process $0 still the one that started at $1?"""

_EXHAUST: Final = (
    f"{_SET}{_SAME} || exit 1; free=0; "
    "while [ $free -lt 3 ] && [ -L /proc/$0/fd/$free ]; do free=$((free + 1)); done; "
    'set_limit "$0" "$free"'
)
_RESTORE: Final = (
    f'{_SET}limit=$0; for p in "$@"; do [ ! -e /proc/$p ] || set_limit "$p" "$limit"; done'
)
_READ: Final = f"{_SAME} || exit 1; sed -n 's/^Max open files *//p' /proc/$0/limits; ls /proc/$0/fd"


class Files(msgspec.Struct, frozen=True):
    """Limits of a process's open files, and the numbers of those that are open."""

    soft: int
    hard: int
    open: tuple[int, ...]

    @property
    def spare(self) -> int:
        """How many more it may open."""
        return self.soft - sum(number < self.soft for number in self.open)


class Descriptors(ProcessFault):
    """The `fds` nemesis."""

    name = "fds"
    taxdc = "fault-handling"
    doc = "lets a server open no more files and accept no more connections"
    faults: tuple[str, ...] = ()
    requires = (Supervised, ServerLogs)
    residues: tuple[Residue, ...] = (LIMITS,)
    explains: frozenset[str] = frozenset({"exit", "fatal", "panic"})

    def __init__(self) -> None:
        self._held: dict[str, list[asyncio.StreamWriter]] = {}
        """By fault, idle connections to its targets, closed at its heal: a server may accept no new
        one until one of those that it has ends, and clients keep theirs."""

    async def before(self, ctx: NemesisContext, record: LandingRecord) -> Facts:
        self._held[record.fault_id] = await _connections(ctx, record.targets)
        files = await _files(ctx, _was(record))
        names = {s.name for n in ctx.nodes for s in services_of(ctx, n)}
        return {
            "limit_before": {n: min(f.soft for f in rows) for n, rows in files.items() if rows},
            "spare_before": {n: min(f.spare for f in rows) for n, rows in files.items() if rows},
            "log_bytes_before": {s: await ctx.need(ServerLogs).log_sizes(s) for s in sorted(names)},
        }

    async def apply(self, ctx: NemesisContext, record: LandingRecord) -> None:
        await asyncio.gather(*(self.exhaust(ctx, record, n) for n in record.targets))

    async def exhaust(self, ctx: NemesisContext, record: LandingRecord, name: str) -> None:
        """Not one number below the limit is free; a test sabotages it."""
        for one in (await running(ctx)).get(name, ()):
            argv = ["sh", "-c", _EXHAUST, str(one.pid), str(one.start_time)]
            await ctx.node(name).run(argv, timeout_s=5.0, check=False)

    async def revert(self, ctx: NemesisContext, record: LandingRecord) -> None:
        """The limit first: a server that may open nothing cannot even say that it serves."""
        now = await running(ctx)
        try:
            for name in record.targets:
                rows = [*processes_before(record, name), *now.get(name, ())]
                await ctx.node(name).run(_restoring(record, name, rows), timeout_s=5.0)
        finally:
            self.let_go(record)
        await ctx.need(Supervised).restart(record.targets)

    def let_go(self, record: LandingRecord) -> None:
        """Close the connections that were held for this fault."""
        for writer in self._held.pop(record.fault_id, ()):
            writer.close()

    def heal_commands(
        self, ctx: NemesisContext, record: LandingRecord, name: str
    ) -> list[list[str]]:
        """A server that ended for lack of files is started."""
        return [["sh", "-c", LIMITS.remove], ctx.need(Supervised).restart_command(name)]

    async def observe(self, ctx: NemesisContext, record: LandingRecord) -> Observed:
        was = _was(record)
        files = await _files(ctx, await running(ctx))
        freed = [n for n in record.targets if any(f.spare for f in files.get(n, ()))]
        await asyncio.gather(*(self.exhaust(ctx, record, n) for n in freed))
        names = list(ctx.nodes)
        pairs = probe_pairs(names, record.targets)
        asked, snapshots = await asyncio.gather(
            ask_all(ctx, pairs, retry_for=list(_others(record))), take_two_snapshots(ctx, was)
        )
        now = await running(ctx)
        # Of a server whose main process has ended, children may go on: theirs are the limits then.
        gone = [n for n in record.targets if not snapshots[n][1].left]
        files = {n: rows for n, rows in (await _files(ctx, now)).items() if n not in gone}
        logged = await asyncio.gather(*(_logged(ctx, record, n) for n in gone))
        ended = [n for n, known in zip(gone, logged, strict=True) if known]
        others = {n: pair for n, pair in snapshots.items() if n not in record.targets}
        return Observed(
            injector=_injector(record, files, ended),
            victim=_victim(record, asked),
            control=_spared(record, files, asked, others),
        )

    async def in_force(self, ctx: NemesisContext, record: LandingRecord) -> Mapping[str, str]:
        """The limits; of a server that has ended, that it is not there."""
        files, before = await _files(ctx, await running(ctx)), record.facts["limit_before"]
        low = {n: max((f.soft for f in files.get(n, ())), default=-1) for n in record.targets}
        return {n: "" if soft >= before.get(n, 0) else "stands" for n, soft in low.items()}

    async def prove(self, ctx: NemesisContext, record: LandingRecord, healing: Healing) -> Proven:
        """As for any process fault, which asks anew; and the limits are what they were."""
        proven = await whole(ctx, record, healing.counts_before, self.process_problem)
        files = await _files(ctx, await running(ctx))
        limits: dict[str, int] = record.facts["limit_before"]
        wrong = [
            f"{n}: its server may open {f.soft} files, not {limits[n]}"
            for n in record.targets
            for f in files.get(n, ())
            if f.soft < limits[n]
        ]
        spare = {n: min((f.spare for f in files.get(n, ())), default=0) for n in record.targets}
        return Proven([*wrong, *proven.missing], spare, proven.victim)

    async def extra_leaks(
        self, ctx: NemesisContext, node: Node, now: Sequence[Process]
    ) -> list[str]:
        """A limit that was lowered and is still nearly met."""
        found = await asyncio.gather(*(files_of(node, p.pid, p.start_time) for p in now))
        return [text for files in found if files for text in descriptor_leaks(files)]


async def _logged(ctx: NemesisContext, record: LandingRecord, name: str) -> bool:
    """Does a log of the member say that it could open no file?"""
    for service in services_of(ctx, name):
        since = record.facts["log_bytes_before"][service.name][name]
        text = await ctx.need(ServerLogs).log_since(name, since, service.name)
        if any(words in text.lower() for words in service.words.no_files):
            return True
    return False


async def _connections(ctx: NemesisContext, names: Sequence[str]) -> list[asyncio.StreamWriter]:
    """One to each service of these members that accepts one."""
    found = []
    for name in names:
        for port in {probe.port for probe in probes_of(ctx, name)}:
            with contextlib.suppress(OSError):
                async with asyncio.timeout(CONNECT_S):
                    _, writer = await asyncio.open_connection(ctx.node(name).info.address, port)
                found.append(writer)
    return found


async def files_of(node: Node, pid: int, start: int) -> Files | None:
    """Of the process that started then; None where it is gone."""
    argv = ["sh", "-c", _READ, str(pid), str(start)]
    found = await node.run(argv, timeout_s=5.0, check=False)
    return parse(found.stdout) if found.status == 0 else None


def parse(text: str) -> Files | None:
    """Soft and hard limit on the first line, then a number per line; None without a limit."""
    head, *rows = text.splitlines() or [""]
    limits = [int(word) for word in head.split()[:2] if word.isdigit()]
    if len(limits) != 2:
        return None
    return Files(limits[0], limits[1], tuple(sorted(int(row) for row in rows if row.isdigit())))


async def _files(
    ctx: NemesisContext, processes: Mapping[str, Sequence[Process]]
) -> dict[str, list[Files]]:
    """Of the processes of each member that are still there."""

    async def one(name: str) -> list[Files]:
        node, rows = ctx.node(name), processes[name]
        found = await asyncio.gather(*(files_of(node, p.pid, p.start_time) for p in rows))
        return [files for files in found if files is not None]

    found = await asyncio.gather(*map(one, processes))
    return dict(zip(processes, found, strict=True))


def _was(record: LandingRecord) -> dict[str, list[Process]]:
    return {name: processes_before(record, name) for name in record.facts["processes"]}


def _restoring(record: LandingRecord, name: str, processes: Sequence[Process]) -> list[str]:
    limit = str(record.facts["limit_before"].get(name, ""))
    return ["sh", "-c", _RESTORE, limit, *(str(p.pid) for p in processes)]


def descriptor_leaks(files: Files) -> list[str]:
    """Leaks: that the limit was lowered and not put back."""
    if files.soft >= files.hard or files.spare >= LEAK_SPARE:
        return []
    return [f"its server may open {files.spare} more files: its limit is {files.soft}"]


def _others(record: LandingRecord) -> dict[str, Any]:
    return {n: p for n, p in record.facts["pids"].items() if n not in record.targets}


def _injector(
    record: LandingRecord, files: Mapping[str, Sequence[Files]], ended: Sequence[str]
) -> Signal:
    facts = record.facts
    problems, told = [], []
    for name in record.targets:
        pid, found = facts["pids"][name][0], files.get(name)
        before = facts["limit_before"].get(name, 0)
        problems += served_before(record, name)
        if not found:
            if name not in ended:
                problems.append(f"{name}: process {pid} is gone, and not for lack of files")
            told.append(f"{name}: its server has ended, it could open no file")
        elif (soft := max(f.soft for f in found)) >= before:
            problems.append(f"{name}: its limit is {soft} files, as before")
        elif spare := max(f.spare for f in found):
            problems.append(f"{name}: its server may open {spare} more files")
        else:
            told.append(f"{name}: {sum(len(f.open) for f in found)} files are open, no more may be")
    return Signal(
        signal="files that the server may still open",
        before={n: facts["spare_before"].get(n, 0) for n in record.targets},
        during={n: max((f.spare for f in files.get(n, ())), default=0) for n in record.targets},
        moved=bool(record.targets) and not problems,
        detail="; ".join(problems or told),
    )


def _victim(record: LandingRecord, asked: Mapping[str, int]) -> Signal:
    before: dict[str, int] = record.facts["asked_before"]
    paths = [p for p in asked if p.rpartition("->")[2] in record.targets]
    # Another fault may cut some of the ways to a target.
    heard = {p.rpartition("->")[2] for p in paths if before.get(p)}
    problems = [f"answered nobody before: {n}" for n in record.targets if n not in heard]
    problems += [f"a new connection is answered: {p}" for p in paths if asked[p]]
    return signal(
        "answers on new connections",
        {p: before.get(p, 0) for p in paths},
        {p: asked[p] for p in paths},
        problems,
        f"no new connection to {', '.join(record.targets)} is answered",
    )


def _spared(
    record: LandingRecord,
    files: Mapping[str, Sequence[Files]],
    asked: Mapping[str, int],
    snapshots: Snapshots,
) -> Signal:
    """The others answer, as for any process fault, and may open as many files as before."""
    found = control(record, asked, snapshots)
    before = record.facts["limit_before"]
    hit = [n for n in _others(record) if any(f.soft < before[n] for f in files.get(n, ()))]
    if not hit:
        return found
    return msgspec.structs.replace(found, moved=True, detail=f"limited as well: {', '.join(hit)}")


NEMESIS = Descriptors()
