"""May a value stand in a history? Found where it is given, with who gave it.

JSON would refuse some values and change others in silence: NaN becomes null, which is "never
written" to a register; bytes become text, the key 1 of a mapping becomes "1".
"""

from __future__ import annotations

import math
from typing import Any, Final

from dstest.core.protocols.clients import OpDraft, Reply

DEPTH_MAX: Final = 90
"""Of a value; a line of a history around it may be nested a little deeper."""

WHOLE_BITS: Final = 64
"""Of a whole number that clients and generators give."""


def why_not(value: Any, depth: int = DEPTH_MAX, *, whole_bits: int | None = WHOLE_BITS) -> str:
    """Why this value cannot be recorded as it is; empty where it can. JSON itself has no limit for
    whole numbers: `whole_bits` is None where there is none."""
    kind = type(value)
    if value is None or kind is bool:
        return ""
    if kind is int:
        if whole_bits is None or -(1 << (whole_bits - 1)) <= value < 1 << whole_bits:
            return ""
        return f"a whole number of more than {whole_bits} bits"
    if kind is str:
        return "" if value.isascii() or _is_utf8(value) else "text that is no UTF-8"
    if kind is float:
        return "" if math.isfinite(value) else f"the number {value}"
    if kind not in (list, tuple, dict):
        return f"a {kind.__name__}"
    if not depth:
        return f"a value nested deeper than {DEPTH_MAX}"
    if kind is dict:
        if any(type(key) is not str for key in value):
            return "a mapping with a key that is no text"
        value = [*value, *value.values()]
    inner = (why_not(one, depth - 1, whole_bits=whole_bits) for one in value)
    return next((found for found in inner if found), "")


def _is_utf8(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def why_no_draft(draft: Any) -> str:
    """Why this is no operation that can be recorded; empty where it is one."""
    if not isinstance(draft, OpDraft):
        return f"a {type(draft).__name__}, not an OpDraft"
    if type(draft.op_type) is not str:
        return f"an operation of the type {draft.op_type!r}"
    if isinstance(draft.key, list | tuple | dict):
        return f"a key that is a {type(draft.key).__name__}; keys are text or numbers"
    if type(draft.after_ns) is not int or draft.after_ns < 0:
        return f"`{draft.op_type}` after {draft.after_ns!r} ns"
    for name, value in (("key", draft.key), ("input", draft.input)):
        if found := why_not(value):
            return f"{found} in the {name} of `{draft.op_type}`"
    return ""


def told_by(reply: Reply) -> tuple[Any, str | None]:
    """What is recorded of a reply. ValueError where that cannot be."""
    wrong = why_not(reply.output) or why_not(reply.node_seen)
    if not wrong and type(reply.node_seen) not in (str, type(None)):
        wrong = f"{reply.node_seen!r} as the name of a node"
    if wrong:
        raise ValueError(f"what the client returned cannot be recorded: {wrong}")
    return reply.output, reply.node_seen
