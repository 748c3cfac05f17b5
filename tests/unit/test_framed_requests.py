"""Requests on the wire of protocols whose messages say how long they are."""

from __future__ import annotations

from typing import Any

import pytest

from clusters.systems.mariadb import MariadbRequests
from clusters.systems.nats.system import NatsRequests
from clusters.systems.postgresql_wire import SSL_ASKED, PostgresqlRequests
from clusters.systems.rabbitmq.system import HELLO, AmqpRequests
from clusters.systems.zookeeper.system import ZookeeperRequests


def pg(letter: str, body: bytes = b"") -> bytes:
    return letter.encode() + (4 + len(body)).to_bytes(4, "big") + body


def startup(body: bytes = b"user\0postgres\0\0") -> bytes:
    return (8 + len(body)).to_bytes(4, "big") + (196608).to_bytes(4, "big") + body


def packet(sequence: int, body: bytes) -> bytes:
    return len(body).to_bytes(3, "little") + bytes([sequence]) + body


def jute(xid: int, kind: int, body: bytes = b"") -> bytes:
    data = xid.to_bytes(4, "big", signed=True) + kind.to_bytes(4, "big", signed=True) + body
    return len(data).to_bytes(4, "big") + data


EXTENDED = pg("P", b"p" * 70_000) + pg("D", b"S\0") + pg("H") + pg("B", b"b") + pg("E") + pg("S")
POSTGRESQL = startup() + pg("p", b"secret\0") + pg("Q", b"BEGIN\0") + EXTENDED + pg("X")
MARIADB = (
    packet(1, b"login" * 9)
    + packet(0, b"\x03SET NAMES utf8mb4")
    + packet(0, b"\x03" + b"x" * 70_000)
    + packet(2, b"\x00")
    + packet(0, b"\x01")
)
ZOOKEEPER = (
    (44).to_bytes(4, "big") + b"\0" * 44
    + jute(1, 4, b"/path") + jute(-2, 11) + jute(2, 5, b"d" * 70_000) + jute(3, -11)
)  # fmt: skip


def method(number: int, name: int, body: bytes = b"") -> bytes:
    """A frame of channel 1."""
    return frame(1, number.to_bytes(2, "big") + name.to_bytes(2, "big") + body)


def frame(kind: int, body: bytes) -> bytes:
    return bytes([kind]) + b"\0\1" + len(body).to_bytes(4, "big") + body + b"\xce"


AMQP = (
    HELLO + method(10, 11, b"PLAIN") + method(50, 10, b"job-q") + method(60, 40)
    + frame(2, b"\0" * 14) + frame(3, b"x" * 70_000) + frame(8, b"") + method(60, 70)
    + method(60, 80)
)  # fmt: skip
NATS = (
    b'CONNECT {"verbose":false}\r\nPING\r\nSUB _INBOX.* 1\r\nPUB jobs.q _INBOX.b 5\r\nPUB \n\r\n'
    b"HPUB jobs.q _INBOX.a.c 12 15\r\nNATS/1.0\r\n\r\nabc\r\nUNSUB 1\r\nPUB x 0\r\n\r\n"
)

CASES = {
    "rabbitmq": (AmqpRequests, AMQP, 4),
    "nats": (NatsRequests, NATS, 3),
    "postgresql": (PostgresqlRequests, POSTGRESQL, 2),
    "postgresql, TLS refused": (PostgresqlRequests, SSL_ASKED + POSTGRESQL, 2),
    "mariadb": (MariadbRequests, MARIADB, 2),
    "zookeeper": (ZookeeperRequests, ZOOKEEPER, 2),
}


@pytest.mark.parametrize("step", [1, 3, 7, 1000, 10**9])
@pytest.mark.parametrize("name", CASES)
def test_requests_are_counted_in_any_pieces(name: str, step: int) -> None:
    make, data, wanted = CASES[name]
    counter: Any = make()
    for at in range(0, len(data), step):
        counter.feed(data[at : at + step])
    assert (counter.requests, counter.known) == (wanted, True)


@pytest.mark.parametrize(
    ("make", "data"),
    [
        (PostgresqlRequests, startup() + b"GET / HTTP/1.1\r\n"),
        (PostgresqlRequests, b"\0\0\0\x03abcde"),
        (MariadbRequests, packet(1, b"login") + packet(0, b"") * 3),
        (AmqpRequests, HELLO + b"\x05\0\1\0\0\0\0\xce"),
        (NatsRequests, b"PUB x five\r\n"),
        (ZookeeperRequests, (44).to_bytes(4, "big") + b"\0" * 44 + b"\0\0\0\1" * 4),
    ],
)
def test_what_is_no_message_is_not_known(make: Any, data: bytes) -> None:
    counter = make()
    counter.feed(data)
    assert not counter.known
