"""What a line of etcd's log says: JSON of zap, and raft's own words in it.

Source: raft/raft.go and etcdserver/api/rafthttp of etcd 3.4 for what is written when.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from dstest.core.protocols import LogReader, LogRecord
from dstest.core.protocols.logs import Topic, Vote

_LEVELS: Final = {
    "debug": "debug",
    "info": "info",
    "warn": "warning",
    "error": "error",
    **dict.fromkeys(("dpanic", "panic", "fatal"), "critical"),
}
_CAST: Final = re.compile(r"([0-9a-f]+) \[.*\] cast (?:MsgPreVote|MsgVote) for .* at term (\d+)")
_REJECTED: Final = re.compile(
    r"([0-9a-f]+) \[.*\] rejected (?:MsgPreVote|MsgVote) from .* at term (\d+)"
)
_CANDIDATE: Final = re.compile(r"([0-9a-f]+) became candidate at term (\d+)")
"""It votes for itself."""

_LATE: Final = (
    "timed out waiting for read index response",
    "stepped down to follower since quorum is not active",
)
_APART: Final = ("lost TCP streaming connection", "failed to reach the peer URL", "became inactive")
_FAILED: Final = (*_APART, "prober detected unhealthy status", "failed to dial", "failed to get ")
_PEERS: Final = ("remote-peer-id", "peer-id", "remote-member-id", "to")
_NOTHING: Final[frozenset[Topic]] = frozenset({"calm"})


class EtcdLines:
    """One JSON object each. Only slow requests are told of with their time, which says nothing of
    how long requests take."""

    form = "etcd's JSON"

    def record_of(self, line: str) -> LogRecord | None:
        if not line.startswith('{"level"'):
            return None
        try:
            fields: dict[str, Any] = msgspec.json.decode(line)
        except (msgspec.DecodeError, RecursionError):
            return None
        message = str(fields.get("msg", ""))
        error = str(fields.get("error", ""))
        vote, ballot = _vote(message)
        level = _LEVELS.get(str(fields.get("level")), "")
        return LogRecord(
            message=f"{message}: {error}" if error else message,
            level=level,
            peer=next((str(fields[key]) for key in _PEERS if key in fields), ""),
            aliases=_aliases(fields),
            vote=vote,
            ballot=ballot,
            topics=_topics(message, level),
        )


def _vote(message: str) -> tuple[Vote, str]:
    if (found := _CAST.match(message)) or (found := _CANDIDATE.match(message)):
        return "granted", found[2]
    if found := _REJECTED.match(message):
        return "rejected", found[2]
    return "", ""


def _topics(message: str, level: str) -> frozenset[Topic]:
    """Nothing for lines of which its words do not tell; empty where they may."""
    found: set[Topic] = set()
    if any(words in message for words in _LATE):
        found.add("consensus-timeout")
    if any(words in message for words in _APART):
        found.add("cut-off")
    if any(words in message for words in _FAILED):
        found.add("connection")
    if found:
        return frozenset(found)
    return _NOTHING if level in ("info", "debug") else frozenset()


def _aliases(fields: Mapping[str, Any]) -> dict[str, str]:
    """Ids of members by the URLs at which they are, and of the one whose log it is."""
    found = {str(fields["local-member-id"]): ""} if "local-member-id" in fields else {}
    for id_, urls in (
        ("remote-peer-id", "remote-peer-urls"),
        ("added-peer-id", "added-peer-peer-urls"),
    ):
        told = fields.get(urls)
        if id_ in fields and isinstance(told, list) and told:
            found[str(fields[id_])] = str(told[0])
    return found


READER: Final[LogReader] = EtcdLines()
