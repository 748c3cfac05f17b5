"""What was seen of the system's processes while it ran. Times are run nanoseconds."""

from __future__ import annotations

import msgspec


class Seen(msgspec.Struct, frozen=True, kw_only=True):
    """Something that happened on a node between two looks: `after_ns` and `before_ns`."""

    node: str
    what: str
    after_ns: int
    before_ns: int


class ProcessFacts(msgspec.Struct, frozen=True, kw_only=True):
    """All looks of a run. `offered` is False where the system does not say which processes serve.

    `lives` counts per node the processes that were seen to serve one after the other,
    `lives_by_log` the same per service, by the name of the log that tells of its starts; `ends` are
    those that were gone at the next look, `unseen` the stretches longer than they should be in
    which a node could not be asked. `oom_kills` are processes that the kernel killed for lack of
    memory, `cores` the core files by node, and `cores_elsewhere` the nodes whose kernel hands cores
    to a program. `untaken` says what could not be looked at, `looks` how often each node was looked
    at.
    """

    offered: bool = True
    looks: dict[str, int] = msgspec.field(default_factory=dict)
    lives: dict[str, int] = msgspec.field(default_factory=dict)
    lives_by_log: dict[str, dict[str, int]] = msgspec.field(default_factory=dict, name="lives_told")
    ends: list[Seen] = msgspec.field(default_factory=list)
    unseen: list[Seen] = msgspec.field(default_factory=list)
    oom_kills: list[Seen] = msgspec.field(default_factory=list)
    cores: dict[str, list[str]] = msgspec.field(default_factory=dict)
    untaken: list[str] = msgspec.field(default_factory=list)
    cores_elsewhere: list[str] = msgspec.field(default_factory=list)
    until_ns: int = 0
