"""Looking at machines before they are adopted, by programs of ours that run there as root and
answer with one JSON object: nothing is changed there.
"""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import re
import socket
from collections.abc import AsyncIterator, Coroutine, Iterable, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any, Final, TypeVar

import asyncssh
import msgspec

from clusters.labs.existing import agent_survey, book
from clusters.labs.existing.book import (
    HostFacts,
    LeftNow,
    address_in,
    refuse_doubles,
    refuse_this_machine,
)
from clusters.labs.existing.entry import ASK, Accept, Arrival, HostEntry, arrive
from clusters.remote.bundle import argv_of
from clusters.remote.connection import refuse_control_host
from clusters.remote.login import password_of, run_as_root
from dstest.core import clock, limits
from dstest.core.errors import (
    ConfigError,
    DstestError,
    LabError,
    NotALabNode,
    RemoteError,
    reason_of,
)
from dstest.core.node import NodeInfo

T = TypeVar("T")

LOOK_S: Final = 60.0
"""Of each look; the machine itself stops trying things a while before."""

LISTEN_S: Final = 8.0
ASK_S: Final = 10.0
ALL_S: Final = 2 * LOOK_S + 2 * (LISTEN_S + ASK_S) + 2 * ASK_S
"""Of all that one machine is asked, once it is entered."""

WORDS_MAX: Final = 2000
_NO_TTY: Final = re.compile(r"must have a tty|no tty present and no askpass", re.IGNORECASE)

_FACTS: Final = msgspec.json.Decoder(HostFacts)
_FOUND: Final = msgspec.json.Decoder(LeftNow)


async def ask(
    connection: asyncssh.SSHClientConnection,
    info: NodeInfo,
    words: tuple[ModuleType, str],
    request: Mapping[str, Any],
    decoder: msgspec.json.Decoder[T],
    timeout_s: float,
) -> T:
    """What a program says there, by its module and its mode. Raises LabError for no answer, or one
    that is none."""
    module, mode = words
    text = await run_as_root(
        connection,
        info,
        [*argv_of(module), mode],
        stdin=msgspec.json.encode(request),
        timeout_s=timeout_s,
    )
    try:
        return decoder.decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise LabError(
            f"{info.name}: what it says of itself makes no sense: {error}",
            remedy="a shell there that prints something of its own does that: `ssh HOST true` must"
            " print nothing",
        ) from None


class _Peer(msgspec.Struct):
    """`peer` becomes part of rules of all nodes, so that nothing else than an address passes."""

    peer: str | None

    def __post_init__(self) -> None:
        if self.peer is not None:
            self.peer = address_in(self.peer)


_PEER: Final = msgspec.json.Decoder(_Peer)


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """What machines are asked: by feature and by residue a program for sh; names of packages;
    paths that would be ours."""

    features: dict[str, str]
    residues: dict[str, str]
    packages: list[str]
    paths: list[str]


class MachineSurvey(msgspec.Struct, frozen=True, kw_only=True):
    """A machine that was looked at. `lines` pin its host keys and those of its jump hosts.
    `control` is our address as it sees clients (None: they do not reach it), `ssh_from` where SSH
    comes from, `clock_ahead_s` its clock minus ours, to a second or so."""

    info: NodeInfo
    alias: str
    facts: HostFacts
    found: LeftNow
    lines: list[str]
    control: str | None
    control6: str | None
    ssh_from: str
    clock_ahead_s: float


class Asks(msgspec.Struct, frozen=True, kw_only=True):
    """What whoever adopts is asked while we look: about host keys that nobody knows."""

    accept: Accept


async def survey(
    lab_id: str, entries: Sequence[HostEntry], request: Request, asks: Asks
) -> list[MachineSurvey]:
    """All machines, named n1, n2, ... in the order of the list. Raises LabError, NotALabNode for
    this machine and for one that is named twice, ConfigError for what cannot be a node."""
    names = [f"n{i}" for i in range(1, len(entries) + 1)]
    seen = await _all_of(
        _one(lab_id, name, entry, request, names, asks)
        for name, entry in zip(names, entries, strict=True)
    )
    refuse_doubles([(one.alias, one.info.address, one.facts) for one in seen])
    return seen


async def needing_password(
    lab_id: str, entries: Sequence[HostEntry], asks: Asks
) -> list[HostEntry]:
    """Those of the machines at which sudo asks for a password. Raises as `survey`."""

    async def one(entry: HostEntry) -> bool:
        async with _enter(lab_id, "n1", entry, asks) as (info, arrived):
            return await _sudo_asks(info, arrived, entry)

    found = await _all_of(map(one, entries))
    return [entry for entry, yes in zip(entries, found, strict=True) if yes]


async def _all_of(jobs: Iterable[Coroutine[Any, Any, T]]) -> list[T]:
    """What all of them return; what is wrong with any of them is told at once."""
    outcomes = await asyncio.gather(*map(asyncio.create_task, jobs), return_exceptions=True)
    failures = [found for found in outcomes if isinstance(found, BaseException)]
    told = [error for error in failures if isinstance(error, DstestError)]
    for error in failures:
        if error not in told or len(failures) == 1:
            raise error
    if not told:
        return [found for found in outcomes if not isinstance(found, BaseException)]
    kinds = (NotALabNode, ConfigError, LabError)
    kind = next(kind for kind in kinds if any(isinstance(error, kind) for error in told))
    remedies = dict.fromkeys(error.remedy for error in told if error.remedy)
    raise kind("; ".join(error.message for error in told), remedy="; ".join(remedies))


async def _one(
    lab_id: str,
    name: str,
    entry: HostEntry,
    request: Request,
    names: Sequence[str],
    asks: Asks,
) -> MachineSurvey:
    folder = book.folder_of(lab_id)
    async with _enter(lab_id, name, entry, asks) as (bare, arrived):
        info = await _with_sudo(bare, arrived, entry, folder)
        return await _look_at(info, arrived, entry, request, names)


@contextlib.asynccontextmanager
async def _enter(
    lab_id: str, name: str, entry: HostEntry, asks: Asks
) -> AsyncIterator[tuple[NodeInfo, Arrival]]:
    """The machine, and the connection to it. Whatever goes wrong is a LabError that names it."""
    folder = book.folder_of(lab_id)
    address, address6 = await _addresses(entry)
    bare = NodeInfo(name=name, address=address, address6=address6, lab_id=lab_id)
    await refuse_control_host(bare)
    enter_s = limits.SSH_CONNECT_TIMEOUT_S * (1 + len(entry.jumps))
    arrived = None
    try:
        async with asyncio.timeout(enter_s + ALL_S):
            async with asyncio.timeout(enter_s):
                arrived = await arrive(
                    entry.alias,
                    [*entry.jumps, entry.ssh],
                    pinned_path=str(folder / "known_hosts"),
                    accept=asks.accept,
                    deadline_s=limits.SSH_CONNECT_TIMEOUT_S,
                )
            yield _info(bare, entry, arrived), arrived
    except TimeoutError:
        what = "does not let us in" if arrived is None else "does not say what it is"
        limit_s = enter_s if arrived is None else ALL_S
        raise LabError(
            f"{entry.alias} ({entry.ssh.where}) {what} within {limit_s:g} s",
            remedy="`ssh` to it by hand: what hangs there hangs here",
        ) from None
    except (asyncssh.Error, OSError) as error:
        raise LabError(f"{entry.alias} ({entry.ssh.where}): {reason_of(error)}") from None
    finally:
        if arrived is not None:
            arrived.connection.abort()


async def _look_at(
    info: NodeInfo,
    arrived: Arrival,
    entry: HostEntry,
    request: Request,
    names: Sequence[str],
) -> MachineSurvey:
    connection = arrived.connection
    question = {
        **msgspec.to_builtins(request),
        "names": list(names),
        "limit_s": LOOK_S - ASK_S,
    }
    facts = await _ask(connection, info, "facts", question, _FACTS)
    facts = _asked_for(info, facts, request)
    ahead_s = (facts.wall_ns - clock.wall_ns()) / 1e9
    refuse_this_machine(entry, facts)
    control, control6 = [
        await _seen_as(connection, info, address) if address else None
        for address in (info.address, info.address6)
    ]
    return MachineSurvey(
        info=info,
        alias=entry.alias,
        facts=facts,
        found=await _ask(connection, info, "found", {"limit_s": LOOK_S - ASK_S}, _FOUND),
        lines=arrived.lines,
        control=control,
        control6=control6,
        ssh_from=await _ssh_from(connection, info),
        clock_ahead_s=ahead_s,
    )


def _asked_for(info: NodeInfo, facts: HostFacts, request: Request) -> HostFacts:
    """Without paths and packages that nobody asked about. Raises LabError where an answer lacks."""
    if lacks := {*request.features, *request.residues} - {*facts.features, *facts.residues}:
        raise LabError(f"{info.name} does not say all: {', '.join(sorted(lacks))}")
    packages = facts.packages
    return msgspec.structs.replace(
        facts,
        features={name: facts.features[name] for name in request.features},
        paths=[path for path in request.paths if path in facts.paths],
        packages=None if packages is None else [p for p in request.packages if p in packages],
    )


def _info(bare: NodeInfo, entry: HostEntry, arrived: Arrival) -> NodeInfo:
    """The node as it will be connected to."""
    login = arrived.login
    return msgspec.structs.replace(
        bare,
        port=login.port,
        user=login.user,
        key_path=login.key_path,
        known_hosts_path=login.known_hosts_path,
        ssh_host="" if login.host == bare.address else login.host,
        agent_path=login.agent_path,
        jumps=arrived.jumps,
        roles=entry.roles,
    )


async def _addresses(entry: HostEntry) -> tuple[str, str | None]:
    """Its IPv4 address, and its IPv6 address where one is named."""
    wanted = entry.address or entry.ssh.host
    loop = asyncio.get_running_loop()
    try:
        rows = await loop.getaddrinfo(wanted, None, family=socket.AF_INET, type=socket.SOCK_STREAM)
    except OSError as error:
        raise ConfigError(
            f"{entry.alias} has no IPv4 address that is known here ({wanted}: {reason_of(error)})",
            remedy=f"{entry.term('address')}: that which other nodes and clients use; SSH may go"
            " another way, and by IPv6",
        ) from None
    address = str(rows[0][4][0])
    try:
        address6 = str(ipaddress.IPv6Address(entry.address6)) if entry.address6 else None
    except ValueError as error:
        raise ConfigError(
            f"{entry.alias}: address6: {error}",
            remedy=f"{entry.term('address6')} with an IPv6 address, or none",
        ) from None
    if ipaddress.ip_address(address).is_loopback:
        raise NotALabNode(f"{entry.alias} ({address}) is this machine; faults are never made here")
    return address, address6


async def _sudo_asks(info: NodeInfo, arrived: Arrival, entry: HostEntry) -> bool:
    """Does sudo ask for a password, whatever a session before has left? Raises LabError where there
    is none."""
    if info.user == "root":
        return False
    argv = ["sudo", "-k", "-n", "true"]
    try:
        await run_as_root(
            arrived.connection, info, argv, timeout_s=ASK_S, bytes_max=WORDS_MAX, root=False
        )
    except RemoteError as error:
        if error.status == 127 or "not found" in error.stderr:
            raise LabError(
                f"{entry.alias}: {info.user} is not root, and there is no sudo"
            ) from None
        if _NO_TTY.search(error.stderr):
            raise LabError(
                f"{entry.alias}: sudo lets {info.user} in at a terminal alone: it says"
                f" {error.stderr.strip()[-200:]!r}",
                remedy=f"`Defaults:{info.user} !requiretty` in /etc/sudoers.d/ there",
            ) from None
        return True
    return False


async def _with_sudo(info: NodeInfo, arrived: Arrival, entry: HostEntry, folder: Path) -> NodeInfo:
    """With the place of a sudo password, where one is needed."""
    if not await _sudo_asks(info, arrived, entry):
        return info
    password = entry.password
    if not password and entry.password_path and entry.password_path != ASK:
        password = password_of(entry.password_path).decode(errors="surrogateescape")
    if not password:
        raise LabError(
            f"{entry.alias}: sudo asks {info.user} for a password, and none is given",
            remedy=f"{entry.term('sudo_password')}, or adopt at a terminal",
        )
    path = folder / f"sudo-{info.name}"
    book.write_secret(path, password)
    return msgspec.structs.replace(info, sudo_password_path=str(path))


async def _ask(
    connection: asyncssh.SSHClientConnection,
    info: NodeInfo,
    mode: str,
    request: Mapping[str, Any],
    decoder: msgspec.json.Decoder[T],
) -> T:
    """What `agent_survey` says there. Raises LabError."""
    return await ask(connection, info, (agent_survey, mode), request, decoder, LOOK_S)


async def _seen_as(
    connection: asyncssh.SSHClientConnection, info: NodeInfo, address: str
) -> str | None:
    """Under which address clients of ours are seen there; None where they do not get through."""
    request = {"port": limits.PROBE_UDP_PORT, "seconds": LISTEN_S}
    heard = asyncio.create_task(_ask(connection, info, "listen", request, _PEER))
    try:
        while not heard.done():
            try:
                async with asyncio.timeout(1.0):
                    _, writer = await asyncio.open_connection(address, limits.PROBE_UDP_PORT)
            except (OSError, TimeoutError):
                await asyncio.sleep(0.1)
            else:
                writer.close()
                break
        peer = (await heard).peer
        if peer is not None and (":" in peer) != (":" in address):
            raise LabError(f"{info.name}: it says that {peer} has called {address}")
        return peer
    finally:
        heard.cancel()


async def _ssh_from(connection: asyncssh.SSHClientConnection, info: NodeInfo) -> str:
    """The address that SSH comes from, as the machine says."""
    argv = ["sh", "-c", 'echo "$SSH_CONNECTION"']
    said = await run_as_root(
        connection, info, argv, timeout_s=ASK_S, bytes_max=WORDS_MAX, root=False
    )
    words = said.decode(errors="replace").split()
    try:
        return str(ipaddress.ip_address(words[0].partition("%")[0]))
    except (IndexError, ValueError):
        raise LabError(
            f"{info.name}: sshd does not say where SSH comes from (SSH_CONNECTION)"
        ) from None


async def look(connection: asyncssh.SSHClientConnection, info: NodeInfo) -> LeftNow:
    """What is on a machine now."""
    return await _ask(connection, info, "found", {"limit_s": LOOK_S - ASK_S}, _FOUND)
