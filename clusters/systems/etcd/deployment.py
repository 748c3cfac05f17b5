"""The members of an etcd cluster: one service on each node, who leads them, and what may be done to
their files: flip bytes of them, copy and put them back.
"""

from __future__ import annotations

import asyncio
import json
import re
import shlex
from collections.abc import AsyncIterator, Mapping, Sequence
from email.utils import parsedate_to_datetime
from typing import Any, Final

from clusters.supervise.member_set import exclusive, override_of
from clusters.systems.etcd import on_node
from clusters.systems.etcd.admin import EtcdAdmin, http_date, why_not
from clusters.systems.etcd.asked import http_get
from clusters.systems.etcd.clients.connection import CLIENT_PORT
from clusters.systems.etcd.effects import applied
from clusters.systems.etcd.on_node import (
    DATA,
    HOME,
    LOG,
    PEER_PORT,
    SECRET,
    SECRET_FILE,
    SECRET_KEPT,
    SERVICE,
    auth_flag,
    auth_steps,
    token,
    url,
)
from clusters.systems.etcd.wire import message
from dstest.core import clock
from dstest.core.errors import LabError
from dstest.core.node import Node
from dstest.core.protocols import (
    AppliedOrder,
    Clocked,
    LogWords,
    ServerTime,
    Service,
    Timing,
)

STILL_S: Final = 0.2
"""Members that are copied together stand still so long before the first copy begins, or longer."""

STILL_TRIES: Final = 3
_COMMIT_AT_START: Final = re.compile(r'"restarting local member".*"commit-index":(\d+)')
_LAST_AT_START: Final = re.compile(r"newRaft .*lastindex: (\d+)")
_STORE_COMMITS: Final = "etcd_disk_backend_commit_duration_seconds_count"
KEY: Final = "/dstest/bit-flip"
COMMIT_S: Final = 12.0
"""An election among the others, several rounds if need be, and a write."""


class EtcdFiles(EtcdAdmin):
    """Part of the deployment."""

    raised_s = 15.0
    """It looks every five seconds whether all members can do more."""

    async def write_value(self, value: str) -> None:
        """Store a text under a key that no client uses."""
        await self.put_text(KEY, value)

    async def put_text(self, key: str, value: str) -> None:
        """Store a text under any key. LabError where no member takes it."""
        request = message("PutRequest")(key=key.encode(), value=value.encode())
        await self._insist(list(self.nodes), "put", request, 5.0)

    async def own_values(self) -> dict[str, str | None]:
        """What each member has stored there itself; None where it does not answer."""
        request = message("RangeRequest")(key=KEY.encode(), serializable=True)
        found = await self._all("range", request)
        return {
            n: None if a is None else (a.kvs[0].value.decode("utf-8", "replace") if a.kvs else "")
            for n, a in found.items()
        }

    async def store_commits(self) -> dict[str, int | None]:
        """How often each member has written its store to its file; what came since is in memory."""
        return await self._metric(_STORE_COMMITS)

    async def flip_in_log(self, name: str, fraction: float) -> None:
        """Kill a member, flip a bit of one entry of its log, start it; does not wait."""
        await self._flip(name, "log", on_node.DATA, f"{fraction:.6f}")

    async def flip_in_store(self, name: str, old: str, new: str) -> None:
        """Kill a member, write `new` where its store has `old`, start it; does not wait."""
        await self._flip(name, "store", on_node.DATA, old, new)

    async def cut_log(self, name: str, share: float, value: str) -> None:
        """Kill a member, cut off so much of what its log holds, start it; does not wait.

        Before it starts the others acknowledge a write: with it all that was ever acknowledged is
        with a majority that this member is not one of. Else it might have been one of the three
        that hold an entry, and its forgetting it would be a loss that etcd never promised to bear.
        From now on `rejoin` replaces the member, unless `unflip` has put the end back.
        """
        node, member = self.nodes[name], await self.member_id(name)
        words = ("tail", on_node.DATA, f"{share:.6f}", on_node.REMOVED, str(member))
        tool = shlex.join(self._tool("flip", *words))
        await node.run(exclusive("sh", "-c", f"{on_node.STOP} && {tool}"), timeout_s=20.0)
        await self._commit_without(name, value)
        await node.run(on_node.START.split())

    async def _commit_without(self, name: str, value: str) -> None:
        request = message("PutRequest")(key=KEY.encode(), value=value.encode())
        deadline_ns = clock.monotonic_ns() + int(COMMIT_S * 1e9)
        while clock.monotonic_ns() < deadline_ns:
            for other, node in self.nodes.items():
                # What is sent while nobody leads is lost: ask again soon.
                if other != name and await self._ask(node, "put", request, 0.7) is not None:
                    return
        raise LabError(f"without {name} no write is acknowledged; it is not started")

    async def _flip(self, name: str, *words: str) -> None:
        command = self.bounce_command(*self._tool("flip", *words))
        await self.nodes[name].run(command, timeout_s=20.0)

    @staticmethod
    def _tool(*words: str) -> list[str]:
        return ["python3", on_node.FLIP, on_node.FLIPPED, *words]

    async def flipped(self, name: str) -> dict[str, Any]:
        """Which bytes of a member's files are flipped or cut off, and what is there now; {} without
        any."""
        found = await self.nodes[name].run(self._tool("show"), timeout_s=20.0)
        state: dict[str, Any] = json.loads(found.stdout)
        return state

    def unflip_command(self) -> list[str]:
        """Kills the member, puts its bytes back and starts it."""
        return self.bounce_command(*self._tool("heal"))

    async def unflip(self, name: str) -> dict[str, Any]:
        """As `unflip_command`; what `flipped` said, with the checksum of the file now."""
        done = await self.nodes[name].run(self.unflip_command(), timeout_s=20.0)
        state: dict[str, Any] = json.loads(done.stdout.splitlines()[0])
        return state

    async def take_build(self, program: bytes) -> str:
        """Put another build of etcd on every node, to be used by `configure`; its version."""

        async def put(node: Node) -> str:
            await node.run(["mkdir", "-p", on_node.OTHER_HOME])
            await node.put(on_node.OTHER_BINARY, program, mode=0o755)
            done = await node.run([on_node.OTHER_BINARY, "--version"], check=False)
            match = re.match(r"etcd Version: (\S+)", done.stdout)
            if done.status != 0 or match is None:
                raise LabError(
                    f"{node.name}: that is no etcd: {(done.stderr or done.stdout)[:200]}"
                )
            return match[1]

        match = await asyncio.gather(*map(put, self.nodes.values()))
        return match[0]

    async def drop_build(self) -> None:
        """Take it away again, once no member is to be started as it any more."""
        argv = ["rm", "-rf", on_node.OTHER_BINARY, override_of(on_node.SERVICE)]
        await asyncio.gather(*(node.run(argv) for node in self.nodes.values()))

    async def use_build(self, name: str) -> None:
        """Restart a member as the other build; does not wait until it serves."""
        await self.override(name, on_node.SERVICE, program=on_node.OTHER_BINARY)
        await self.bounce(name)

    async def versions(self) -> dict[str, str | None]:
        """The version that each member reports."""
        found = await self._status()
        return {n: None if s is None else s.version for n, s in found.items()}

    async def cluster_versions(self) -> dict[str, str | None]:
        """The version of the cluster's common format, as each member has it."""

        async def ask(node: Node) -> str | None:
            page = await http_get(node.info.address, "/version")
            match = re.search(r'"etcdcluster":"([^"]*)"', page or "")
            return match[1] if match else None

        nodes = list(self.nodes.values())
        said = await asyncio.gather(*map(ask, nodes))
        return {node.name: version for node, version in zip(nodes, said, strict=True)}

    def _corruption(self, name: str) -> tuple[str, ...]:
        return self.members[name].services[0].words.corruption

    async def corruption_lines(self, since: Mapping[str, int]) -> dict[str, list[str]]:
        """Lines that tell of corruption, of each member's log after these offsets."""
        texts = await asyncio.gather(*(self.log_since(n, at) for n, at in since.items()))
        return {
            name: [
                line[:300]
                for line in text.splitlines()
                if any(words in line for words in self._corruption(name))
            ]
            for name, text in zip(since, texts, strict=True)
        }

    async def _switch_auth_on(self, wait_s: float) -> None:
        """Make the user, ask for tokens from now on. LabError where ours would not be taken."""
        for method, request in auth_steps():
            await self._insist(list(self.nodes), method, request, wait_s, "already exists")
        said = await self._outcomes("range", message("RangeRequest")(key=b"/dstest-health"))
        refused = {n: text for n, text in said.items() if "token" in text or "revision" in text}
        if refused:
            raise LabError(f"members refuse the token of our clients: {refused}")

    async def take_secret(self, name: str, secret: str) -> None:
        """Give a member another secret and restart it; does not wait until it serves."""
        await self.nodes[name].put(SECRET_FILE, secret.encode())
        await self.bounce(name)

    def keep_secret_command(self) -> list[str]:
        """Gives a member its own secret back and restarts it."""
        return self.bounce_command("cp", SECRET_KEPT, SECRET_FILE)

    async def keep_secret(self, name: str) -> None:
        """As `keep_secret_command`."""
        await self.nodes[name].run(self.keep_secret_command(), timeout_s=12.0)

    async def refused_tokens(self, secret: str = SECRET) -> dict[str, str]:
        """Empty for each member that takes a token signed with this secret, else why not."""
        request = message("RangeRequest")(key=b"/dstest-health", serializable=True)
        answers = await self._outcomes("range", request, token(secret))
        return {name: why_not(text, "invalid auth token") for name, text in answers.items()}

    async def strange_secrets(self) -> list[str]:
        """Nodes whose secret is not that of the cluster."""
        nodes = list(self.nodes.values())
        found = await asyncio.gather(*(n.get(SECRET_FILE) for n in nodes))
        return [n.name for n, data in zip(nodes, found, strict=True) if data != SECRET.encode()]

    async def back_up(self, names: Sequence[str]) -> dict[str, str]:
        """Copy the data of members that run, all as of one instant; the checksum of each store.

        None is copied before all stand still: otherwise one copy may know an entry as committed
        that no majority of the copies has, and its member would never serve again.

        Raises:
            LabError: They did not stand still together, often enough tried.
        """
        nodes = [self.nodes[name] for name in names]
        hold_s = STILL_S if len(nodes) > 1 else 0.0
        for _ in range(STILL_TRIES):
            command = exclusive("sh", "-c", on_node.BACK_UP, "sh", f"{hold_s:g}")
            done = await asyncio.gather(*(n.run(command, timeout_s=20.0) for n in nodes))
            rows = [row.stdout.split() for row in done]
            if len(nodes) == 1 or max(int(r[0]) for r in rows) < min(int(r[1]) for r in rows):
                return {n.name: row[2] for n, row in zip(nodes, rows, strict=True)}
            hold_s *= 2
        raise LabError(
            f"{', '.join(names)} did not stand still together for a copy of their data",
            remedy="give the host less to do",
        )

    async def put_back(self, names: Sequence[str]) -> dict[str, tuple[str, str]]:
        """Kill members, put the copies in place of their data, and only then start any of them.

        Does not wait until they serve. The checksum of each store just before and now.
        """
        nodes = [self.nodes[name] for name in names]
        stop, start = on_node.STOP.split(), on_node.START.split()
        restore = exclusive("sh", "-c", on_node.RESTORE)
        await asyncio.gather(*(n.run(stop) for n in nodes))
        done = await asyncio.gather(*(n.run(restore, timeout_s=20.0) for n in nodes))
        await asyncio.gather(*(n.run(start) for n in nodes))
        sums = {}
        for node, row in zip(nodes, done, strict=True):
            was, now = (line.split()[0] for line in row.stdout.splitlines())
            sums[node.name] = (was, now)
        return sums

    def put_back_command(self) -> list[str]:
        """Kills a member, puts its copy back if there is a whole one, and starts it."""
        return exclusive("sh", "-c", on_node.RESTORE_IF_DONE)

    async def drop_backups(self) -> None:
        """No copies any more."""
        paths = (on_node.BACKUP, on_node.BACKUP_DONE)
        nodes = list(self.nodes.values())
        await asyncio.gather(*(n.run(["rm", "-rf", *paths]) for n in nodes))

    async def commits_at_start(self, since: Mapping[str, int]) -> dict[str, list[int]]:
        """Index of the last entry that each member knew as committed, at each start since."""
        return await self._numbers_since(_COMMIT_AT_START, since)

    async def last_at_start(self, since: Mapping[str, int]) -> dict[str, list[int]]:
        """Index of the last entry that each member had in its log, at each start since."""
        return await self._numbers_since(_LAST_AT_START, since)

    async def _numbers_since(
        self, pattern: re.Pattern[str], since: Mapping[str, int]
    ) -> dict[str, list[int]]:
        texts = await asyncio.gather(*(self.log_since(n, at) for n, at in since.items()))
        return {
            name: [int(found) for found in pattern.findall(text)]
            for name, text in zip(since, texts, strict=True)
        }


BINARY: Final = "/usr/bin/etcd"


ANSWER_S: Final = 20.0
"""A member that tells nothing of its changes for so long does not tell all."""


class EtcdDeployment(EtcdFiles, Clocked, AppliedOrder):
    """etcd on the nodes of one lab. Its bases, and those of its parts, are what it can do."""

    timing = Timing(failover_s=20.0, rejoin_s=15.0)

    @property
    def audited(self) -> bool:
        return bool(self.options["audit"])

    async def applied(self, name: str) -> AsyncIterator[bytes]:
        """A member's changes of its store, of each revision."""
        stub = self._stub(self.nodes[name])
        try:
            async for line in applied(stub, ANSWER_S):
                yield line
        finally:
            await stub.close()

    def services(self, node: Node) -> tuple[Service, ...]:
        return (
            Service(
                name=SERVICE,
                argv=(BINARY, *self._flags(node)),
                probe=self.probe_at(CLIENT_PORT),
                cwd=HOME,
                directories=(HOME,),
                data=(DATA,),
                log=LOG,
                ports={"client": CLIENT_PORT, "peer": PEER_PORT},
                words=LogWords(
                    shutdown=("received signal; shutting down", "closed etcd server"),
                    corruption=(
                        "crc mismatch",
                        "cannot be repaired",
                        "repaired WAL",
                        "Was the raft log corrupted, truncated, or lost",
                    ),
                ),
            ),
        )

    def _flags(self, node: Node) -> list[str]:
        address = node.info.address
        peers = ",".join(f"{n.name}={url(n.info.address, PEER_PORT)}" for n in self.nodes.values())
        local = f"http://127.0.0.1:{CLIENT_PORT}"
        flags = [
            *("--name", node.name),
            *("--data-dir", DATA),
            *("--listen-peer-urls", url(address, PEER_PORT)),
            *("--listen-client-urls", f"{url(address, CLIENT_PORT)},{local}"),
            *("--advertise-client-urls", url(address, CLIENT_PORT)),
            *("--initial-advertise-peer-urls", url(address, PEER_PORT)),
            *("--initial-cluster", peers),
            *("--initial-cluster-state", "existing"),
            *("--initial-cluster-token", node.info.lab_id or "dstest"),
            *("--heartbeat-interval", str(self.options.get("heartbeat_ms", 100))),
            *("--election-timeout", str(self.options.get("election_ms", 1000))),
            *("--snapshot-count", str(self.options.get("snapshot_count", 100_000))),
            *("--logger", "zap"),
            *("--log-outputs", "stderr"),
        ]
        if (batch := int(self.options.get("compaction_batch", 1000))) != 1000:
            flags.append(f"--experimental-compaction-batch-limit={batch}")
        if self._token:
            flags += auth_flag()
        if self.options.get("unsafe_no_fsync"):
            flags.append("--unsafe-no-fsync")
        return flags

    @property
    def asks_for_tokens(self) -> bool:
        """Was `-o auth=true` given?"""
        return bool(self._token)

    async def boot(self) -> None:
        """The first start makes the cluster; whoever starts later, on no data, joins one."""
        await self.each(list(self.nodes), self._put_programs)
        for name in self.nodes:
            await self.override(name, SERVICE, ["--initial-cluster-state", "new"])
        await super().boot()
        for name in self.nodes:
            await self.clear_override(name, SERVICE)

    async def arrange(self) -> None:
        """Ask for tokens where that is wanted, and learn which id is whose."""
        if self._token:
            await self._switch_auth_on(self.timing.start_s)
        await self.wait_healthy(list(self.members))
        await self.leaders()

    async def _put_programs(self, node: Node) -> None:
        others = [n.info.address for n in self.nodes.values() if n is not node]
        rejoin = on_node.rejoin_script(
            [url(address, CLIENT_PORT) for address in others],
            url(node.info.address, PEER_PORT),
            self._token,
        )
        await node.put(on_node.REJOIN, rejoin.encode(), mode=0o755)
        for path, data in on_node.programs().items():
            await node.put(path, data)
        for path in (SECRET_FILE, SECRET_KEPT):
            await node.put(path, SECRET.encode())

    async def wipe(self) -> None:
        """As for any system, and what its faults may have left."""
        await super().wipe()
        await self.each(list(self.nodes), lambda node: node.run(["rm", "-rf", *on_node.STRAYS]))

    async def server_time(self, name: str) -> ServerTime | None:
        """The `Date` of its answers, in whole seconds."""
        date = await http_date(self.nodes[name].info.address)
        if date is None:
            return None
        return ServerTime(int(parsedate_to_datetime(date).timestamp()) * 10**9, 10**9)
