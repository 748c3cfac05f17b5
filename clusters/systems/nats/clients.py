"""Streams as logs and as queues."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

from clusters.supervise import LinkedClient, told
from clusters.systems.nats.link import API, JOBS, RECORDS, checked, connected, request
from dstest.core.protocols import Definite, Endpoint, OpDraft

NONE_FOUND: Final = 10037
REDELIVER_S: Final = 5.0
OFFER_S: Final = 0.5
"""A consumer that waits for an acknowledgement hands out nothing: so long is it asked."""

BUSY: Final = "busy"
NOT_OFFERED: Final = "not-offered"
NO_RESPONDERS: Final = "no-responders"


class NatsClient(LinkedClient):
    """At the server of its node."""

    async def connect(self, to: Endpoint) -> Any:
        link = await connected(to.dial or to.address, to.port, self.wait_s)
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
        return int(checked(json.loads(said.data))["seq"])


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
            message = checked(said)["message"]
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
            checked(await self.api(verb, stream_name=JOBS, config=config))
            self._made.add(key)
        return name

    async def do_dequeue(self, op: OpDraft) -> Any:
        try:
            message = await self._offered(op.key)
        except Definite:
            raise
        except Exception as error:
            await self.close()
            raise Definite(told(NOT_OFFERED, repr(error))) from None
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
        state = checked(await self.api(f"CONSUMER.INFO.{JOBS}.{name}"))
        if state["num_ack_pending"]:
            raise Definite(BUSY)
        handed_out = state["delivered"]["stream_seq"]
        if message is None or state["num_pending"] or await self._newest(key) > handed_out:
            raise Definite(NOT_OFFERED)
        return None

    async def _newest(self, key: Any) -> int:
        """The newest message of this queue that the leader of the stream has, 0 without one. That
        of the consumer may be another, which has not heard of it yet; one that it has handed out
        and nobody has, was acknowledged, whether the stream still has it or not."""
        said = await self.api(f"STREAM.MSG.GET.{JOBS}", last_by_subj=f"{JOBS}.{key}")
        if said.get("error", {}).get("err_code") == NONE_FOUND:
            return 0
        return int(checked(said)["message"]["seq"])
