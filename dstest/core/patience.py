"""How long the methods of a deployment may take before they count as never coming back.

The limits follow from its `Timing`, which is how long healthy members take at most, and leave what
has limits of its own the time to say more.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable
from typing import Final, TypeVar

from dstest.core.answers import refused
from dstest.core.errors import LabError
from dstest.core.protocols import Timing

T = TypeVar("T")

ASK_S: Final = 10.0
WORK_S: Final = 120.0
GRACE_S: Final = 2.0
"""For what a call that is given up has to tidy away."""


def ask_s(timing: Timing) -> float:
    """For a question to members that run."""
    return ASK_S + timing.start_s


def end_s(timing: Timing) -> float:
    """To stop all members."""
    return ASK_S + timing.stop_s


def work_s(timing: Timing) -> float:
    """To install or start the system on all nodes."""
    return WORK_S + 5 * timing.start_s


async def in_time(deployment: object, method: str, answer: Awaitable[T], limit_s: float) -> T:
    """What a method of the deployment answers. Raises LabError where it does not come back in time,
    ConfigError where there is nothing to wait for."""
    if not inspect.isawaitable(answer):
        raise refused(deployment, f"{method}()", repr(answer)[:200], f"`async def {method}`")
    task = asyncio.ensure_future(answer)
    try:
        await asyncio.wait({task}, timeout=limit_s)
        if task.done():
            return task.result()
    finally:
        if not task.done():
            task.cancel()
            await asyncio.wait({task}, timeout=GRACE_S)
    name = type(deployment).__name__
    raise LabError(
        f"{name}.{method}() did not come back in {limit_s:g} s",
        remedy=f"let each request in {method} of {name} end in time, or give its `timing` more",
    )
