"""Clients with a method per operation, one deadline, and errors sorted in one place."""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, ClassVar, Final, NoReturn, TypeVar

from dstest.core.protocols import Definite, Endpoint, Indefinite, OpDraft, Reply
from dstest.core.reusable_timeout import ReusableTimeout

NOT_CONNECTED: Final = "not-connected"
SAID_MAX: Final = 300
"""Characters that a history keeps of an error."""

PAUSE_S: Final = 0.05
"""Between a connection that failed and the operation's end: clients that ask again at once would
take the processor from the servers that are to come back."""

T = TypeVar("T")
Link = tuple[asyncio.StreamReader, asyncio.StreamWriter]


def error_text(code: str, error: object) -> str:
    """What a client says of an error."""
    return f"{code}: {error}"[:SAID_MAX]


async def fail_unconnected(error: Exception) -> NoReturn:
    """Raises `Definite`, `not-connected`, after a pause."""
    await asyncio.sleep(PAUSE_S)
    raise Definite(error_text(NOT_CONNECTED, repr(error))) from None


class OpsClient:
    """Base of clients. A subclass has `do_<op_type>(op)` for each operation, which returns its
    output; it connects in `open` or at need, and never sends twice.

    `refusals` are the library's exceptions, by name or by the first word of what they say, after
    which the operation had no effect, with the code of each in the system's `definite_errors`;
    `refused` finds the code otherwise. The client is closed after one, unless its code is among
    `kept`, and may be used again. `seen` is the node that the
    last operation went to, where the client knows.
    """

    refusals: ClassVar[Mapping[str, str]] = {}
    kept: ClassVar[frozenset[str]] = frozenset()

    def __init__(self, at: Endpoint, every: Sequence[Endpoint], options: Mapping[str, Any]) -> None:
        self.at = at
        self.every = list(every)
        self.options = dict(options)
        self.seen: str | None = at.node
        self.to = at
        # Not to be taken for an attribute of a subclass.
        self.__timeout = ReusableTimeout()
        self.calls = 0
        """Requests that were handed to the library: what leaves this client must not be more."""

    @property
    def wait_s(self) -> float:
        """How long an operation may take."""
        return float(self.options["op_timeout_s"])

    def node_at(self, address: str) -> str | None:
        """The node with this address, if it has an endpoint."""
        return next((e.node for e in self.every if e.address == address), None)

    @classmethod
    def unsupported(cls, op_types: Iterable[str]) -> list[str]:
        """Those without a `do_<op_type>`; none where the class has an `invoke` of its own, or finds
        its methods as they are asked for."""
        if cls.invoke is not OpsClient.invoke or hasattr(cls, "__getattr__"):
            return []
        return sorted(kind for kind in op_types if not hasattr(cls, f"do_{kind}"))

    def target(self, op: OpDraft) -> Endpoint:
        """Where an operation goes: the client's own endpoint, unless it is a matter of its kind."""
        return self.at

    def dial(self, address: str) -> str:
        """Where to connect for the clients' port of the node with this address."""
        return next((e.dial for e in self.every if e.address == address and e.dial), address)

    async def open(self) -> None:
        """Called before the first operation; need not connect yet, and must not fail."""

    async def close(self) -> None:
        """Give the connection up."""

    async def invoke(self, op: OpDraft, timeout_s: float) -> Reply:
        """Do the operation. Raises `Definite` or `Indefinite`."""
        act = getattr(self, f"do_{op.op_type}", None)
        if act is None:
            raise Definite(f"unsupported operation: {op.op_type}")
        self.to = self.target(op)
        try:
            return Reply(await self.__timeout.wait_for(act(op), timeout_s), self.seen)
        except (Definite, Indefinite):
            raise
        except TimeoutError:
            raise Indefinite(f"no answer within {timeout_s:g} s") from None
        except Exception as error:
            if code := self.refused(error):
                if code not in self.kept:
                    await self.close()
                raise Definite(error_text(code, error)) from None
            raise Indefinite(error_text(type(error).__name__, error)) from None

    def refused(self, error: Exception) -> str | None:
        """The code of an error after which the operation had no effect; None for any other."""
        name, word = type(error).__name__, str(error).partition(" ")[0]
        return self.refusals.get(name) or self.refusals.get(word)


class LinkedClient(OpsClient):
    """Base of clients with connections that are made at need, one to each endpoint that an
    operation goes to: without one nothing was sent, which is `not-connected`."""

    def __init__(self, at: Endpoint, every: Sequence[Endpoint], options: Mapping[str, Any]) -> None:
        super().__init__(at, every, options)
        self._links: dict[str, tuple[Any, str | None]] = {}

    async def connect(self, to: Endpoint) -> Any:
        """A connection that can be used at once, with `aclose`; it sets `seen` where it is not to
        the endpoint's node."""
        raise NotImplementedError

    async def link(self) -> Any:
        """The connection, for one request, which is counted. Raises `Definite`."""
        if self.to.node not in self._links:
            self.seen = self.to.node
            try:
                self._links[self.to.node] = await self.connect(self.to), self.seen
            except Exception as error:
                await fail_unconnected(error)
        self.calls += 1
        link, self.seen = self._links[self.to.node]
        return link

    async def close(self) -> None:
        links, self._links = self._links, {}
        for link, _ in links.values():
            with contextlib.suppress(Exception):
                await link.aclose()


class BlockingClient(OpsClient):
    """Base of clients whose library blocks: each has a thread of its own for its calls, and a
    connection to each node; all of them are made at need."""

    def __init__(self, at: Endpoint, every: Sequence[Endpoint], options: Mapping[str, Any]) -> None:
        super().__init__(at, every, options)
        self._thread: ThreadPoolExecutor | None = None
        self._of_thread = threading.local()

    def connect(self, to: Endpoint) -> Any:
        """A connection that can be used at once, with `close`. Called in the thread."""
        raise NotImplementedError

    def link(self, to: Endpoint) -> Any:
        """The connection to this endpoint, for one request, which is counted. Called in the thread.
        Raises `Definite`, `not-connected`, without one."""
        links: dict[str, Any] = self._of_thread.__dict__
        if to.node not in links:
            try:
                links[to.node] = self.connect(to)
            except Exception as error:
                time.sleep(PAUSE_S)
                raise Definite(error_text(NOT_CONNECTED, repr(error))) from None
        self.calls += 1
        return links[to.node]

    async def blocking(self, call: Callable[..., T], *given: Any) -> T:
        """What the call gives; it needs a deadline of its own, or its thread stays behind."""
        if self._thread is None:
            self._thread = ThreadPoolExecutor(1)
        return await asyncio.get_running_loop().run_in_executor(self._thread, call, *given)

    async def close(self) -> None:
        """The thread closes its connections, when a call that may still use one has ended."""
        thread, self._thread = self._thread, None
        if thread is not None:
            thread.submit(self._close_links)
            thread.shutdown(wait=False)

    def _close_links(self) -> None:
        for link in self._of_thread.__dict__.values():
            with contextlib.suppress(Exception):
                link.close()


class StreamClient(OpsClient):
    """Base of clients that speak the protocol themselves: a connection to each node, at need."""

    def __init__(self, at: Endpoint, every: Sequence[Endpoint], options: Mapping[str, Any]) -> None:
        super().__init__(at, every, options)
        self._links: dict[str, Link] = {}

    async def link(self, to: Endpoint) -> Link:
        """The connection to this endpoint. Raises `Definite`, `not-connected`, without one."""
        self.seen = to.node
        if to.node not in self._links:
            try:
                self._links[to.node] = await asyncio.open_connection(to.dial or to.address, to.port)
            except OSError as error:
                await fail_unconnected(error)
        return self._links[to.node]

    async def close(self) -> None:
        links, self._links = self._links, {}
        for _, writer in links.values():
            writer.close()
