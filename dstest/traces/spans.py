"""`Span` and `Message`: what a trace is made of, whatever notation it came in."""

from __future__ import annotations

from typing import Final

import msgspec

NOBODY: Final = "?"
"""The node of a span that names none."""


class Span(msgspec.Struct, frozen=True, kw_only=True):
    """Something that `node` did, from `start_ns` to `end_ns`, for the span `parent`; empty for the
    first of a trace. `kind` is `client` for who waits for another node, `server` for who is asked.
    `operation` is the id of the operation of a history that it is part of. `vector` is its vector
    clock as it began. `place` is where it was read."""

    trace: str
    id: str
    parent: str = ""
    node: str = NOBODY
    name: str = ""
    kind: str = ""
    start_ns: int
    end_ns: int
    error: str = ""
    operation: str = ""
    vector: dict[str, int] = msgspec.field(default_factory=dict)
    place: str = ""

    @property
    def duration_ns(self) -> int:
        return self.end_ns - self.start_ns


class Message(msgspec.Struct, frozen=True, kw_only=True):
    """One message from node to node, of a record that tells of nothing else. `time_ns` is None
    where it has no time."""

    source: str
    target: str
    type: str = ""
    id: str = ""
    trace: str = ""
    time_ns: int | None = None
    place: str = ""
