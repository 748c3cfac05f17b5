"""Histories that were made in Python, written so that what is read is what was made.

JSON refuses some values and changes others in silence: NaN becomes null, which a register that was
never written answers; bytes become text, the key 1 of a mapping becomes "1". Whoever judges the
file would judge another history. A tuple is written as a list: ("a", 1) and ["a", 1] are one value.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final

import msgspec

from dstest.core.errors import HistoryError
from dstest.core.history import Header
from dstest.core.op import Op
from dstest.core.recordable import why_not
from dstest.store.jsonl import write_ops

_REMEDY: Final = (
    "values are None, True, False, finite numbers, text, lists, and mappings whose keys are text"
)
_TIME_MIN: Final = -(1 << 63)
_TIME_MAX: Final = (1 << 63) - 1


def write_exact(path: Path, header: Header, ops: Iterable[Op]) -> None:
    """`history.jsonl` of what is in memory. Raises HistoryError for what that cannot hold."""
    require_exact(header)
    write_ops(path, header, exact_ops(ops))


def require_exact(header: Header) -> None:
    """Raises HistoryError where a header cannot be written as it is."""
    wrong = _wrong_fields(header, "the header")
    if wrong:
        raise HistoryError(wrong, remedy=_REMEDY)


def _wrong_fields(of: msgspec.Struct, what: str) -> str:
    for name in of.__struct_fields__:
        value = getattr(of, name)
        inner = value if isinstance(value, list) else [value]
        for one in inner:
            if isinstance(one, msgspec.Struct):
                found = _wrong_fields(one, f"the {name} of {what}")
                if found:
                    return found
            elif why := why_not(one, whole_bits=None):
                return f"{what} has {why} in its {name}: JSON cannot hold that as it is"
    return ""


def exact_ops(ops: Iterable[Op]) -> Iterator[Op]:
    """The same operations. Raises HistoryError at the first that cannot be written as it is."""
    for op in ops:
        if why := _wrong(op):
            raise HistoryError(f"operation {op.op_id!r}: {why}", remedy=_REMEDY)
        yield op


def _wrong(op: Op) -> str:
    for name in ("key", "input", "output"):
        if why := why_not(getattr(op, name), whole_bits=None):
            return f"{why} in its {name}, which JSON cannot hold as it is"
    for name in ("op_id", "process_id"):
        if not _is_name(getattr(op, name)):
            return f"its {name} is {getattr(op, name)!r}, no whole number and no text"
    if not _is_time(op.invoke_ts):
        return f"its invoke_ts is {op.invoke_ts!r}, no whole number of 64 bits"
    if op.complete_ts is not None and not _is_time(op.complete_ts):
        return f"its complete_ts is {op.complete_ts!r}, no whole number of 64 bits"
    if type(op.timeout_marker) is not bool:
        return f"its timeout_marker is {op.timeout_marker!r}, not True or False"
    if not _is_text(op.op_type):
        return f"its op_type is {op.op_type!r}, no text"
    for name in ("error", "node_seen", "fault_epoch"):
        value = getattr(op, name)
        if value is not None and not _is_text(value):
            return f"its {name} is {value!r}, no text"
    return ""


def _is_text(value: Any) -> bool:
    return type(value) is str and not why_not(value)


def _is_name(value: Any) -> bool:
    return type(value) is int or _is_text(value)


def _is_time(value: Any) -> bool:
    return type(value) is int and _TIME_MIN <= value <= _TIME_MAX
