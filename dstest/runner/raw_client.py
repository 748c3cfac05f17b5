"""The second client of a system, which `-o client=raw` asks for: made without the libraries of the
first, so that a violation that came of those is gone with it (discipline 3.1, generator swap)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from dstest.core.errors import ConfigError
from dstest.core.protocols import Client, Endpoint, Option, System, SystemTraits, Workload

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
    """Does the system have a second client for this workload?"""
    return work.capability in SystemTraits.of(system).raw_clients


def check_raw_client(system: System, work: Workload, options: Mapping[str, Any]) -> None:
    """Raises ConfigError where a second client is asked for that there is none of."""
    if options.get("client") == RAW and not has_raw_client(system, work):
        offered = ", ".join(sorted(SystemTraits.of(system).raw_clients)) or "nothing"
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
        made: Client = SystemTraits.of(system).raw_clients[capability](at, every, options)
        return made
    return system.client(capability, at, every, options)
