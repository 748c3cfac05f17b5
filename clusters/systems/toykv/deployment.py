"""The members of toykv: a Python program on each node, what can be asked of it, and how one is
removed, on nodes and simulated alike.
"""

from __future__ import annotations

import abc
import asyncio
import json
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from clusters.supervise import Durable, FullMesh
from clusters.supervise.member_set import PROGRAM, exclusive
from dstest.core.errors import LabError
from dstest.core.node import Node
from dstest.core.protocols import (
    Clocked,
    Leadership,
    LeaderView,
    LogWords,
    Membership,
    Probe,
    Replicas,
    Replication,
    ServerTime,
    Service,
    Timing,
    Unit,
)

__all__ = [
    "AGENTS",
    "CLIENT_PORT",
    "HOME",
    "JOURNAL",
    "PEER_PORT",
    "SPANS",
    "Administration",
    "ToykvDeployment",
]

REMOVAL_TRIES: Final = 40
AGAIN_S: Final = 0.2

HOME: Final = "/opt/toykv"
DATA: Final = f"{HOME}/data"
LIB: Final = f"{HOME}/lib"
LOG: Final = f"{HOME}/log/server.log"
AUDIT: Final = f"{HOME}/log/audit.jsonl"
SPANS: Final = "spans.jsonl"
SPANS_PATH: Final = f"{HOME}/log/{SPANS}"
JOURNAL: Final = "protocol.jsonl"
STEPS: Final = f"{HOME}/log/{JOURNAL}"
REMOVED: Final = f"{HOME}/removed"
JOIN: Final = f"{HOME}/join"
CLIENT_PORT: Final = 7700
PEER_PORT: Final = 7701
SERVICE: Final = "toykv"
AGENTS: Final = __name__.rpartition(".")[0] + ".agents"


class Administration(abc.ABC):
    """Base of those who can ask members, and end their servers."""

    members: Any
    """name -> `Member`."""

    last_errors: dict[str, str]
    """Of members that did not answer when last asked: why not."""

    @abc.abstractmethod
    async def asked(self, name: str, op: str, **given: Any) -> Any:
        """What a member answers; None of one that refuses, is late or is not there."""

    @abc.abstractmethod
    async def remember(self, name: str, member: int) -> None:
        """That the member of this name and id is to go, where its own host finds it."""

    @abc.abstractmethod
    async def end(self, name: str) -> None:
        """End a member's server and wipe its data."""

    async def statuses(self) -> dict[str, Any]:
        """What each says of itself; None of one that does not answer."""
        names = list(self.members)
        found = await asyncio.gather(*(self.asked(name, "status") for name in names))
        return dict(zip(names, found, strict=True))

    async def leaders(self) -> list[LeaderView]:
        """The view of each member that answers."""
        status = {name: said for name, said in (await self.statuses()).items() if said}
        names = {m[0]: m[1] for said in status.values() for m in said["members"]}
        return [
            LeaderView(member=n, leader=names.get(said["leader"]), epoch=said["term"])
            for n, said in status.items()
        ]

    async def claims(self, name: str, group: str) -> bool:
        """Does this member say that it leads?"""
        said = await self.asked(name, "status")
        return bool(said and said["leads"])

    async def listed(self) -> dict[str, dict[int, tuple[str, bool]] | None]:
        """Who is a member, as each one has it."""
        return {
            n: {m[0]: (m[1], not m[3]) for m in said["members"]} if said else None
            for n, said in (await self.statuses()).items()
        }

    async def doom(self, name: str) -> int:
        """From now on `rejoin` replaces this member, whose id is returned, by a new one."""
        for other, listed in (await self.listed()).items():
            for member, (known, _) in (listed or {}).items():
                if known == name and other != name:
                    await self.remember(name, member)
                    return member
        raise LabError(f"{name} is not a member")

    async def expel(self, name: str) -> None:
        """Remove a member, end its server, wipe its data."""
        member = await self.doom(name)
        others = [n for n in self.members if n != name]
        for _ in range(REMOVAL_TRIES):
            await self.asked(others[0], "remove", value=member)
            if _gone(await self.listed(), member, others):
                await self.end(name)
                return
            others = [*others[1:], others[0]]
            await asyncio.sleep(AGAIN_S)
        raise LabError(f"{name} stays a member: {self.last_errors}")


def _gone(
    listed: Mapping[str, Mapping[int, tuple[str, bool]] | None], member: int, others: list[str]
) -> bool:
    """Does each of the others list members, and not this one?"""
    return all(listed[n] and member not in (listed[n] or ()) for n in others)


def programs() -> dict[str, bytes]:
    """Path on a node -> the server's modules, and the packages in which they import one another."""
    parts = AGENTS.split(".")
    found = {"/".join([LIB, *parts[:depth], "__init__.py"]): b"" for depth in range(1, len(parts))}
    for path in sorted((Path(__file__).parent / "agents").glob("*.py")):
        found["/".join([LIB, *parts, path.name])] = path.read_bytes()
    return found


class ToykvDeployment(
    Administration,
    Durable,
    FullMesh,
    Leadership,
    Replication,
    Replicas,
    Membership,
    Clocked,
):
    """A server on each node; all are members from the beginning."""

    timing = Timing(failover_s=10.0, rejoin_s=10.0)
    replication_unit = Unit("entries", 200)
    endpoint_kind = "any"

    def services(self, node: Node) -> list[Service]:
        rows = self.nodes.values()
        argv: tuple[str, ...] = ("python3", "-m", f"{AGENTS}.main", "--name", node.name)
        argv += ("--cluster", ",".join(f"{n.name}={n.info.address}:{PEER_PORT}" for n in rows))
        argv += ("--address", node.info.address, "--client-port", str(CLIENT_PORT))
        argv += ("--data", DATA, "--join", JOIN, "--bug", self.options["bug"])
        argv += ("--audit", AUDIT) if self.options["audit"] == "yes" else ()
        argv += ("--spans", SPANS_PATH) if self.options["spans"] == "yes" else ()
        argv += ("--journal", STEPS) if self.options["journal"] == "yes" else ()
        return [
            Service(
                name=SERVICE,
                argv=argv,
                env={"PYTHONPATH": LIB, "PYTHONDONTWRITEBYTECODE": "1"},
                files=programs(),
                directories=(HOME, str(Path(LOG).parent)),
                data=(DATA,),
                log=LOG,
                ports={"client": CLIENT_PORT, "peer": PEER_PORT},
                probe=Probe(CLIENT_PORT, b'{"op":"status"}\n', b'{"ok":'),
                words=LogWords(shutdown=("toykv: shuts down",), corruption=("log is damaged",)),
            )
        ]

    async def boot(self) -> None:
        """The first start makes the cluster; whoever starts later, on no data, joins it."""
        for name in self.nodes:
            await self.override(name, SERVICE, ["--bootstrap"])
        await super().boot()
        for name in self.nodes:
            await self.clear_override(name, SERVICE)

    async def wipe(self) -> None:
        """As for any system, and what a change of members may have left."""
        await super().wipe()
        gone = ["rm", "-rf", AUDIT, SPANS_PATH, STEPS, REMOVED, JOIN]
        await self.each(list(self.nodes), lambda node: node.run(gone))

    def log_files(self) -> dict[str, list[str]]:
        """The logs, and what was applied, asked and done where that is kept."""
        more = [AUDIT] if self.options["audit"] == "yes" else []
        more += [SPANS_PATH] if self.options["spans"] == "yes" else []
        more += [STEPS] if self.options["journal"] == "yes" else []
        return {name: [*logs, *more] for name, logs in super().log_files().items()}

    async def _ask(self, node: Node, op: str, **given: Any) -> Any:
        """What a member answers. OSError where it refuses."""
        line = json.dumps({"op": op, **given}).encode() + b"\n"
        said = json.loads(await self.line(node, CLIENT_PORT, line) or b"{}")
        if "ok" not in said:
            raise OSError(f"{op}: {said}")
        return said["ok"]

    async def asked(self, name: str, op: str, **given: Any) -> Any:
        """What a member answers; None of one that refuses, is late or is not there."""
        return await self.answer(name, lambda node: self._ask(node, op, **given))

    async def healthy(self) -> dict[str, bool]:
        """Does each member, a voter, answer a read by the word of a majority?"""

        async def serves(node: Node) -> bool:
            await self._ask(node, "read", key="dstest-health")
            status = await self._ask(node, "status")
            return any(m[0] == status["id"] and m[3] for m in status["members"])

        return {name: bool(good) for name, good in (await self.answers(serves)).items()}

    async def version(self) -> str:
        found = {said["version"] for said in (await self.statuses()).values() if said}
        return ", ".join(sorted(found)) or "unknown"

    async def progress(self) -> dict[str, dict[str, int] | None]:
        """The last entry that each member has applied."""
        found = await self.statuses()
        return {n: {"": said["applied"]} if said else None for n, said in found.items()}

    async def server_time(self, name: str) -> ServerTime | None:
        said = await self.asked(name, "status")
        return ServerTime(said["wall_ns"], 1_000_000) if said else None

    async def replica_states(self) -> dict[str, str | None]:
        """A hash over the state of each member, with all that was acknowledged before."""
        return await self.answers(lambda node: self._ask(node, "digest"))

    async def member_names(self) -> list[str]:
        """As the first one that answers has them."""
        for listed in (await self.listed()).values():
            if listed:
                return sorted(name for name, _ in listed.values())
        return []

    async def remember(self, name: str, member: int) -> None:
        """In a file on the node, for `rejoin`."""
        await self.nodes[name].put(REMOVED, str(member).encode())

    async def doomed(self, name: str) -> bool:
        """Is this member to be replaced, or under way to it?"""
        return bool((await self.nodes[name].call("stat", path=REMOVED))["exists"])

    async def end(self, name: str) -> None:
        """Its server, and its data."""
        await self.kill([name])
        await self.nodes[name].run(["find", DATA, "-mindepth", "1", "-delete"])

    def rejoin_command(self, learner: bool) -> list[str]:
        """Makes a node whose member was removed join anew; may take several goes."""
        servers = [f"{node.info.address}:{CLIENT_PORT}" for node in self.nodes.values()]
        config = {
            "servers": servers,
            "data": DATA,
            "removed": REMOVED,
            "join": JOIN,
            "start": [PROGRAM, "start"],
            "stop": [PROGRAM, "stop"],
        }
        words = [f"{AGENTS}.rejoin", json.dumps(config), "learner" if learner else "voter"]
        return exclusive("sh", "-c", f"PYTHONPATH={LIB} exec python3 -m {shlex.join(words)}")

    async def rejoin(self, name: str, *, learner: bool) -> None:
        """Join anew; returns when it is a voting member. LabError where it is not in time."""
        for _ in range(3):
            done = await self.nodes[name].run(
                self.rejoin_command(learner), timeout_s=12.0, check=False
            )
            if done.status == 0:
                return
        raise LabError(f"{name} does not join again: {done.stderr.strip()}")
