"""What a system may be able to do beyond what each must: asked for by protocol, never by name.

A deployment implements those that its system has; who needs one asks `isinstance`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

import msgspec

__all__ = [
    "CountsCalls",
    "DataDir",
    "Kill",
    "Leads",
    "LogFiles",
    "Membership",
    "Pause",
    "Primary",
    "PrimaryView",
    "Replicas",
    "RequestCounter",
    "SyncStats",
    "Tapped",
]


@runtime_checkable
class Kill(Protocol):
    """Can be killed and started again, node by node."""

    async def kill(self, names: Sequence[str]) -> None: ...

    async def restart(self, names: Sequence[str]) -> None: ...


@runtime_checkable
class Pause(Protocol):
    """Can be stopped and continued, node by node."""

    async def pause(self, names: Sequence[str]) -> None: ...

    async def resume(self, names: Sequence[str]) -> None: ...


class PrimaryView(msgspec.Struct, frozen=True, kw_only=True):
    """Who one node believes to be the leader, and in which term. None = unknown or no answer."""

    node: str
    leader: str | None
    term: int | None


@runtime_checkable
class Primary(Protocol):
    """Knows its leaders."""

    async def primaries(self) -> list[PrimaryView]:
        """One view per node that answers."""
        ...


@runtime_checkable
class Leads(Protocol):
    """Can ask one node alone whether it leads."""

    async def leads(self, name: str) -> bool:
        """Does this node claim, right now, to be the leader? False where it does not answer."""
        ...


@runtime_checkable
class LogFiles(Protocol):
    """Has logs worth keeping."""

    def log_files(self) -> list[str]:
        """Absolute paths on a node."""
        ...


@runtime_checkable
class DataDir(Protocol):
    """Keeps all that must survive a restart below one directory."""

    def data_dir(self) -> str:
        """Its absolute path, the same on every node."""
        ...


@runtime_checkable
class SyncStats(Protocol):
    """Measures its own syncs to disk."""

    async def sync_stats(self) -> dict[str, tuple[int, float]]:
        """Syncs and their seconds in all since each server started; without those that are mute."""
        ...


class RequestCounter(Protocol):
    """Counts the requests in what one connection sends. `known` is false where it cannot."""

    requests: int
    known: bool

    def feed(self, data: bytes) -> None: ...


@runtime_checkable
class Tapped(Protocol):
    """A system whose requests can be counted on the wire."""

    client_port: int

    def request_counter(self) -> RequestCounter: ...


@runtime_checkable
class CountsCalls(Protocol):
    """A client that counts the calls which it hands to its library."""

    @property
    def calls(self) -> int: ...


@runtime_checkable
class Replicas(Protocol):
    """Can compare the state of its members once nobody writes any more."""

    async def replica_states(self) -> dict[str, str | None]:
        """Each member's state as a short text that equals where the states do; None = no answer."""
        ...


@runtime_checkable
class Membership(Protocol):
    """Knows who is a member at this instant."""

    async def member_names(self) -> list[str]:
        """The names, as a member that answers has them; empty where none does."""
        ...
