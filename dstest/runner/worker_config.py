"""What the control process tells a load worker."""

from __future__ import annotations

import signal
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from dstest.core.protocols import Endpoint, Option

CATCH_UP: Final = "catch_up"
CATCH_UP_OPTION: Final[Mapping[str, Option]] = {
    CATCH_UP: Option(
        type=bool,
        default=None,
        help="with a rate, after a pause: send what is overdue as fast as clients can, or else at "
        "most at twice the rate; as the lab says",
    )
}

STACK_SIGNAL: Final = signal.SIGUSR1
"""Lets a worker write down where each of its threads is."""


class WorkerConfig(msgspec.Struct, frozen=True, kw_only=True):
    """What a worker needs to know. `slots` are (slot number, index of its endpoint)."""

    worker: int
    workers: int
    board: str
    segment: str
    system: str
    workload: str
    capability: str
    seed: int
    options: dict[str, Any]
    endpoints: list[Endpoint]
    slots: list[tuple[int, int]]
    concurrency: int
    rate: float | None
    catch_up: bool = False
    op_timeout_s: float
    final_s: float
    parent_pid: int
