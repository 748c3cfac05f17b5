"""`AttachedDeployment`: servers that run already, whoever has started them.

They are looked for by who listens, run as long as others want, and are as they were when a run is
over: nothing is laid on their nodes, and what clients have written is taken away. A system says the
name of its program, which of a server's ports answers clients, and what can be asked there.
"""

from __future__ import annotations

import abc
import asyncio
import base64
import re
import secrets
import shlex
from collections.abc import Collection, Mapping, Sequence
from typing import Any, ClassVar, Final

import msgspec

from clusters.supervise.member_set import MemberSet
from dstest.core import clock
from dstest.core.answers import ask_s, check_health, in_time
from dstest.core.errors import LabError
from dstest.core.node import Node, heard_at
from dstest.core.protocols import (
    Attached,
    Endpoint,
    Kill,
    LogFiles,
    Option,
    Pause,
    Probe,
    Process,
    Processes,
    Restartable,
    RunningServer,
    Service,
)

LOOK_S: Final = 15.0
ACT_S: Final = 20.0
POLL_S: Final = 0.2
SHOWN: Final = 160
"""Characters of a command line, where a server is named."""

BEFORE_A_RUN: Final = (
    "a cluster has to be well before a run; TLS, users and authentication are not supported"
)

PREFIX: Final = "/dstest-run-"
"""How the keys of such runs begin, before what tells one run from another."""

OPTIONS: Final[Mapping[str, Option]] = {
    "client_port": Option(
        type=int,
        default=0,
        least=0,
        most=65_535,
        help="port at which servers are asked; 0: the one that answers as such a server",
    ),
    "unit": Option(
        type=str, default="", help="the server is the one in this unit of systemd, as etcd.service"
    ),
    "process": Option(
        type=str, default="", help="the server is the one with this text in its command line"
    ),
    "start": Option(
        type=str,
        default="",
        help="shell command that starts the server on its node, for faults that end it; without"
        " one its unit is started",
    ),
}
"""How servers are found that run already."""

_DETAILS: Final = """\
for pid; do
    program=$(readlink /proc/$pid/exe) && stat=$(cat /proc/$pid/stat) || continue
    group=$(sed -n 's/^\\(0:\\|[0-9]*:name=systemd\\)://p' /proc/$pid/cgroup | tr '\\n' ' ')
    echo "$(echo "$program" | base64 -w 0) $(echo "$stat" | base64 -w 0) \
$(echo "$group" | base64 -w 0) $(base64 -w 0 /proc/$pid/cmdline)"
done
"""
"""Of each process the file that it runs, its stat, its groups of systemd and its arguments."""

_STOPS: Final = ("RequiredBy", "BoundBy", "ConsistsOf", "PropagatesStopTo")
"""Properties of a unit that name others which end with it, and are not started again with it."""

_FAILS: Final = ("FailureAction", "OnFailure")
"""What a unit does, or which others it starts, when its server was killed."""

_UNIT: Final = (
    *("systemctl", "show", "-p", "LoadState,Transient,MainPID,ExecStop,ExecStopPost"),
    *("-p", ",".join(("NeedDaemonReload", *_FAILS, *_STOPS))),
)

_AT: Final = """\
at() {
    ss -Hltnp "( sport = :$1 )" | awk -v ours=" $2 " '{
        address = $4
        sub(/:[0-9]+$/, "", address); gsub(/[][]/, "", address)
        sub(/%.*/, "", address); sub(/^::ffff:/, "", address)
        if (index(ours, " " address " ")) print
    }'
}
"""
"""Who listens at port `$1` of one of the addresses `$2`: the same port of another address is
somebody else's."""

_TREE: Final = """\
{
    line = $0; pid = $1
    sub(/^.*\\) /, "", line)
    split(line, field, " ")
    if (field[1] != "Z") { parent[pid] = field[2]; start[pid] = field[20] }
}
END {
    count = split(roots, root, " ")
    for (i = 1; i <= count; i++) listens[root[i]] = 1
    for (pid in parent) {
        up = pid; steps = 0
        while (!(up in listens) && (up in parent) && steps++ < 64) up = parent[up]
        if (up in listens) print pid, start[pid], (pid in listens) && !(parent[pid] in listens)
    }
}
"""
_PROCESSES: Final = f"""\
{_AT}mine=
for pid in $(at "$0" "$2" | grep -o 'pid=[0-9]*' | cut -d = -f 2 | sort -u); do
    program=$(readlink "/proc/$pid/exe")
    [ "${{program% (deleted)}}" != "$1" ] || mine="$mine $pid"
done
[ -z "$mine" ] || cat /proc/[0-9]*/stat 2>/dev/null | awk -v roots="$mine" {shlex.quote(_TREE)}
"""
"""Of the server that listens at port `$0` of addresses `$2` and runs the file `$1`: pid, start
time, 1 for a main process, of it and of all that it has forked. Files in /proc may vanish while
they are read."""

_EACH: Final = """\
same() {
    case $(sed 's/.*) //' "/proc/$1/stat" 2>/dev/null | cut -d ' ' -f 1,20) in
    'Z '*) return 1 ;;
    *" $2") return 0 ;;
    esac
    return 1
}
each() {
    signal=$1; shift
    while [ $# -gt 1 ]; do ! same "$1" "$2" || kill "-$signal" "$1"; shift 2; done
}
gone() {
    while [ $# -gt 1 ]; do ! same "$1" "$2" || return 1; shift 2; done
}
"""
_SIGNAL: Final = f'{_EACH}each "$0" "$@"\n'
"""Sends signal `$0` to pairs of pid and start time, where those are still the same."""

_KILL: Final = f"""\
{_EACH}each KILL "$@"
# A unit that starts again by itself would end the fault: while it is stopped it does not.
[ -z "$0" ] || systemctl stop "$0" || exit 1
for _ in $(seq 100); do ! gone "$@" || exit 0; sleep 0.05; done
exit 1
"""
"""Kills pairs of pid and start time, stops the unit `$0` unless that is empty; 1 where they do not
go."""

_LISTENING: Final = re.compile(r"pid=(\d+)")
_SECRET: Final = re.compile(r"(?i)pass|secret|token|credential|basic-auth")
_SECRET_WITHIN: Final = re.compile(
    r"(?i)(--?[\w.-]*(?:pass|secret|token|credential|basic-auth)[\w.-]*[= ]+)\S+"
)


class Candidate(msgspec.Struct, frozen=True, kw_only=True):
    """A process that listens: at which addresses and ports. `parent` is its parent's pid."""

    pid: int
    parent: int
    start_time: int
    program: str
    unit: str
    arguments: tuple[str, ...]
    heard: frozenset[tuple[str, int]]

    @property
    def shown(self) -> str:
        """`process 7 (etcd --name a), port 2379, 2380`."""
        ports = ", ".join(str(port) for port in sorted({port for _, port in self.heard}))
        line = shlex.join(masked(self.arguments))[:SHOWN]
        unit = f" of {self.unit}" if self.unit else ""
        return f"process {self.pid}{unit} ({line}), port {ports}"


def heard_by(text: str) -> dict[int, set[tuple[str, int]]]:
    """By pid the (address, port) at which it listens, as `ss -Hltnp` tells."""
    found: dict[int, set[tuple[str, int]]] = {}
    for line in text.splitlines():
        _, _, _, local, *rest = line.split()
        for pid in _LISTENING.findall(" ".join(rest)):
            found.setdefault(int(pid), set()).add(heard_at(local))
    return found


def masked(arguments: Sequence[str]) -> tuple[str, ...]:
    """The arguments as they may be kept: without what a flag or variable of such a name gives."""
    found, hide = [], False
    for word in arguments:
        flag, equals, _ = word.partition("=")
        named = flag.startswith("-") or (equals and " " not in flag)
        secret = bool(named and _SECRET.search(flag))
        inside = _SECRET_WITHIN.sub(r"\1***", word) if " " in word else word  # of `sh -c`
        found.append("***" if hide else f"{flag}=***" if secret and equals else inside)
        hide = secret and not equals
    return tuple(found)


def _text(word: str) -> str:
    return base64.b64decode(word).decode("utf-8", "replace").removesuffix("\n")


def candidate_of(line: str, heard: Mapping[int, set[tuple[str, int]]]) -> Candidate:
    """From a line that `_DETAILS` prints."""
    program, stat, groups, arguments = (_text(word) for word in (*line.split(" "), "")[:4])
    pid = int(stat.partition(" ")[0])
    fields = stat.rpartition(") ")[2].split()
    unit = next(
        (
            name
            for group in groups.split()
            if (name := group.rpartition("/")[2]).endswith(".service")
        ),
        "",
    )
    return Candidate(
        pid=pid,
        parent=int(fields[1]),
        start_time=int(fields[19]),
        program=program.removesuffix(" (deleted)"),
        unit=unit,
        arguments=tuple(arguments.rstrip("\0").split("\0")),
        heard=frozenset(heard[pid]),
    )


class AttachedDeployment(MemberSet, Attached, Processes, Kill, Restartable, Pause, LogFiles):
    """Base of deployments of servers that run already; one server on each node.

    A subclass says `program`, the name of the file that servers run, and `service`, and implements
    what is abstract; `check` may refuse what was found.
    """

    program: ClassVar[str]
    service: ClassVar[str]
    unwell: ClassVar[str]
    """What a member does not do that is not `healthy`, as `answers no request`."""

    def __init__(self, nodes: Sequence[Node], options: Mapping[str, Any]) -> None:
        super().__init__(nodes, options)
        self._servers: dict[str, RunningServer] = {}
        self._heard: dict[str, frozenset[int]] = {}
        self._unkillable: dict[str, str] = {}
        self.prefix = f"{PREFIX}{secrets.token_hex(4)}"
        """All keys of this run begin with it."""

    @abc.abstractmethod
    async def serves(self, node: Node, port: int) -> bool:
        """Is this the port of such a server, at which clients ask it?"""

    @abc.abstractmethod
    def probe_at(self, port: int) -> Probe:
        """How a server is asked at that port whether it is there."""

    @abc.abstractmethod
    async def healthy(self) -> dict[str, bool]:
        """As of any deployment."""

    @abc.abstractmethod
    async def version_at(self, name: str) -> str:
        """The version that a server reports; empty where it does not."""

    @abc.abstractmethod
    async def take_away(self) -> None:
        """Remove all keys of this run. LabError where that is not done."""

    async def check(self) -> None:
        """LabError where the servers are not one cluster, all of whose members are these."""

    async def remarks(self) -> list[str]:
        """What a person ought to know of the servers, in sentences."""
        said = [f"{name}: {self._shown(server)}" for name, server in self._servers.items()]
        versions = {server.version for server in self._servers.values()}
        if len(versions) > 1:
            rows = ", ".join(f"{name} {one.version}" for name, one in self._servers.items())
            said.append(f"the members are of different versions: {rows}")
        if self.options["start"]:
            said.append(
                "what -o start= begins runs as root in a scope of systemd of its own: nobody"
                " compares its arguments, user and environment with those of before"
            )
        return said

    def require_peer_port(self, name: str, ports: Collection[int]) -> None:
        """LabError where the process does not listen at any of the ports at which the member that
        answers there hears its peers: it passes on what another one answers."""
        if not self._heard[name] & {*ports}:
            raise LabError(
                f"{name}: {self._shown(self._servers[name])} answers for a member, but does not"
                f" listen at its peer port {', '.join(map(str, sorted(ports)))}",
                remedy="a proxy is no server: -o client_port= of the server itself, which has to"
                " listen at the address by which the lab knows the node",
            )

    @staticmethod
    def _shown(server: RunningServer) -> str:
        of = f" of {server.unit}" if server.unit else ""
        line = shlex.join(server.arguments)[:SHOWN]
        return f"process {server.pid}{of} at port {server.port}, {server.version}: {line}"

    async def look(self) -> None:
        found = await self.each(list(self.nodes), self._find)
        self._servers = found
        # Each is asked for its version where it was found.
        versions = await self.each(list(found), lambda node: self.version_at(node.name))
        if mute := sorted(name for name, version in versions.items() if not version):
            raise LabError(f"{', '.join(mute)} does not say its version", remedy=BEFORE_A_RUN)
        self._servers = {
            name: msgspec.structs.replace(server, version=versions[name])
            for name, server in found.items()
        }
        await self.check()
        healthy = await self.healthy()
        if sick := sorted(name for name, well in healthy.items() if not well):
            raise LabError(f"{', '.join(sick)} {self.unwell}", remedy=BEFORE_A_RUN)
        whys = await self.each(list(found), self._why_not_killed)
        self._unkillable = {name: why for name, why in whys.items() if why}

    def found(self) -> dict[str, RunningServer]:
        return dict(self._servers)

    async def _find(self, node: Node) -> RunningServer:
        candidates = await self._candidates(node)
        asked = [(one, await self._answering(node, one)) for one in candidates]
        pairs = [(one, port) for one, port in asked if port]
        if len(pairs) == 1:
            (one, port), *_ = pairs
            self._heard[node.name] = frozenset(heard for _, heard in one.heard)
            return RunningServer(
                port=port,
                pid=one.pid,
                start_time=one.start_time,
                program=one.program,
                arguments=masked(one.arguments),
                unit=one.unit,
            )
        if pairs:
            rows = "; ".join(f"{one.shown}, asked at {port}" for one, port in pairs)
            raise LabError(
                f"{node.name}: more than one server could be meant: {rows}",
                remedy="-o client_port=, -o unit= or -o process= says which",
            )
        raise self._none(node, candidates)

    async def _answering(self, node: Node, one: Candidate) -> int:
        """The first port of a process at which it answers as such a server does; 0: at none."""
        for port in sorted(self._ports(node, one)):
            if await self.serves(node, port):
                return port
        return 0

    def _none(self, node: Node, candidates: Sequence[Candidate]) -> LabError:
        what = f"server of {self.service}"
        if candidates:
            rows = "; ".join(one.shown for one in candidates)
            return LabError(
                f"{node.name}: there is no {what} that answers clients at {node.info.address}"
                f" ({rows})",
                remedy="it has to listen at the address by which the lab knows the node, without"
                " TLS, and to run",
            )
        asked = [f"-o {key}={self.options[key]}" for key in OPTIONS if self.options.get(key)]
        by = f" that fits {' '.join(asked)}" if asked else f" (no {self.program} listens)"
        return LabError(
            f"{node.name}: there is no {what}{by}",
            remedy=f"start it there; or -o process=TEXT of its command line, where its program is"
            f" not called {self.program}",
        )

    def _ports(self, node: Node, one: Candidate) -> set[int]:
        """Ports of a process at which it can be asked from here."""
        wanted = self.options["client_port"]
        ours = self.addresses(node.name)
        return {port for at, port in one.heard if at in ours and wanted in (0, port)}

    def addresses(self, name: str) -> list[str]:
        """Addresses at which a node can be asked from here."""
        info = self.nodes[name].info
        return ["*", "0.0.0.0", "::", info.address, *filter(None, [info.address6])]

    async def _candidates(self, node: Node) -> list[Candidate]:
        """Processes that may be the server; not what one of them has forked."""
        heard = heard_by((await node.run(["ss", "-Hltnp"], timeout_s=LOOK_S)).stdout)
        argv = ["sh", "-c", _DETAILS, "sh", *map(str, sorted(heard))]
        said = (await node.run(argv, timeout_s=LOOK_S)).stdout
        rows = [candidate_of(line, heard) for line in said.splitlines()]
        fitting = [one for one in rows if self._fits(one)]
        pids = {one.pid for one in fitting}
        return [one for one in fitting if one.parent not in pids]

    def _fits(self, one: Candidate) -> bool:
        """By all that the options say; by its program where they say nothing."""
        port, unit, text = (self.options[key] for key in ("client_port", "unit", "process"))
        if port and port not in {heard for _, heard in one.heard}:
            return False
        if unit and one.unit != unit:
            return False
        if text and text not in " ".join(one.arguments):
            return False
        return bool(text) or one.program.rpartition("/")[2] == self.program

    async def _why_not_killed(self, node: Node) -> str:
        """Why a server that was killed would not be as before, or what else would happen. Empty:
        nothing stands against it."""
        server, start = self._servers[node.name], self.options["start"]
        if not server.unit:
            return "" if start else f"process {server.pid} is in no unit of systemd"
        done = await node.run([*_UNIT, server.unit], check=False)
        facts = dict(line.partition("=")[::2] for line in done.stdout.splitlines())
        asked = {name: facts.get(name, "") for name in _FAILS}
        if does := [f"{name}={what}" for name, what in asked.items() if what not in ("", "none")]:
            return f"{server.unit} does more when its server is killed: {', '.join(does)}"
        if start:
            return ""
        if done.status != 0 or facts.get("LoadState") != "loaded":
            return f"systemd does not know {server.unit}"
        if facts.get("Transient") != "no":
            return f"{server.unit} was made by systemd-run, and is gone once it is stopped"
        if facts.get("MainPID") != str(server.pid):
            return f"process {server.pid} is not the main process of {server.unit}"
        if others := " ".join(filter(None, (facts.get(name, "") for name in _STOPS))):
            return f"with {server.unit} systemd would end {others}, and not start it again"
        if hooks := [name for name in ("ExecStop", "ExecStopPost") if facts.get(name)]:
            return f"{server.unit} has an {hooks[0]}, which would be run"
        if facts.get("NeedDaemonReload") == "yes":
            return f"the file of {server.unit} was changed: it would start as another one"
        return ""

    def lacks(self) -> dict[str, str]:
        rows = "; ".join(f"{name}: {why}" for name, why in self._unkillable.items())
        why = f"a server that was killed would not be as before: {rows} (-o start=COMMAND)"
        return dict.fromkeys((Kill.__name__, Restartable.__name__), why) if rows else {}

    def services(self, node: Node) -> Sequence[Service]:
        server = self._servers[node.name]
        probe = self.probe_at(server.port)
        return [
            Service(
                name=self.service,
                argv=server.arguments,
                probe=msgspec.structs.replace(probe, at=tuple(self.addresses(node.name))),
                log="",
                ports={"client": server.port},
            )
        ]

    def endpoints(self) -> list[Endpoint]:
        """As of any deployment, with the keys that clients may use."""
        return [msgspec.structs.replace(end, prefix=self.prefix) for end in super().endpoints()]

    def log_files(self) -> dict[str, list[str]]:
        """None: what they have logged before the run is not of it, and may be anywhere."""
        return {name: [] for name in self.nodes}

    async def install(self) -> None:
        """All that they need is there."""

    async def start(self) -> None:
        """They run; LabError where one of them does not serve."""
        await self._until_healthy(list(self.members))

    async def stop(self) -> None:
        """They go on; what clients have written goes."""
        await self.take_away()

    async def wipe(self) -> None:
        """What they hold is not ours."""

    async def version(self) -> str:
        """Of the members that answer."""
        return ", ".join(sorted({one.version for one in self._servers.values()}))

    async def _until_healthy(self, names: Sequence[str]) -> None:
        deadline_ns = clock.monotonic_ns() + int(self.timing.start_s * 1e9)
        while True:
            answer = in_time(self, "healthy", self.healthy(), ask_s(self.timing))
            healthy = check_health(self, await answer)
            waiting = [name for name in names if not healthy.get(name)]
            if not waiting:
                return
            if clock.monotonic_ns() > deadline_ns:
                raise LabError(
                    f"{', '.join(waiting)} serve nobody after {self.timing.start_s:.0f} s",
                    remedy="a cluster has to be whole before a run: see the servers' own logs",
                )
            await asyncio.sleep(POLL_S)

    async def processes(self, names: Sequence[str] = ()) -> dict[str, list[Process]]:
        """Who listens where the server was found, running the same file, and what it has forked."""

        async def ask(node: Node) -> list[Process]:
            server = self._servers[node.name]
            ours = " ".join(self.addresses(node.name))
            argv = ["sh", "-c", _PROCESSES, str(server.port), server.program, ours]
            said = (await node.run(argv, timeout_s=LOOK_S)).stdout
            rows = [map(int, line.split()) for line in said.splitlines()]
            found = [Process(self.service, pid, at, bool(main)) for pid, at, main in rows]
            return sorted(found, key=lambda one: (not one.main, one.pid))

        asked = await self.each(list(names or self.nodes), ask)
        return {name: rows for name, rows in asked.items() if rows}

    async def _act(self, names: Collection[str], script: str, first: Mapping[str, str]) -> None:
        """Run a script that is given the processes of each of these servers."""
        there = await self.processes(list(names))

        async def one(node: Node) -> None:
            rows = there.get(node.name, [])
            words = [str(word) for one in rows for word in (one.pid, one.start_time)]
            argv = ["sh", "-c", script, first[node.name], *words]
            await node.run(argv, timeout_s=ACT_S)

        await self.each(list(names), one)

    async def pause(self, names: Sequence[str], service: str = "") -> None:
        """SIGSTOP to all processes."""
        await self._act(names, _SIGNAL, dict.fromkeys(names, "STOP"))

    async def resume(self, names: Sequence[str], service: str = "") -> None:
        """SIGCONT to all processes."""
        await self._act(names, _SIGNAL, dict.fromkeys(names, "CONT"))

    async def kill(self, names: Sequence[str], service: str = "") -> None:
        """SIGKILL to all processes; a unit is stopped then, so that it does not start again by
        itself. LabError where they are not gone."""
        units = {name: self._unit_to_start(name) for name in names}
        await self._act(names, _KILL, units)

    def _unit_to_start(self, name: str) -> str:
        return "" if self.options["start"] else self._servers[name].unit

    def restart_command(self, name: str) -> list[str]:
        """Starts its unit, which changes nothing where that runs; or, where nobody listens at its
        port, what the command that was given starts, in no session of ours."""
        port, unit = self._servers[name].port, self._unit_to_start(name)
        if unit:
            quoted = shlex.quote(unit)  # a name may have what a shell reads, as `a\x2db.service`
            begin = f"systemctl reset-failed {quoted} 2>/dev/null; systemctl start --no-block"
            return ["sh", "-c", f"{begin} {quoted}"]
        script = f"""\
{_AT}[ -z "$(at {port} "$0")" ] || exit 0
scope=
[ ! -d /run/systemd/system ] || scope="systemd-run --quiet --scope --collect"
setsid -f $scope sh -c "$1" </dev/null >/dev/null 2>&1
"""
        ours = " ".join(self.addresses(name))
        return ["sh", "-c", script, ours, self.options["start"]]

    async def restart(self, names: Sequence[str]) -> None:
        """Start those that do not run; returns when they serve."""
        await self.each(names, lambda node: node.run(self.restart_command(node.name)))
        await self._until_healthy(names)
