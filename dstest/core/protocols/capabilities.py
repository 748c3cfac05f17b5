"""What a deployment may be able to do beyond what each must: first its processes, logs, data and
leader, then what reaches into a system itself, its members, settings, secrets, builds and files.

A nemesis names what it requires, the runner looks for what it can use; a deployment has a
capability by having its methods. They answer per member, by `Node.name`; None stands for a member
that does not answer. Methods that change something in a system raise LabError where it was not
done. Those whose name ends in `_command` give an argv for the member's own node, which its janitor
may run, ten seconds at most, when nobody else is left to heal.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping, Sequence
from typing import Any, Final, Protocol, runtime_checkable

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


@runtime_checkable
class Freezes(Protocol):
    """Services in control groups that can be frozen: they stand still, and nobody is told."""

    async def freeze(self, names: Sequence[str], service: str = "") -> None:
        """Returns when all processes stand still. LabError where they do not."""
        ...

    async def thaw(self, names: Sequence[str], service: str = "") -> None:
        """Returns when they go on."""
        ...

    def thaw_command(self, service: str = "") -> list[str]:
        """As `thaw`, on the node itself."""
        ...

    async def freezer_groups(self) -> dict[str, list[str]]:
        """The directories of each member's control groups."""
        ...


@runtime_checkable
class Terminate(Protocol):
    """Servers that end in good order when they are asked to.

    An orderly end leaves what `LogWords.shutdown` of the service lists in its log.
    """

    async def terminate(self, names: Sequence[str], service: str = "") -> None:
        """The signal of its `ending` to each main process; does not wait."""
        ...

    async def exits(self) -> dict[str, dict[str, int | None]]:
        """Per node and service the exit status of its last main process, below zero for a signal;
        None while it runs, or where nobody knows."""
        ...


@runtime_checkable
class ControlGroups(Protocol):
    """Servers that join a control group before they start."""

    async def start_in(self, group: str) -> None:
        """Servers that are started from now on join the group of this absolute path on their node;
        an empty path for none."""
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
class DependsOnStore(Protocol):
    """Members that agree by what another system keeps for them (etcd, ZooKeeper).

    The service that asks it runs as a user that no other program of its node is run as.
    """

    def store(self) -> Store:
        """The system that they depend on."""
        ...

    async def store_seen(self) -> dict[str, int | None]:
        """When each member has last reached its store, as it says itself: a number that grows each
        time it does; None = no answer."""
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


@runtime_checkable
class Members(Protocol):
    """Members that can be listed, removed and added while the others serve."""

    async def listed(self) -> dict[str, dict[int, tuple[str, bool]] | None]:
        """What each member lists: identity -> (name, is it a learner?). A member that has not
        started yet has no name; one that joins anew has another identity."""
        ...

    async def expel(self, name: str) -> None:
        """Remove a member from the cluster, wait until its server has gone, wipe its data."""
        ...

    async def doom(self, name: str) -> int:
        """From now on `rejoin` replaces this member, whose identity is returned, by a new one."""
        ...

    async def doomed(self, name: str) -> bool:
        """Is this member to be replaced, or under way to it?"""
        ...

    async def rejoin(self, name: str, *, learner: bool) -> None:
        """Join anew and empty, at once as a voter or first as a learner; returns when it votes."""
        ...

    def rejoin_command(self, learner: bool) -> list[str]:
        """As `rejoin`, on the node itself; may take several goes."""
        ...


@runtime_checkable
class Revisions(Protocol):
    """Counts the changes of its store: every write is a revision."""

    async def revisions(self) -> dict[str, int | None]:
        """The newest revision of each member's own store."""
        ...


@runtime_checkable
class Digests(Protocol):
    """Can tell by a hash whether the stores of members differ."""

    async def hashes(self, revision: int) -> dict[str, tuple[int, int] | None]:
        """Each member's hash over its store up to `revision`, and the revision it has compacted
        to: equal where the stores are."""
        ...


@runtime_checkable
class Compacts(Protocol):
    """Drops old versions on demand."""

    async def make_history(self, revisions: int) -> None:
        """Write so many versions of keys that no client reads, for a compaction to drop."""
        ...

    async def compact(self, revision: int) -> None:
        """Give up all that is older than `revision` and was replaced since; does not wait."""
        ...

    async def compactions(self) -> dict[str, dict[str, int] | None]:
        """Per member: `runs` that have finished, `dropped` versions, `revision` compacted to."""
        ...

    async def old_reads(self, revision: int) -> dict[str, str]:
        """Does each member still read at this revision? `served`, `compacted`, else the error."""
        ...


@runtime_checkable
class ChangesSchema(Protocol):
    """Has tables that can be changed while clients use them."""

    def change_schema(self) -> AsyncGenerator[str]:
        """Add a column and then an index of ours to every table of the clients, one change after
        the other; yields each one's name when it is made. LabError where the system refuses."""
        ...

    async def restore_schema(self) -> None:
        """Take all of them away again."""
        ...

    async def schema_changes(self) -> dict[str, int | None]:
        """How many such columns and indexes there are, by each member's own catalogue; None of one
        that does not say."""
        ...


@runtime_checkable
class Overrides(Protocol):
    """Can start one member otherwise than the rest, until that is taken back."""

    async def configured(self) -> list[str]:
        """Nodes whose member does not run as all the others, or will not after a restart."""
        ...

    async def unconfigure(self, name: str) -> None:
        """From its next start on it runs as all the others."""
        ...

    def unconfigure_command(self) -> list[str]:
        """`unconfigure` and `bounce`."""
        ...

    async def bounce(self, name: str) -> None:
        """Kill a member and start it at once; returns without waiting until it serves."""
        ...


class Divergence(msgspec.Struct, frozen=True):
    """A setting of its own for one member: `flags` by which it reports `value` as its `setting` and
    refuses a `request` that all others take."""

    flags: tuple[str, ...]
    setting: str
    value: int
    request: str


@runtime_checkable
class Divergent(Protocol):
    """Settings that one member may have alone, that it reports and acts upon."""

    def divergence(self) -> Divergence:
        """The setting of which the other methods speak."""
        ...

    async def configure(self, name: str, flags: Sequence[str]) -> None:
        """Let a member run with these flags as well, from its next start on."""
        ...

    async def settings(self) -> dict[str, int | None]:
        """The setting, as each member reports it."""
        ...

    async def refusals(self) -> dict[str, str]:
        """Empty for each member that takes the request, else why not (`REFUSED`, `UNANSWERED`)."""
        ...


@runtime_checkable
class Authenticated(Protocol):
    """Asks its clients for tokens that are signed with a secret, a copy of which each member has.

    Everything is about the cluster's own secret unless another one is given.
    """

    @property
    def asks_for_tokens(self) -> bool:
        """Does it, with the options that it was deployed with?"""
        ...

    async def take_secret(self, name: str, secret: str) -> None:
        """Give a member another secret and restart it; does not wait until it serves."""
        ...

    async def keep_secret(self, name: str) -> None:
        """Give a member the cluster's secret back and restart it; does not wait either."""
        ...

    def keep_secret_command(self) -> list[str]:
        """As `keep_secret`."""
        ...

    async def refused_tokens(self, secret: str = ...) -> dict[str, str]:
        """Empty for each member that takes a token signed with this secret, else why not
        (`REFUSED`, `UNANSWERED`)."""
        ...

    async def strange_secrets(self) -> list[str]:
        """Nodes whose secret is not that of the cluster."""
        ...


@runtime_checkable
class Builds(Protocol):
    """Members can run as another build of the system."""

    @property
    def raised_s(self) -> float:
        """How long the cluster may take to raise its common format once all members could."""
        ...

    async def take_build(self, program: bytes) -> str:
        """Put another build's server program on every node; its version. LabError where it is no
        build of this system."""
        ...

    async def use_build(self, name: str) -> None:
        """Restart a member as the other build; does not wait until it serves."""
        ...

    async def drop_build(self) -> None:
        """Take it away again, once no member is to be started as it any more."""
        ...

    async def versions(self) -> dict[str, str | None]:
        """The version that each member reports."""
        ...

    async def cluster_versions(self) -> dict[str, str | None]:
        """The version of the cluster's common format, as each member has it."""
        ...


@runtime_checkable
class Snapshots(Protocol):
    """A member's data can be copied, and the copy put back under it."""

    async def back_up(self, names: Sequence[str]) -> dict[str, str]:
        """Copy the data of members that run, all as of one instant; the checksum of each store."""
        ...

    async def put_back(self, names: Sequence[str]) -> dict[str, tuple[str, str]]:
        """Kill members, put the copies in place of their data, and only then start any of them.

        Does not wait until they serve. The checksum of each store just before and now.
        """
        ...

    def put_back_command(self) -> list[str]:
        """Kills a member, puts its copy back if there is a whole one, and starts it."""
        ...

    async def drop_backups(self) -> None:
        """No copies any more."""
        ...

    async def commits_at_start(self, since: Mapping[str, int]) -> dict[str, list[int]]:
        """Index of the last entry that each member knew as committed, at each of its starts that
        its log tells of after these offsets in bytes."""
        ...


@runtime_checkable
class Damageable(Protocol):
    """Files of a member can be changed behind its back, and changed back.

    A state, as `flipped` and `unflip` give it, is {} where nothing is changed; else it has `what`
    (`log`, `store` or `tail`), `path`, `sha256` of the file before and `sha256_now`, and `bytes`,
    rows of `offset`, `old`, `new` and `now`.
    """

    async def write_value(self, value: str) -> None:
        """Store a text where no client does."""
        ...

    async def own_values(self) -> dict[str, str | None]:
        """What each member has stored there itself; empty where it has nothing."""
        ...

    async def store_commits(self) -> dict[str, int | None]:
        """How often each member has written its store to its file."""
        ...

    async def flip_in_log(self, name: str, fraction: float) -> None:
        """Kill a member, flip a bit of the entry at this fraction of its write-ahead log, start it;
        does not wait."""
        ...

    async def flip_in_store(self, name: str, old: str, new: str) -> None:
        """Kill a member, write `new` where its store has `old`, start it; does not wait."""
        ...

    async def flipped(self, name: str) -> dict[str, Any]:
        """The state of a member's files."""
        ...

    async def unflip(self, name: str) -> dict[str, Any]:
        """Kill a member, put its bytes back, start it; the state, with the checksum now."""
        ...

    def unflip_command(self) -> list[str]:
        """As `unflip`."""
        ...

    async def corruption_lines(self, since: Mapping[str, int]) -> dict[str, list[str]]:
        """Lines about corruption in each member's log after these offsets in bytes."""
        ...


@runtime_checkable
class Truncatable(Protocol):
    """The end of a member's write-ahead log can be cut off.

    The state that `Damageable.flipped` gives then has `size`, `end` (bytes) and `last` (entry) of
    the log before, `at` and `kept` where it was cut, `size_now`, `end_now` and `last_now`,
    `cut_off_sha256`, and `member`, the identity that forgot; after `unflip` also `put_back`.
    """

    async def cut_log(self, name: str, share: float, value: str) -> None:
        """Kill a member, cut off so much of what its log holds, start it; does not wait.

        The others acknowledge a write of `value`, as for `write_value`, before it starts. From then
        on `rejoin` replaces the member, unless `unflip` has put the end back.
        """
        ...

    async def last_at_start(self, since: Mapping[str, int]) -> dict[str, list[int]]:
        """Index of the last entry that each member had in its log, at each of its starts that its
        log tells of after these offsets in bytes."""
        ...
