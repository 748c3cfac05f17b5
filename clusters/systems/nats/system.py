"""NATS JetStream, by the library `nats`: logs and queues in streams that are replicated by Raft and
kept in files, with a server on each node.

A publish is acknowledged when a majority has it; the server of Debian 12 syncs its files once a
minute, later ones every two minutes unless `sync` says otherwise (Jepsen, NATS 2.12.1, 2025).
Clients speak to the server of their node, which passes on what is for the leader of a stream.
"""

from __future__ import annotations

import asyncio
import base64
import functools
import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final

from clusters.supervise import (
    Durable,
    FullMesh,
    LineRequests,
    LinkedClient,
    SupervisedSystem,
    error_text,
    wire,
)
from clusters.supervise.log_lines import NATS_LINES
from clusters.supervise.system import NATS
from dstest.core.node import Node
from dstest.core.protocols import (
    Clocked,
    Definite,
    Ending,
    Endpoint,
    Leadership,
    LeaderView,
    LogWords,
    OpDraft,
    Option,
    Probe,
    Replication,
    ServerTime,
    Service,
    SystemLogs,
    Timing,
    Unit,
)

PORT: Final = 4222
JOBS: Final = "jobs"
RECORDS: Final = "records"
HEALTH: Final = "health"
API: Final = "$JS.API"

NONE_FOUND: Final = 10037
REDELIVER_S: Final = 5.0
OFFER_S: Final = 0.5
"""A consumer that waits for an acknowledgement hands out nothing: so long is it asked."""

BUSY: Final = "busy"
NO_OFFER: Final = "no-offer"
NO_RESPONDERS: Final = "no-responders"

HOME: Final = "/opt/nats"
MONITOR: Final = 8222
ROUTES: Final = 6222
CONFIG: Final = f"""\
server_name: "{{name}}"
listen: "{{address}}:{PORT}"
http: "{{address}}:{MONITOR}"
ping_interval: "1s"
jetstream {{{{ store_dir: "{HOME}/data", max_memory_store: 64MB, max_file_store: 1GB{{sync}} }}}}
cluster {{{{ name: "dstest", listen: "{{address}}:{ROUTES}", routes: [{{routes}}] }}}}
"""
RETENTION: Final = {JOBS: "workqueue", RECORDS: "limits", HEALTH: "limits"}
MAKE_S: Final = 5.0

REPLICAS_MAX: Final = 5
KEPT: Final = "NATS JetStream, Consumers: what is not acknowledged stays, and is handed out again"


class ApiError(Exception):
    """What a server answers to a request that it does not do."""


async def connect(address: str, port: int, wait_s: float) -> Any:
    """A connection of the library `nats`, which does not reconnect."""
    from nats.aio.client import Client

    async def silent(*_: Any) -> None:
        """The library would print each error that it raises as well."""

    link = Client()
    try:
        async with asyncio.timeout(wait_s):
            await link.connect(
                f"nats://{address}:{port}",
                allow_reconnect=False,
                max_reconnect_attempts=1,
                reconnect_time_wait=0,
                connect_timeout=max(1, round(wait_s)),
                error_cb=silent,
            )
    except BaseException:
        await link.close()
        raise
    return link


async def request(link: Any, subject: str, data: bytes, wait_s: float) -> Any:
    """The one answer; a message that a consumer hands out keeps the subject it was sent to, which
    the library takes for somebody else's unless the inbox is the request's own."""
    return await link.request(subject, data, timeout=wait_s, old_style=True)


async def call(link: Any, verb: str, wait_s: float, **given: Any) -> dict[str, Any]:
    """What JetStream answers. Raises ApiError."""
    said = await request(link, f"{API}.{verb}", json.dumps(given).encode(), wait_s)
    return require_ok(json.loads(said.data))


def require_ok(said: dict[str, Any]) -> dict[str, Any]:
    """The answer, unless it is an error."""
    if "error" in said:
        raise ApiError(f"{said['error'].get('err_code')}: {said['error'].get('description')}")
    return said


class NatsClient(LinkedClient):
    """At the server of its node."""

    async def connect(self, to: Endpoint) -> Any:
        link = await connect(to.dial or to.address, to.port, self.wait_s)
        link.aclose = link.close
        return link

    async def ask(self, subject: str, data: bytes, wait_s: float | None = None) -> Any:
        """One request. Where nobody listens to the subject nothing has got it."""
        from nats.errors import NoRespondersError

        link = await self.link()
        try:
            return await request(link, subject, data, wait_s or self.wait_s)
        except NoRespondersError:
            raise Definite(NO_RESPONDERS) from None

    async def api(self, verb: str, **given: Any) -> dict[str, Any]:
        """What JetStream answers, an error as well."""
        said = await self.ask(f"{API}.{verb}", json.dumps(given).encode())
        found: dict[str, Any] = json.loads(said.data)
        return found

    async def publish(self, subject: str, value: Any) -> int:
        """The sequence number of the message."""
        said = await self.ask(subject, json.dumps(value).encode())
        return int(require_ok(json.loads(said.data))["seq"])


class LogClient(NatsClient):
    """send, poll: a record's offset is its sequence number in the stream of all logs."""

    async def do_send(self, op: OpDraft) -> dict[str, int]:
        return {"offset": await self.publish(f"{RECORDS}.{op.key}", op.input)}

    async def do_poll(self, op: OpDraft) -> dict[str, Any]:
        """Each record by a request of its own to the leader, until it has no further one, or half
        of the time is over."""
        ends = asyncio.get_running_loop().time() + self.wait_s / 2
        at = max(1, op.input["from"])
        records: list[list[Any]] = []
        while asyncio.get_running_loop().time() < ends and len(records) < op.input["limit"]:
            given = {"seq": at, "next_by_subj": f"{RECORDS}.{op.key}"}
            said = await self.api(f"STREAM.MSG.GET.{RECORDS}", **given)
            if said.get("error", {}).get("err_code") == NONE_FOUND:
                return {"records": records, "to": max(at, op.input["from"]) - 1}
            message = require_ok(said)["message"]
            records.append([message["seq"], json.loads(base64.b64decode(message["data"]))])
            at = message["seq"] + 1
        return {"records": records, "to": at - 1, "more": True}


class QueueClient(NatsClient):
    """enqueue, dequeue: a message is gone when the server has confirmed its acknowledgement.

    Each queue has a consumer that hands out one message at a time, and again what was not
    acknowledged. Until the acknowledgement is sent nothing has been taken.
    """

    def __init__(self, at: Endpoint, every: Sequence[Endpoint], options: Mapping[str, Any]) -> None:
        super().__init__(at, every, options)
        self._made: set[Any] = set()

    async def do_enqueue(self, op: OpDraft) -> None:
        await self.publish(f"{JOBS}.{op.key}", op.input)

    async def _consumer(self, key: Any) -> str:
        """Its name; making one that is there changes nothing."""
        name = f"of-{key}"
        if key not in self._made:
            config = {
                "durable_name": name,
                "filter_subject": f"{JOBS}.{key}",
                "ack_policy": "explicit",
                "ack_wait": int(REDELIVER_S * 1e9),
                "max_ack_pending": 1,
            }
            verb = f"CONSUMER.DURABLE.CREATE.{JOBS}.{name}"
            require_ok(await self.api(verb, stream_name=JOBS, config=config))
            self._made.add(key)
        return name

    async def do_dequeue(self, op: OpDraft) -> Any:
        try:
            message = await self._offered(op.key)
        except Definite:
            raise
        except Exception as error:
            await self.close()
            raise Definite(error_text(NO_OFFER, repr(error))) from None
        if message is None:
            return None
        await self.ask(message.reply, b"+ACK")
        return json.loads(message.data)

    async def _offered(self, key: Any) -> Any:
        """The next message; None where the queue has none, nor any that waits for its
        acknowledgement. Whatever is raised, nothing was taken."""
        name = await self._consumer(key)
        asked = json.dumps({"batch": 1, "no_wait": True}).encode()
        try:
            message = await self.ask(f"{API}.CONSUMER.MSG.NEXT.{JOBS}.{name}", asked, OFFER_S)
        except TimeoutError:
            message = None
        if message is not None and message.reply:
            return message
        state = require_ok(await self.api(f"CONSUMER.INFO.{JOBS}.{name}"))
        if state["num_ack_pending"]:
            raise Definite(BUSY)
        handed_out = state["delivered"]["stream_seq"]
        if message is None or state["num_pending"] or await self._newest(key) > handed_out:
            raise Definite(NO_OFFER)
        return None

    async def _newest(self, key: Any) -> int:
        """The newest message of this queue that the leader of the stream has, 0 without one. That
        of the consumer may be another, which has not heard of it yet; one that it has handed out
        and nobody has, was acknowledged, whether the stream still has it or not."""
        said = await self.api(f"STREAM.MSG.GET.{JOBS}", last_by_subj=f"{JOBS}.{key}")
        if said.get("error", {}).get("err_code") == NONE_FOUND:
            return 0
        return int(require_ok(said)["message"]["seq"])


class NatsDeployment(FullMesh, Durable, Clocked, Leadership, Replication):
    """A server on each node."""

    timing = Timing(failover_s=20.0, rejoin_s=30.0)
    replication_unit = Unit("messages", 500)

    def services(self, node: Node) -> Sequence[Service]:
        routes = [f'"nats://{n.info.address}:{ROUTES}"' for n in self.nodes.values()]
        sync = self.options["sync"]
        config = CONFIG.format(
            name=node.name,
            address=node.info.address,
            routes=", ".join(routes),
            sync=f', sync_interval: "{sync}"' if sync else "",
        )
        return [
            Service(
                name="nats",
                argv=("nats-server", "-c", f"{HOME}/nats.conf"),
                data=(f"{HOME}/data",),
                files={f"{HOME}/nats.conf": config.encode()},
                log=f"{HOME}/nats.log",
                probe=Probe(PORT, b"", b"INFO "),
                ports={"client": PORT, "monitor": MONITOR, "peer": ROUTES},
                words=LogWords(shutdown=("Server Exiting..",)),
                ending=Ending(statuses=(1,)),
                stuck_after=("write",),
            )
        ]

    async def _page(self, node: Node, path: str) -> dict[str, Any]:
        """What the monitor of a server says."""
        found: dict[str, Any] = await wire.page(node.info.address, MONITOR, path)
        return found

    async def arrange(self) -> None:
        """Make the streams; the first ones wait for a leader of all."""
        first = next(iter(self.nodes.values()))
        replicas = min(len(self.members), self.options["replicas"])
        for name, retention in RETENTION.items():
            given = {"subjects": [f"{name}.>"], "retention": retention, "num_replicas": replicas}
            await self.until(first, functools.partial(self._make, name, given), MAKE_S)

    async def _make(self, name: str, given: Mapping[str, Any], node: Node) -> Any:
        link = await connect(node.info.address, PORT, self.timing.answer_s)
        try:
            return await call(
                link, f"STREAM.CREATE.{name}", MAKE_S, name=name, storage="file", **given
            )
        finally:
            await link.close()

    async def _publishes(self, node: Node) -> bool:
        link = await connect(node.info.address, PORT, self.timing.answer_s)
        try:
            said = await request(link, f"{HEALTH}.{node.name}", b"", self.timing.answer_s)
            return "seq" in require_ok(json.loads(said.data))
        finally:
            await link.close()

    async def healthy(self) -> dict[str, bool]:
        """Does each server have all of its streams, and is a message taken that is sent to it?"""

        async def one(node: Node) -> bool:
            fine = await self._page(node, "/healthz")
            return fine.get("status") == "ok" and await self._publishes(node)

        return {name: bool(fine) for name, fine in (await self.answers(one)).items()}

    async def version(self) -> str:
        pages = await self.answers(lambda node: self._page(node, "/varz"))
        return ", ".join(sorted({page["version"] for page in pages.values() if page}))

    async def server_time(self, name: str) -> ServerTime | None:
        page = await self._page(self.nodes[name], "/varz")
        stamp, _, fraction = page["now"].rstrip("Z").partition(".")
        whole_s = int(datetime.fromisoformat(f"{stamp}+00:00").timestamp())
        return ServerTime(whole_s * 10**9 + int(fraction.ljust(9, "0")[:9] or 0), 1)

    async def _state(self, node: Node) -> dict[str, Any]:
        return await self._page(node, "/jsz?accounts=true&streams=true")

    async def leaders(self) -> list[LeaderView]:
        """Of the streams, and of all servers."""
        pages = await self.answers(self._state)
        return [view for name, page in pages.items() for view in _views(name, page)]

    async def claims(self, name: str, group: str) -> bool:
        views = _views(name, await self.answer(name, self._state))
        return any(view.leader == name and view.group == group for view in views)

    async def progress(self) -> dict[str, dict[str, int] | None]:
        pages = await self.answers(self._state)
        return {
            name: page and {s["name"]: int(s["state"]["last_seq"]) for s in _streams(page)}
            for name, page in pages.items()
        }


def _views(name: str, page: dict[str, Any] | None) -> list[LeaderView]:
    """Those of a member, by what its page says."""
    if page is None:
        return []
    groups = {"meta": page.get("meta_cluster") or {}}
    groups |= {s["name"]: s.get("cluster") or {} for s in _streams(page)}
    return [
        LeaderView(member=name, leader=row.get("leader") or None, group=group)
        for group, row in groups.items()
    ]


def _streams(page: dict[str, Any]) -> list[dict[str, Any]]:
    accounts = page.get("account_details") or []
    return [stream for account in accounts for stream in account.get("stream_detail") or []]


class NatsRequests(LineRequests):
    """Messages of a client; what it says of its connection and its inboxes is none."""

    def __init__(self) -> None:
        super().__init__({"PUB": -1, "HPUB": -1})

    def _take(self, line: bytes) -> None:
        before = self.requests
        super()._take(line)
        if not line.startswith((b"PUB ", b"HPUB ")):
            self.requests = before


class Nats(SupervisedSystem):
    name = "nats"
    doc = "NATS 2.9 from Debian with JetStream: replicated streams, as logs and as queues"
    packages = ("nats-server",)
    services = ("nats",)
    deployment = NatsDeployment
    client_packages = ("nats-py",)
    clients = {"log": LogClient, "queue": QueueClient}
    options: Mapping[str, Option] = {
        "replicas": Option(
            type=int, default=REPLICAS_MAX, least=1, most=REPLICAS_MAX, help="copies of a stream"
        ),
        "sync": Option(
            type=str, default="", help="sync_interval, as always or 10s: of NATS 2.10 and later"
        ),
    }
    definite_errors = {
        NO_RESPONDERS: "NATS, Request-Reply: nobody has subscribed, so nobody got the message",
        BUSY: f"{KEPT}; another client has the next one",
        NO_OFFER: KEPT,
    }
    conflict_errors = frozenset({BUSY})
    cautions = NATS
    logs = SystemLogs(
        alarms=(
            "[FTL]",
            "Critical write error",
            "Snapshot corrupt",
            # A copy of a stream is not what was agreed on, and is made anew. A publisher that
            # expected another number is told "wrong last sequence".
            "last sequence mismatch",
        ),
        reader=NATS_LINES,
    )
    ports = (PORT, MONITOR, ROUTES)
    client_port = PORT
    home = HOME
    request_counter = NatsRequests


SYSTEM = Nats()
