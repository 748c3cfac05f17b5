"""ZooKeeper, by the library `kazoo`: an ensemble with a leader; reads are answered by the member
that is asked.

Writes are linearizable; a read may be old (ZooKeeper Programmer's Guide, Consistency Guarantees).
Behind a `sync` it is so by less: a leader applies a write after it has told the followers, so one
that reads from the leader then may miss what a follower has acknowledged. A read that a transaction
has confirmed is as linearizable as the writes are.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, Final

from clusters.supervise import (
    NOT_CONNECTED,
    BlockingClient,
    Durable,
    FramedRequests,
    SupervisedSystem,
)
from clusters.supervise.attached import OPTIONS as ATTACHED
from clusters.supervise.log_lines import ZOOKEEPER_LINES
from clusters.systems.zookeeper.asked import PORT, Session, ZookeeperAsked
from clusters.systems.zookeeper.attached import AttachedZookeeper
from dstest.core.node import Node
from dstest.core.protocols import (
    Definite,
    Ending,
    Endpoint,
    OpDraft,
    Option,
    Probe,
    Relaxation,
    Service,
    SystemLogs,
)

CONFLICT: Final = "conflict"
TRIES: Final = 12

HOME: Final = "/opt/zookeeper"
JAVA: Final = ("java", "-Xmx128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
CLASSES: Final = "/etc/zookeeper/conf:/usr/share/java/*"
MAIN: Final = "org.apache.zookeeper.server.quorum.QuorumPeerMain"
CONFIG: Final = f"""\
tickTime=500
initLimit=20
syncLimit=8
dataDir={HOME}/data
clientPort={PORT}
maxClientCnxns=0
admin.enableServer=false
4lw.commands.whitelist=*
"""


class RegisterClient(BlockingClient):
    """read, write, cas of a node's data."""

    def connect(self, to: Endpoint) -> Session:
        return Session(to.dial or to.address, to.port, self.wait_s)

    def _do(self, act: str, *given: Any, **more: Any) -> Any:
        asked = getattr(self.link(self.at).client, f"{act}_async")(*given, **more)
        return asked.get(timeout=self.wait_s)

    def _read(self, path: str) -> tuple[Any, int]:
        """The value and its version; -1 where there is none."""
        reads = self.options["reads"]
        if reads == "sync":
            self._do("sync", "/")
        if reads != "confirmed":
            return self._get(path)
        for _ in range(TRIES):
            value, version = self._get(path)
            if self._is_latest(path, version):
                return value, version
        raise Definite(CONFLICT)

    def _is_latest(self, path: str, version: int) -> bool:
        """Does a transaction, which changes nothing, find this version?"""
        deal = self.link(self.at).client.transaction()
        if version < 0:
            deal.create(path)
            deal.delete(path)
        else:
            deal.check(path, version)
        results = deal.commit_async().get(timeout=self.wait_s)
        return not any(isinstance(result, Exception) for result in results)

    def _get(self, path: str) -> tuple[Any, int]:
        from kazoo.exceptions import NoNodeError

        try:
            data, stat = self._do("get", path)
        except NoNodeError:
            return None, -1
        return json.loads(data), stat.version

    def _write(self, path: str, value: Any) -> None:
        from kazoo.exceptions import NodeExistsError, NoNodeError

        data = json.dumps(value).encode()
        try:
            self._do("set", path, data)
        except NoNodeError:
            try:
                self._do("create", path, data)
            except NodeExistsError:
                self._do("set", path, data)

    def _cas(self, path: str, old: Any, new: Any) -> bool:
        """However reads are done, only the latest value says that it held something else. A version
        that has moved on says nothing of the value: it is read again."""
        from kazoo.exceptions import BadVersionError

        for _ in range(TRIES):
            value, version = self._get(path)
            if version >= 0 and value == old:
                with suppress(BadVersionError):
                    self._do("set", path, json.dumps(new).encode(), version=version)
                    return True
            elif self._is_latest(path, version):
                return False
        raise Definite(CONFLICT)

    def _path(self, op: OpDraft) -> str:
        return f"{self.at.prefix}/register-{op.key}"

    async def do_read(self, op: OpDraft) -> Any:
        return (await self.blocking(self._read, self._path(op)))[0]

    async def do_write(self, op: OpDraft) -> None:
        await self.blocking(self._write, self._path(op), op.input)

    async def do_cas(self, op: OpDraft) -> bool:
        return bool(await self.blocking(self._cas, self._path(op), *op.input))


class ZookeeperDeployment(ZookeeperAsked, Durable):
    """A member on each node."""

    def services(self, node: Node) -> Sequence[Service]:
        ids = {name: i for i, name in enumerate(self.nodes, 1)}
        peers = [
            f"server.{ids[name]}={peer.info.address}:2888:3888" for name, peer in self.nodes.items()
        ]
        data, config = f"{HOME}/data", f"{HOME}/zoo.cfg"
        return [
            Service(
                name="zookeeper",
                argv=(*JAVA, "-cp", CLASSES, MAIN, config),
                data=(data,),
                files={
                    config: (CONFIG + "\n".join(peers) + "\n").encode(),
                    f"{data}/myid": f"{ids[node.name]}\n".encode(),
                },
                log=f"{HOME}/log",
                probe=Probe(PORT, b"ruok", b"imok"),
                ports={"peer": 3888},
                # What a Java machine says that has run its hooks on SIGTERM.
                ending=Ending(statuses=(143,)),
            )
        ]


OWN: Final = frozenset({-11, 11, 100, 101, 105})
"""Types of requests that the library makes by itself: closing, pings, authentication, watches."""


class ZookeeperRequests(FramedRequests):
    """Requests of a session, without those of the library (ZooKeeper, zookeeper.jute)."""

    def frame(self, head: bytes, number: int) -> tuple[int, bool] | None:
        if len(head) < (4 if number == 0 else 12):
            return None
        length = int.from_bytes(head[:4], "big")
        if number == 0:
            return 4 + length, False
        return 4 + length, int.from_bytes(head[8:12], "big", signed=True) not in OWN


class AnyZookeeper(SupervisedSystem):
    """What is the same of ZooKeeper, whoever has started it."""

    name = "zookeeper"
    services = ("zookeeper",)
    client_packages = ("kazoo",)
    clients = {"register": RegisterClient}
    options: Mapping[str, Option] = {
        "reads": Option(
            type=str,
            default="confirmed",
            choices=("confirmed", "sync", "local"),
            help="confirmed: a transaction finds the version that was read; sync: a read waits"
            " until its member has caught up with the leader; local: as ZooKeeper reads",
        ),
    }
    definite_errors = {
        NOT_CONNECTED: "ours: there was no session, so nothing was sent",
        CONFLICT: "ZooKeeper, setData: fails with BadVersion where the version is another one",
    }
    conflict_errors = frozenset({CONFLICT})
    relaxations = (
        Relaxation(
            model="sequential",
            source="ZooKeeper Programmer's Guide, Consistency Guarantees: it can serve older data",
            option="reads",
            value="local",
        ),
    )
    logs = SystemLogs(
        alarms=("Unexpected exception causing shutdown", "Severe unrecoverable error"),
        reader=ZOOKEEPER_LINES,
    )
    request_counter = ZookeeperRequests


class RunningZookeeper(AnyZookeeper):
    """ZooKeeper that runs already: it has no files of ours."""

    doc = "ZooKeeper that runs already, without TLS and authentication"
    deployment = AttachedZookeeper
    options: Mapping[str, Option] = {**ATTACHED, **AnyZookeeper.options}
    client_port = 0


class Zookeeper(AnyZookeeper):
    """The `zookeeper` system."""

    doc = "ZooKeeper 3.8 from Debian: writes through a leader, reads from any member"
    packages = ("zookeeper",)
    deployment = ZookeeperDeployment
    ports = (PORT, 2888, 3888)
    client_port = PORT
    home = HOME
    own_image = True
    attached = RunningZookeeper()


SYSTEM = Zookeeper()
