"""The base of systems: what is told to a node, what counts as an answer, what is counted."""

from __future__ import annotations

import asyncio
import base64
import json
import socket
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from clusters.remote import agent_probe
from clusters.supervise import HttpRequests, LineRequests, RespRequests
from clusters.supervise.member_set import spec
from dstest.core.errors import ConfigError
from dstest.core.protocols import Probe, Service
from nemeses.observe.servers import ask_from_control

pytestmark = pytest.mark.slow


def service(name: str, *after: str) -> Service:
    return Service(name=name, argv=(name,), probe=Probe(1), log=f"/tmp/{name}", after=after)


def test_services_start_after_those_that_they_name() -> None:
    rows = json.loads(spec([service("c", "b"), service("b", "a"), service("a")]))["services"]
    assert [row["name"] for row in rows] == ["a", "b", "c"]
    with pytest.raises(ValueError, match="wait for one another: a, b"):
        spec([service("a", "b"), service("b", "a")])


@pytest.mark.parametrize("name", ["lib", "services", "lock"])
def test_no_service_takes_the_place_of_what_runs_it(name: str) -> None:
    with pytest.raises(ConfigError, match=f"no service can be called {name}"):
        spec([service("a"), service(name)])


def test_files_may_be_of_any_bytes() -> None:
    made = Service(name="a", argv=("a",), probe=Probe(1), log="/l", files={"/f": b"\xff\x00"})
    (row,) = json.loads(spec([made]))["services"]
    assert base64.b64decode(row["files"]["/f"]) == b"\xff\x00"


@pytest.fixture
def server() -> Iterator[Callable[[Callable[[Any], None]], int]]:
    """Starts a server that does this with each connection; gives its port."""
    sockets = []

    def start(act: Callable[[Any], None]) -> int:
        listening = socket.create_server(("127.0.0.1", 0))
        sockets.append(listening)

        def serve() -> None:
            while True:
                try:
                    connection, _ = listening.accept()
                except OSError:
                    return
                with connection:
                    act(connection)

        threading.Thread(target=serve, daemon=True).start()
        port: int = listening.getsockname()[1]
        return port

    yield start
    for listening in sockets:
        listening.close()


def both_ways(probe: Probe) -> set[bool]:
    """Asked from here, and as a node's agent asks."""
    send, expect = (base64.b64encode(data).decode() for data in (probe.send, probe.expect))
    asked = agent_probe.ask("127.0.0.1", probe.port, send, expect, wait_s=0.5)
    return {asyncio.run(ask_from_control("127.0.0.1", probe)), asked}


def test_an_answer_begins_as_the_probe_says(server: Any) -> None:
    port = server(
        lambda connection: connection.sendall(b"S" if b"\0" in connection.recv(9) else b"N")
    )
    assert both_ways(Probe(port, b"\0\0\0\x08", b"S")) == {True}
    assert both_ways(Probe(port, b"\0\0\0\x08", b"N")) == {False}
    assert both_ways(Probe(port, b"plain", b"S")) == {False}
    assert both_ways(Probe(port, b"plain")) == {True}, "any byte will do"


def test_a_server_may_speak_first_and_in_pieces(server: Any) -> None:
    def greet(connection: Any) -> None:
        connection.sendall(b"5.")
        connection.sendall(b"5.5-Maria")

    assert both_ways(Probe(server(greet), b"", b"5.5.5-")) == {True}


def test_who_closes_is_silent_or_is_not_there_answers_nothing(server: Any) -> None:
    assert both_ways(Probe(server(lambda connection: None), b"x", b"y")) == {False}
    hold = threading.Event()
    assert both_ways(Probe(server(lambda connection: hold.wait(5)), b"x")) == {False}
    hold.set()
    free = socket.create_server(("127.0.0.1", 0))
    port = free.getsockname()[1]
    free.close()
    assert both_ways(Probe(port, b"x")) == {False}


def fed(counter: Any, data: bytes, size: int) -> tuple[int, bool]:
    for at in range(0, len(data), size):
        counter.feed(data[at : at + size])
    return counter.requests, counter.known


LINES = b"get k\r\nset k 0 0 10\r\nget x\r\nget\r\nversion\r\n"
HTTP = (
    b"GET /a HTTP/1.1\r\nHost: x\r\n\r\n"
    b"PUT /a HTTP/1.1\r\nContent-Length: 21\r\n\r\nGET /b HTTP/1.1\r\n\r\n.."
    b"POST /a HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n"
    b"5;x=1\r\n12\r\n3\r\n0\r\nX: y\r\n\r\n"
    b"GET /a HTTP/1.0\r\n\r\n"
)
RESP = b"*1\r\n$4\r\nPING\r\n*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$9\r\n*1\r\n$1\r\nx\r\n"


@pytest.mark.parametrize("size", [1, 2, 3, 7, 1000])
def test_requests_are_counted_in_any_pieces(size: int) -> None:
    """What is in the data is no request, whatever it looks like."""
    assert fed(LineRequests({"set": 4}), LINES, size) == (3, True)
    assert fed(RespRequests(), RESP, size) == (2, True)
    assert fed(HttpRequests(), HTTP, size) == (4, True)


@pytest.mark.parametrize(
    ("counter", "data"),
    [
        (LineRequests({"set": 4}), b"set k 0 0 many\r\n"),
        (LineRequests({"set": 4}), b"set k\r\n"),
        (LineRequests({}), b"x" * 70_000),
        (HttpRequests(), b"\x16\x03\x01 of TLS\n"),
        (HttpRequests(), b"GET / HTTP/1.1\r\nUpgrade: websocket\r\n\r\n"),
        (RespRequests(), b"PING\r\n"),
        (RespRequests(), b"*1\r\n:5\r\n"),
        (RespRequests(), b"*x\r\n"),
    ],
    ids=["no size", "no word", "no line", "TLS", "upgrade", "inline", "no string", "no number"],
)
def test_what_cannot_be_read_is_not_known(counter: Any, data: bytes) -> None:
    assert fed(counter, data, 1000)[1] is False
