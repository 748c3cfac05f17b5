"""A node that lies, floods, drips or says nothing cannot hang, fill or fool the control node."""

from __future__ import annotations

import asyncio
import base64
import resource
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import asyncssh
import pytest
from hostile_server import HELLO, Lies, frame, hostile, silent_port

from clusters.remote import connect
from clusters.remote.connection import PART_BYTES, RemoteNode
from dstest.core.errors import LabError, NotALabNode
from dstest.core.log_lines import kept_as

pytestmark = pytest.mark.slow

DEADLINE_S = 2.0
SILENT_S = 0.5
"""For who never comes to an end: all of it is waited."""
MEMORY_MAX = 200 << 20
"""What a test may add to the largest size that this process has had."""

Server = asyncssh.SSHServerProcess[bytes]


def peak_bytes() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10


def saying(*parts: bytes, pause_s: float = 0.0, forever: bool = False) -> Lies:
    """It says this, once or for ever, and then nothing until we go."""

    async def lies(process: Server) -> None:
        while True:
            for part in parts:
                process.stdout.write(part)
                await process.stdout.drain()
                await asyncio.sleep(pause_s)
            if not forever:
                break
        await process.stdin.read()

    return lies


def answering(answer: Callable[[dict[str, Any]], bytes]) -> Lies:
    """It says hello as it should, and to each request what `answer` gives."""

    async def lies(process: Server) -> None:
        async def message() -> dict[str, Any]:
            size = int.from_bytes(await process.stdin.readexactly(4), "big")
            found: dict[str, Any] = __import__("json").loads(await process.stdin.readexactly(size))
            return found

        await message()
        process.stdout.write(frame({"hello": HELLO}))
        while True:
            try:
                request = await message()
            except asyncio.IncompleteReadError:
                return
            process.stdout.write(answer(request))
            await process.stdout.drain()

    return lies


async def stderr_flood(process: Server) -> None:
    while True:
        process.stderr.write(b"\x1b[2J\xff" * 10_000)
        await process.stderr.drain()


async def leaves(process: Server) -> None:
    process.stdout.write(frame({"hello": HELLO})[:20])


DEEP = b"[" * 200_000
FIRST_WORDS: dict[str, Lies] = {
    "nothing": saying(),
    "zeros for ever": saying(b"\0" * 65536, forever=True),
    "a frame of 4 GB": saying(b"\xff\xff\xff\xff"),
    "a frame that never ends": saying(b"\x00\xff\xff\xff" + b"x" * 1000),
    "a frame that drips": saying(*(bytes([b]) for b in frame({"hello": HELLO})), pause_s=0.1),
    "no JSON": saying(frame(b"hello")),
    "bad UTF-8": saying(frame(b'{"hello": {"version": "\xff\xfe"}}')),
    "a list": saying(frame([HELLO])),
    "nested without end": saying(frame(b'{"ok": ' + DEEP)),
    "a hello without anything": saying(frame({"hello": {}})),
    "a hello of other types": saying(frame({"hello": {**HELLO, "pid": "x"}})),
    "a hello of another version": saying(frame({"hello": {**HELLO, "version": "\x1b[2J" * 9000}})),
    "an error that is none": saying(frame({"error": "no"})),
    "an error before all": saying(frame({"error": {"message": "x" * 100_000}})),
    "only standard error": stderr_flood,
    "the end in the middle": leaves,
}


ENDLESS = ("nothing", "a frame that never ends", "a frame that drips", "only standard error")


@pytest.mark.parametrize("kind", FIRST_WORDS)
def test_a_first_word_that_is_none(kind: str, tmp_path: Path) -> None:
    deadline_s = SILENT_S if kind in ENDLESS else DEADLINE_S

    async def go() -> None:
        async with hostile(tmp_path, FIRST_WORDS[kind]) as info:
            await connect(info, deadline_s=deadline_s)

    before = peak_bytes()
    started = time.monotonic()
    with pytest.raises(LabError) as caught:
        asyncio.run(go())
    assert time.monotonic() - started < DEADLINE_S * 3
    assert len(caught.value.message) < 5000
    assert peak_bytes() - before < MEMORY_MAX


def test_a_marker_of_another_lab_is_told_in_short(tmp_path: Path) -> None:
    async def go() -> None:
        lies = saying(frame({"not_a_lab_node": "\x1b]0;owned\x07" + "x" * 1_000_000}))
        async with hostile(tmp_path, lies) as info:
            await connect(info, deadline_s=DEADLINE_S)

    with pytest.raises(NotALabNode) as caught:
        asyncio.run(go())
    assert len(caught.value.message) < 1000
    assert "\x1b" not in caught.value.message


def with_node(folder: Path, lies: Lies, use: Callable[[RemoteNode], Awaitable[Any]]) -> Any:
    async def go() -> Any:
        async with hostile(folder, lies) as info:
            node = await connect(info, deadline_s=DEADLINE_S)
            try:
                return await use(node)
            finally:
                await node.close()

    return asyncio.run(go())


def ok(value: Any) -> Callable[[dict[str, Any]], bytes]:
    return lambda request: frame({"id": request["id"], "ok": value})


DONE = {"status": 0, "stdout": "", "stderr": "", "duration_ns": 1, "dropped": 0}
ANSWERS: dict[str, Callable[[dict[str, Any]], bytes]] = {
    "neither ok nor error": lambda r: frame({"id": r["id"]}),
    "a list": ok([1]),
    "nothing": ok(None),
    "a status in words": ok({**DONE, "status": "0"}),
    "no status": ok({k: v for k, v in DONE.items() if k != "status"}),
    "a duration below zero": ok({**DONE, "duration_ns": -1}),
    "output that is a number": ok({**DONE, "stdout": 5}),
    "an error that is a number": lambda r: frame({"id": r["id"], "error": 5}),
    "an error of other types": lambda r: frame({"id": r["id"], "error": {"errno": "x"}}),
    "an id in words": lambda r: frame({"id": str(r["id"]), "ok": DONE}),
    "a list as id": lambda r: frame({"id": [r["id"]], "ok": DONE}),
    "the id of another": lambda r: frame({"id": r["id"] + 1, "ok": DONE}),
    "many that nobody asked": lambda r: frame({"id": -5, "ok": 1}) * 20_000,
    "half of it": lambda r: frame({"id": r["id"], "ok": DONE})[:-3],
    "no JSON": lambda r: frame(b"\x00"),
    "a number without end": lambda r: frame(b'{"id": ' + b"9" * 10_000 + b"}"),
    "NaN": lambda r: frame(b'{"id": 1, "ok": NaN}'),
    "nested without end": lambda r: frame(b'{"id": 1, "ok": ' + DEEP + b"}"),
}


@pytest.mark.parametrize("kind", ANSWERS)
def test_an_answer_that_is_none(kind: str, tmp_path: Path) -> None:
    started, before = time.monotonic(), peak_bytes()
    with pytest.raises(LabError):
        with_node(
            tmp_path,
            answering(ANSWERS[kind]),
            lambda node: node.run(["true"], timeout_s=0.5),
        )
    assert time.monotonic() - started < DEADLINE_S * 3
    assert peak_bytes() - before < MEMORY_MAX


def test_answers_that_come_twice_hurt_nobody(tmp_path: Path) -> None:
    async def use(node: RemoteNode) -> list[int]:
        return [(await node.run(["true"])).status for _ in range(3)]

    twice = answering(lambda r: frame({"id": r["id"], "ok": DONE}) * 2)
    assert with_node(tmp_path, twice, use) == [0, 0, 0]


def of_file(size: int, give: Callable[[int], bytes | str]) -> Lies:
    """A file of this size, of which `give` says what is in as many bytes as are asked for."""

    def answer(request: dict[str, Any]) -> bytes:
        data = give(request["args"]["bytes_max"])
        text = data if isinstance(data, str) else base64.b64encode(data).decode()
        return frame({"id": request["id"], "ok": {"size": size, "data": text}})

    return answering(answer)


@pytest.mark.parametrize(
    "lies",
    [
        of_file(10, lambda n: b"x" * (n + 1)),
        of_file(1 << 63, lambda n: b"x"),
        of_file(-1, lambda n: b"x"),
        of_file(10, lambda n: "no base64"),
    ],
    ids=["more than was asked for", "a size beyond all", "a size below zero", "no base64"],
)
def test_a_file_that_is_none(lies: Lies, tmp_path: Path) -> None:
    with pytest.raises(LabError):
        with_node(tmp_path, lies, lambda node: node.get("/log", bytes_max=1 << 20))


@pytest.mark.parametrize("bytes_max", [7, PART_BYTES + 5])
def test_the_first_and_the_last_bytes_of_a_file(bytes_max: int, tmp_path: Path) -> None:
    text = b"".join(b"%09d\n" % number for number in range(PART_BYTES // 4))

    def answer(request: dict[str, Any]) -> bytes:
        offset, most = request["args"]["offset"], request["args"]["bytes_max"]
        at = max(0, len(text) + offset) if offset < 0 else offset
        part = base64.b64encode(text[at : at + most]).decode()
        return frame({"id": request["id"], "ok": {"size": len(text), "data": part}})

    async def use(node: Any) -> tuple[bytes, bytes]:
        first = await node.get("/log", bytes_max=bytes_max, from_start=True)
        return first, await node.get("/log", bytes_max=bytes_max)

    first, last = with_node(tmp_path, answering(answer), use)
    assert first == text[:bytes_max]
    assert last == text[-bytes_max:]


def test_a_file_that_drips_ends_at_the_first_drop(tmp_path: Path) -> None:
    started = time.monotonic()
    lies = of_file(1 << 60, lambda n: b"x")
    data = with_node(tmp_path, lies, lambda node: node.get("/log", bytes_max=64 * PART_BYTES))
    assert len(data) <= 2
    assert time.monotonic() - started < DEADLINE_S * 2


async def endless_banner(writer: asyncio.StreamWriter) -> None:
    while True:
        writer.write(b"welcome\r\n" * 1000)
        await writer.drain()


async def no_word(writer: asyncio.StreamWriter) -> None:
    await asyncio.sleep(30)


async def no_keys(writer: asyncio.StreamWriter) -> None:
    writer.write(b"SSH-2.0-x\r\n" + b"\xff" * 1000)
    await asyncio.sleep(30)


async def a_large_packet(writer: asyncio.StreamWriter) -> None:
    writer.write(b"SSH-2.0-x\r\n\x7f\xff\xff\xff")
    while True:
        writer.write(b"\0" * 65536)
        await writer.drain()


@pytest.mark.parametrize("says", [endless_banner, no_word, no_keys, a_large_packet])
def test_what_is_no_ssh(says: Callable[..., Awaitable[None]], tmp_path: Path) -> None:
    async def go() -> None:
        async with silent_port(tmp_path, says) as info:
            await connect(info, deadline_s=SILENT_S)

    started, before = time.monotonic(), peak_bytes()
    with pytest.raises(LabError):
        asyncio.run(go())
    assert time.monotonic() - started < DEADLINE_S * 3
    assert peak_bytes() - before < MEMORY_MAX


@pytest.mark.parametrize(
    "path",
    ["/tmp/..", "..", "/", "", "/a/../../etc/passwd", "/core\n/x", "/x/\x1b[2J", "/x/" + "y" * 400],
)
def test_names_of_files_stay_in_their_directory(path: str, tmp_path: Path) -> None:
    (name,) = kept_as([path]).values()
    kept = (tmp_path / name).resolve()
    assert kept.parent == tmp_path
    kept.write_text("it can be written")
    assert name.isprintable()
