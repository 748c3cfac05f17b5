"""The first look at a strange machine: its lies, floods and silences have an end and a name."""

from __future__ import annotations

import asyncio
import contextlib
import json
import shlex
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import asyncssh
import msgspec
import pytest
from hostile_server import Lies, hostile

from clusters.labs.existing import agent_survey, survey
from clusters.labs.existing.entry import HostEntry, SshPlace, arrive
from dstest.core.errors import DstestError, LabError, NotALabNode, RemoteError
from dstest.core.node import NodeInfo

pytestmark = pytest.mark.slow

Server = asyncssh.SSHServerProcess[bytes]
REQUEST = survey.Request(features={}, residues={}, packages=[], paths=[])
ASKS = survey.Asks(accept=lambda *_: False)

EMPTY: dict[str, Any] = {"features": {}, "residues": {}, "packages": [], "names": [], "paths": []}
HERE = agent_survey.facts(EMPTY)
FACTS = {**HERE, "boot_id": "another"}
FOUND: dict[str, Any] = {
    "etc": {},
    "hosts": None,
    **{
        kind: []
        for kind in (
            "places", "run", "nft", "iptables", "links", "tc", "mounts", "cgroups", "processes",
        )
    },
}  # fmt: skip


@pytest.fixture(autouse=True)
def _elsewhere(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The server is on loopback, which is refused; clocks run faster."""

    async def addresses(entry: HostEntry) -> tuple[str, None]:
        return "192.0.2.1", None

    async def seen_as(*_: Any) -> str:
        return "192.0.2.99"

    async def fine(_: NodeInfo) -> None:
        return None

    monkeypatch.setenv("DSTEST_LAB_DIR", str(tmp_path / "labs"))
    monkeypatch.setattr(survey, "_addresses", addresses)
    monkeypatch.setattr(survey, "_seen_as", seen_as)
    monkeypatch.setattr(survey, "refuse_control_host", fine)
    for name, seconds in (("LOOK_S", 1.0), ("ASK_S", 0.5), ("ALL_S", 2.0)):
        monkeypatch.setattr(survey, name, seconds)


def telling(answers: dict[str, Lies]) -> Lies:
    """What is done where the command has this word in it; all else is answered as it should be."""

    async def lies(process: Server) -> None:
        last = shlex.split(process.command or "")[-1]
        kinds = {"facts": "facts", "found": "found", "true": "sudo"}
        kind = kinds.get(last, "SSH_CONNECTION")
        if kind in answers:
            await answers[kind](process)
            return
        usual = {"facts": json.dumps(FACTS), "found": json.dumps(FOUND)}
        process.stdout.write(usual.get(kind, "192.0.2.99 1 192.0.2.1 22").encode())

    return lies


def saying(data: bytes, *, forever: bool = False, err: bool = False) -> Lies:
    async def lies(process: Server) -> None:
        stream = process.stderr if err else process.stdout
        stream.write(data)
        while forever:
            stream.write(data)
            await stream.drain()

    return lies


async def silent(process: Server) -> None:
    await process.stdin.read()
    await asyncio.sleep(60)


async def aborts(process: Server) -> None:
    process.channel.get_connection().abort()


def ending(status: int, words: bytes = b"") -> Lies:
    async def lies(process: Server) -> None:
        process.stderr.write(words)
        process.exit(status)

    return lies


def surveyed(folder: Path, lies: Lies, user: str = "root", number: int = 1) -> Any:
    async def go() -> Any:
        async with contextlib.AsyncExitStack() as stack:
            entries = []
            for i in range(number):
                place = folder / f"machine{i}"
                place.mkdir()
                info = await stack.enter_async_context(hostile(place, lies))
                ssh = SshPlace(
                    host=info.address,
                    port=info.port,
                    user=user,
                    keys=(info.key_path,),
                    known_hosts=(info.known_hosts_path,),
                )
                entries.append(HostEntry(alias=f"db-{i}", ssh=ssh))
            return await survey.survey("one", entries, REQUEST, ASKS)

    return asyncio.run(go())


def test_a_machine_that_answers_as_it_should(tmp_path: Path) -> None:
    (one,) = surveyed(tmp_path, telling({}))
    assert (one.alias, one.ssh_from, one.control) == ("db-0", "192.0.2.99", "192.0.2.99")


def changed(**changes: Any) -> Lies:
    return saying(json.dumps({**FACTS, **changes}).encode())


LIES: dict[str, tuple[dict[str, Lies], str]] = {
    "silent facts": ({"facts": silent}, "within"),
    "silent found": ({"found": silent}, "within"),
    "silent ssh": ({"SSH_CONNECTION": silent}, "within"),
    "silent for all": ({"facts": silent, "found": silent}, "within"),
    "no JSON": ({"facts": saying(b"Welcome to db!\n")}, "makes no sense"),
    "bad UTF-8": ({"facts": saying(b'{"os": "\xff\xfe"}')}, "makes no sense"),
    "nested": ({"facts": saying(b"[" * 100_000)}, "makes no sense"),
    "a list": ({"found": saying(b"[1]")}, "makes no sense"),
    "numbers for words": ({"facts": changed(names=7)}, "makes no sense"),
    "without packages": ({"facts": saying(b"{}")}, "makes no sense"),
    "a flood of facts": ({"facts": saying(b"x" * 65536, forever=True)}, "says more than"),
    "a flood of found": ({"found": saying(b"x" * 65536, forever=True)}, "says more than"),
    "a flood where a line is due": (
        {"SSH_CONNECTION": saying(b"x" * 65536, forever=True)},
        "says more than 2000 bytes",
    ),
    "a flood on stderr": ({"facts": saying(b"\x1b[2J" * 9000, forever=True, err=True)}, "within"),
    "no address": ({"SSH_CONNECTION": saying(b"\x1b]0;x\x07 22")}, "does not say where SSH"),
    "nothing": ({"SSH_CONNECTION": saying(b"")}, "does not say where SSH"),
    "gone": ({"facts": aborts}, "n1"),
    "gone later": ({"SSH_CONNECTION": aborts}, "n1"),
    "no Python": ({"facts": ending(127, b"python3: not found")}, "status 127"),
    "this machine": ({"facts": changed(**HERE)}, "is this machine itself"),
}  # fmt: skip


@pytest.mark.parametrize("kind", LIES)
def test_whatever_it_says_it_is_an_error_of_the_lab(kind: str, tmp_path: Path) -> None:
    """Never a bug of dstest, never without an end."""
    answers, why = LIES[kind]
    began = time.monotonic()
    with pytest.raises(LabError) as caught:
        surveyed(tmp_path, telling(answers))
    assert time.monotonic() - began < 8
    assert why in caught.value.message
    assert len(caught.value.message) < 5000
    assert "\x1b" not in str(caught.value.message)


SUDO: dict[str, tuple[Lies, str]] = {
    "a password": (ending(1, b"sudo: a password is required"), "and none is given"),
    "no sudo": (ending(127, b"sh: 1: sudo: not found"), "there is no sudo"),
    "silent": (silent, "within"),
    "a flood": (saying(b"y\n" * 9000, forever=True), "says more than"),
}


@pytest.mark.parametrize("kind", SUDO)
def test_what_sudo_says(kind: str, tmp_path: Path) -> None:
    lies, why = SUDO[kind]
    asked: list[str] = []

    async def noted(process: Server) -> None:
        asked.append(process.command or "")
        await lies(process)

    with pytest.raises(LabError) as caught:
        surveyed(tmp_path, telling({"sudo": noted}), user="ops")
    assert why in caught.value.message
    # A ticket that a session before has left does not count.
    assert "sudo -k -n true" in asked[0]


def test_all_that_is_wrong_is_told_at_once(tmp_path: Path) -> None:
    with pytest.raises(LabError) as caught:
        surveyed(tmp_path, telling({"facts": saying(b"no")}), number=3)
    assert [f"n{i}: what it says" in caught.value.message for i in (1, 2, 3)] == [True] * 3


def raising(*errors: Exception) -> Callable[[], Any]:
    async def one(error: Exception) -> None:
        raise error

    return lambda: asyncio.run(survey._all_of(map(one, errors)))


def test_the_gravest_error_gives_the_kind() -> None:
    with pytest.raises(NotALabNode, match="a; b"):
        raising(LabError("a"), NotALabNode("b"))()
    with pytest.raises(DstestError, match="a; b") as caught:
        raising(LabError("a", remedy="x"), LabError("b", remedy="x"))()
    assert caught.value.remedy == "x"
    with pytest.raises(ZeroDivisionError):
        raising(LabError("a"), ZeroDivisionError())()


def known_line(folder: Path) -> str:
    return (folder / "known_hosts").read_text()


def arrived(folder: Path, before: str, accept: bool) -> None:
    """At a machine whose key stands in known_hosts behind these words."""

    async def go() -> None:
        async with hostile(folder, telling({})) as info:
            known = folder / "known"
            known.write_text(f"{before} {known_line(folder)}")
            place = SshPlace(
                host=info.address,
                port=info.port,
                user="root",
                keys=(info.key_path,),
                known_hosts=(str(known),),
            )
            found = await arrive(
                "db", [place], pinned_path="x", accept=lambda *_: accept, deadline_s=5.0
            )
            found.connection.abort()

    asyncio.run(go())


def test_a_revoked_host_key_is_never_taken(tmp_path: Path) -> None:
    """Nor asked about: it is known, and known to be bad."""
    with pytest.raises(LabError, match="a host key that was revoked"):
        arrived(tmp_path, "@revoked", accept=True)


def test_an_authority_is_not_asked_and_that_is_said(tmp_path: Path) -> None:
    arrived(tmp_path, "@cert-authority", accept=True)
    with pytest.raises(LabError, match="the authority that known_hosts names"):
        arrived(tmp_path, "@cert-authority", accept=False)


@pytest.mark.parametrize(
    "peer",
    ["192.0.2.9 drop\n }", "", "fe80::1%x; drop", "/tmp/x", "192.0.2.9\n", "192.0.2"],
    ids=repr,
)
def test_who_has_called_is_an_address_or_no_answer(peer: str) -> None:
    """It stands in rules of the firewall of every node, and in names of files here."""
    with pytest.raises(msgspec.DecodeError):
        survey._PEER.decode(json.dumps({"peer": peer}))
    assert survey._PEER.decode(b'{"peer": "FD00::01"}').peer == "fd00::1"


def test_only_what_was_asked_about_is_an_answer(tmp_path: Path) -> None:
    (one,) = surveyed(tmp_path, telling({"facts": changed(paths=["/etc"], packages=["x"])}))
    assert (one.facts.paths, one.facts.packages) == ([], [])
    for wrong in ({"python": "x.y"}, {"wall_ns": 10**400}, {"cpus": -1}):
        folder = tmp_path / next(iter(wrong))
        folder.mkdir()
        with pytest.raises(LabError, match="makes no sense"):
            surveyed(folder, telling({"facts": changed(**wrong)}))


@pytest.mark.parametrize(
    "words",
    [
        "sudo: sorry, you must have a tty to run sudo",
        "sudo: no tty present and no askpass program specified",
    ],
)
def test_a_sudo_that_wants_a_terminal_is_named(words: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A password would not help."""

    async def refused(*_: Any, **__: Any) -> None:
        raise RemoteError("n1", "sudo -k -n true", 1, words)

    monkeypatch.setattr(survey, "run_as_root", refused)
    info = NodeInfo(name="n1", address="192.0.2.1", user="ops")
    arrived: Any = SimpleNamespace(connection=None)
    entry: Any = SimpleNamespace(alias="db-1")
    with pytest.raises(LabError, match="db-1: sudo lets ops in at a terminal alone") as caught:
        asyncio.run(survey._sudo_asks(info, arrived, entry))
    assert "!requiretty" in (caught.value.remedy or "")
