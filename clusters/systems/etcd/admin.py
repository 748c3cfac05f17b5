"""What an operator does to a running etcd: read its metrics (`/metrics` at its client port),
compact, compare, remove and rejoin, reconfigure; and why a member did not do it, in any nemesis's
words.
"""

from __future__ import annotations

import asyncio
import re
import shlex
from collections.abc import Sequence
from typing import Any, Final

from clusters.supervise import Durable, FullMesh
from clusters.supervise.member_set import exclusive, override_of
from clusters.systems.etcd import on_node
from clusters.systems.etcd.asked import EtcdAsked, http_get
from clusters.systems.etcd.clients.connection import CLIENT_PORT
from clusters.systems.etcd.wire import message
from dstest.core import clock
from dstest.core.errors import LabError
from dstest.core.node import Node
from dstest.core.protocols import (
    REFUSED,
    UNANSWERED,
    Divergence,
    Membership,
)

TIMEOUT_S: Final = 2.0
DATE_TIMEOUT_S: Final = 1.0
_SYNC: Final = re.compile(r"^etcd_disk_wal_fsync_duration_seconds_(sum|count) (\S+)$", re.MULTILINE)

Member = tuple[str, bool]
"""(name, is it a learner?); a member that has not started has no name."""

HISTORY_KEYS: Final = 100
"""Keys of one transaction; etcd takes 128 operations at most."""

REMOVAL_S: Final = 12.0
"""etcd refuses to change its members for five seconds after one of them was away."""

QUOTA_BYTES: Final = 3 << 30
"""The default is two, the advice at most eight."""

OPERATIONS: Final = 2
"""Of the transaction that tells members of different limits apart."""

_QUOTA: Final = "etcd_server_quota_backend_bytes"
_COMPACTIONS: Final = "etcd_debugging_mvcc_db_compaction_total_duration_milliseconds_count"
_DROPPED: Final = "etcd_debugging_mvcc_db_compaction_keys_total"
_COMPACTED: Final = "etcd_debugging_mvcc_compact_revision"


async def metrics(address: str) -> str | None:
    """The page; None where no member answers within two seconds."""
    return await http_get(address, "/metrics")


async def http_date(address: str) -> str | None:
    """The `Date` of an answer, as soon as it is read; None where none comes within a second."""
    try:
        async with asyncio.timeout(DATE_TIMEOUT_S):
            reader, writer = await asyncio.open_connection(address, CLIENT_PORT)
            try:
                writer.write(b"GET /version HTTP/1.0\r\n\r\n")
                while line := await reader.readline():
                    key, _, value = line.decode("latin-1").partition(":")
                    if key.lower() == "date":
                        return value.strip()
            finally:
                writer.close()
    except (OSError, TimeoutError):
        return None
    return None


def wal_syncs(page: str) -> tuple[int, float] | None:
    """Syncs of the write-ahead log since the start, and their seconds in all."""
    found = {name: float(value) for name, value in _SYNC.findall(page.replace("\r", ""))}
    if set(found) != {"sum", "count"}:
        return None
    return int(found["count"]), found["sum"]


def number(page: str, name: str) -> float | None:
    """The value of a metric without labels."""
    found = re.search(rf"^{re.escape(name)} (\S+)", page, re.MULTILINE)
    return float(found[1]) if found else None


LATE = "Deadline Exceeded"


def why_not(text: str, refusal: str) -> str:
    """`text` is what gRPC tells of a call, empty where it succeeded; a refusal has `refusal`."""
    if LATE in text:
        return UNANSWERED + text
    return REFUSED + text if refusal in text else text


class EtcdAdmin(
    EtcdAsked,
    Durable,
    FullMesh,
    Membership,
):
    """Part of the deployment. Where a member does not answer, its value is None."""

    async def _metric(self, metric: str) -> dict[str, int | None]:
        """What each member's own metrics say of it, in the metric's unit."""

        async def read(node: Node) -> int | None:
            page = await metrics(node.info.address)
            values = None if page is None else number(page, metric)
            return None if values is None else int(values)

        nodes = list(self.nodes.values())
        values = await asyncio.gather(*map(read, nodes))
        return {node.name: value for node, value in zip(nodes, values, strict=True)}

    async def _insist(
        self, names: Sequence[str], method: str, request: Any, wait_s: float, fine: str = "never"
    ) -> Any:
        """The first good answer of any of them until `wait_s` are over; LabError without one.

        None where it was refused for the reason `fine`: an earlier try has done it after all.
        """
        from grpc.aio import AioRpcError

        deadline_ns = clock.monotonic_ns() + int(wait_s * 1e9)
        while True:
            for name in names:
                stub = self._stub(self.nodes[name])
                try:
                    return await getattr(stub, method)(request, timeout=5.0, wait_for_ready=True)
                except AioRpcError as error:
                    why = f"{name}: {method}: {error.details()}"
                    if fine in why:
                        return None
                finally:
                    await stub.close()
            if clock.monotonic_ns() > deadline_ns:
                raise LabError(f"no member does it: {why}")
            await asyncio.sleep(0.3)

    async def make_history(self, revisions: int) -> None:
        """Versions of keys of ours, which no client reads, for a compaction to drop."""
        puts = [
            message("RequestOp")(
                request_put=message("PutRequest")(
                    key=f"/dstest/history/{i}".encode(), value=b"x" * 100
                )
            )
            for i in range(HISTORY_KEYS)
        ]
        request = message("TxnRequest")(success=puts)
        for _ in range(max(1, revisions // HISTORY_KEYS)):
            await self._insist(list(self.nodes), "txn", request, 5.0)

    async def compact(self, revision: int) -> None:
        """Give up everything older than `revision` that a newer value replaced; does not wait."""
        request = message("CompactionRequest")(revision=revision)
        await self._insist(list(self.nodes), "compact", request, 5.0)

    async def compactions(self) -> dict[str, dict[str, int] | None]:
        """Per member: `runs` that have finished, `dropped` versions, `revision` compacted to."""

        async def read(node: Node) -> dict[str, int] | None:
            page = await metrics(node.info.address)
            if page is None:
                return None
            names = {"runs": _COMPACTIONS, "dropped": _DROPPED, "revision": _COMPACTED}
            counters = {key: number(page, name) for key, name in names.items()}
            return {key: int(value or 0) for key, value in counters.items()}

        nodes = list(self.nodes.values())
        return {
            node.name: row
            for node, row in zip(nodes, await asyncio.gather(*map(read, nodes)), strict=True)
        }

    async def sync_stats(self) -> dict[str, tuple[int, float]]:
        """Syncs of the write-ahead log, from each member's metrics."""
        nodes = list(self.nodes.values())
        pages = await asyncio.gather(*(metrics(node.info.address) for node in nodes))
        found = {n.name: wal_syncs(page or "") for n, page in zip(nodes, pages, strict=True)}
        return {name: stats for name, stats in found.items() if stats is not None}

    async def old_reads(self, revision: int) -> dict[str, str]:
        """Does each member still read at this revision? `served`, `compacted`, else the error."""
        request = message("RangeRequest")(
            key=b"/dstest/history/0", revision=revision, serializable=True
        )

        said = await self._outcomes("range", request)
        refused = "has been compacted"
        return {n: "compacted" if refused in text else text or "served" for n, text in said.items()}

    async def _outcome(
        self, node: Node, method: str, request: Any, token: str | None = None
    ) -> str:
        """Empty where the member did it, else what it says against it."""
        from grpc.aio import AioRpcError

        stub = self._stub(node, token)
        try:
            await getattr(stub, method)(request, timeout=2.0, wait_for_ready=True)
        except AioRpcError as error:
            return str(error.details() or error.code().name)
        else:
            return ""
        finally:
            await stub.close()

    async def _outcomes(
        self, method: str, request: Any, token: str | None = None
    ) -> dict[str, str]:
        nodes = list(self.nodes.values())
        said = await asyncio.gather(*(self._outcome(n, method, request, token) for n in nodes))
        return {node.name: text for node, text in zip(nodes, said, strict=True)}

    async def grant_lease(self, ttl_s: int) -> int:
        """A lease that no client uses; its id."""
        request = message("LeaseGrantRequest")(TTL=ttl_s)
        granted = await self._insist(list(self.nodes), "grant", request, 2.0)
        return int(granted.ID)

    async def lease_left(self, name: str, lease: int) -> int | None:
        """Whole seconds that a lease has left, as the leader has it; -1 where it has ended.

        Another member asks the leader.
        """
        request = message("LeaseTimeToLiveRequest")(ID=lease)
        answer = await self._ask(self.nodes[name], "time_to_live", request, 1.0)
        return None if answer is None else int(answer.TTL)

    async def revoke_lease(self, lease: int) -> None:
        """End a lease; one that has ended already is no error."""
        request = message("LeaseRevokeRequest")(ID=lease)
        fine = "requested lease not found"
        await self._insist(list(self.nodes), "revoke", request, 2.0, fine)

    async def listed(self) -> dict[str, dict[int, Member] | None]:
        """Who is a member, as each one has it."""
        found = await self._all("member_list", message("MemberListRequest")())
        return {
            n: None if a is None else {m.ID: (m.name, m.isLearner) for m in a.members}
            for n, a in found.items()
        }

    async def member_names(self) -> list[str]:
        """Names of the members, as the first one that answers has them; empty where none does."""
        for listed in (await self.listed()).values():
            if listed is not None:
                return sorted(name for name, _ in listed.values())
        return []

    async def member_id(self, name: str) -> int:
        """The id of a member, as the others have it. LabError where it is none."""
        others = [n for n in self.nodes if n != name]
        listed = await self._insist(others, "member_list", message("MemberListRequest")(), 2.0)
        ids = [m.ID for m in listed.members if m.name == name]
        if not ids:
            raise LabError(f"{name} is not a member")
        return int(ids[0])

    async def doom(self, name: str) -> int:
        """From now on `rejoin` replaces this member, whose id is returned, by a new one."""
        member = await self.member_id(name)
        await self.nodes[name].put(on_node.REMOVED, str(member).encode())
        return member

    async def doomed(self, name: str) -> bool:
        """Is this member to be replaced, or under way to it?"""
        return bool((await self.nodes[name].call("stat", path=on_node.REMOVED))["exists"])

    async def expel(self, name: str) -> None:
        """Remove a member from the cluster, wait until its server has gone, wipe its data."""
        others = [n for n in self.nodes if n != name]
        request = message("MemberRemoveRequest")(ID=await self.doom(name))
        await self._insist(others, "member_remove", request, REMOVAL_S, "member not found")
        for _ in range(30):
            if name not in await self.processes():
                break
            await asyncio.sleep(0.1)
        else:
            await self.kill([name])
        await self.nodes[name].run(["find", on_node.DATA, "-mindepth", "1", "-delete"])

    def rejoin_command(self, learner: bool) -> list[str]:
        """Makes a node whose member was removed join anew; may take several goes."""
        return exclusive(on_node.REJOIN, *(["learner"] if learner else []))

    async def rejoin(self, name: str, *, learner: bool) -> None:
        """Join anew; returns when it is a voting member. LabError where it is not after 27 s."""
        for _ in range(3):
            done = await self.nodes[name].run(
                self.rejoin_command(learner), timeout_s=12.0, check=False
            )
            if done.status == 0:
                return
        raise LabError(f"{name} does not join again: {done.stderr.strip()}")

    async def configure(self, name: str, flags: Sequence[str]) -> None:
        """Let a member run with these flags as well, from its next start on."""
        await self.override(name, on_node.SERVICE, flags)

    async def unconfigure(self, name: str) -> None:
        """From its next start on it runs as all the others."""
        await self.clear_override(name, on_node.SERVICE)

    async def configured(self) -> list[str]:
        """Nodes whose member does not run as all the others, or will not after a restart."""
        return await self.overridden()

    def bounce_command(self, *first: str) -> list[str]:
        """Kills a member, runs a command, starts it; does not wait until it serves."""
        between = f"{shlex.join(first)} && " if first else ""
        return exclusive("sh", "-c", f"{on_node.STOP} && {between}exec {on_node.START}")

    def unconfigure_command(self) -> list[str]:
        """`unconfigure` and `bounce`."""
        return self.bounce_command("rm", "-f", override_of(on_node.SERVICE))

    async def bounce(self, name: str) -> None:
        """Kill a member and start it at once; returns without waiting until it serves."""
        await self.nodes[name].run(self.bounce_command(), timeout_s=12.0)

    def divergence(self) -> Divergence:
        """Another quota, which does nothing but can be read back, and transactions of one operation
        alone."""
        return Divergence(
            flags=(f"--quota-backend-bytes={QUOTA_BYTES}", "--max-txn-ops=1"),
            setting="bytes that a server says its store may have",
            value=QUOTA_BYTES,
            request=f"a transaction of {OPERATIONS} operations",
        )

    async def settings(self) -> dict[str, int | None]:
        """How large each member says that its store may become, in bytes."""
        return await self._metric(_QUOTA)

    async def refusals(self) -> dict[str, str]:
        """Empty for each member that reads so many keys in one transaction, else why not."""
        reads = [
            message("RequestOp")(request_range=message("RangeRequest")(key=b"/dstest-health"))
            for _ in range(OPERATIONS)
        ]
        answers = await self._outcomes("txn", message("TxnRequest")(success=reads))
        return {name: why_not(text, "too many operations") for name, text in answers.items()}
