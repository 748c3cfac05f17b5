"""What is looked at on the nodes before there is any load: do they have what the run needs, does
the system have its ports to itself, do servers answer as their probes say, and do they run from the
build that was asked for?

All of this would otherwise show in the middle of a fault, or in one that seems to have landed, long
after the mistake was made. Nothing is taken for granted of what was declared: ports, probes and
builds are asked of the processes themselves.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec

from dstest.core import clock
from dstest.core.answers import ask_s, check_processes, in_time
from dstest.core.builds import Build, build_of
from dstest.core.errors import ConfigError, FaultRefused, LabError
from dstest.core.node import FEATURES, LabInfo, Node, alternatives, heard_at, remedy_of, what_of
from dstest.core.protocols import (
    Attached,
    Deployment,
    Endpoint,
    FaultPlan,
    Probe,
    Process,
    Processes,
    Service,
    System,
)
from dstest.runner.answers import ports_of
from dstest.runner.requirements import parts_of

LOOK_S: Final = 30.0
_MARK: Final = "== status "

POLL_S: Final = 0.2
_PID: Final = re.compile(r"pid=(\d+)")
_COMMAND: Final = """\
[ -d /proc/$0 ] || exit 0
line=$(tr '\\0' ' ' 2>/dev/null </proc/$0/cmdline)
echo "${line:-$(cat /proc/$0/comm 2>/dev/null)}"
"""
_SHOWN: Final = 80

ASK_S: Final = 1.0

TRIES: Final = 5
"""A busy machine may be late."""

_SHOWN_BYTES: Final = 80

_FILES: Final = (
    'for pid; do printf "program %s\\n" "$(readlink "/proc/$pid/exe")";'
    ' tr "\\0" "\\n" <"/proc/$pid/cmdline";'
    ' sed -n "s/^[^/]*\\//\\//p" "/proc/$pid/maps"; find "/proc/$pid/fd" -printf "%l\\n"; done'
    " 2>/dev/null; :"
)
"""Programs, each behind its word, and arguments, mapped and open files of these processes."""

_PROGRAM: Final = "program "

_MERGED: Final = re.compile(r"^/(bin|sbin|lib|lib32|lib64|libx32)/")
"""Debian has these directories below /usr, and links in their place."""

BUILD_LOOK_S: Final = 10.0


def needs_of(nemesis: Any, plans: Sequence[FaultPlan] = ()) -> tuple[str, ...]:
    """Features of nodes that the nemesis, or any part of it, needs; and its planned faults."""
    found = {need: None for part in parts_of(nemesis) for need in part.needs}
    for part in parts_of(nemesis):
        facts = [plan.facts for plan in plans if plan.nemesis == part.name]
        for when in part.requires_when:
            if any(fact.get(when.fact) == when.value for fact in facts):
                found |= dict.fromkeys(when.needs)
    return tuple(found)


async def check_features(
    nodes: Mapping[str, Node], nemesis: Any, plans: Sequence[FaultPlan] = ()
) -> None:
    """Raises FaultRefused, with node, feature and reason, where one is not there."""
    needs = needs_of(nemesis, plans)
    if not needs:
        return
    names = list(dict.fromkeys(name for need in needs for name in alternatives(need)))
    looks = [f"sh -c {shlex.quote(FEATURES[n].look)} 2>&1; echo {_MARK}$?" for n in names]

    async def one(node: Node) -> list[tuple[str, str, str]]:
        argv = ["sh", "-c", "\n".join(looks)]
        done = await node.run(argv, timeout_s=LOOK_S, check=False)
        whys = dict(zip(names, _reasons(done.stdout, len(names)), strict=True))
        lacks = []
        for need in needs:
            said = [whys[name] for name in alternatives(need)]
            if all(why is not None for why in said):
                lacks.append((node.name, need, "; ".join(filter(None, said))))
        return lacks

    found = [row for rows in await asyncio.gather(*map(one, nodes.values())) for row in rows]
    if found:
        raise FaultRefused(
            f"{nemesis.name} cannot be injected: "
            + "; ".join(f"{name} lacks {what_of(need)} ({why})" for name, need, why in found),
            remedy="; ".join(dict.fromkeys(remedy_of(need) for _, need, _ in found)),
        )


def _reasons(text: str, number: int) -> list[str | None]:
    """Of each look, why there is no such feature; None where there is."""
    # A part begins with the status of the look before.
    first, *parts = text.split(_MARK)
    rows = [part.partition("\n") for part in parts]
    said = [first, *(after for _, _, after in rows)]
    whys: list[str | None] = []
    for index in range(number):
        status = rows[index][0].strip() if index < len(rows) else "unknown"
        words = said[index].strip()[-200:] if index < len(said) else ""
        whys.append(None if status == "0" else words or f"status {status}")
    return whys


async def check_installed(lab: LabInfo, nodes: Mapping[str, Node], system: System) -> None:
    """On machines that were not made for us: raises LabError where the system's packages are not
    installed, or where it would write into what is the machine's own.

    Where nodes are not Debian's nobody can tell by packages: then the system's start does.
    """
    if lab.made is not None:
        return
    rows_taken = lab.adopted.taken if lab.adopted is not None else {}
    taken = {path for name in nodes for path in rows_taken.get(name, ())}
    if there := sorted(taken & {*system.homes}):
        raise LabError(
            f"{', '.join(there)} was there before dstest, and {system.name} would write into it",
            remedy="move it away, `dstest lab release`, and adopt the machines again",
        )
    names = sorted(system.packages)

    async def one(node: Node) -> list[str]:
        argv = ["dpkg-query", "-W", "-f", "${Package} ${db:Status-Status}\\n", *names]
        try:
            done = await node.run(argv, timeout_s=LOOK_S, check=False)
        except LabError:
            return []  # it has no dpkg-query
        there = {line.split()[0] for line in done.stdout.splitlines() if line.endswith("installed")}
        return [name for name in names if name not in there]

    rows = dict(zip(nodes, await asyncio.gather(*map(one, nodes.values())), strict=True))
    if lacking := {name: row for name, row in rows.items() if row}:
        everything = sorted({package for row in lacking.values() for package in row})
        raise LabError(
            f"{system.name} needs what is not installed: "
            + "; ".join(f"{name} lacks {', '.join(row)}" for name, row in lacking.items()),
            remedy=f"on these nodes: apt-get install -y --no-install-recommends"
            f" {' '.join(everything)}; dstest installs nothing there. Where that starts a server,"
            " `systemctl disable --now` it: a run starts its own",
        )


class Listener(msgspec.Struct, frozen=True):
    """Who listens at a port of an address; no pid where the node does not say."""

    port: int
    kind: str
    pids: frozenset[int]
    address: str = ""


class HeldPort(msgspec.Struct, frozen=True):
    """A port that is held by whom it does not belong to; pid 0 where nobody can see by whom."""

    name: str
    port: int
    pid: int
    command: str = ""

    @property
    def what(self) -> str:
        """Without the node's name."""
        who = f"process {self.pid} ({self.command})" if self.pid else "whom the node does not see"
        return f"port {self.port} is held by {who}"


def read_listeners(text: str) -> list[Listener]:
    """What `ss -Hlntup` has printed."""
    found = []
    for line in text.splitlines():
        kind, _, _, _, local, *rest = line.split()
        pids = frozenset(map(int, _PID.findall(" ".join(rest))))
        address, port = heard_at(local)
        found.append(Listener(port, kind, pids, address))
    return found


async def held_by_others(deployment: Deployment, nodes: Mapping[str, Node]) -> list[HeldPort]:
    """Ports of services at which a process listens that is of no service, whether they run or not;
    nothing where the system cannot tell its processes."""

    async def look(name: str, services: Sequence[Service]) -> list[HeldPort]:
        ports = {port for service in services for port in ports_of(service)}
        heard = _at(deployment, name, await _heard(nodes[name], ports))
        own = {p.pid for p in await _processes(deployment, name)} if heard else set[int]()
        return await _strangers(nodes[name], heard, dict.fromkeys(ports, own))

    return await _of_all(deployment, look)


async def check_free(deployment: Deployment, nodes: Mapping[str, Node]) -> None:
    """Raises LabError where somebody listens at a port of a service that was not started yet.

    Whoever else holds a port would answer in place of the services.
    """
    if found := await held_by_others(deployment, nodes):
        rows = "; ".join(f"{one.name}: {one.what}" for one in found)
        raise LabError(
            f"the nodes are not clean: {rows} (not ours); nothing was started",
            remedy="end it there (`dstest lab ssh NODE`; a server of the machine's own by "
            "`systemctl disable --now`), or, unless they are machines of yours, make the nodes "
            "anew: `dstest lab down`, then `dstest lab up`",
        )


async def check_listeners(
    deployment: Deployment, nodes: Mapping[str, Node], endpoints: Sequence[Endpoint]
) -> None:
    """Raises LabError where a port of a service is held by a process that is none of the service.

    Waits as long as members may take to start: until nobody else listens, and somebody where
    clients connect.

    What clients see of any other process says nothing of a fault that hits the service. What binds
    no TCP port is let alone.
    """

    async def look(name: str, services: Sequence[Service]) -> list[HeldPort]:
        ports = {port for one in services for port in ports_of(one)}
        heard = _at(deployment, name, await _heard(nodes[name], ports))
        silent = {end.port for end in endpoints if end.node == name} - {row.port for row in heard}
        late.extend(sorted(silent))
        # Asked for after the listeners: whoever was forked in between does not listen yet.
        processes = await _processes(deployment, name)
        own: dict[int, set[int]] = {}
        for service in services:
            pids = {process.pid for process in processes if process.service == service.name}
            for port in ports_of(service):
                own.setdefault(port, set()).update(pids)
        return await _strangers(nodes[name], heard, own)

    late: list[int] = []
    deadline_ns = clock.monotonic_ns() + int(deployment.timing.start_s * 1e9)
    while True:
        late.clear()
        found = await _of_all(deployment, look)
        if not (found or late) or clock.monotonic_ns() > deadline_ns:
            break
        await asyncio.sleep(POLL_S)
    if found:
        raise _refused(deployment, found)


def _refused(deployment: Deployment, found: Sequence[HeldPort]) -> LabError:
    first, more = found[0], f"; {len(found) - 1} more" if len(found) > 1 else ""
    there = deployment.members[first.name].services
    names = " or ".join(service.name for service in there if first.port in ports_of(service))
    return LabError(
        f"{first.name}: {first.what}, which is not of service {names}{more}",
        remedy="a service is all that its main process forks and keeps in its control group;"
        " what serves clients besides is a service of its own",
    )


async def _of_all(
    deployment: Deployment, look: Callable[[str, Sequence[Service]], Awaitable[list[HeldPort]]]
) -> list[HeldPort]:
    """What is found on each member that has services, where the system can tell processes."""
    if not isinstance(deployment, Processes):
        return []
    rows = [(name, member.services) for name, member in deployment.members.items()]
    found = await asyncio.gather(*(look(*row) for row in rows if row[1]))
    return [held for row in found for held in row]


async def _processes(deployment: Deployment, name: str) -> list[Process]:
    limit_s = ask_s(deployment.timing)
    assert isinstance(deployment, Processes)
    answer = await in_time(deployment, "processes", deployment.processes([name]), limit_s)
    return check_processes(deployment, answer).get(name, [])


async def _heard(node: Node, ports: Collection[int]) -> list[Listener]:
    wanted = " or ".join(f"sport = :{port}" for port in sorted(ports))
    done = await node.run(["ss", "-Hlntup", f"( {wanted} )"], timeout_s=5.0)
    return read_listeners(done.stdout)


def _at(deployment: Deployment, name: str, heard: Sequence[Listener]) -> list[Listener]:
    """Those at addresses at which clients ask a server that ran already: at another address the
    same port may be anybody's."""
    if not isinstance(deployment, Attached):
        return list(heard)
    asked = deployment.addresses(name)
    return [row for row in heard if row.address in asked]


async def _strangers(
    node: Node, heard: Sequence[Listener], own: Mapping[int, Collection[int]]
) -> list[HeldPort]:
    """Who listens at a TCP port without being one of its `own`, and is still there."""
    found = []
    for row in heard:
        for pid in sorted((row.pids or {0}) - {*own[row.port]}) if row.kind == "tcp" else ():
            command = ""
            if pid:
                done = await node.run(["sh", "-c", _COMMAND, str(pid)], timeout_s=5.0)
                command = done.stdout.strip()[:_SHOWN]
            if command or not pid:
                found.append(HeldPort(node.name, row.port, pid, command))
    return list(dict.fromkeys(found))


async def check_probes(deployment: Deployment, nodes: Mapping[str, Node]) -> None:
    """Raises LabError where a service does not give the answer that its probe expects.

    Faults are proven by these answers: a probe that no healthy server answers would let each of
    them fail.
    """

    async def check(name: str, service: str, probe: Probe) -> str | None:
        got = "nothing was tried"
        for _ in range(TRIES):
            answer = await _ask(nodes[name].info.address, probe)
            if isinstance(answer, bytes) and answer and answer.startswith(probe.expect):
                return None
            got = answer if isinstance(answer, str) else _show(answer) if answer else "no answer"
            await asyncio.sleep(ASK_S / 10)
        wanted = _show(probe.expect) if probe.expect else "any answer"
        return (
            f"{service} on {name}, port {probe.port}: sent {_show(probe.send)}, expected {wanted},"
            f" got {got}"
        )

    asked = [
        check(name, service.name, service.probe)
        for name, member in deployment.members.items()
        for service in member.services
    ]
    problems = [problem for problem in await asyncio.gather(*asked) if problem]
    if problems:
        more = f"; {len(problems) - 1} more" if len(problems) > 1 else ""
        raise LabError(
            f"a server that is healthy does not answer its probe: {problems[0]}{more}",
            remedy="correct the Probe of this service: faults are proven by it",
        )


async def _ask(address: str, probe: Probe) -> bytes | str:
    """What was answered so far, after a second at the latest; in words why nothing could be."""
    said = b""
    try:
        async with asyncio.timeout(ASK_S):
            reader, writer = await asyncio.open_connection(address, probe.port)
            try:
                writer.write(probe.send)
                while len(said) < max(1, len(probe.expect)):
                    more = await reader.read(max(_SHOWN_BYTES, len(probe.expect)))
                    if not more:
                        break
                    said += more
            finally:
                writer.close()
                with contextlib.suppress(OSError):
                    await writer.wait_closed()
    except TimeoutError:
        return said
    except OSError as error:
        return said or f"no connection ({error.strerror or error})"
    return said


def _show(data: bytes) -> str:
    """Bytes as Python writes them, without its `b`."""
    return repr(data[:_SHOWN_BYTES])[1:]


async def builds_in_use(
    names: Sequence[str], deployment: Deployment, nodes: Mapping[str, Node]
) -> dict[str, str]:
    """By the name of each build, a file of it that a server uses on the first node that has any.

    LabError where none uses any, or a server's program is another file than the build's of that
    name: what was asked for is not what would be tested. Files that the deployment writes itself
    are there whatever the build.
    """
    if not names:
        return {}
    if not isinstance(deployment, Processes):
        raise ConfigError(
            "--system-version: nobody could say whether that build is what runs",
            remedy="a system that knows its processes (docs/new-system.md)",
        )
    rows = await deployment.processes()
    where = next(name for name in nodes if rows.get(name))
    node = nodes[where]
    pids = [str(process.pid) for process in rows[where]]
    said = (await node.run(["sh", "-c", _FILES, "files", *pids], timeout_s=BUILD_LOOK_S)).stdout
    used, programs = used_of(said) - _written_paths(deployment), programs_of(said)
    found = {}
    for name in names:
        build = build_of(name)
        if build is None:
            raise ConfigError(f"{name} is no build", remedy="--system-version PATH")
        files = await files_of(build, node)
        if stray := _same_name(programs - files, files):
            raise LabError(
                f"{where} runs {stray[0]}, and {build.path} has that program at {stray[1]}",
                remedy="lay each file where the system looks for it",
            )
        there = used & files
        if not there:
            raise LabError(
                f"no server on {where} uses a file of {build.path}: what runs there is another"
                " build",
                remedy="lay each file where the system looks for it; a .deb must be of the package"
                " that has the server's program",
            )
        found[name] = min(there)
    return found


def used_of(said: str) -> set[str]:
    """Absolute paths in what a node says of its processes."""
    lines = (line.removeprefix(_PROGRAM) for line in said.splitlines())
    return {_merged(line) for line in lines if line.startswith("/")}


def programs_of(said: str) -> set[str]:
    """The programs among them."""
    return used_of("\n".join(line for line in said.splitlines() if line.startswith(_PROGRAM)))


def _same_name(programs: set[str], files: set[str]) -> tuple[str, str] | None:
    """A program, and a file of the build that is called alike."""
    named = {os.path.basename(path): path for path in sorted(files)}
    pairs = ((path, named.get(os.path.basename(path))) for path in sorted(programs))
    return next(((path, twin) for path, twin in pairs if twin is not None), None)


def _written_paths(deployment: Deployment) -> set[str]:
    services = (s for member in deployment.members.values() for s in member.services)
    return {_merged(path) for service in services for path in service.files}


def _merged(path: str) -> str:
    return _MERGED.sub(r"/usr/\1/", path)


async def files_of(build: Build, node: Node) -> set[str]:
    """What a build has, as paths on a node."""
    if build.path.is_dir():
        return set(_of_tree(build.path))
    package = _field(build.path, "Package")
    argv = ["dpkg-query", "-W", "-f", "${Version}", package]
    there = (await node.run(argv, timeout_s=BUILD_LOOK_S, check=False)).stdout.strip()
    if there != _field(build.path, "Version"):
        raise LabError(
            f"{node.name} has {package} {there or 'not at all'}, not that of {build.path}",
            remedy="`dstest lab down`, then up again",
        )
    listed = await node.run(["dpkg-query", "-L", package], timeout_s=BUILD_LOOK_S)
    return {_merged(line) for line in _leaves(listed.stdout.splitlines())}


def _leaves(paths: Sequence[str]) -> Iterable[str]:
    """Those that are no directory of another one."""
    folders = {os.path.dirname(path) for path in paths}
    return (path for path in paths if path not in folders)


def _of_tree(root: Path) -> Iterable[str]:
    for folder, _, names in os.walk(root):
        for name in names:
            yield _merged(f"/{Path(folder, name).relative_to(root)}")


def _field(path: Path, name: str) -> str:
    if shutil.which("dpkg-deb") is None:
        raise ConfigError("dpkg-deb is not installed", remedy="apt-get install dpkg")
    argv = ["dpkg-deb", "-f", str(path), name]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=BUILD_LOOK_S, check=False)
    if done.returncode != 0:
        raise ConfigError(
            f"{path} is no whole Debian package: {done.stderr.strip()}", remedy="fetch it again"
        )
    return done.stdout.strip()
