"""May a value that a plug-in gives stand in a history, or in any JSON file? JSON would refuse some
and change others in silence: NaN becomes null, which is "never written" to a register; bytes become
text, the key 1 of a mapping becomes "1". It is found where it is given, with who gave it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, Final

import msgspec

from dstest.core.protocols.workloads import OpDraft, Reply

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


def reply_fields(reply: Reply) -> tuple[Any, str | None]:
    """What is recorded of a reply. ValueError where that cannot be."""
    wrong = why_not(reply.output) or why_not(reply.node_seen)
    if not wrong and type(reply.node_seen) not in (str, type(None)):
        wrong = f"{reply.node_seen!r} as the name of a node"
    if wrong:
        raise ValueError(f"what the client returned cannot be recorded: {wrong}")
    return reply.output, reply.node_seen


def not_json(value: Any) -> str:
    """Where a value has something that no JSON file holds, and what: `before.n1 = nan`; empty where
    it has nothing such."""
    try:
        plain = msgspec.to_builtins(value)
    except (TypeError, RecursionError, UnicodeError) as error:
        return str(error)
    where, odd = next(_not_json_parts(plain, ""), ("", None))
    return f"{where} = {odd!r}" if where else "" if odd is None else repr(odd)


def _not_json_parts(value: Any, where: str) -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from _not_json_parts(key, f"a key of {where}" if where else "a key")
            yield from _not_json_parts(inner, f"{where}.{key}" if where else str(key))
    elif isinstance(value, list | tuple):
        for at, inner in enumerate(value):
            yield from _not_json_parts(inner, f"{where}[{at}]")
    elif legible(value) != value:
        yield where, value


def legible(value: Any) -> Any:
    """The value with a text in place of each number, and of each text, that JSON does not have."""
    if isinstance(value, dict):
        return {legible(key): legible(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [legible(inner) for inner in value]
    if isinstance(value, float) and not math.isfinite(value):
        return repr(value)
    if isinstance(value, str):
        return value.encode("utf-8", "backslashreplace").decode()
    return value
