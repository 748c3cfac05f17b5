"""What faults inside a member ask of a system besides what `dstest.core.protocols` has: so far etcd
alone has all of it, and toykv `Members`. A deployment has a capability by having its methods.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

from dstest.core.protocols import Divergence


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
class Digests(Protocol):
    """Can tell by a hash whether the stores of members differ."""

    async def hashes(self, revision: int) -> dict[str, tuple[int, int] | None]:
        """Each member's hash over its store up to `revision`, and the revision it has compacted
        to: equal where the stores are."""
        ...


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


@runtime_checkable
class Revisions(Protocol):
    """Counts the changes of its store: every write is a revision."""

    async def revisions(self) -> dict[str, int | None]:
        """The newest revision of each member's own store."""
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
