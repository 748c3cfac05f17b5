"""`history.jsonl`: a header line, then one operation per line with all twelve keys. The one
canonical form of a sealed history, readable by anyone and by any tool.

A history that was made in Python is written so that what is read is what was made (`write_exact`):
JSON refuses some values and changes others in silence, and whoever judges the file would judge
another history. A tuple is written as a list: ("a", 1) and ["a", 1] are one value.
"""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO, Any, Final

import msgspec

from dstest.core.errors import HistoryError
from dstest.core.history import SCHEMA, Header, History
from dstest.core.limits import DEPTH_MAX
from dstest.core.op import FIELDS, NULL_IS_RESULT, Op, Outcome
from dstest.core.recordable import why_not

_FIELDS: Final = frozenset(FIELDS)
_EXTENSIONS: Final = frozenset({"retry_of", "fault_epochs", "error_ts", "idx", "due_ts"})
"""What a record may have besides."""

_REQUIRED: Final = _FIELDS - {"node_seen", "fault_epoch"}
"""What must be said, if only as null, before anything can be valid."""

_DAMAGED: Final = (
    "the line is damaged: take the file from where it was made, or of a run, seal it again with "
    "`dstest recover RUN`"
)

_REMEDY: Final = (
    "values are None, True, False, finite numbers, text, lists, and mappings whose keys are text"
)
_TIME_MIN: Final = -(1 << 63)
_TIME_MAX: Final = (1 << 63) - 1


def write_history(path: Path, history: History) -> None:
    """Write `history` beside `path` and rename it into place."""
    write_ops(path, history.header, history.ops)


def write_ops(path: Path, header: Header, ops: Iterable[Op]) -> None:
    """The same of operations that come one at a time."""
    encoder = msgspec.json.Encoder()
    partial = path.with_suffix(".partial")
    buffer = bytearray()
    with partial.open("wb") as file:
        file.write(encoder.encode(header) + b"\n")
        for op in ops:
            encoder.encode_into(op, buffer)
            buffer += b"\n"
            file.write(buffer)
        file.flush()
    partial.replace(path)


def _bad(line: bytes, number: int, error: Exception) -> HistoryError:
    """The column of a syntax error; for a well-formed line the field that is wrong."""
    try:
        json.loads(line)
    except json.JSONDecodeError as syntax:
        message = f"not JSON: {syntax.msg}"
        return HistoryError(message, line=number, column=syntax.colno, remedy=_DAMAGED)
    except UnicodeDecodeError as code:
        return HistoryError("not UTF-8", line=number, column=code.start + 1, remedy=_DAMAGED)
    except (RecursionError, ValueError) as limit:
        message = f"not a value that can be read: {limit}"
        return HistoryError(message, line=number, remedy=_DAMAGED)
    remedy = f"a line after the first is an object of {', '.join(FIELDS)}"
    return HistoryError(f"not an operation record: {error}", line=number, column=1, remedy=remedy)


def read_history(path: Path) -> History:
    """Read a sealed history. Raises HistoryError with line and column, and where a record lacks a
    field: what is written from it would have null there."""
    weak: list[str] = []
    try:
        with path.open("rb") as file:
            history = read_stream(file, weak)
    except OSError as error:
        raise HistoryError(f"{path}: {error.strerror}", remedy="check the path") from None
    if weak:
        raise HistoryError(
            f"{path}: {'; '.join(weak)}", remedy="judge the file as it is, with dstest check"
        )
    return history


def read_stream(file: IO[bytes], weak: list[str] | None = None) -> History:
    """Read a sealed history from its beginning. Raises HistoryError with line and column.

    To `weak` is added what records lack: absent is not null, though it is read as null.
    """
    header = _header(file)
    lacking: list[tuple[int, str]] = []
    ops = list(_each(file, lacking))
    if lacking and weak is not None:
        more = f" ({len(lacking):,} records in all)" if len(lacking) > 1 else ""
        weak.append(f"line {lacking[0][0]} lacks {lacking[0][1]}{more} (H01)")
    return History(header=header, ops=ops)


def _header(file: IO[bytes]) -> Header:
    head = file.readline().removeprefix(codecs.BOM_UTF8)
    try:
        header: Header = msgspec.json.decode(head, type=Header)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise _bad(head, 1, error) from None
    if header.schema != SCHEMA:
        raise HistoryError(f"unknown schema {header.schema!r}", line=1, column=1)
    if b'"schema"' not in head:
        raise HistoryError(
            "the header names no schema", line=1, remedy=f'it needs "schema": "{SCHEMA}"'
        )
    try:
        require_plain(head, 1)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise _bad(head, 1, error) from None
    return header


def _keys_of(value: Any) -> int:
    """How many keys the objects within have."""
    if isinstance(value, dict):
        return len(value) + sum(_keys_of(v) for v in value.values())
    if isinstance(value, list):
        return sum(_keys_of(v) for v in value if isinstance(v, dict | list))
    return 0


class KeyTwice(ValueError):
    """An object has a key twice; the argument is the key."""


def plain_object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """A JSON object of these pairs; of a key that stands twice nobody knows which one is meant.
    Raises KeyTwice."""
    found = dict(pairs)
    if len(found) < len(pairs):
        keys = [key for key, _ in pairs]
        raise KeyTwice(next(key for key in keys if keys.count(key) > 1))
    return found


def require_plain(line: bytes, number: int) -> Any:
    """The decoded line. Raises HistoryError for nesting that is too deep, and where an object has a
    key twice: nobody knows which one is meant."""
    if line.count(b"[") + line.count(b"{") > DEPTH_MAX and _depth(line) > DEPTH_MAX:
        raise HistoryError(f"nested deeper than {DEPTH_MAX}", line=number)
    plain = msgspec.json.decode(line)
    colons = line.count(b":")  # one for each key, besides those in strings
    if (isinstance(plain, dict) and colons == len(plain)) or colons == _keys_of(plain):
        return plain
    try:
        json.loads(line, object_pairs_hook=plain_object)
    except KeyTwice as twice:
        raise HistoryError(
            f"an object has the key {twice.args[0]!r} twice", line=number, remedy="record it again"
        ) from None
    except ValueError as error:
        raise _bad(line, number, error) from None
    return plain


def _absent(record: Any, number: int) -> str | None:
    """The fields that a record lacks and that tell something. Raises HistoryError for a field that
    no record has: nobody would read it, though it may be what was answered."""
    if record.keys() == _FIELDS:
        return None
    if strange := [name for name in record if name not in _FIELDS | _EXTENSIONS]:
        raise HistoryError(
            f"{strange[0]!r} is no field of a record",
            line=number,
            remedy=f"a record has {', '.join(FIELDS)}",
        )
    return ", ".join(name for name in FIELDS if name in _REQUIRED - record.keys()) or None


def _depth(line: bytes) -> int:
    """The deepest nesting outside strings."""
    depth = deepest = 0
    for bracket in re.findall(rb'"(?:[^"\\]|\\.)*"|[\[{\]}]', line):
        depth += {b"[": 1, b"{": 1, b"]": -1, b"}": -1}.get(bracket, 0)
        deepest = max(deepest, depth)
    return deepest


def _each(file: Any, lacking: list[tuple[int, str]]) -> Iterator[Op]:
    """The operations; to `lacking` come the lines that lack something with what they lack."""
    decoder = msgspec.json.Decoder(Op)
    whole: set[tuple[str, ...]] = set()
    for number, line in enumerate(file, start=2):
        if line == b"\n":
            continue
        try:
            record = require_plain(line, number)
            op = decoder.decode(line)
            if (names := tuple(record)) in whole:
                pass
            elif (absent := _absent(record, number)) is None:
                whole.add(names)
            else:
                if (
                    "output" not in record
                    and op.op_type in NULL_IS_RESULT
                    and op.outcome is Outcome.OK
                ):
                    raise HistoryError(
                        f"an answered {op.op_type} lacks its output",
                        line=number,
                        remedy='write "output": null where nothing was there',
                    )
                lacking.append((number, absent))
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise _bad(line, number, error) from None
        if not line.endswith(b"\n"):
            raise HistoryError(
                "the last line has no newline: the file is cut off",
                line=number,
                column=len(line),
                remedy="seal the run again with `dstest recover RUN`",
            )
        yield op


def each_op(path: Path) -> Iterator[Op]:
    """The operations of a sealed history, one at a time. Raises what `read_history` does."""
    lacking: list[tuple[int, str]] = []
    with path.open("rb") as file:
        _header(file)
        for op in _each(file, lacking):
            if lacking:
                number, what = lacking[0]
                raise HistoryError(
                    f"{path}: line {number} lacks {what} (H01)",
                    remedy="judge the file as it is, with dstest check",
                )
            yield op


def read_header(path: Path) -> Header:
    """The first line of a sealed history. Raises HistoryError."""
    try:
        with path.open("rb") as file:
            return _header(file)
    except OSError as error:
        raise HistoryError(f"{path}: {error.strerror}", remedy="check the path") from None


def read_raw(path: Path) -> list[dict[str, Any]]:
    """The operation records as plain objects, for the lint that asks for all twelve keys."""
    with path.open("rb") as file:
        file.readline()
        return [msgspec.json.decode(line) for line in file if line.strip()]


assert len(FIELDS) == 12


def says_no_more(there: bytes, made: bytes) -> bool:
    """Are these two files of the same operations, and says the header of the first nothing that
    that of the second does not?"""
    (kept, _, old), (now, _, new) = (history.partition(b"\n") for history in (there, made))
    try:
        return old == new and _within(msgspec.json.decode(kept), msgspec.json.decode(now))
    except msgspec.DecodeError:
        return False


def _within(part: Any, whole: Any) -> bool:
    if isinstance(part, dict) and isinstance(whole, dict):
        return all(key in whole and _within(value, whole[key]) for key, value in part.items())
    if isinstance(part, list) and isinstance(whole, list) and len(part) == len(whole):
        return all(map(_within, part, whole))
    return bool(part == whole)


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
