"""What a deployment may be able to do beyond what each must: first its processes, logs, data and
leader, then what reaches into a system itself, its members, settings, secrets, builds and files.

A nemesis names what it requires, the runner looks for what it can use; a deployment has a
capability by having its methods. They answer per member, by `Node.name`; None stands for a member
that does not answer. Methods that change something in a system raise LabError where it was not
done. Those whose name ends in `_command` give an argv for the member's own node, which its janitor
may run, ten seconds at most, when nobody else is left to heal.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Protocol, runtime_checkable

import msgspec

from dstest.core.protocols.systems import Process


@runtime_checkable
class Processes(Protocol):
    """Knows all processes of its services, whatever they have forked."""

    async def processes(self, names: Sequence[str] = ()) -> dict[str, list[Process]]:
        """Per member with a service that runs: its processes, looked up now on its node. Nodes that
        are not among the `names` are not asked; no names means all."""
        ...


@runtime_checkable
class Restartable(Protocol):
    """Has a command by which a node starts its own services."""

    def restart_command(self, name: str) -> list[str]:
        """Starts those services of the node that do not run, on the data they have, in their order;
        returns without waiting until they serve."""
        ...


@runtime_checkable
class Kill(Protocol):
    """Can be killed and started again, node by node. No `service` means all of a member's."""

    async def kill(self, names: Sequence[str], service: str = "") -> None:
        """SIGKILL to all processes; returns when they are gone. LabError where they are not."""
        ...

    async def restart(self, names: Sequence[str]) -> None:
        """Start servers that do not run, on the data they have; returns when all of these serve."""
        ...


@runtime_checkable
class Supervised(Processes, Kill, Restartable, Protocol):
    """Servers that can be found, killed and started, by us and by their own node."""


@runtime_checkable
class Pause(Protocol):
    """Can be stopped and continued, node by node. No `service` means all of a member's."""

    async def pause(self, names: Sequence[str], service: str = "") -> None:
        """SIGSTOP to all processes."""
        ...

    async def resume(self, names: Sequence[str], service: str = "") -> None:
        """SIGCONT to all processes."""
        ...


class LeaderView(msgspec.Struct, frozen=True, kw_only=True):
    """Whom one member takes for the leader of a group, and since which epoch (term, configuration
    epoch, timeline).

    `leader` is None where it knows none, `epoch` where the system counts none. `tells` is false for
    a member of a system whose followers name no leader at all.
    """

    member: str
    leader: str | None
    epoch: int | None = None
    group: str = ""
    tells: bool = True


@runtime_checkable
class Leadership(Protocol):
    """Knows its leaders: one for all, or one per group."""

    async def leaders(self) -> list[LeaderView]:
        """The views of all members that answer, of each group that they know."""
        ...

    async def claims(self, name: str, group: str) -> bool:
        """Does this member take itself, right now, for the leader of this group? False where it
        does not answer."""
        ...


class Unit(msgspec.Struct, frozen=True):
    """In what a system measures how far its members have come (`entries`, `bytes`), and how much
    of it is a lag that comes from no ordinary load."""

    name: str
    lag_min: int


@runtime_checkable
class Replication(Protocol):
    """Knows how far each member has come in the log that its group shares."""

    replication_unit: Unit

    async def progress(self) -> dict[str, dict[str, int] | None]:
        """How much of its log each member has applied, by group as `LeaderView` names them (""
        where there is one for all); None = no answer."""
        ...


class ServerTime(msgspec.Struct, frozen=True):
    """What a server's own clock says, and how fine it counts."""

    wall_ns: int
    resolution_ns: int


@runtime_checkable
class Clocked(Protocol):
    """Tells the time of its own clock."""

    async def server_time(self, name: str) -> ServerTime | None:
        """What a member's clock says right now; None = no answer."""
        ...


@runtime_checkable
class Linked(Protocol):
    """Members that talk to each other by themselves."""

    def links(self) -> list[tuple[str, str]] | None:
        """(from, to) of those that do; None: every one to every other."""
        ...


class Store(msgspec.Struct, frozen=True, kw_only=True):
    """Another system, without which members cannot agree: on which TCP `port` it is asked, by which
    `service` of a member, and which texts, any of them, that service logs when it reaches nobody.
    """

    port: int
    service: str
    errors: tuple[str, ...]


@runtime_checkable
class LogFiles(Protocol):
    """Has logs worth keeping."""

    def log_files(self) -> dict[str, list[str]]:
        """Absolute paths per member; none of a member whose services write no log."""
        ...


@runtime_checkable
class ServerLogs(Protocol):
    """Logs that can be read from an offset on, while the server writes them.

    No `service` means the first one of a member.
    """

    async def log_sizes(self, service: str = "") -> dict[str, int]:
        """Bytes of a service's log on each member that has the service; 0 where there is no log."""
        ...

    async def log_since(self, name: str, offset: int, service: str = "") -> str:
        """What a service has logged after this many bytes, a mebibyte at most; empty where nobody
        can tell."""
        ...


@runtime_checkable
class DataDir(Protocol):
    """Keeps all that must survive a restart below one directory."""

    def data_dir(self) -> str:
        """Its absolute path, the same on every node."""
        ...


@runtime_checkable
class Replicas(Protocol):
    """Can compare the state of its members once nobody writes any more."""

    async def replica_states(self) -> dict[str, str | None]:
        """Each member's state as a short text that equals where the states do; None = no answer."""
        ...


REFUSED: Final = "refused: "
UNANSWERED: Final = "no answer: "
"""How a text begins that says why a member did not take something: it refused just that, or gave no
answer in time. Any other text is another error."""


@runtime_checkable
class Membership(Protocol):
    """Knows who is a member at this instant."""

    async def member_names(self) -> list[str]:
        """The names, as a member that answers has them; empty where none does."""
        ...


class Divergence(msgspec.Struct, frozen=True):
    """A setting of its own for one member: `flags` by which it reports `value` as its `setting` and
    refuses a `request` that all others take."""

    flags: tuple[str, ...]
    setting: str
    value: int
    request: str
