"""Adopting machines that exist already, and releasing them. On them directories of systems carry
our mark, each from its first moment on, so that a release removes nothing else.

Beside it what runs in any lab need: who uses a lab right now, who has it to itself (`alone`), what
earlier runs may have left on the nodes (looked for, taken away where it is ours, said), and the
leases by which nodes take all of a run away by themselves when it dies (`Guard`). What may be left
is what all plug-ins declare as `residues`: the run that died may have used others than this one.

What speaks SSH is imported where it is spoken: whoever judges or simulates a run needs none of it.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from itertools import chain
from os.path import dirname, normpath
from pathlib import Path
from types import MappingProxyType, SimpleNamespace
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec

from clusters.labs import state
from clusters.labs.existing import book
from clusters.labs.existing.book import Adopted
from dstest.core import limits, registry
from dstest.core.errors import ConfigError, DstestError, LabError, NotALabNode
from dstest.core.node import (
    FEATURES,
    Inspects,
    LabInfo,
    Node,
    NodeInfo,
    alternatives,
    both_names,
    what_of,
)
from dstest.core.protocols import (
    Deployment,
    Member,
    Nemesis,
    Restartable,
    System,
)
from dstest.core.residue import (
    GUARD_LEASES,
    HOME_MARK,
    HOMES_LAID,
    HOMES_OWNED,
    MAY_TOUCH,
    Leftover,
    Residue,
    leftovers_of,
    marked_only,
)
from dstest.core.run_record import RunMeta
from dstest.runner.before_load import needs_of

if TYPE_CHECKING:
    from clusters.labs.existing.entry import Accept, HostEntry
    from clusters.labs.existing.survey import Asks, MachineSurvey

LOOK_S: Final = 0.5
"""Longer than anybody takes who only looks whether a lab is used."""

LOOK_TIMEOUT_S: Final = 30.0

REMOVE_TIMEOUT_S: Final = 35.0
"""Leases that have run out may take so long to heal."""

_MARK: Final = "== status "

_GUARDS: Final = {f"lease {lease_id}" for lease_id in GUARD_LEASES}

ByNode = dict[str, list[Leftover]]
AsFound = Mapping[str, Sequence[str]]

RUN, SERVE = GUARD_LEASES
ALL: Final = "all"

COMMON_HOMES: Final = ("/opt/dstest", "/opt/dstest-services")
"""Of tools and services, whatever the system. The first comes and goes as a whole, as a residue."""

SHARED: Final = frozenset(
    [
        *("/", "/bin", "/boot", "/dev", "/dev/shm", "/etc", "/home", "/lib", "/media", "/mnt"),
        *("/opt", "/proc", "/root", "/run", "/sbin", "/srv", "/sys", "/tmp", "/usr", "/usr/local"),
        *("/var", "/var/cache", "/var/lib", "/var/log", "/var/run", "/var/tmp"),
    ]
)

LAY_S: Final = 20.0

_TOP: Final = f"""\
lab=$0
ours() {{ [ ! -L "$1" ] && [ "$(cat "$1/{HOME_MARK}" 2>/dev/null)" = "$lab" ]; }}
# Sets `top`: what is ours already on the way to $1, or what is to be made there; 1 where neither.
find_top() {{
    top= rest=${{1#/}}
    while [ -n "$rest" ]; do
        top=$top/${{rest%%/*}}
        case $rest in */*) rest=${{rest#*/}} ;; *) rest= ;; esac
        [ -L "$top" ] || [ -e "$top" ] || return 0
        ! ours "$top" || return 0
    done
    return 1
}}
"""

_LOOK: Final = f"""\
{_TOP}
noted() {{
    while [ -n "$1" ]; do
        ! grep -qxF -- "$1" {HOMES_OWNED} || return 0
        set -- "${{1%/*}}"
    done
    return 1
}}
# Says of $1 where what is written there would come to lie elsewhere: a link leads there from our
# directory, or another file system is mounted in it, but for one of a fault (faultfs).
astray() {{
    find_top "$1" && [ -e "$top" ] || return 0
    real=$(readlink -m -- "$top")${{1#"$top"}}
    [ "$(readlink -m -- "$1")" = "$real" ] || echo "$1	a link leads from there"
    while read -r source point _; do
        case $(printf "%b/" "$point") in
            "$real"/*) [ "$source" = faultfs ] || echo "$1	$point is mounted" ;;
        esac
    done </proc/mounts
}}
for pair; do
    find_top "${{pair#*:}}" || echo "${{pair#*:}}"
    id -u "${{pair%%:*}}" >/dev/null 2>&1 || echo "no user ${{pair%%:*}}"
done
[ -e {HOMES_OWNED} ] || exit 0
while IFS= read -r path; do
    said=$(astray "$path")
    [ -z "$said" ] || {{ echo "$said"; continue; }}
    [ -L "$path" ] || [ -f "$path" ] || [ -n "$(ls -A "$path" 2>/dev/null)" ] || continue
    noted "$path" || echo "$path"
done
"""
"""Of pairs USER:DIRECTORY prints the directories that are there and not ours, and users that are
none; of the paths that it reads, what has content though no run has noted it. Of the latter,
behind a tab, why what is written there would come to lie elsewhere."""

_LAY: Final = f"""\
{_TOP}
set -e
new=
trap '[ -z "$new" ] || rm -rf "$new"' EXIT
lay() {{
    find_top "${{1#*:}}"
    [ ! -e "$top" ] || return 0
    new=$(mktemp -d "$top.dstest.XXXXXX")
    chmod 755 "$new"
    chown "${{1%%:*}}" "$new"
    echo "$lab" | cat >"$new/{HOME_MARK}"
    [ "$top" = {COMMON_HOMES[1]} ] || echo "$top" | cat >>{HOMES_LAID}
    mv -T "$new" "$top"
    new=
}}
lay "$1"
shift
{{ cat {HOMES_OWNED} 2>/dev/null || :; cat; }} | sort -u >{HOMES_OWNED}.new
mv {HOMES_OWNED}.new {HOMES_OWNED}
for pair; do
    lay "$pair"
done
"""
"""Of pairs USER:DIRECTORY makes what is missing, belonging to the user. The first pair is that of
our services: what else is made is written down there, as are the paths that it reads, so that a
release knows them whoever made them."""


def lock_of(lab: LabInfo) -> Path:
    """The file that a run in this lab holds locked; it is not there while nobody does."""
    return state.lock_path(_name(lab))


def _name(lab: LabInfo) -> str:
    return f"run-{lab.lab_id}"


def in_use(lab: LabInfo) -> bool:
    """Does a run use this lab right now?"""
    try:
        with lock_of(lab).open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except FileNotFoundError:
        return False
    except OSError:
        return True
    return False


@contextmanager
def alone(lab: LabInfo) -> Iterator[None]:
    """Two runs in one lab would prove each other's faults: the second is refused, by LabError."""
    with ExitStack() as stack:
        try:
            stack.enter_context(state.lock(_name(lab), timeout_s=LOOK_S))
        except LabError:
            raise LabError(
                f"another run uses lab {lab.lab_id} now",
                remedy="wait for its end, or take another lab with --lab-id NAME",
            ) from None
        yield


class Use(msgspec.Struct, frozen=True, kw_only=True):
    """A process that uses a lab. `run` is the run directory that it writes, if it writes one; `pid`
    is None where the kernel does not tell who holds the lock."""

    pid: int | None
    run: str | None
    command: str

    def describe(self) -> str:
        """`run store/x/y (pid 7)`, or the command line where there is no run."""
        who = f"run {self.run}" if self.run else self.command
        return f"{who} (pid {self.pid or 'unknown'})"


def users_of(lab: Any, lab_id: str) -> list[Use]:
    """The other processes that use this lab, whole or not, in order of their pids."""
    if not isinstance(lab, Inspects):
        return []
    pids = {*lab.users(lab_id)}
    known = lab.known(lab_id)
    held = known is not None and in_use(known)
    holders = _holders(lock_of(known)) if known is not None and held else set()
    uses = [_use(pid) for pid in sorted((pids | holders) - {os.getpid()})]
    if held and not holders:
        uses.append(Use(pid=None, run=None, command="a run"))
    return uses


def _holders(lock: Path) -> set[int]:
    """Processes that hold a lock on this file, as the kernel lists them."""
    try:
        inode = lock.stat().st_ino
        rows = [row.split() for row in Path("/proc/locks").read_text().splitlines()]
    except OSError:
        return set()
    # 1: FLOCK ADVISORY WRITE 686 fe:01:1234 0 EOF; who waits for it has -> before its kind.
    held = [row for row in rows if len(row) > 5 and row[1] == "FLOCK"]
    return {int(row[4]) for row in held if row[5].rpartition(":")[2] == str(inode)}


def _use(pid: int) -> Use:
    return Use(pid=pid, run=_run_of(pid), command=_command(pid))


def _command(pid: int) -> str:
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().rstrip(b"\0").split(b"\0")
    except OSError:
        return "a process"
    return shlex.join(word.decode(errors="replace") for word in words)[:200]


def _run_of(pid: int) -> str | None:
    """The run directory whose segments this process has open."""
    try:
        files = [os.readlink(fd) for fd in Path(f"/proc/{pid}/fd").iterdir()]
    except OSError:
        return None
    segments = (Path(name) for name in files if name.endswith(".seg"))
    return next((str(s.parent.parent) for s in segments if s.parent.name == "segments"), None)


def lab_of_run(lab: Any, meta: RunMeta) -> str | None:
    """The lab that is still there of a run, by its run.json; None where none is, or nobody knows.

    A run that died before its lab was whole left one that is named after its process.
    """
    named = meta.lab_id or f"run-{meta.pid}"
    return named if named in lab.list() else None


def _all(group: str) -> list[Any]:
    return [registry.load(group, name) for name in registry.names(group)]


def residues(
    system: System | None = None, nemesis: Nemesis | None = None, *, lab: LabInfo | None = None
) -> list[Residue]:
    """All kinds, in the order of their removal; of these two as well, registered or not. On nodes
    of a `lab` that dstest has not made, only what lies in directories that it has made."""
    from clusters.remote.connection import LEASES

    plugins: list[System | Nemesis] = [
        *(one for one in [*_all("systems"), system] if one is not None),
        *(one for one in [*_all("nemeses"), nemesis] if one is not None),
    ]
    found = [LEASES, *(kind for one in plugins for kind in one.residues)]
    # Systems on one base share kinds; two of one name that differ are looked for both.
    kinds = sorted(dict.fromkeys(found), key=lambda kind: kind.rank)
    if lab is None or lab.made is not None:
        return kinds
    return [marked_only(kind, lab.lab_id) for kind in kinds]


async def look(nodes: Mapping[str, Node], kinds: Sequence[Residue]) -> ByNode:
    """What is found of these kinds, by node. Raises LabError where a node cannot tell."""

    script = "\n".join(f"sh -c {shlex.quote(kind.look)}; echo {_MARK}$?" for kind in kinds)

    async def one(node: Node) -> list[Leftover]:
        done = await node.run(["sh", "-c", script], timeout_s=LOOK_TIMEOUT_S, check=False)
        parts = done.stdout.split(_MARK)
        things: list[Leftover] = []
        for index, kind in enumerate(kinds):
            # A part begins with the status of the one before.
            status = parts[index + 1].split()[0] if index + 1 < len(parts) else "none"
            if status != "0":
                raise LabError(
                    f"{node.name}: nobody can tell what earlier runs have left there"
                    f" ({kind.name}, status {status}): {done.stderr.strip()[-300:]}",
                    remedy="`dstest lab down`, then `dstest lab up`, makes the nodes anew",
                )
            message = parts[index].splitlines()
            things += leftovers_of(kind, message[1:] if index else message)
        return things

    rows = await asyncio.gather(*map(one, nodes.values()))
    return dict(zip(nodes, rows, strict=True))


async def remove(nodes: Mapping[str, Node], kinds: Iterable[Residue]) -> None:
    """Take away what is ours of these kinds, one kind after the other. Failing shows in a look."""
    for kind in kinds:
        argv = ["sh", "-c", kind.remove]
        await asyncio.gather(
            *(n.run(argv, timeout_s=REMOVE_TIMEOUT_S, check=False) for n in nodes.values())
        )


async def begin_clean(
    nodes: Mapping[str, Node], kinds: Sequence[Residue], as_found: AsFound = MappingProxyType({})
) -> dict[str, list[str]]:
    """Before a run: what was found on each node and removed.

    Raises LabError, naming node and thing, where something is not ours or does not go; but not for
    what was `as_found` by us, by node, when the machines were adopted.
    """
    first = _without(await look(nodes, kinds), as_found)
    _refuse({name: [f for f in found if not f.ours] for name, found in first.items()}, "not ours")
    dirty = {f.residue for found in first.values() for f in found}
    if not dirty:
        return {}
    await remove(nodes, [kind for kind in kinds if kind.name in dirty])
    left = _without(await look(nodes, kinds), as_found)
    _refuse(left, "still there after its removal")
    return {name: [f.what for f in found] for name, found in first.items() if found}


async def clean_beside(lab: LabInfo, kinds: Sequence[Residue]) -> dict[str, list[str]]:
    """The same on the nodes of the lab that a run leaves out: a server that a larger cluster has
    left there would find its old peers again."""
    if not lab.beside:
        return {}
    from clusters.remote import connect_all

    nodes = await connect_all(msgspec.structs.replace(lab, nodes=lab.beside))
    try:
        return await begin_clean(nodes, kinds, lab.as_found)
    finally:
        await asyncio.gather(*(node.close() for node in nodes.values()))


def _without(found: ByNode, as_found: AsFound) -> ByNode:
    """What is ours, and what is not and was not there before us."""
    return {
        name: [f for f in row if f.ours or f.what not in as_found.get(name, ())]
        for name, row in found.items()
    }


def _refuse(left: ByNode, why: str) -> None:
    problems = [f"{name}: {found.what}" for name, row in left.items() for found in row]
    if problems:
        raise LabError(
            f"the nodes are not clean: {'; '.join(problems)} ({why}); nothing was started",
            remedy="remove it there (`dstest lab ssh NODE`; a server of the machine's own by "
            "`systemctl disable --now`), or, unless they are machines of yours, make the nodes "
            "anew: `dstest lab down`, then `dstest lab up`",
        )


def left_on(lab: LabInfo) -> ByNode:
    """What there is on the nodes of a lab that no run uses, by node. Raises LabError."""
    from clusters.remote import connect_all

    async def ask() -> ByNode:
        nodes = await connect_all(lab)
        try:
            return _without(await look(nodes, residues(lab=lab)), lab.as_found)
        finally:
            await asyncio.gather(*(node.close() for node in nodes.values()))

    return {name: row for name, row in asyncio.run(ask()).items() if row}


async def leaks(
    nodes: Mapping[str, Node], kinds: Sequence[Residue], as_found: AsFound = MappingProxyType({})
) -> dict[str, list[str]]:
    """At the end of a run, its system stopped: what is left of it on each node.

    What always stays behind, such as tools, is taken away first, but not from under something that
    may need it to go: whoever cleans up takes both.
    """
    routine = [kind for kind in kinds if kind.routine]
    try:
        left = await look(nodes, [kind for kind in kinds if not kind.routine])
        left = {name: [f for f in row if f.what not in _GUARDS] for name, row in left.items()}
        clean = {name: node for name, node in nodes.items() if not left[name]}
        await remove(clean, routine)
        left = _without(left | await look(clean, routine), as_found)
    except DstestError as error:
        return {"cluster": [f"cannot be audited: {error.message}"]}
    return {
        name: [f.what if f.ours else f"{f.what} (not ours)" for f in row]
        for name, row in left.items()
    }


class Guard:
    """Arms, tends and releases them on all nodes. `lost` names nodes that swept themselves.

    A fault has a lease of its own, which heals it. What a nemesis lays before and beside its faults
    (a file system, control groups, tables that count, programs) has none: `run` stands from before
    the first of these until after the last, and carries out what `residues` says once the faults'
    leases are done. `run-serve` starts servers that had to be stopped for that.
    """

    def __init__(self, nodes: Mapping[str, Any], kinds: Sequence[Residue]) -> None:
        from clusters.remote.connection import OTHERS_DONE

        self._nodes = nodes
        wait = ["sh", "-c", OTHERS_DONE, "sh"]
        sweep = [["sh", "-c", kind.remove] for kind in kinds if kind.janitor]
        self._heal: dict[str, dict[str, list[list[str]]]] = {
            RUN: {ALL: [[*wait, RUN, SERVE], *sweep]}
        }
        self._wait = wait
        self.lost: set[str] = set()

    async def arm(self) -> None:
        """Before anything is laid. Raises LabError where a node does not take it."""
        await self.tend()

    async def serve(self, deployment: Deployment) -> None:
        """From now on servers run: they shall run again after a sweep."""
        if isinstance(deployment, Restartable):
            self._heal[SERVE] = {
                name: [[*self._wait, SERVE], list(deployment.restart_command(name))]
                for name in deployment.members
            }
            await self.tend()

    async def tend(self) -> None:
        """Arm what is missing, as on a node that was restarted; note what has run out."""

        async def one(name: str, node: Any) -> None:
            if node.away or name in self.lost:
                return
            for lease_id, heal in self._heal.items():
                if name not in heal and ALL not in heal:
                    continue
                if lease_id in node.lost_leases:
                    self.lost.add(name)
                elif not node.holds_lease(lease_id):
                    commands = heal.get(name) or heal[ALL]
                    try:
                        await node.arm_lease(lease_id, commands, ttl_s=limits.LEASE_TTL_S)
                    except LabError:
                        # It goes down on purpose just now: its next life gets one.
                        if not node.away:
                            raise

        await asyncio.gather(*(one(name, node) for name, node in self._nodes.items()))

    async def check(self) -> None:
        """`tend`. Raises LabError where a node has taken the run away while it was going on."""
        await self.tend()
        if self.lost:
            raise LabError(
                f"{', '.join(sorted(self.lost))} heard nothing of us for {limits.LEASE_TTL_S:g} s"
                " and removed all of this run",
                remedy="give the host less to do, and look at the network between it and the nodes",
            )

    async def release(self, *lease_ids: str) -> None:
        """Call these off (all of them without names): what they would remove is gone."""

        async def one(name: str, node: Any) -> None:
            for lease_id in wanted:
                if node.holds_lease(lease_id) or lease_id in node.lost_leases:
                    await node.release_lease(lease_id)
                if lease_id in node.lost_leases:
                    self.lost.add(name)

        wanted = [lease_id for lease_id in (lease_ids or GUARD_LEASES) if lease_id in self._heal]
        for lease_id in wanted:
            del self._heal[lease_id]
        await asyncio.gather(*(one(name, node) for name, node in self._nodes.items()))


def homes_of(systems: Sequence[Any]) -> list[str]:
    """Directories of a node in which systems keep what is theirs."""
    return list(dict.fromkeys(h for s in systems for h in s.homes))


class _ServicePath(NamedTuple):
    """`path` is the service's alone, with what is below it; `folder`, which may be the same, it
    has to have to itself for that. `what` is the field and the service."""

    what: str
    user: str
    path: str
    folder: str


def _service_paths(members: Iterable[Member]) -> list[_ServicePath]:
    """Where the services of these members write. Data begins empty, so that no mark is in it."""
    return [
        _ServicePath(f"{field} of {service.name}", service.user, path, folder(path))
        for member in members
        for service in member.services
        for field, paths, folder in (
            ("data", service.data, dirname),
            ("files", service.files, dirname),
            ("log", (service.log,), dirname),
            ("directories", service.directories, str),
        )
        for path in paths
    ]


def is_shared(folder: str) -> bool:
    """Is it one that every machine has, which no system can have to itself?"""
    kernel = any(_within(folder, place) for place in ("/proc", "/sys"))
    return kernel or folder in SHARED or dirname(folder) in ("/usr", "/usr/local")


def require_paths(system: Any, members: Iterable[Member]) -> None:
    """Raises ConfigError where a path of a service is not what it says, by dots or slashes, or is a
    directory that every machine has and would be emptied or replaced."""
    named = [(place.what, place.path) for place in _service_paths(members)]
    for what, path in [*named, *(("homes", home) for home in homes_of([system]))]:
        taken = is_shared(path) and not what.startswith("directories ")
        if path[:1] != "/" or path[:2] == "//" or normpath(path) != path or taken:
            raise ConfigError(
                f"{system.name}: {what} is {path!r}",
                remedy="an absolute path without `.`, `..` or further slashes, below a directory of"
                " the system's own: /opt/NAME/data",
            )


def places_of(system: Any) -> list[str]:
    """Directories in which a system would write with the defaults of its options, as far as it says
    so without a node; what it would not say is found when it is run. Raises ConfigError."""
    info = NodeInfo(name="n1", address="192.0.2.1", lab_id="none")
    try:
        defaults = {name: option.default for name, option in system.options.items()}
        deployment = system.deploy([SimpleNamespace(name=info.name, info=info)], defaults)
        members = list(deployment.members.values())
    except Exception:
        members = []  # whatever it may be that this one needs
    require_paths(system, members)
    places = list(dict.fromkeys(p.folder for p in _service_paths(members)))
    homes = homes_of([system])
    return [*homes, *(p for p in places if not any(_within(p, home) for home in homes))]


def _within(path: str, home: str) -> bool:
    return path == home or path.startswith(f"{home}/")


async def lay_homes(
    lab: LabInfo, nodes: Mapping[str, Node], system: Any, deployment: Deployment
) -> None:
    """Make and mark the directories that a run of the system writes into, where the machines are
    not of our making. Raises LabError where somebody else has one of them, ConfigError on any lab
    where it could not have one to itself."""
    require_paths(system, deployment.members.values())
    if lab.made is not None:
        return
    homes = homes_of([system])
    made = [f"root:{home}" for home in (COMMON_HOMES[1], *homes)]

    on = {
        name: _service_paths(m for m in deployment.members.values() if m.node == name)
        for name in nodes
    }
    if shared := {f"{p.what}: {p.path}" for row in on.values() for p in row if is_shared(p.folder)}:
        raise LabError(
            f"{', '.join(sorted(shared))}: that is in a directory which every machine has",
            remedy="let it write below a directory of its own: data of /opt/NAME/data, log of"
            " /opt/NAME/log",
        )

    async def one(node: Node, program: str) -> list[str]:
        pairs = [*made, *dict.fromkeys(f"{p.user}:{p.folder}" for p in on[node.name])]
        paths = [p.path for p in on[node.name]]
        if program is _LOOK:  # all in its homes is the system's, whoever has written it down
            paths = [path for path in paths if not any(_within(path, home) for home in homes)]
        else:
            paths += homes
        argv, text = ["sh", "-c", program, lab.lab_id, *pairs], "".join(f"{p}\n" for p in paths)
        return (await node.run(argv, timeout_s=LAY_S, stdin=text)).stdout.splitlines()

    def named(node: str, line: str) -> str:
        path, _, why = line.partition("\t")
        whats = [p.what for p in on[node] if path in (p.folder, p.path)]
        of = ", ".join(dict.fromkeys(whats)) or f"home of {system.name}"
        return f"{path} ({of}{'; ' if why else ''}{why})"

    # All are looked at before any is touched.
    looks = await asyncio.gather(*(one(node, _LOOK) for node in nodes.values()))
    rows = dict(zip(nodes, looks, strict=True))
    users = {(name, p.what.split()[-1], p.user) for name in nodes for p in on[name]}
    if none := sorted(u for u in users if f"no user {u[2]}" in rows[u[0]]):
        raise LabError(
            "; ".join(
                f"{name} has no user {who}, as whom {of} is to run" for name, of, who in none
            ),
            remedy="make that user there (its package does), or another `user` of that Service",
        )
    if there := {name: row for name, row in rows.items() if row}:
        told = {name: ", ".join(named(name, path) for path in row) for name, row in there.items()}
        raise LabError(
            "what dstest has not made stands where the system would write: "
            + "; ".join(f"{name} has {row}" for name, row in told.items()),
            remedy="let the system write into a directory of its own, as /opt/NAME (data, files,"
            " log of its services); or, where what stands there is an old run's, move it away; take"
            " links and mounts out of its directories",
        )
    await asyncio.gather(*(one(node, _LAY) for node in nodes.values()))


class Adoption(msgspec.Struct, frozen=True, kw_only=True):
    """What was found of the machines, before anything is changed there. `problems` refuse it;
    `foreign` is what stands there that is not ours and stays, by node; `homes` are the
    directories that were asked about; `places` those in which the systems that were named for these
    machines would write."""

    lab_id: str
    seen: list[MachineSurvey]
    problems: list[str]
    foreign: dict[str, list[str]]
    homes: list[str]
    places: Mapping[str, Sequence[str]] = {}

    @property
    def touched(self) -> list[str]:
        """What adopting and running does to the machines."""
        from clusters.labs.existing import adopt

        taken = {path for one in self.seen for path in one.facts.paths}
        homes = [path for path in self.homes if path not in taken]
        return adopt.effects(self.lab_id, self.seen, homes)

    @property
    def adopted(self) -> Adopted:
        """What would be written down."""
        from clusters.labs.existing import adopt

        return adopt.adopted_of(self.lab_id, self.seen, self.foreign, self.homes)

    def lost_systems(self) -> dict[str, str]:
        """System -> why it cannot be run there, by machine: directories of its own in which the
        system would write, packages that are not installed (where it can tell)."""
        rows = {}
        for name in registry.names("systems"):
            system = registry.load("systems", name)
            places = self.places.get(name) or homes_of([system])
            whys: dict[str, list[str]] = {}
            for one in self.seen:
                there, has = both_names(one.info.name, one.alias), one.facts.packages
                if taken := [path for path in places if path in one.facts.paths]:
                    own = any(map(is_shared, taken))
                    advice = "" if own else "move it away, or "
                    advice += "let it write below a directory of its own"
                    why = f"{', '.join(taken)} is there already, and is not dstest's ({advice})"
                    whys.setdefault(why, []).append(there)
                elif lacks := sorted(
                    p for p in system.packages if has is not None and p not in has
                ):
                    whys.setdefault(f"not installed: {' '.join(lacks)}", []).append(there)
            if whys:
                rows[name] = "; ".join(f"{', '.join(on)}: {why}" for why, on in whys.items())
        return rows

    def refuse_lost(self) -> None:
        """Raises LabError where a system that is meant to run there cannot."""
        lost = {name: why for name, why in self.lost_systems().items() if name in self.places}
        if lost:
            raise LabError(
                "; ".join(
                    f"{name} cannot run on these machines: {why}" for name, why in lost.items()
                ),
                remedy="put that right and adopt again, or adopt without --system; nothing was"
                " changed on them",
            )

    def carry_out(self) -> Adopted:
        """Mark the machines."""
        from clusters.labs.existing import adopt

        adopted = self.adopted
        lines = dict.fromkeys(line for one in self.seen for line in one.lines)
        path = book.folder_of(self.lab_id) / "known_hosts"
        book.write_secret(path, "".join(lines).rstrip("\n"))
        asyncio.run(adopt.mark(adopted, self.seen))
        return adopted


class Released(msgspec.Struct, frozen=True, kw_only=True):
    """By node: `ours` is what we have left there or taken away, `others` what somebody else has
    changed meanwhile, `said` what there is to know besides; `problems`: why a node was not
    released; `called`: what the user calls it."""

    ours: dict[str, list[str]]
    others: dict[str, list[str]]
    said: dict[str, list[str]]
    problems: dict[str, str]
    called: dict[str, str] = msgspec.field(default_factory=dict)

    def shown(self, name: str) -> str:
        """See `both_names`."""
        return both_names(name, self.called.get(name, name))

    @property
    def clean(self) -> bool:
        """Is nothing of ours on any machine?"""
        return not self.problems and not any(self.ours.values())

    @property
    def same(self) -> bool:
        """Are all machines as they were?"""
        return self.clean and not any(self.others.values())


def prepare(
    lab_id: str,
    entries: Sequence[HostEntry],
    *,
    accept: Accept,
    password: Callable[[str], str] | None,
    systems: Sequence[str] = (),
) -> Adoption:
    """Look at the machines; nothing is changed there. `systems` are meant to run there: it is asked
    where they would write. Whoever calls it has the record to itself (`book.lock`) until the
    machines are marked. Raises LabError, ConfigError."""
    state.check_lab_id(lab_id)
    if (known := book.load(lab_id)) is not None:
        half = "" if known.whole else ", though not all of its machines are marked"
        raise ConfigError(
            f"lab {lab_id} is adopted already{half}",
            remedy=f"dstest lab release --lab-id {lab_id}, or another --lab-id",
        )
    if state.load(lab_id) is not None:
        raise ConfigError(f"there is another lab {lab_id}", remedy="choose another --lab-id")
    from clusters.labs.existing import adopt
    from clusters.labs.existing.survey import Asks, Request, survey

    book.forget(lab_id)  # what somebody has left who was killed while looking
    kinds = residues()
    every = [registry.load("systems", name) for name in registry.names("systems")]
    places = {name: places_of(registry.load("systems", name)) for name in systems}
    homes = [*dict.fromkeys([*COMMON_HOMES, *homes_of(every), *chain(*places.values())])]
    request = Request(
        features={name: feature.look for name, feature in FEATURES.items()},
        residues={kind.name: kind.look for kind in kinds},
        packages=sorted({p for system in every for p in system.packages}),
        paths=homes,
    )
    asks = Asks(accept=accept)
    try:
        if password is not None:
            entries = _with_passwords(lab_id, entries, asks, password)
        seen = asyncio.run(survey(lab_id, entries, request, asks))
    except BaseException:
        book.forget(lab_id)
        raise
    problems, foreign = adopt.problems_of(seen), {}
    problems += [
        f"{one.alias} has {path} already, which is dstest's (of an adoption that was forgotten?)"
        for one in seen
        for path in one.facts.paths
        if path in COMMON_HOMES
    ]
    for one in seen:
        rows = []
        for kind in kinds:
            said = one.facts.residues[kind.name]
            if said.status != 0:
                why = said.text[-200:].strip() or f"the look ends with status {said.status}"
                problems.append(f"{one.alias}: nobody can tell what is there of {kind.name}: {why}")
            there = leftovers_of(kind, said.text.splitlines())
            # Processes that a fault could have left like that, where no service of ours is.
            asked = kind.home == "" and MAY_TOUCH not in kind.look and one.facts.marker is None
            rows += [f.what for f in there if not (f.ours and (asked or kind.home))]
            problems += [
                f"{one.alias} has {f.what}, which looks like dstest's: remove it there first"
                for f in there
                if f.ours and asked
            ]
        foreign[one.info.name] = rows
    return Adoption(
        lab_id=lab_id, seen=seen, problems=problems, foreign=foreign, homes=homes, places=places
    )


def _with_passwords(
    lab_id: str, entries: Sequence[HostEntry], asks: Asks, password: Callable[[str], str]
) -> list[HostEntry]:
    """One question after the other, while nothing waits for the answers. An empty answer is the one
    before, of the same user."""
    from clusters.labs.existing.entry import ASK
    from clusters.labs.existing.survey import needing_password

    silent = [e for e in entries if not e.password and e.password_path in ("", ASK)]
    unsure = [e for e in silent if e.password_path == "" and e.ssh.user != "root"]
    wanted = [e.alias for e in silent if e.password_path == ASK and e.ssh.user != "root"]
    if unsure:
        wanted += [entry.alias for entry in asyncio.run(needing_password(lab_id, unsure, asks))]
    last: dict[str, str] = {}
    rows = []
    for entry in entries:
        answer = entry.password
        if entry.alias in wanted:
            user = entry.ssh.user
            same = f" (empty: the same {user} has above)" if user in last else ""
            answer = password(f"sudo password of {entry.ssh.where}{same}: ") or last.get(user, "")
            last[user] = answer
        rows.append(msgspec.structs.replace(entry, password=answer))
    return rows


def lost_nemeses(lacks: Mapping[str, Mapping[str, Any]]) -> dict[str, list[str]]:
    """Nemesis -> what it lacks on which nodes, of those that cannot be injected there."""
    rows: dict[str, list[str]] = {}
    nemeses = [registry.load("nemeses", name) for name in registry.names("nemeses")]
    pairs = [(one.name, need) for one in nemeses for need in needs_of(one)]
    for one in nemeses:
        whens = one.requires_when
        pairs += [(f"{one.name} with {when}", need) for when in whens for need in when.needs]
    for name, need in pairs:
        names = alternatives(need)
        where = [node for node, row in lacks.items() if all(name in row for name in names)]
        if where:
            rows.setdefault(name, []).append(f"{what_of(need)} on {', '.join(where)}")
    return rows


def other_ways(lacks: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """What is done in another way than the usual one since a node lacks that, in words."""
    rows = []
    for name in registry.names("nemeses"):
        for first, *others in map(alternatives, needs_of(registry.load("nemeses", name))):
            where = [node for node, row in lacks.items() if first in row]
            way = next((o for o in others if not any(o in lacks[node] for node in lacks)), None)
            if where and way is not None:
                rows.append(f"nemesis {name} goes by {way}: no {first} on {', '.join(where)}")
    return rows


def refuse_in_use(lab_id: str) -> None:
    """Raises LabError while a run uses the machines: of those nothing is forgotten either."""
    from clusters.labs.existing.adopt import LAB

    try:
        info = LAB.known(lab_id)
    except LabError:
        return  # a record that nobody can read
    if info is not None and in_use(info):
        raise LabError(f"a run uses lab {lab_id} now", remedy="wait for its end, or stop it")


def release_lab(lab_id: str, *, strict: bool = False) -> Released:
    """Take away what runs have left, then our marks; forget the machines once nothing of ours is
    there, or with `strict` once all is as it was. Until then it can be repeated. Whoever calls it
    has the record to itself (`book.lock`).

    Raises ConfigError where nothing is adopted, LabError while a run uses the machines.
    """
    from clusters.labs.existing import adopt

    adopted, info = book.load(lab_id), adopt.LAB.known(lab_id)
    if adopted is None and lab_id in state.adopted_ids():
        book.forget(lab_id)  # somebody was killed while looking: no machine was touched
        return Released(ours={}, others={}, said={}, problems={})
    if adopted is None or info is None:
        raise ConfigError(
            f"no machines are adopted as lab {lab_id}",
            remedy=f"adopted: {', '.join(state.adopted_ids()) or 'nothing'}",
        )
    with alone(info):
        book.save(msgspec.structs.replace(adopted, releasing=True))
        problems = asyncio.run(_swept(info)) if adopted.marked else {}
        seen, unreleased = asyncio.run(adopt.release(adopted))
    problems |= unreleased
    done = Released(
        ours={name: [d.what for d in row.differs if d.ours] for name, row in seen.items()},
        others={name: [d.what for d in row.differs if not d.ours] for name, row in seen.items()},
        said={name: row.said for name, row in seen.items()},
        problems=problems,
        called=adopted.aliases,
    )
    if done.same if strict else done.clean:
        book.forget(lab_id)
    elif not problems:
        book.save(msgspec.structs.replace(adopted, marked=False))
    return done


async def _swept(info: LabInfo) -> dict[str, str]:
    """Everything that a plug-in may have left is removed; why not, by node."""
    from clusters.remote import connect_all

    kinds = residues(lab=info)

    async def one(node: NodeInfo) -> str:
        try:
            nodes = await connect_all(msgspec.structs.replace(info, nodes=[node]))
        except NotALabNode:
            return ""  # it was released already, or is another lab's, which is said later
        except DstestError as error:
            return error.message
        try:
            await remove(nodes, kinds)
            # What is not ours and was not there before is told when both are compared.
            left = [found.what for found in (await look(nodes, kinds))[node.name] if found.ours]
            return f"does not go: {', '.join(left)}" if left else ""
        except DstestError as error:
            return error.message
        finally:
            await nodes[node.name].close()

    rows = zip(info.nodes, await asyncio.gather(*map(one, info.nodes)), strict=True)
    return {node.name: why for node, why in rows if why}
