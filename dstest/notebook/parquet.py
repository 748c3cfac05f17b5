"""Histories as Parquet, in row groups, so that one larger than memory is written and read.

The twelve fields are columns of these names. Keys, inputs and outputs are JSON, because they are of
any shape; so are ids where not all of them are integers. The header is in the file's metadata, and
`outcome` and `windows` are beside the fields for whoever reads the file without dstest.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any, Final

import msgspec

from dstest.core.errors import HistoryError
from dstest.core.extras import need
from dstest.core.history import Header
from dstest.core.op import FIELDS, Op
from dstest.notebook.frames import EXTRA, windows_of
from dstest.store.exact import exact_ops, require_exact

__all__ = ["SCHEMA", "each_of_parquet", "read_parquet_header", "write_parquet"]

SCHEMA: Final = "dstest.history.parquet/1"
ROWS: Final = 50_000
"""Of a row group: some 10 MB in memory."""

_ENCODE: Final = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode
_JSON: Final = {"encoding": "json"}
_JSON_FIELDS: Final = ("key", "input", "output")
_IDS: Final = ("op_id", "process_id")
_WHAT: Final = "Parquet"


class _NotIntegers(Exception):
    """An id is no integer of 64 bits."""


def _schema(pa: Any, header: Header, text_ids: bool) -> Any:
    def as_json(name: str) -> Any:
        return pa.field(name, pa.string(), metadata=_JSON)

    names = pa.dictionary(pa.int32(), pa.string())
    kinds = {
        "invoke_ts": pa.int64(),
        "complete_ts": pa.int64(),
        "op_type": names,
        "error": pa.string(),
        "timeout_marker": pa.bool_(),
        "node_seen": names,
        "fault_epoch": names,
    }
    fields = []
    for name in FIELDS:
        if name in _JSON_FIELDS or (text_ids and name in _IDS):
            fields.append(as_json(name))
        else:
            fields.append(pa.field(name, kinds.get(name, pa.int64())))
    fields += [pa.field("outcome", names), pa.field("windows", names)]
    about = {"dstest.schema": SCHEMA, "dstest.header": msgspec.json.encode(header).decode()}
    return pa.schema(fields, metadata=about)


def _text(value: Any) -> str | None:
    """JSON; null of Parquet for null."""
    if value is None:
        return None
    return str(value) if type(value) is int else _ENCODE(value)


def _integer(value: Any) -> int:
    if type(value) is not int or not -(2**63) <= value < 2**63:
        raise _NotIntegers
    return value


def _columns(ops: list[Op], header: Header, text_ids: bool) -> dict[str, list[Any]]:
    as_id = _text if text_ids else _integer
    found: dict[str, list[Any]] = {}
    for name in FIELDS:
        values = [getattr(op, name) for op in ops]
        if name in _IDS:
            found[name] = [as_id(value) for value in values]
        else:
            found[name] = [_text(v) for v in values] if name in _JSON_FIELDS else values
    found["outcome"] = [op.outcome.value for op in ops]
    found["windows"] = [windows_of(op, header.windows) for op in ops]
    return found


def write_parquet(target: Any, header: Header, each: Callable[[], Iterator[Op]]) -> Counter[str]:
    """Write to a path or a binary file; how many operations by outcome.

    `each` goes through the operations, and is asked again where ids turn out to be no integers.
    Raises HistoryError for what JSON cannot hold as it is.
    """
    need("pyarrow.parquet", EXTRA, _WHAT)
    require_exact(header)
    try:
        return _written(target, header, exact_ops(each()), text_ids=False)
    except _NotIntegers:
        if hasattr(target, "seek"):
            target.seek(0)
            target.truncate()
        return _written(target, header, exact_ops(each()), text_ids=True)


def _written(target: Any, header: Header, ops: Iterator[Op], *, text_ids: bool) -> Counter[str]:
    pa: Any = need("pyarrow", EXTRA, _WHAT)
    pq: Any = need("pyarrow.parquet", EXTRA, _WHAT)
    schema = _schema(pa, header, text_ids)
    counted: Counter[str] = Counter()
    with pq.ParquetWriter(target, schema, compression="zstd") as writer:
        while rows := list(islice(ops, ROWS)):
            columns = _columns(rows, header, text_ids)
            counted.update(columns["outcome"])
            writer.write_table(pa.table(columns, schema=schema))
    return counted


def _opened(path: Path) -> Any:
    pq: Any = need("pyarrow.parquet", EXTRA, _WHAT)
    pa: Any = need("pyarrow", EXTRA, _WHAT)
    try:
        return pq.ParquetFile(path)
    except (OSError, pa.ArrowInvalid) as error:
        raise HistoryError(f"{path} cannot be read: {error}", remedy="write it again") from None


def read_parquet_header(path: Path) -> Header:
    """The header of such a file. Raises HistoryError where it is none of ours."""
    with _opened(path) as file:
        about = file.schema_arrow.metadata or {}
    if about.get(b"dstest.schema") != SCHEMA.encode():
        raise HistoryError(
            f"{path} is no history that dstest wrote", remedy="dstest export RUN --to parquet"
        )
    return msgspec.json.decode(about[b"dstest.header"], type=Header)


def each_of_parquet(path: Path) -> Iterator[Op]:
    """The operations of such a file, one row group in memory at a time."""
    with _opened(path) as file:
        text = {f.name for f in file.schema_arrow if (f.metadata or {}).get(b"encoding") == b"json"}
        for batch in file.iter_batches(batch_size=ROWS, columns=list(FIELDS)):
            yield from _rows(batch.to_pydict(), text)


def _rows(columns: dict[str, list[Any]], text: Iterable[str]) -> Iterator[Op]:
    for name in text:
        columns[name] = [None if v is None else json.loads(v) for v in columns[name]]
    for row in zip(*(columns[name] for name in FIELDS), strict=True):
        yield Op(**dict(zip(FIELDS, row, strict=True)))
