"""One operation of a history: the "11-field" record.

`invoke_ts` and `complete_ts` count as one field of the eleven; twelve JSON keys are always present,
`null` when unused:

    {"op_id": 7, "process_id": 3, "invoke_ts": 1200345, "complete_ts": 1904412,
     "op_type": "read", "key": "r0-1", "input": null, "output": 4, "error": null,
     "timeout_marker": false, "node_seen": "n2", "fault_epoch": null}

With an open load (`--rate`) a record says besides when its operation was due, `due_ts`: a client
that waited sent it later. Latencies from then are what users of a service see while it stands, too.

The outcome is derived, never stored. An operation is *unknown* when `timeout_marker` is set: it may
have taken effect at any time after its invocation. It is *fail* when it completed with an error
that provably had no effect, and *ok* otherwise.
"""

from __future__ import annotations

from contextvars import ContextVar
from enum import StrEnum
from typing import Any, Final

import msgspec

__all__ = [
    "FIELDS",
    "FINAL_IDS",
    "NULL_IS_RESULT",
    "Key",
    "Op",
    "Outcome",
    "who",
]


Key = str | int | float | bool | None


NULL_IS_RESULT = frozenset(
    {"read", "get", "dequeue", "reject", "collect", "pop", "delete-min", "peek"}
    | {"pop-left", "pop-right", "peek-left", "peek-right"}
)
"""Types of operation whose null output is a result: nothing was there."""


FINAL_IDS = 1 << 40
"""Processes from here on are those that read all at the end, one per node: far from the ids of the
load, whose unknown operations count up in steps."""


def who(process_id: int | str, *, short: bool = False) -> str:
    """`process 3` or `the final reader`; `p3` or `final` where it is to be `short`."""
    if isinstance(process_id, int) and process_id >= FINAL_IDS:
        return "final" if short else "the final reader"
    return f"p{process_id}" if short else f"process {process_id}"


class Outcome(StrEnum):
    """What an operation's record says happened."""

    OK = "ok"
    FAIL = "fail"
    UNKNOWN = "unknown"


class Op(msgspec.Struct, frozen=True, kw_only=True):
    """One operation. Times are nanoseconds since the start of the run, monotonic."""

    op_id: int | str
    process_id: int | str
    invoke_ts: int
    complete_ts: int | None = None
    op_type: str
    key: Key = None
    input: Any = None
    output: Any = None
    error: str | None = None
    timeout_marker: bool = False
    node_seen: str | None = None
    fault_epoch: str | None = None
    due_ts: int | msgspec.UnsetType = msgspec.UNSET

    @property
    def due_ns(self) -> int:
        """When it should have been sent: when it was, where nobody planned that."""
        return self.invoke_ts if self.due_ts is msgspec.UNSET else self.due_ts

    @property
    def last_ns(self) -> int:
        """When it was answered; when it was asked where nobody answered."""
        return self.invoke_ts if self.complete_ts is None else self.complete_ts

    @property
    def outcome(self) -> Outcome:
        """Derived from `timeout_marker`, `complete_ts` and `error`."""
        if self.timeout_marker or self.complete_ts is None:
            return Outcome.UNKNOWN
        return Outcome.OK if self.error is None else Outcome.FAIL


FIELDS: tuple[str, ...] = Op.__struct_fields__[:-1]
"""Those that each record has."""


OPERATION: Final[ContextVar[str | None]] = ContextVar("operation", default=None)
"""The id of the trace, and of its first span, that the operation of this task is: a client puts it
into the traces that its requests begin."""


def last_ns(op: Op) -> int:
    """When it was answered, or asked where it never was."""
    return op.invoke_ts if op.complete_ts is None else op.complete_ts


def trace_of(op_id: int | str) -> str:
    """The id of the trace of an operation, by its id in the history."""
    return f"op-{op_id}"
