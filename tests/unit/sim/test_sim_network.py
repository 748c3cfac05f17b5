"""The simulated network and clock, by a server and clients that are written for real sockets."""

from __future__ import annotations

import asyncio
import gc
import socket
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

import pytest

from dstest.sim.loop import Over
from dstest.sim.network import AGAIN_S, Weather
from dstest.sim.world import Host, World


async def echo(world: World, host: Host) -> None:
    """Answers each line with itself and the number of lines that this process has seen."""
    seen = 0

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal seen
        while line := await reader.readline():
            seen += 1
            writer.write(b"%b %d\n" % (line.strip(), seen))

    await asyncio.start_server(serve, host.name, 80)
    await asyncio.Event().wait()


def world(main: Any = echo, seed: int = 1, weather: Weather | None = None) -> World:
    made = World(seed, ["a", "b"], main, weather)
    for name in made.hosts:
        made.start(name)
    return made


def during(what: Callable[[World], Awaitable[Any]], made: World | None = None) -> Any:
    made = made or world()
    try:
        return made.run(what(made), "client")
    finally:
        made.close()


async def ask(host: str, line: bytes = b"x") -> bytes:
    reader, writer = await asyncio.open_connection(host, 80)
    writer.write(line + b"\n")
    try:
        return await reader.readline()
    finally:
        writer.close()


def test_a_clock_that_jumps() -> None:
    async def story(made: World) -> float:
        begin = asyncio.get_running_loop().time()
        await asyncio.sleep(3600)
        return asyncio.get_running_loop().time() - begin

    assert during(story) == pytest.approx(3600, abs=1e-6)


def test_asked_and_answered() -> None:
    async def story(made: World) -> list[bytes]:
        await asyncio.sleep(0.1)
        return [await ask("a"), await ask("a"), await ask("b")]

    assert during(story) == [b"x 1\n", b"x 2\n", b"x 1\n"]


def test_who_waits_for_nothing_is_told_so() -> None:
    async def story(made: World) -> None:
        await asyncio.Event().wait()

    with pytest.raises(Over):
        during(story)


def test_a_clock_that_stands_still_is_told_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dstest.sim.loop.STILL", 1000)

    async def story(made: World) -> None:
        while True:  # noqa: ASYNC110
            await asyncio.sleep(0)

    with pytest.raises(Over, match="stands still"):
        during(story)


def test_nobody_listens_there() -> None:
    async def story(made: World) -> None:
        await asyncio.sleep(0.1)
        made.kill("a")
        await ask("a")

    with pytest.raises(ConnectionRefusedError):
        during(story)


def test_a_link_that_is_cut_holds_up_and_a_mended_one_delivers() -> None:
    async def story(made: World) -> tuple[bool, bytes, float, int]:
        await asyncio.sleep(0.1)
        reader, writer = await asyncio.open_connection("a", 80)
        made.cut([("client", "a")])
        writer.write(b"held\n")
        reading = asyncio.ensure_future(reader.readline())
        await asyncio.sleep(2)
        early = reading.done()
        made.mend([("client", "a")])
        begin = made.loop.time()
        answer = await reading
        return early, answer, made.loop.time() - begin, made.net.dropped[("client", "a")]

    early, answer, took, dropped = during(story)
    assert not early
    assert answer == b"held 1\n"
    assert AGAIN_S[0] <= took <= AGAIN_S[1] + 0.1
    assert dropped == 1


def test_an_answer_that_cannot_come_back() -> None:
    """The request arrives and is done, the answer waits: the way back alone is cut."""

    async def story(made: World) -> tuple[bytes, bytes]:
        await asyncio.sleep(0.1)
        reader, writer = await asyncio.open_connection("a", 80)
        made.cut([("a", "client")])
        writer.write(b"one\n")
        await asyncio.sleep(1)
        made.mend([("a", "client")])
        late = await reader.readline()
        return late, await ask("a", b"two")

    assert during(story) == (b"one 1\n", b"two 2\n")


def test_a_connection_without_an_answer_is_lost_when_its_socket_says_so() -> None:
    async def story(made: World) -> float:
        await asyncio.sleep(0.1)
        reader, writer = await asyncio.open_connection("a", 80)
        sock = writer.get_extra_info("socket")
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, 1500)
        made.cut([("client", "a"), ("a", "client")])
        begin = made.loop.time()
        writer.write(b"x\n")
        with pytest.raises(TimeoutError):
            await reader.readline()
        return made.loop.time() - begin

    assert during(story) == pytest.approx(1.5, abs=0.01)


def test_connecting_over_a_cut_link_waits() -> None:
    async def story(made: World) -> None:
        await asyncio.sleep(0.1)
        made.cut([("a", "client")])
        async with asyncio.timeout(5):
            await ask("a")

    with pytest.raises(TimeoutError):
        during(story)


def test_who_talked_to_a_dead_process_hears_of_it() -> None:
    async def story(made: World) -> tuple[bytes, bytes]:
        await asyncio.sleep(0.1)
        reader, _ = await asyncio.open_connection("a", 80)
        made.kill("a")
        ended = await reader.read()
        made.start("a")
        await asyncio.sleep(0.1)
        return ended, await ask("a")

    assert during(story) == (b"", b"x 1\n")


def test_who_stands_answers_later_and_in_order() -> None:
    async def story(made: World) -> tuple[bool, list[bytes]]:
        await asyncio.sleep(0.1)
        made.pause("a")
        asked = [asyncio.ensure_future(ask("a", b"%d" % n)) for n in range(2)]
        await asyncio.sleep(3)
        early = any(one.done() for one in asked)
        made.resume("a")
        return early, sorted(await asyncio.gather(*asked))

    early, answers = during(story)
    assert not early
    assert [one.split()[0] for one in answers] == [b"0", b"1"]


BOTH = [("client", "a"), ("a", "client")]


class Heard:
    """What a server heard of its connections: what it read, and how each ended."""

    def __init__(self) -> None:
        self.ends = list[tuple[bytes, str]]()

    async def main(self, world: World, host: Host) -> None:
        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            found, end = b"", "EOF"
            try:
                while data := await reader.read(100):
                    found += data
            except OSError as error:
                end = type(error).__name__
            self.ends.append((found, end))

        await asyncio.start_server(serve, host.name, 80)
        await asyncio.Event().wait()


def heard(what: Callable[[World], Awaitable[Any]], seed: int = 1) -> list[tuple[bytes, str]]:
    """By servers, a minute after the story."""
    hearing = Heard()

    async def story(made: World) -> None:
        await asyncio.sleep(0.1)
        await what(made)
        await asyncio.sleep(60)

    during(story, world(hearing.main, seed))
    return hearing.ends


@pytest.mark.parametrize("cut", [BOTH, BOTH[:1], BOTH[1:]], ids=["both", "there", "back"])
@pytest.mark.parametrize("after_s", [0.0, 0.01, 0.2, 1.0])
def test_an_end_comes_after_what_was_written_before_it(
    cut: list[tuple[str, str]], after_s: float
) -> None:
    async def story(made: World) -> None:
        _, writer = await asyncio.open_connection("a", 80)
        writer.write(b"one;")
        await asyncio.sleep(0.1)
        made.cut(cut)
        writer.write(b"two;")
        await asyncio.sleep(1)
        made.mend(cut)
        await asyncio.sleep(after_s)
        writer.write(b"three;")
        writer.close()

    for seed in range(20):
        assert heard(story, seed) == [(b"one;two;three;", "EOF")]


@pytest.mark.parametrize("cut", [BOTH, BOTH[:1], BOTH[1:]], ids=["both", "there", "back"])
def test_a_close_over_a_cut_link_is_heard_after_the_mend(cut: list[tuple[str, str]]) -> None:
    async def story(made: World) -> None:
        _, writer = await asyncio.open_connection("a", 80)
        writer.write(b"one;")
        await asyncio.sleep(0.1)
        made.cut(cut)
        writer.write(b"two;")
        writer.close()
        await asyncio.sleep(1)
        made.mend(cut)

    assert heard(story) == [(b"one;two;", "EOF")]


def test_a_close_is_not_heard_while_the_link_is_cut() -> None:
    async def story(made: World) -> bool:
        await asyncio.sleep(0.1)
        reader, writer = await asyncio.open_connection("a", 80)
        made.cut([("a", "client")])
        made.kill("a")
        writer.write(b"x")
        reading = asyncio.ensure_future(reader.read())
        await asyncio.sleep(3)
        return reading.done()

    assert not during(story), "neither its end nor a reset comes over a cut link"


def test_a_close_over_a_link_that_stays_cut_is_given_up() -> None:
    async def story(made: World) -> None:
        _, writer = await asyncio.open_connection("a", 80)
        made.cut(BOTH)
        writer.write(b"one;")
        writer.close()
        await asyncio.sleep(40)
        made.mend(BOTH)

    assert heard(story) == []


def test_a_death_over_a_cut_link_is_heard_after_the_mend() -> None:
    async def story(made: World) -> tuple[bool, bytes]:
        await asyncio.sleep(0.1)
        reader, writer = await asyncio.open_connection("a", 80)
        made.cut([("a", "client")])
        writer.write(b"asked\n")
        await asyncio.sleep(0.1)
        made.kill("a")
        reading = asyncio.ensure_future(reader.read())
        await asyncio.sleep(3)
        early = reading.done()
        made.mend([("a", "client")])
        return early, await reading

    assert during(story) == (False, b"asked 1\n")


def test_a_death_comes_after_what_is_under_way() -> None:
    async def main(made: World, host: Host) -> None:
        async def serve(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            for number in range(10):
                writer.write(b"%d" % number)
            made.kill(host.name)

        await asyncio.start_server(serve, host.name, 80)
        await asyncio.Event().wait()

    async def story(made: World) -> bytes:
        await asyncio.sleep(0.1)
        reader, _ = await asyncio.open_connection("a", 80)
        return await reader.read()

    for seed in range(10):
        assert during(story, world(main, seed)) == b"0123456789"


def test_what_was_sent_arrives_while_its_sender_stands() -> None:
    async def main(made: World, host: Host) -> None:
        async def serve(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.write(b"sent\n")
            made.pause(host.name)

        await asyncio.start_server(serve, host.name, 80)
        await asyncio.Event().wait()

    async def story(made: World) -> bytes:
        await asyncio.sleep(0.1)
        reader, _ = await asyncio.open_connection("a", 80)
        async with asyncio.timeout(5):
            return await reader.readline()

    assert during(story, world(main)) == b"sent\n"


def test_a_greeting_is_heard_and_so_is_an_end_at_once() -> None:
    """A server speaks first, or closes, before the one who connects has been told."""

    async def main(made: World, host: Host) -> None:
        async def serve(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            if host.name == "a":
                writer.write(b"hello\n")
            writer.close()

        await asyncio.start_server(serve, host.name, 80)
        await asyncio.Event().wait()

    async def asked(name: str) -> bytes:
        try:
            reader, _ = await asyncio.open_connection(name, 80)
            return await reader.read()
        except ConnectionResetError:
            return b"reset"

    async def story(made: World) -> list[bytes]:
        await asyncio.sleep(0.1)
        async with asyncio.timeout(30):
            return [await asked("a"), await asked("b")]

    for seed in range(40):
        first, second = during(story, world(main, seed))
        assert first in (b"hello\n", b"reset")
        assert second in (b"", b"reset")


def test_no_end_is_kept_of_a_connection_that_is_over() -> None:
    async def story(made: World) -> list[int]:
        await asyncio.sleep(0.1)
        counts = []

        async def count() -> None:
            await asyncio.sleep(60)
            counts.append(len(made.net.ends))

        for _ in range(20):
            await ask("a")
        await count()
        _, kept = await asyncio.open_connection("b", 80)
        await count()
        for _ in range(5):
            await asyncio.open_connection("a", 80)
        made.kill("a")
        await count()
        made.start("a")
        await asyncio.sleep(0.1)
        for cut in (BOTH, BOTH[:1], BOTH[1:]):
            for wait_s in (1.0, 40.0):
                _, writer = await asyncio.open_connection("a", 80)
                made.cut(cut)
                writer.write(b"x\n")
                writer.close()
                await asyncio.sleep(wait_s)
                made.mend(cut)
                made.kill("a")
                made.start("a")
                await asyncio.sleep(0.1)
        await count()
        for wait_s in (0.001, 0.003, 0.005):
            with suppress(TimeoutError):
                async with asyncio.timeout(wait_s):
                    await ask("a")
        await count()
        kept.close()
        await count()
        return counts

    assert during(story) == [0, 2, 2, 2, 2, 0]


class Catcher(asyncio.DatagramProtocol):
    def __init__(self, caught: list[bytes]) -> None:
        self._caught = caught

    def datagram_received(self, data: bytes, addr: Any) -> None:
        self._caught.append(data)


def thrown(weather: Weather, count: int = 300) -> list[bytes]:
    caught = list[bytes]()

    async def story(made: World) -> None:
        loop = asyncio.get_running_loop()
        await loop.create_datagram_endpoint(lambda: Catcher(caught), local_addr=("client", 9))
        out, _ = await loop.create_datagram_endpoint(lambda: Catcher([]), local_addr=("client", 8))
        for number in range(count):
            out.sendto(b"%d" % number, ("client", 9))
            await asyncio.sleep(0.01)
        await asyncio.sleep(1)

    during(story, world(weather=weather))
    return caught


def test_datagrams_in_fair_weather() -> None:
    assert thrown(Weather()) == [b"%d" % number for number in range(300)]


@pytest.mark.parametrize(
    ("weather", "less", "more", "turned"),
    [
        (Weather(lost=0.3), True, False, False),
        (Weather(doubled=0.3), False, True, False),
        (Weather(late=0.3), False, False, True),
    ],
    ids=["lost", "doubled", "late"],
)
def test_datagrams_in_foul_weather(weather: Weather, less: bool, more: bool, turned: bool) -> None:
    caught = thrown(weather)
    numbers = [int(one) for one in caught]
    assert (len(set(numbers)) < 300) == less
    assert (len(numbers) > len(set(numbers))) == more
    firsts = list(dict.fromkeys(numbers))
    assert (firsts != sorted(firsts)) == turned


def test_a_server_as_the_manual_of_python_has_it_and_nothing_is_complained_of_at_its_end(
    capsys: pytest.CaptureFixture[str],
) -> None:
    async def manual(world: World, host: Host) -> None:
        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            try:
                while line := await reader.readline():
                    writer.write(line)
                    await writer.drain()
            finally:
                writer.close()
                await writer.wait_closed()
                world.keep(host.name, "last words", "of an end that is none")

        server = await asyncio.start_server(serve, host.name, 80)
        async with server:
            assert server.is_serving() and server.sockets[0].getsockname() == (host.name, 80)
            await server.serve_forever()

    held = []

    async def story(made: World) -> bytes:
        answer = await ask("a")
        held.append(await asyncio.open_connection("b", 80))  # it is still open at the end
        await asyncio.sleep(1)
        return answer

    made = world(manual)
    assert during(story, made) == b"x\n"
    said = made.log.digest
    gc.collect()
    assert not made.loop.failures and made.log.digest == said
    assert list(made.kept()) == [("a", "last words")]
    assert "Exception ignored" not in capsys.readouterr().err


def test_a_server_that_is_closed_ends_who_waits_for_it() -> None:
    async def main(world: World, host: Host) -> None:
        server = await asyncio.start_server(lambda r, w: w.close(), host.name, 80)
        asyncio.get_running_loop().call_later(1, server.close)
        with suppress(asyncio.CancelledError):
            await server.serve_forever()
        assert not server.is_serving() and server.sockets == ()
        await asyncio.Event().wait()

    async def story(made: World) -> None:
        await asyncio.sleep(2)
        with pytest.raises(ConnectionRefusedError):
            await asyncio.open_connection("a", 80)

    made = world(main)
    during(story, made)
    assert not made.loop.failures
