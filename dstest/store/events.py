"""What a line of a segment says. Each kind is an array: its tag, then its fields in their order.

| tag | event | who writes it |
|---|---|---|
| `h` | `Header`, always the first | any writer |
| `i` | `Invoked` | a load worker |
| `o`, `f`, `u` | `Succeeded`, `Failed`, `Unknown`: how an operation ended | a load worker |
| `fault` | `Fault`: the newest record of a fault wins | the control process |
| `late` | `Late` | the control process |
| `note` | `Note` | either |
| `e` | `End`, the last of a writer that ended well | any writer |
"""

from __future__ import annotations

from typing import Any, Final, Literal

import msgspec

from dstest.core.evidence import LandingRecord
from dstest.core.op import Key


class _Event(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """Base of them all."""


class Writer(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Whose segment it is: that of one of so many workers, or of the control process."""

    worker: int | None = None
    workers: int | None = None
    control: bool = False


class Facts(Writer, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A segment `ends` with an `End`, unless its writer has died."""

    schema: Literal["dstest.segment/1"]
    ends: Literal[True]


class Header(_Event, frozen=True, tag="h"):
    facts: Facts

    @classmethod
    def of(cls, writer: Writer) -> Header:
        """The first line of this writer's segment."""
        said = msgspec.structs.asdict(writer)
        return cls(Facts(schema="dstest.segment/1", ends=True, **said))


class Invoked(_Event, frozen=True, tag="i"):
    """Written before the request leaves; `due_ns` is when it should, where that was planned."""

    op_id: int
    process_id: int | str
    time_ns: int
    op_type: str
    key: Key
    input: Any
    node: str
    due_ns: int | None = None


class Succeeded(_Event, frozen=True, tag="o"):
    op_id: int
    time_ns: int
    output: Any
    node_seen: str | None
    epoch: str | None


class Failed(_Event, frozen=True, tag="f"):
    """It had no effect."""

    op_id: int
    time_ns: int
    error: str
    node_seen: str | None
    epoch: str | None


class Unknown(_Event, frozen=True, tag="u"):
    """Whether it had an effect is unknown."""

    op_id: int
    time_ns: int
    error: str
    epoch: str | None


class Fault(_Event, frozen=True, tag="fault"):
    record: LandingRecord


class Note(_Event, frozen=True, tag="note"):
    time_ns: int
    facts: dict[str, Any]


class Late(_Event, frozen=True, tag="late"):
    """A window's beginning or end, at `edge_ns`, of which workers may have heard at `told_ns`."""

    epoch: str
    edge_ns: int
    told_ns: int


class End(_Event, frozen=True, tag="e"):
    """`lines` is how many stand before it."""

    lines: int


Completion = Succeeded | Failed | Unknown
Event = Header | Invoked | Completion | Fault | Late | Note | End

_DECODER: Final = msgspec.json.Decoder(Event)


def event_of(text: bytes) -> Event | None:
    """The event of a line whose checksum matches; None where it is none of these."""
    try:
        found: Event = _DECODER.decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
    return found
