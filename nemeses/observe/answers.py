"""Does a server answer at its service port, asked from the control host and from another node?

A request goes over a connection of its own, and any byte of an answer counts. A process that was
killed refuses, one that was stopped accepts (its kernel does) and stays silent.
"""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
from collections.abc import Sequence
from typing import Final

from dstest.core.errors import RemoteLost, RemoteTimeout
from dstest.core.node import Node
from dstest.core.protocols import NemesisContext

__all__ = ["CONTROL", "ask_all", "ask_from_control", "ask_from_node", "ways"]

CONTROL: Final = "control"
ASK_TIMEOUT_S: Final = 1.0
ASK_TRIES: Final = 3
"""A busy machine may be late once; a server that must be alive is asked this often."""

_ASK: Final = (
    'exec 3<>"/dev/tcp/$0/$1" || exit 3; printf "%s" "$2" >&3; read -r -t 0.8 -u 3 line || exit 4'
)

Way = tuple[str, str]
"""(who asks, whom)."""


async def ask_from_control(address: str, port: int, request: str) -> bool:
    """Did it answer within a second?"""
    try:
        async with asyncio.timeout(ASK_TIMEOUT_S):
            reader, writer = await asyncio.open_connection(address, port)
            try:
                writer.write(request.encode())
                return bool(await reader.read(1))
            finally:
                writer.close()
                with contextlib.suppress(OSError):
                    await writer.wait_closed()
    except (OSError, TimeoutError):
        return False


async def ask_from_node(node: Node, address: str, port: int, request: str) -> bool:
    """Did it answer `node` within a second?"""
    ipaddress.ip_address(address)
    argv = ["timeout", "1", "bash", "-c", _ASK, address, str(port), request]
    try:
        done = await node.run(argv, timeout_s=5.0, check=False)
    except (RemoteTimeout, RemoteLost):
        return False
    return done.status == 0


def ways(names: Sequence[str], targets: Sequence[str]) -> list[Way]:
    """Who asks whom: the control host everybody, and one other node each target.

    A node that is no target asks where there is one; a target's own shell works as well.
    """
    found = [(CONTROL, name) for name in names]
    for target in targets:
        others = [n for n in names if n != target]
        free = [n for n in others if n not in targets]
        found += [(asker, target) for asker in (free or others)[:1]]
    return found


async def ask_all(
    ctx: NemesisContext, asked: Sequence[Way], port: int, request: str, patient: Sequence[str] = ()
) -> dict[str, int]:
    """`asker->whom` -> 1 where it answered, else 0. `patient` names are asked up to three times."""

    async def ask(way: Way) -> int:
        asker, whom = way
        address = ctx.node(whom).info.address
        for _ in range(ASK_TRIES if whom in patient else 1):
            if asker == CONTROL:
                answered = await ask_from_control(address, port, request)
            else:
                answered = await ask_from_node(ctx.node(asker), address, port, request)
            if answered:
                return 1
        return 0

    answers = await asyncio.gather(*map(ask, asked))
    return {f"{a}->{b}": n for (a, b), n in zip(asked, answers, strict=True)}
