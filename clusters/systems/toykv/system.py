"""The system `toykv`: what it offers, what can be set, what its servers are asked about themselves
for `dstest monitor`, how their effects and logs are read, and a second client."""

from __future__ import annotations

import asyncio
import json
import re
import uuid
from collections.abc import Mapping, Sequence
from typing import Any, Final

from clusters.supervise import LineRequests, SupervisedSystem
from clusters.supervise.system import MEMBERS
from clusters.systems.toykv.bugs import BUGS, NONE
from clusters.systems.toykv.clients import CLIENTS
from clusters.systems.toykv.deployment import (
    CLIENT_PORT,
    HOME,
    JOIN,
    JOURNAL,
    PEER_PORT,
    REMOVED,
    SPANS,
    ToykvDeployment,
)
from clusters.systems.toykv.simulated import SIMULATED
from dstest.core.op import Op
from dstest.core.protocols import (
    Asks,
    Definite,
    Effect,
    Endpoint,
    Indefinite,
    Journals,
    LogReader,
    LogRecord,
    OpDraft,
    Option,
    Reading,
    Reply,
    SystemLogs,
)
from dstest.core.residue import Residue

__all__ = [
    "ASKS",
    "EFFECTS",
    "FILE",
    "RAW_CLIENTS",
    "READER",
    "READINGS",
    "SYSTEM",
    "RawToy",
    "ToyLines",
    "Toykv",
]

READINGS: Final = (
    Reading(name="term", unit="1", at="ok.term"),
    Reading(name="leads", unit="1", at="ok.leads"),
    Reading(name="commit", unit="1", at="ok.commit"),
    Reading(name="applied", unit="1", at="ok.applied"),
    # Entries in its log that are not known to be with a majority: what waits.
    Reading(name="queue", unit="1", at="ok.last", over="ok.commit", kind="less"),
)

ASKS: Final = (Asks(port=CLIENT_PORT, send='{"op":"status"}\n', form="json", readings=READINGS),)

FILE: Final = "audit.jsonl"


class ToyEffects:
    """Locks and leases are left out: their lines do not say all that the client asked for."""

    file = FILE
    first = 1
    at_end = False
    _types = frozenset(
        {
            *("write", "cas", "inc", "add", "enqueue", "dequeue"),
            *("transfer", "credit", "txn", "send"),
        }
    )
    objects: Mapping[str, str] = {
        "write": "register",
        "cas": "register",
        "add": "set",
        "inc": "counter",
        "enqueue": "fifo-queue",
        "dequeue": "fifo-queue",
    }

    def types_of(self, workload: str) -> frozenset[str]:
        """The same of every workload."""
        return self._types

    def asked(self, op: Op) -> Op:
        """In the same words."""
        return op

    def effect_of(self, record: dict[str, Any]) -> tuple[int, Effect | None]:
        """A line of a server's audit.jsonl."""
        index, name, answer = int(record["index"]), record["op"], record["result"]
        if name not in self._types:
            return index, None
        request = str(record.get("id") or "")
        given = record.get("value")
        if name == "credit":
            given = {"id": request.partition("/")[2], "amount": given}
        return index, Effect(
            index=index,
            op_type=name,
            key=record.get("key"),
            input=given,
            result=answer.get("ok"),
            term=record.get("term"),
            request=request,
            again="again" in answer,
            refused="no" in answer,
            replayed=bool(record.get("replayed")),
        )


EFFECTS: Final = ToyEffects()

_PREFIX: Final = "toykv: "
_LEADS: Final = re.compile(r"leads in term (\d+), elected by \d+ of \d+")
_BAD: Final = ("the disk refuses", "had been applied")


class ToyLines:
    """A vote is asked for by whoever has given itself its own, so that asking is one."""

    form = "toykv's own"

    def record_of(self, line: str) -> LogRecord | None:
        if line.startswith(_PREFIX):
            return self._said(line.removeprefix(_PREFIX))
        if line.startswith('{"'):
            return self._message(line)
        return None

    def _said(self, text: str) -> LogRecord:
        level = "error" if any(word in text for word in _BAD) else "info"
        led = _LEADS.match(text)
        late = text.startswith("leads no longer") and "most members do not answer" in text
        return LogRecord(
            message=text,
            level=level,
            ballot=led[1] if led else "",
            vote="granted" if led else "",
            topics=frozenset({"consensus-timeout"} if late else {"calm"}),
        )

    def _message(self, line: str) -> LogRecord | None:
        if '"granted":' not in line and '"t":"vote"' not in line:
            return None
        try:
            message: dict[str, Any] = json.loads(line)
        except ValueError:
            return None  # of several messages, or cut
        if message.get("t") == "vote":
            term = str(message.get("term", ""))
            return LogRecord(
                message=f"asks to be elected in term {term}",
                level="info",
                vote="granted",
                ballot=term,
                topics=frozenset({"calm"}),
            )
        if "granted" in message:
            given, term = bool(message["granted"]), str(message.get("term", ""))
            return LogRecord(
                message=f"{'grants' if given else 'refuses'} its vote in term {term}",
                level="info",
                vote="granted" if given else "rejected",
                ballot=term,
                topics=frozenset({"calm"}),
            )
        return None


READER: Final[LogReader] = ToyLines()


class RawToy:
    """Every operation of every capability; `read` is another question to each kind of object.

    It makes a connection for each request, without a line of the first client's: it exists to be
    compared with that one, and what only one of them sees is no bug of the servers'. Where no
    connection could be made nothing was sent; whatever fails later leaves the outcome unknown.
    """

    reads: str = "read"

    def __init__(self, at: Endpoint, every: Sequence[Endpoint], options: Mapping[str, Any]) -> None:
        self._node = at.node
        self._place = (at.dial or at.address, at.port)
        self._options = options
        self._tokens: dict[Any, int] = {}

    async def open(self) -> None:
        return

    async def close(self) -> None:
        return

    async def invoke(self, op: OpDraft, timeout_s: float) -> Reply:
        """As the first client does, by the words of the servers' protocol."""
        asked = self._asked(op)
        try:
            async with asyncio.timeout(timeout_s):
                said = await self._send(asked)
        except TimeoutError:
            raise Indefinite("timeout") from None
        if "no" in said:
            raise Definite(f"{said['no']}: {said.get('why', '')}"[:200])
        if "ok" not in said:
            raise Indefinite(str(said)[:200])
        return Reply(self._told(op, said), self._node)

    def _asked(self, op: OpDraft) -> dict[str, Any]:
        name, value = op.op_type, op.input
        row: dict[str, Any] = {"op": name, "key": str(op.key), "value": value}
        if name in ("release", "renew") and op.key not in self._tokens:
            raise Definite("not-held")
        match name:
            case "read":
                row["op"] = self.reads
            case "acquire":
                row["value"] = value["ttl_ns"] if value else value
            case "renew":
                row["value"] = [value["ttl_ns"], self._tokens[op.key]]
            case "release":
                row["value"] = self._tokens[op.key]
            case "credit":
                row |= {"id": f"{op.key}/{value['id']}", "value": value["amount"]}
        if name == "transfer" or row["op"] in ("balances", "dump"):
            row["balance"] = self._options["bank_balance"]
            row["accounts"] = self._options["bank_accounts"]
        return {**row, "client": uuid.uuid4().hex[:8], "request": 1}

    def _told(self, op: OpDraft, said: dict[str, Any]) -> Any:
        found = said["ok"]
        match op.op_type:
            case "acquire":
                if found:
                    self._tokens[op.key] = found["token"]
                return found
            case "release":
                self._tokens.pop(op.key, None)
                return None
            case "write":
                return {"version": found} if self.reads == "version" else None
            case "add" | "enqueue" | "renew":
                return None
            case "credit":
                return "again" not in said
            case "cas" | "transfer":
                return bool(found)
            case "audit":
                return [effect.split("/", 1)[1] for effect in found]
        return found

    async def _send(self, asked: dict[str, Any]) -> dict[str, Any]:
        try:
            reader, writer = await asyncio.open_connection(*self._place)
        except OSError:
            raise Definite("not-connected") from None
        try:
            writer.write(json.dumps(asked).encode() + b"\n")
            said = json.loads(await reader.readuntil(b"\n"))
        except (OSError, ValueError, EOFError, asyncio.LimitOverrunError) as error:
            raise Indefinite(f"{type(error).__name__}: {error}") from None
        finally:
            writer.close()
        if not isinstance(said, dict):
            raise Indefinite(str(said)[:200])
        return said


class _Tenants(RawToy):
    words: Final = {"get": "fetch", "list": "keys", "count": "size"}

    def _asked(self, op: OpDraft) -> dict[str, Any]:
        verb = op.op_type.removeprefix("probe_")
        verb = "get" if verb == "probe" else verb
        row = {**super()._asked(op), "op": self.words.get(verb, verb)}
        given = op.input or {}
        return {**row, "name": given.get("name"), "value": given.get("value")}


class _Versions(RawToy):
    reads = "version"


class _Counts(RawToy):
    reads = "count"


class _Elements(RawToy):
    reads = "elements"


class _Balances(RawToy):
    reads = "balances"


RAW_CLIENTS: Final[Mapping[str, type[RawToy]]] = {
    **dict.fromkeys(
        (
            *("lease", "ledger", "lock", "log", "queue", "register"),
            *("txn-append", "txn-register", "unique-ids"),
        ),
        RawToy,
    ),
    "bank": _Balances,
    "counter": _Counts,
    "session": _Versions,
    "set": _Elements,
    "tenants": _Tenants,
}
"""By capability."""

FILES = Residue(
    name="toykv's membership",
    mark=f"it is in {HOME}, where nothing but ours is",
    look=f"[ ! -e {REMOVED} ] || echo ours member that was removed and is not back",
    remove=f"rm -f {REMOVED} {JOIN}",
    rank=70,
    janitor=False,
    home=HOME,
)


class Toykv(SupervisedSystem):
    name = "toykv"
    doc = "a replicated store of our own, with bugs that can be switched on: what dstest must find"
    services = ("toykv",)
    deployment = ToykvDeployment
    clients = CLIENTS
    definite_errors = {
        "no-leader": "ours: the request had not been sent to any leader",
        "not-held": "ours: the lock was not held by this token, and was left as it was",
        "malformed": "ours: the request was refused, or changed nothing",
    }
    conflict_errors = frozenset({"not-held"})  # of a holder who comes when the lease has ended
    options = {
        **MEMBERS,
        "bug": Option(
            type=str,
            default=NONE,
            choices=(NONE, *BUGS),
            help="which planted bug the servers have (docs/toykv.md)",
        ),
        "audit": Option(
            type=str,
            default="no",
            choices=("no", "yes"),
            help="each server writes what it has applied into audit.jsonl, kept with its logs",
        ),
        "spans": Option(
            type=str,
            default="no",
            choices=("no", "yes"),
            help="each server writes spans of what it does into spans.jsonl, for `dstest trace`",
        ),
        "journal": Option(
            type=str,
            default="yes",
            choices=("no", "yes"),
            help="each server writes the steps of its protocol into protocol.jsonl, kept with its "
            "logs, for `dstest spec conform raft`",
        ),
    }
    malformed_errors = frozenset({"malformed"})
    raw_clients = RAW_CLIENTS
    journals = Journals(effects=EFFECTS, spans=SPANS, protocol=frozenset({JOURNAL}))
    simulable = SIMULATED
    asks = ASKS
    logs = SystemLogs(
        alarms=("toykv: the disk refuses", "had been applied: the state is made anew"),
        reader=READER,
    )
    ports = (CLIENT_PORT, PEER_PORT)
    home = HOME
    client_port = CLIENT_PORT

    @property
    def residues(self) -> tuple[Residue, ...]:  # type: ignore[override]
        """As for any system, and a member that is out."""
        return (*super().residues, FILES)

    def request_counter(self) -> LineRequests:
        return LineRequests({})


SYSTEM = Toykv()
