"""What the control process tells a load worker, and what of a run's options decides about its
clients: which of a system's clients (`-o client=raw`), and without which types of operations (`-o
without=read+cas`)."""

from __future__ import annotations

import signal
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import msgspec

from dstest.core.errors import ConfigError
from dstest.core.protocols import (
    Client,
    Endpoint,
    OpDraft,
    Option,
    Reactive,
    System,
    Workload,
)

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
    attach: bool = False
    op_timeout_s: float
    final_s: float
    parent_pid: int


RAW: Final = "raw"

CLIENT_OPTION: Final[Mapping[str, Option]] = {
    "client": Option(
        type=str,
        default="own",
        choices=("own", RAW),
        help="raw: the system's second client, made without the libraries of the first",
    ),
}


def has_raw_client(system: System, work: Workload) -> bool:
    """Does the system have a second client for this workload?

    It is made without the libraries of the first, so that a violation that came of those is gone
    with it.
    """
    return work.capability in system.raw_clients


def check_raw_client(system: System, work: Workload, options: Mapping[str, Any]) -> None:
    """Raises ConfigError where a second client is asked for that there is none of."""
    if options.get("client") == RAW and not has_raw_client(system, work):
        offered = ", ".join(sorted(system.raw_clients)) or "nothing"
        raise ConfigError(
            f"-o client={RAW}: {system.name} has no second {work.capability} client, but {offered}",
            remedy=f"leave it out, or add one to the `raw_clients` of {system.name}",
        )


def client_of(
    system: System,
    capability: str,
    at: Endpoint,
    every: Sequence[Endpoint],
    options: Mapping[str, Any],
) -> Client:
    """The client that the options ask for."""
    if options.get("client") == RAW:
        made: Client = system.raw_clients[capability](at, every, options)
        return made
    return system.client(capability, at, every, options)


LEFT_OUT_OPTION: Final[Mapping[str, Option]] = {
    "without": Option(
        type=str, default="", help="types of operations to leave out, as read+cas; never a pass"
    ),
}


def left_out(options: Mapping[str, Any]) -> frozenset[str]:
    """The types of operations that clients leave out, by `-o without`.

    A smaller load shows what a violation needs. A run that leaves one out is never a pass (RF1),
    also where its final phase asks for what its load has left out.
    """
    names = str(options.get("without", "")).split("+")
    return frozenset(name.strip() for name in names if name.strip())


def check_left_out(work: Workload, options: Mapping[str, Any]) -> None:
    """Raises ConfigError for a type that the workload does not have, for all of them, and where
    operations answer to each other."""
    types = left_out(options)
    if not types:
        return
    wrong = ""
    if absent := types - work.op_types:
        wrong = f"{work.name} has no {', '.join(sorted(absent))}"
    elif types == work.op_types:
        wrong = f"{work.name} has no others"
    elif isinstance(work.generator(0, 0, 1, options), Reactive):
        wrong = f"what a client of {work.name} does next depends on what it did last"
    if wrong:
        raise ConfigError(
            f"-o without={options['without']}: {wrong}",
            remedy=f"its types are {', '.join(sorted(work.op_types))}",
        )


DRAWS_MAX: Final = 100_000


def drawing(generator: Any, types: frozenset[str], workload: str) -> Callable[[], OpDraft]:
    """What gives the generator's next operation that is of none of these types; ConfigError where
    none comes."""
    if not types:
        return lambda: generator.next()

    def draw() -> OpDraft:
        for _ in range(DRAWS_MAX):
            draft: OpDraft = generator.next()
            if not isinstance(draft, OpDraft) or draft.op_type not in types:
                return draft
        raise ConfigError(
            f"workload {workload}: {DRAWS_MAX:,} draws of its generator have given nothing but"
            f" {', '.join(sorted(types))}",
            remedy="another -o without",
        )

    return draw
