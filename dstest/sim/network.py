"""A network of simulated hosts: connections and datagrams with delay, and links that can be cut.

A connection is TCP as an application sees it. What was written arrives in its order, or not: on a
link that is cut it waits, is sent again when the link is mended, and after `STUCK_S` without an
answer the connection is lost for who wrote. The end of a connection comes behind all that was
written before it, and waits as that does; a reset does not cross a link that is cut. A connection
to nobody is refused, one over a cut link waits. Datagrams are dropped, doubled and overtake one
another, as the weather (`Weather`) has it.
"""

from __future__ import annotations

import asyncio
import contextvars
import random
import socket
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any, Final, NamedTuple, Protocol

import msgspec

from dstest.sim.log import Log
from dstest.sim.loop import VirtualLoop
from dstest.sim.process import PROCESS, Process


class Listener(msgspec.Struct):
    factory: Any
    process: Process | None
    context: Any


class Net(Protocol):
    """What a server asks of its network."""

    listeners: dict[tuple[str, int], Listener]

    @property
    def loop(self) -> VirtualLoop: ...


class Server(asyncio.AbstractServer):
    """What listens, as an application knows it: `asyncio.Server`."""

    def __init__(self, net: Net, at: tuple[str, int], listener: Listener) -> None:
        self._net, self._at, self._listener = net, at, listener
        self._closed = asyncio.Event()

    def get_loop(self) -> VirtualLoop:
        return self._net.loop

    def is_serving(self) -> bool:
        return self._net.listeners.get(self._at) is self._listener

    @property
    def sockets(self) -> tuple[Listening, ...]:
        return (Listening(self._at),) if self.is_serving() else ()

    async def start_serving(self) -> None:
        """It does from the beginning."""

    async def serve_forever(self) -> None:
        """Until it is cancelled, or closed by somebody else."""
        try:
            await self._closed.wait()
            raise asyncio.CancelledError
        finally:
            self.close()

    def close(self) -> None:
        if self.is_serving():
            del self._net.listeners[self._at]
        self._closed.set()

    async def wait_closed(self) -> None:
        """Nothing to wait for."""


class Listening(NamedTuple):
    """The socket of a server, as far as it has a name."""

    at: tuple[str, int]

    def getsockname(self) -> tuple[str, int]:
        return self.at


STUCK_S: Final = 15.0
"""Of a connection that asks for nothing else (TCP_USER_TIMEOUT)."""

AGAIN_S: Final = (0.05, 0.4)
"""What waited on a cut link is sent again so long after it was mended."""

SYN_AGAIN_S: Final = 1.0

_END: Final = b""
"""What follows the last that was written."""


class Weather(msgspec.Struct, frozen=True, kw_only=True):
    """Seconds that a message takes, and shares of datagrams that are lost or come twice; one that
    is late takes `late_s` more, so that others overtake it."""

    delay_s: tuple[float, float] = (0.0002, 0.003)
    lost: float = 0.0
    doubled: float = 0.0
    late: float = 0.0
    late_s: float = 0.05


class _Socket:
    """What an application asks of the socket below its connection."""

    def __init__(self, transport: _Transport) -> None:
        self._transport = transport

    def setsockopt(self, level: int, option: int, value: int) -> None:
        if (level, option) == (socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT):
            self._transport.stuck_s = value / 1e3


class _Transport(asyncio.Transport):
    """One end of a connection."""

    def __init__(self, net: Network, host: str, to: str, port: int) -> None:
        super().__init__()
        self._net, self.host, self.to, self.port = net, host, to, port
        self.process = PROCESS.get()
        self.context = contextvars.copy_context()
        self.protocol: Any = None
        self.other: _Transport | None = None
        self.stuck_s = STUCK_S
        self.closed = False
        self.waiting: list[bytes] = []
        self.early: list[bytes] = []
        self.lost_for_good = False
        self._next_s = 0.0
        self._unanswered_since: float | None = None

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        """The socket, and the addresses."""
        known = {
            "socket": _Socket(self),
            "peername": (self.to, self.port),
            "sockname": (self.host, 0),
        }
        return known.get(name, default)

    def is_closing(self) -> bool:
        return self.closed

    def set_protocol(self, protocol: Any) -> None:
        self.protocol = protocol

    def get_protocol(self) -> Any:
        return self.protocol

    def get_write_buffer_size(self) -> int:
        return sum(map(len, self.waiting))

    def pause_reading(self) -> None:
        """There is room for all."""

    def resume_reading(self) -> None:
        """There is room for all."""

    def write(self, data: Any) -> None:
        """Sent, in its order."""
        if not self.closed and data:
            self._net.send(self, bytes(data))

    def can_write_eof(self) -> bool:
        return False

    def close(self) -> None:
        """Ends it, when what was written has gone out."""
        self.abort()

    def abort(self) -> None:
        """Ends it at once; the other end hears of it where it can."""
        if not self.closed:
            self._net.ended(self, None)

    def due_s(self, now_s: float, delay_s: float) -> float:
        """When what is written now arrives: not before what was written earlier."""
        # Timers that are due at one moment run in any order.
        self._next_s = max(self._next_s + 1e-9, now_s + delay_s)
        return self._next_s


class _Datagrams(asyncio.DatagramTransport):
    def __init__(self, net: Network, at: tuple[str, int], protocol: Any) -> None:
        super().__init__()
        self._net, self._at, self.protocol = net, at, protocol
        self.context = contextvars.copy_context()
        self.process = PROCESS.get()

    def sendto(self, data: Any, addr: Any = None) -> None:
        self._net.throw(self._at, tuple(addr), bytes(data))

    def close(self) -> None:
        self._net.boxes.pop(self._at, None)


class Network:
    """`dropped` counts, by (from, to), what a cut link did not let through, `carried` what
    arrived, the last of it at `arrived_ns`; `refused` by host the connections that nobody took.
    `ends` are those of connections of which something may still come, in their order."""

    def __init__(
        self, loop: VirtualLoop, rng: random.Random, log: Log, weather: Weather | None = None
    ) -> None:
        self._loop, self._rng, self._log = loop, rng, log
        self.sent: Counter[str] = Counter()
        self.sent_bytes: Counter[str] = Counter()
        """Messages and bytes by the host that sent them, those among them that were lost not."""
        self.weather = weather or Weather()
        self.listeners: dict[tuple[str, int], Listener] = {}
        self.boxes: dict[tuple[str, int], _Datagrams] = {}
        self.cut: set[tuple[str, str]] = set()
        self.dropped: dict[tuple[str, str], int] = {}
        self.carried: Counter[tuple[str, str]] = Counter()
        self.arrived_ns: dict[tuple[str, str], int] = {}
        self.refused: Counter[str] = Counter()
        self.ends: dict[_Transport, None] = {}

    def _delay_s(self) -> float:
        return self._rng.uniform(*self.weather.delay_s)

    def _now_s(self) -> float:
        return self._loop.time_ns / 1e9

    def _at(self, when_s: float, call: Callable[..., None], *args: Any) -> None:
        """For no process."""
        self._loop.call_at(when_s, call, *args, context=contextvars.Context())

    def _host(self) -> str:
        process = PROCESS.get()
        return process.host if process is not None else "outside"

    def _open(self, source: str, target: str) -> bool:
        if (source, target) not in self.cut:
            return True
        key = (source, target)
        self.dropped[key] = self.dropped.get(key, 0) + 1
        return False

    def _carry(self, source: str, target: str) -> None:
        self.carried[source, target] += 1
        self.arrived_ns[source, target] = self._loop.time_ns

    @property
    def under_way_s(self) -> float:
        """So long after it was sent a message may arrive, where no link is cut."""
        late_s = self.weather.late_s if self.weather.late else 0.0
        return self.weather.delay_s[1] + late_s + AGAIN_S[1]

    def listen(self, factory: Any, host: str, port: int) -> Server:
        """Raises OSError where somebody listens there."""
        at = (host, int(port))
        there = self.listeners.get(at)
        if there is not None and there.process is not None and not there.process.dead:
            raise OSError(98, f"{host}:{port} is in use")
        listener = Listener(factory, PROCESS.get(), contextvars.copy_context())
        self.listeners[at] = listener
        return Server(self, at, listener)

    @property
    def loop(self) -> VirtualLoop:
        """Whose connections they are."""
        return self._loop

    async def connect(self, factory: Any, host: str, port: int) -> Any:
        """(transport, protocol). Raises ConnectionRefusedError where nobody listens; waits for as
        long as the link is cut, one way or the other."""
        source = self._host()
        while not (self._open(source, host) and self._open(host, source)):  # noqa: ASYNC110
            await asyncio.sleep(SYN_AGAIN_S)
        await asyncio.sleep(self._delay_s())
        listener = self.listeners.get((host, int(port)))
        if listener is None or (listener.process is not None and listener.process.dead):
            await asyncio.sleep(self._delay_s())
            self.refused[host] += 1
            raise ConnectionRefusedError(111, f"{host}:{port} refuses")
        near = _Transport(self, source, host, int(port))
        far = listener.context.run(_Transport, self, host, source, int(port))
        near.other, far.other = far, near
        far.protocol = listener.context.run(listener.factory)
        self.ends |= {near: None, far: None}
        self._log.say(f"{source} connects to {host}:{port}")
        self._loop.call_soon(far.protocol.connection_made, far, context=far.context)
        try:
            await asyncio.sleep(self._delay_s())
        except asyncio.CancelledError:
            self.ended(near, None)
            raise
        near.protocol = factory()
        near.protocol.connection_made(near)
        for data in near.early:
            near.protocol.data_received(data)
        if near.closed:
            self._loop.call_soon(near.protocol.connection_lost, None, context=near.context)
        return near, near.protocol

    def send(self, end: _Transport, data: bytes) -> None:
        """What was written at one end goes to the other."""
        self._at(end.due_s(self._now_s(), self._delay_s()), self._arrive, end, data)

    def _arrive(self, end: _Transport, data: bytes) -> None:
        other = end.other
        if end.lost_for_good or other is None:
            return
        if end.waiting or not self._open(end.host, end.to):
            self._wait(end, data)
        elif data == _END:
            self.ends.pop(end, None)
            # behind what has arrived, which a process that stands has not read yet
            self._loop.call_soon(self._lost, other, None, context=other.context)
        elif not other.closed and not (other.process is not None and other.process.dead):
            self._received(end, other, data)
        elif self._open(end.to, end.host):
            reset_s = self._now_s() + self._delay_s()
            self._at(reset_s, self._lost, end, ConnectionResetError(104, ""))
        else:
            self._wait(end, data)

    def _wait(self, end: _Transport, data: bytes) -> None:
        end.waiting.append(data)
        self._count_down(end)

    def _received(self, end: _Transport, other: _Transport, data: bytes) -> None:
        if not self._open(end.to, end.host):
            self._count_down(end)
        self._carry(end.host, end.to)
        self._log.say(f"{end.host} -> {end.to} {len(data)}", data)
        self.sent[end.host] += 1
        self.sent_bytes[end.host] += len(data)
        self._loop.call_soon(self._receive, other, data, context=other.context)

    def _receive(self, end: _Transport, data: bytes) -> None:
        if end.protocol is None:
            end.early.append(data)
        elif not end.closed:
            end.protocol.data_received(data)

    def _count_down(self, end: _Transport) -> None:
        """Lost, unless it is answered in time."""
        if end._unanswered_since is None:
            end._unanswered_since = self._now_s()
            self._at(self._now_s() + end.stuck_s, self._stuck, end, end._unanswered_since)

    def _stuck(self, end: _Transport, since: float) -> None:
        if end._unanswered_since == since:
            self._lost(end, TimeoutError(110, "no answer"))

    def mend(self, links: Iterable[tuple[str, str]]) -> None:
        """These links are open again; what waits is sent again a little later."""
        self.cut -= set(links)
        for end in self.ends:
            whole = {(end.host, end.to), (end.to, end.host)}.isdisjoint(self.cut)
            if whole and end._unanswered_since is not None:
                self._at(self._now_s() + self._rng.uniform(*AGAIN_S), self._again, end)

    def _again(self, end: _Transport) -> None:
        if not {(end.host, end.to), (end.to, end.host)}.isdisjoint(self.cut):
            return
        end._unanswered_since = None
        waiting, end.waiting = end.waiting, []
        for data in waiting:
            self._arrive(end, data)

    def ended(self, end: _Transport, error: Exception | None) -> None:
        """One end closes: what it wrote before arrives, then the other end hears of it."""
        self._end(end)
        if end.protocol is not None:
            self._loop.call_soon(end.protocol.connection_lost, error, context=end.context)

    def _end(self, end: _Transport) -> None:
        end.closed = True
        self.send(end, _END)

    def _lost(self, end: _Transport, error: Exception | None) -> None:
        """It is over for this end, and nothing of it arrives any more; where it has closed itself,
        nobody is told."""
        known = end.closed
        end.closed = end.lost_for_good = True
        end.waiting.clear()
        self.ends.pop(end, None)
        if end.protocol is not None and not known:
            self._loop.call_soon(end.protocol.connection_lost, error, context=end.context)

    def died(self, process: Process) -> None:
        """The kernel ends what a dead process had open."""
        for end in [one for one in self.ends if one.process is process and not one.closed]:
            self._end(end)
        for at in [at for at, one in self.listeners.items() if one.process is process]:
            del self.listeners[at]
        for at in [at for at, box in self.boxes.items() if box.process is process]:
            del self.boxes[at]

    def datagrams(self, factory: Any, at: tuple[str, int]) -> Any:
        """(transport, protocol) of what is sent to an address, as single messages."""
        protocol = factory()
        box = _Datagrams(self, (at[0], int(at[1])), protocol)
        self.boxes[(at[0], int(at[1]))] = box
        protocol.connection_made(box)
        return box, protocol

    def throw(self, source: tuple[str, int], to: tuple[str, int], data: bytes) -> None:
        """One datagram, which may be lost, doubled or late."""
        times = 2 if self._rng.random() < self.weather.doubled else 1
        for _ in range(times):
            if self._rng.random() < self.weather.lost:
                self._log.say(f"{source[0]} -> {to[0]} lost {len(data)}")
                continue
            late_s = self.weather.late_s if self._rng.random() < self.weather.late else 0.0
            self._at(self._now_s() + self._delay_s() + late_s, self._catch, source, to, data)

    def _catch(self, source: tuple[str, int], to: tuple[str, int], data: bytes) -> None:
        box = self.boxes.get(to)
        if not self._open(source[0], to[0]) or box is None:
            return
        self._carry(source[0], to[0])
        self._log.say(f"{source[0]} -> {to[0]} {len(data)}", data)
        self.sent[source[0]] += 1
        self.sent_bytes[source[0]] += len(data)
        self._loop.call_soon(box.protocol.datagram_received, data, source, context=box.context)
