"""Members that are asked over HTTP, by a query of SQL, and by a line: what counts as an answer."""

from __future__ import annotations

import contextlib
import json
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from dstest.cli.app import app
from dstest.core.errors import ConfigError, Exit
from dstest.spec import ask
from dstest.spec.ask import sample_servers


@contextlib.contextmanager
def serving(
    answer: bytes, *, stays: bool = False, drip_s: float = 0.0
) -> Iterator[tuple[int, list[bytes]]]:
    """The port of a server that answers each connection so, and what it was asked."""
    asked: list[bytes] = []
    held: list[socket.socket] = []
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def serve() -> None:
            while True:
                try:
                    link, _ = listening.accept()
                except OSError:
                    return
                with contextlib.suppress(OSError):
                    asked.append(link.recv(1 << 16))
                    for byte in answer if drip_s else ():
                        link.sendall(bytes([byte]))
                        time.sleep(drip_s)
                    if not drip_s:
                        link.sendall(answer)
                if stays:
                    held.append(link)
                else:
                    link.close()

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        try:
            yield listening.getsockname()[1], asked
        finally:
            listening.shutdown(socket.SHUT_RDWR)
            thread.join(5)  # it may be about to hold one more
            for link in held:
                link.close()


def http(body: bytes, status: str = "200 OK", length: bool = True, extra: str = "") -> bytes:
    head = f"HTTP/1.1 {status}\r\nContent-Type: application/json\r\n{extra}"
    head += f"Content-Length: {len(body)}\r\n" if length else ""
    return head.encode() + b"\r\n" + body


def one_of(address: str, text: str | None = None) -> Any:
    (sample,) = sample_servers([address], text, 0.1, 1)
    ((name, answer),) = sample.items()
    assert name == address.replace("user:secret@", "")
    return answer


@pytest.mark.parametrize(
    "answer",
    [
        http(b'{"n": 1}'),
        http(b'{"n": 1}', length=False),
        http(b'{"n": 1}', "201 Created"),
        http(b'8\r\n{"n": 1}\r\n0\r\n\r\n', length=False, extra="Transfer-Encoding: chunked\r\n"),
    ],
)
def test_an_object_over_http_is_an_answer(answer: bytes) -> None:
    with serving(answer) as (port, asked):
        assert one_of(f"http://127.0.0.1:{port}/status?a=1") == {"n": 1}
    assert asked[0].startswith(b"GET /status?a=1 HTTP/1.0\r\n")
    assert f"Host: 127.0.0.1:{port}\r\n".encode() in asked[0]


def test_who_keeps_the_connection_has_answered_when_all_is_there() -> None:
    with serving(http(b'{"n": 1}'), stays=True) as (port, _):
        begun = time.monotonic()
        assert one_of(f"http://127.0.0.1:{port}/") == {"n": 1}
        assert time.monotonic() - begun < 0.9


def test_a_text_is_posted() -> None:
    with serving(http(b"{}")) as (port, asked):
        assert one_of(f"http://user:secret@127.0.0.1:{port}/q", '{"q": 1}') == {}
    assert asked[0].startswith(b"POST /q HTTP/1.0\r\n")
    assert asked[0].endswith(b'\r\n\r\n{"q": 1}')
    assert b"secret" not in asked[0]


@pytest.mark.parametrize(
    "answer",
    [
        http(b'{"n": 1}', "503 Service Unavailable"),
        http(b'{"n": 1}', "302 Found", extra="Location: /x\r\n"),
        http(b"[1]"),
        http(b'{"n": NaN}'),
        http(b'{"n": 1, "n": 2}'),
        http(b"<html>"),
        http(b'{"n": 1}')[:-3],
        b"",
        b"SSH-2.0-x\r\n",
        b'{"n": 1}\n',
        http(b'{"n": "' + b"x" * (2 << 20) + b'"}'),
    ],
)
def test_what_is_no_answer(answer: bytes) -> None:
    with serving(answer) as (port, _):
        assert one_of(f"http://127.0.0.1:{port}/") is None


def test_who_drips_has_not_answered() -> None:
    with serving(http(b'{"n": 1}'), drip_s=0.05) as (port, _):
        begun = time.monotonic()
        assert one_of(f"http://127.0.0.1:{port}/") is None
        assert time.monotonic() - begun < 3


def test_a_line_is_asked_as_before() -> None:
    with serving(b'{"n": 1}\nmore', stays=True) as (port, asked):
        assert one_of(f"127.0.0.1:{port}") == {"n": 1}
    assert asked == [b'{"op":"status"}\n']


@pytest.mark.parametrize(
    "address",
    ["x", "127.0.0.1:0", "127.0.0.1:x", "ftp://a/", "http://", "http://a:99999/", "http://a b/",
     "http://a/\r\nX: y"],
)  # fmt: skip
def test_what_is_no_address_is_refused(address: str) -> None:
    with pytest.raises(ConfigError):
        list(sample_servers([address], None, 0.1, 1))


def test_a_query_has_to_be_given() -> None:
    with pytest.raises(ConfigError, match="a query"):
        list(sample_servers(["postgresql://a@b/c"], None, 0.1, 1))


class Link:
    """As a connection of asyncpg."""

    def __init__(self, rows: list[dict[str, Any]]) -> None:
        self.rows, self.ended = rows, False

    async def fetch(self, query: str) -> list[dict[str, Any]]:
        assert query == "SELECT 1"
        return self.rows

    def terminate(self) -> None:
        self.ended = True


class Driver:
    class PostgresError(Exception):
        """Said by the server."""

    class InterfaceError(Exception):
        """Said by the driver."""

    def __init__(self, link: Link | None) -> None:
        self.link = link

    async def connect(self, url: str, **_: Any) -> Link:
        assert url == "postgresql://user:secret@db:5432/x"
        if self.link is None:
            raise self.PostgresError("no such role")
        return self.link


def test_rows_of_a_query_are_an_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    link = Link([{"n": 1, "at": Path("/x"), "no": None}])
    monkeypatch.setattr(ask, "need", lambda *_: Driver(link))
    said = one_of("postgresql://user:secret@db:5432/x", "SELECT 1")
    assert said == {"rows": [{"n": 1, "at": "/x", "no": None}]}
    assert link.ended


def test_an_error_of_the_database_is_no_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ask, "need", lambda *_: Driver(None))
    assert one_of("postgresql://user:secret@db:5432/x", "SELECT 1") is None


SPEC = """
from dataclasses import dataclass
from dstest.spec import Spec, invariant

@dataclass(frozen=True)
class S:
    n: int = 0

class Seen(Spec):
    def initial(self):
        yield S()

    def sampled(self, before, sample):
        return S(max(one["n"] for one in sample.values() if one))

    @invariant("S1", "few")
    def few(self, s):
        return s.n < 4
"""


def test_a_specification_of_samples_needs_no_action(tmp_path: Path) -> None:
    file = tmp_path / "seen.py"
    file.write_text(SPEC)
    for n, code in ((1, Exit.PASS), (5, Exit.FAIL)):
        with serving(http(json.dumps({"n": n}).encode())) as (port, _):
            words = [
                "spec",
                "live",
                str(file),
                "--ask",
                f"http://127.0.0.1:{port}/",
                "--count",
                "1",
            ]
            said = CliRunner().invoke(app, words)
        assert said.exit_code == code, said.output
    for command in ("explore", "simulate", "mutate"):
        said = CliRunner().invoke(app, ["spec", command, str(file)])
        assert isinstance(said.exception, ConfigError)
        assert "has no action" in said.exception.message


def test_of_a_member_that_never_answered_nothing_is_known(tmp_path: Path) -> None:
    """Where the other one is well, too: at most one leads, of those that were heard."""
    file = tmp_path / "seen.py"
    file.write_text(SPEC)
    samples = tmp_path / "samples.jsonl"
    rows = [{"a": {"n": 1}, "b": None}, {"a": {"n": 1}, "b": None}]
    samples.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    said = CliRunner().invoke(app, ["spec", "live", str(file), str(samples)])
    assert said.exit_code == Exit.NOT_PROVEN, said.output
    assert "never answered: b" in said.output and "healthy" not in said.output
    with samples.open("a") as more:
        more.write(json.dumps({"a": {"n": 1}, "b": {"n": 2}}) + "\n")
    said = CliRunner().invoke(app, ["spec", "live", str(file), str(samples)])
    assert said.exit_code == Exit.PASS, said.output
