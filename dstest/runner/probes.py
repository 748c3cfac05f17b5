"""Do servers answer as their probes say? Asked once, before the load.

Faults are proven by these answers: a probe that no healthy server answers would let each of them
fail, long after the mistake was made.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping
from typing import Final

from dstest.core.errors import LabError
from dstest.core.node import Node
from dstest.core.protocols import Deployment, Probe

ASK_S: Final = 1.0
TRIES: Final = 5
"""A busy machine may be late."""

_SHOWN_BYTES: Final = 80


async def check_probes(deployment: Deployment, nodes: Mapping[str, Node]) -> None:
    """Raises LabError where a service does not give the answer that its probe expects."""

    async def check(name: str, service: str, probe: Probe) -> str | None:
        got = "nothing was tried"
        for _ in range(TRIES):
            answer = await _ask(nodes[name].info.address, probe)
            if isinstance(answer, bytes) and answer and answer.startswith(probe.expect):
                return None
            got = answer if isinstance(answer, str) else _shown(answer) if answer else "no answer"
            await asyncio.sleep(ASK_S / 10)
        wanted = _shown(probe.expect) if probe.expect else "any answer"
        return (
            f"{service} on {name}, port {probe.port}: sent {_shown(probe.send)}, expected {wanted},"
            f" got {got}"
        )

    asked = [
        check(name, service.name, service.probe)
        for name, member in deployment.members.items()
        for service in member.services
    ]
    problems = [problem for problem in await asyncio.gather(*asked) if problem]
    if problems:
        more = f"; {len(problems) - 1} more" if len(problems) > 1 else ""
        raise LabError(
            f"a server that is healthy does not answer its probe: {problems[0]}{more}",
            remedy="correct the Probe of this service: faults are proven by it",
        )


async def _ask(address: str, probe: Probe) -> bytes | str:
    """What was answered so far, after a second at the latest; in words why nothing could be."""
    said = b""
    try:
        async with asyncio.timeout(ASK_S):
            reader, writer = await asyncio.open_connection(address, probe.port)
            try:
                writer.write(probe.send)
                while len(said) < max(1, len(probe.expect)):
                    more = await reader.read(max(_SHOWN_BYTES, len(probe.expect)))
                    if not more:
                        break
                    said += more
            finally:
                writer.close()
                with contextlib.suppress(OSError):
                    await writer.wait_closed()
    except TimeoutError:
        return said
    except OSError as error:
        return said or f"no connection ({error.strerror or error})"
    return said


def _shown(data: bytes) -> str:
    """Bytes as Python writes them, without its `b`."""
    return repr(data[:_SHOWN_BYTES])[1:]
