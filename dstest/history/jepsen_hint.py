"""What our export adds to Jepsen's op maps, under the key `dstest`: what they cannot tell.

The first event has the history's header, and whether values are `[key value]` tuples:

    {"process": 0, "type": "invoke", ..., "dstest": {"header": {..}, "keyed": true}}

Completions have what distinguishes the record: its id, and where they are not null the node and the
fault epoch; `output` where the value tells something else, `process` where it is no integer.

    {"process": 0, "type": "ok", "f": "inc", "value": 3, ..., "dstest": {"id": 7, "output": 12}}

Other tools pass over it. A history that has it is read back as it was, times included.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec
from msgspec.structs import replace

from dstest.core.errors import HistoryError
from dstest.core.history import Header
from dstest.core.op import Op

HINT: Final = "dstest"

ANSWERING: Final = frozenset(
    {"audit", "delete-min", "dequeue", "drain", "dump", "generate", "get", "poll", "pop", "read",
     "txn", "watch"}
)  # fmt: skip
"""Types of operation whose completion carries what came out, in Jepsen's notation."""


class Hints(msgspec.Struct, frozen=True, kw_only=True):
    """What the first event says of all of them."""

    header: Header
    keyed: bool = False


class _Hint(msgspec.Struct, frozen=True, kw_only=True):
    id: int | str
    process: str | None = None
    node: str | None = None
    epoch: str | None = None
    output: Any = msgspec.UNSET


def _same(a: Any, b: Any) -> bool:
    """Are they the same JSON? `true` is not 1."""
    return msgspec.json.encode(a) == msgspec.json.encode(b)


def first_hint(header: Header, keyed: bool) -> dict[str, Any]:
    """The value of `dstest` in the first event."""
    facts: dict[str, Any] = msgspec.to_builtins(header)
    return {"header": {k: v for k, v in facts.items() if v not in (None, [], {})}, "keyed": keyed}


def completion_hint(op: Op, derived: Any) -> dict[str, Any]:
    """The value of `dstest` in a completion; `derived` is the output that the event tells."""
    hint: dict[str, Any] = {"id": op.op_id}
    if isinstance(op.process_id, str):
        hint["process"] = op.process_id
    if op.node_seen is not None:
        hint["node"] = op.node_seen
    if op.fault_epoch is not None:
        hint["epoch"] = op.fault_epoch
    if op.complete_ts is not None and op.error is None and not _same(op.output, derived):
        hint["output"] = op.output
    return hint


def header_in(fields: dict[str, Any], line: int) -> Hints | None:
    """The hints of a first event, where it has any. Raises HistoryError for malformed ones."""
    hint = fields.get(HINT)
    if not isinstance(hint, dict) or "header" not in hint:
        return None
    try:
        return msgspec.convert(hint, Hints)
    except msgspec.ValidationError as error:
        raise HistoryError(
            f"its {HINT} is none of ours: {error}", line=line, remedy="export the history again"
        ) from None


def restored(op: Op, hint: Any, line: int, kind: str) -> Op:
    """The operation with what its completion's hint says of it; `kind` is the completion's type.

    Raises HistoryError, also where the hint and the event's own value cannot both be right.
    """
    try:
        told = msgspec.convert(hint, _Hint)
    except msgspec.ValidationError as error:
        raise HistoryError(
            f"its {HINT} is none of ours: {error}", line=line, remedy="export the history again"
        ) from None
    given = told.output is not msgspec.UNSET
    if given and (kind == "info" or (kind == "ok" and op.op_type in ANSWERING)):
        raise HistoryError(
            f"its {HINT} has another output than its value",
            line=line,
            remedy="export the history again",
        )
    if kind == "fail" and given and not (op.op_type == "cas" and told.output is False):
        raise HistoryError(
            f"its {HINT} has an output, yet it is :fail",
            line=line,
            remedy="export the history again",
        )
    process = op.process_id if told.process is None else told.process
    op = replace(op, op_id=told.id, process_id=process, node_seen=told.node, fault_epoch=told.epoch)
    if told.output is msgspec.UNSET or op.complete_ts is None:
        return op
    return replace(op, output=told.output, error=None)
