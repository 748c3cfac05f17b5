"""What a deployment may be able to do beyond what each must: its processes, logs, data, leader.

A nemesis names what it requires, the runner looks for what it can use; a deployment has a
capability by having its methods. Nodes are named by `Node.name`; a member is called as its node.
What reaches into a system itself, such as its members or its files, is in `administration`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

import msgspec

__all__ = [
    "ControlGroups",
    "DataDir",
    "Kill",
    "Leadership",
    "Leads",
    "LogFiles",
    "MonotonicTimer",
    "Pause",
    "PrimaryView",
    "Probed",
    "Processes",
    "Replicas",
    "Replication",
    "Restartable",
    "ServerLogs",
    "Supervised",
    "SyncStats",
    "Terminate",
]


@runtime_checkable
class Processes(Protocol):
    """Knows the one server process of each node."""

    async def processes(self) -> dict[str, tuple[int, int]]:
        """Per node with a server that runs: its pid and its start time in clock ticks since the
        node booted, looked up now."""
        ...


@runtime_checkable
class Probed(Protocol):
    """Answers a request at a TCP port, a healthy server without its peers' help.

    `service_request` is the text to send; any byte that comes back counts as an answer. A server of
    HTTP tells the time as well, in `Date`.
    """

    service_port: int
    service_request: str


@runtime_checkable
class Restartable(Protocol):
    """Has a command by which a node starts its own server."""

    def restart_command(self, name: str) -> list[str]:
        """Starts the server on its node unless it runs, on the data it has; returns at once."""
        ...


@runtime_checkable
class Kill(Protocol):
    """Can be killed and started again, node by node."""

    async def kill(self, names: Sequence[str]) -> None:
        """SIGKILL; returns when the processes are gone. LabError where they are not."""
        ...

    async def restart(self, names: Sequence[str]) -> None:
        """Start servers that do not run, on the data they have; returns when all of these serve."""
        ...


@runtime_checkable
class Supervised(Processes, Kill, Restartable, Protocol):
    """Servers that can be found, killed and started, by us and by their own node."""


@runtime_checkable
class Pause(Protocol):
    """Can be stopped and continued, node by node."""

    async def pause(self, names: Sequence[str]) -> None:
        """SIGSTOP."""
        ...

    async def resume(self, names: Sequence[str]) -> None:
        """SIGCONT."""
        ...


@runtime_checkable
class Terminate(Protocol):
    """Servers that end in good order on SIGTERM and log both ends of that.

    An orderly end leaves each of `shutdown_markers` in the server's log.
    """

    shutdown_markers: tuple[str, ...]

    async def terminate(self, names: Sequence[str]) -> None:
        """SIGTERM; does not wait."""
        ...


@runtime_checkable
class ControlGroups(Protocol):
    """Servers that join a control group before they start."""

    async def start_in(self, group: str) -> None:
        """Servers that are started from now on join the group of this absolute path on their node;
        an empty path for none."""
        ...


class PrimaryView(msgspec.Struct, frozen=True, kw_only=True):
    """Who one node believes to be the leader, and in which term. None = unknown or no answer."""

    node: str
    leader: str | None
    term: int | None


@runtime_checkable
class Leadership(Protocol):
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
class Replication(Protocol):
    """Knows how far each member has come in the log that they share."""

    async def progress(self) -> dict[str, int | None]:
        """Index of the last entry that each member has applied; None = no answer."""
        ...


@runtime_checkable
class MonotonicTimer(Protocol):
    """Keeps time for leases by the monotonic clock of who leads."""

    async def grant_lease(self, ttl_s: int) -> int:
        """A lease that no client uses; its id. LabError where nobody grants one."""
        ...

    async def lease_left(self, name: str, lease: int) -> int | None:
        """Whole seconds that a lease has left by the word of this member; -1 where it has ended,
        None = no answer."""
        ...

    async def revoke_lease(self, lease: int) -> None:
        """End a lease; one that has ended already is no error."""
        ...


@runtime_checkable
class LogFiles(Protocol):
    """Has logs worth keeping."""

    def log_files(self) -> list[str]:
        """Absolute paths on a node."""
        ...


@runtime_checkable
class ServerLogs(Protocol):
    """Logs that can be read from an offset on, while the server writes them."""

    async def log_sizes(self) -> dict[str, int]:
        """Bytes of each member's log; 0 where there is none."""
        ...

    async def log_since(self, name: str, offset: int) -> str:
        """What a member has logged after this many bytes, a mebibyte at most; empty where nobody
        can tell."""
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


@runtime_checkable
class Replicas(Protocol):
    """Can compare the state of its members once nobody writes any more."""

    async def replica_states(self) -> dict[str, str | None]:
        """Each member's state as a short text that equals where the states do; None = no answer."""
        ...
