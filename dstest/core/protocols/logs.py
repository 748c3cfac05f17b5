"""Logs of a system: what one line of them says, in words that are the same for all systems."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, Literal, Protocol, runtime_checkable

import msgspec

Topic = Literal["consensus-timeout", "conflict", "cut-off", "connection", "oom", "calm"]
"""What a line is about: a decision that came too late; writes at odds; members that do not see one
another; one connection that failed; no memory. `calm`: nothing of these, whatever its words are."""

Vote = Literal["", "granted", "rejected"]
Side = Literal["", "sent", "received"]
Kind = Literal["", "request", "response"]
Role = Literal["", "primary", "replica"]

_NONE: Final[Mapping[str, int]] = MappingProxyType({})
_NO_NAMES: Final[Mapping[str, str]] = MappingProxyType({})


class LogRecord(msgspec.Struct, frozen=True, kw_only=True):
    """One line. What it does not say is empty or None.

    `level` is debug, info, warning, error or critical. `node` is who says it, where the line names
    somebody else than the owner of the log; `peer` is the other member that it is about, by name,
    address or id, and `aliases` are names of members by such ids, empty for the owner of the log
    itself. `operation` with `operation_id` is a request of a client and `failed` what it came to;
    `duration_ms` how long it took, of a log that tells of every operation and not of slow ones
    alone. A `vote` is `voter`'s (else the node's) in `ballot`. `message_id` names one message
    between members, `exchange` is what a request and its response share, `kind` says which of them
    it is and `side` whether this node sent or received it. `applied` is the index up to which the
    state has been applied whose hash is `state`. `vector` is a vector clock. `role` is what the
    server that wrote the line is at that moment, by its own word; where it has just `turned` into
    that, a replica is `peer`'s, and one without a role has begun anew. `topics` are what the line
    is about where its words alone do not say so.
    """

    message: str
    level: str = ""
    node: str = ""
    peer: str = ""
    aliases: Mapping[str, str] = _NO_NAMES
    operation: str = ""
    operation_id: str = ""
    failed: bool | None = None
    duration_ms: float | None = None
    vote: Vote = ""
    voter: str = ""
    ballot: str = ""
    message_id: str = ""
    exchange: str = ""
    kind: Kind = ""
    side: Side = ""
    applied: int | None = None
    state: str = ""
    vector: Mapping[str, int] = _NONE
    role: Role = ""
    turned: bool = False
    topics: frozenset[Topic] = frozenset()


@runtime_checkable
class LogReader(Protocol):
    """How the lines of a system's logs are read. `form` is what it calls them, for people."""

    form: str

    def record_of(self, line: str) -> LogRecord | None:
        """What a line says; None where it is not of this form, and is read as any other log is."""
        ...
