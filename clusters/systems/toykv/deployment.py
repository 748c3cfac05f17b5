"""The members of toykv: a Python program on each node, and what can be asked of it."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any, Final

from clusters.supervise import Durable, FullMesh
from clusters.supervise.on_node import PROGRAM, held
from clusters.systems.toykv.administration import Administration
from dstest.core.errors import LabError
from dstest.core.node import Node
from dstest.core.protocols import (
    Clocked,
    Leadership,
    LogWords,
    Members,
    Membership,
    Probe,
    Replicas,
    Replication,
    ServerTime,
    Service,
    Timing,
    Unit,
)

__all__ = ["AGENTS", "CLIENT_PORT", "HOME", "JOURNAL", "PEER_PORT", "SPANS", "ToykvDeployment"]

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
    Members,
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
        return held("sh", "-c", f"PYTHONPATH={LIB} exec python3 -m {shlex.join(words)}")

    async def rejoin(self, name: str, *, learner: bool) -> None:
        """Join anew; returns when it is a voting member. LabError where it is not in time."""
        for _ in range(3):
            done = await self.nodes[name].run(
                self.rejoin_command(learner), timeout_s=12.0, check=False
            )
            if done.status == 0:
                return
        raise LabError(f"{name} does not join again: {done.stderr.strip()}")
