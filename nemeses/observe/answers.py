"""Do the services of a member answer their probes, asked from the control host and another node?

A request goes over a connection of its own, and the answer has to begin as the probe says. A
process that was killed refuses, one that was stopped accepts (its kernel does) and stays silent.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
from collections.abc import Sequence
from typing import Final

from dstest.core.errors import LabError
from dstest.core.node import Node
from dstest.core.protocols import NemesisContext, Probe, Service

CONTROL: Final = "control"
ASK_TIMEOUT_S: Final = 1.0
ASK_TRIES: Final = 3
"""A busy machine may be late once; a server that must be alive is asked this often."""

ProbePair = tuple[str, str]
"""(who asks, the target)."""


def services_of(ctx: NemesisContext, name: str, service: str = "") -> list[Service]:
    """The services of a member; the one of that name, where one is given."""
    found = list(ctx.deployment.members[name].services)
    return [s for s in found if s.name == service] if service else found


async def ask_from_control(address: str, probe: Probe) -> bool:
    """Did it answer within a second?"""
    try:
        async with asyncio.timeout(ASK_TIMEOUT_S):
            reader, writer = await asyncio.open_connection(address, probe.port)
            try:
                writer.write(probe.send)
                answer = await reader.readexactly(max(1, len(probe.expect)))
                return answer.startswith(probe.expect)
            finally:
                writer.close()
                with contextlib.suppress(OSError):
                    await writer.wait_closed()
    except (OSError, TimeoutError, EOFError):
        return False


async def ask_from_node(node: Node, address: str, probe: Probe) -> bool:
    """Did it answer `node` within a second?"""
    try:
        return bool(
            await node.call(
                "probe_ask",
                address=address,
                port=probe.port,
                send=base64.b64encode(probe.send).decode(),
                expect=base64.b64encode(probe.expect).decode(),
            )
        )
    except LabError:
        return False


def probe_pairs(names: Sequence[str], targets: Sequence[str]) -> list[ProbePair]:
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
    ctx: NemesisContext,
    pairs: Sequence[ProbePair],
    *,
    service: str = "",
    retry_for: Sequence[str] = (),
) -> dict[str, int]:
    """`asker->target` -> how many of the target's services answered.

    Names in `retry_for` are asked up to three times, until all of their services have answered.
    """

    async def one(asker: str, target: str, probe: Probe) -> bool:
        address = ctx.node(target).info.address
        for _ in range(ASK_TRIES if target in retry_for else 1):
            if asker == CONTROL:
                answered = await ask_from_control(address, probe)
            else:
                answered = await ask_from_node(ctx.node(asker), address, probe)
            if answered:
                return True
        return False

    async def ask(pair: ProbePair) -> int:
        probes = [s.probe for s in services_of(ctx, pair[1], service)]
        return sum(await asyncio.gather(*(one(*pair, probe) for probe in probes)))

    answers = await asyncio.gather(*map(ask, pairs))
    return {f"{a}->{b}": n for (a, b), n in zip(pairs, answers, strict=True)}
