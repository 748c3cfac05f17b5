"""Histories as Parquet, in row groups, so that one larger than memory is written and read.

The twelve fields are columns of these names. Keys, inputs and outputs are JSON, because they are of
any shape; so are ids where not all of them are integers. The header is in the file's metadata, and
`outcome` and `windows` are beside the fields for whoever reads the file without dstest.

Parquet notices few of the changes that a file may suffer. So the metadata holds how many rows there
are, and a digest of the header and of what the rows say, in their order (`_Content`): both are
asked whenever the file is read, and a file that has none is refused.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Any, Final

import msgspec
from msgspec import UNSET

from dstest.core.errors import HistoryError
from dstest.core.extras import need
from dstest.core.history import Header
from dstest.core.op import FIELDS, Op
from dstest.notebook.frames import EXTRA, windows_of
from dstest.store.exact import exact_ops, require_exact

SCHEMA: Final = "dstest.history.parquet/1"
ROWS: Final = 50_000
"""Of a row group: some 10 MB in memory."""

_DUE: Final = "due_ts"
"""A column where the load was open."""

_ENCODE: Final = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode
_JSON: Final = {"encoding": "json"}
_JSON_FIELDS: Final = ("key", "input", "output")
_IDS: Final = ("op_id", "process_id")
_WHAT: Final = "Parquet"
_REMEDY: Final = "write it again: History.to_parquet, or `dstest export RUN --to parquet`"


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
    if header.rate is not None:
        fields.append(pa.field(_DUE, pa.int64()))
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
    if header.rate is not None:
        found[_DUE] = [None if op.due_ts is UNSET else op.due_ts for op in ops]
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


def _said(columns: Iterable[str]) -> list[str]:
    """The columns that say what was recorded; the others follow from them."""
    return [*FIELDS, *({_DUE} & {*columns})]


class _Content:
    """SHA-256 of what a file says, however Parquet encodes it: the header, the names of the columns
    that are JSON, then of each row its fields as a JSON list and a line end."""

    def __init__(self, header: bytes, text: Iterable[str]) -> None:
        self.rows = 0
        self._sum = hashlib.sha256(header + b"\n" + " ".join(sorted(text)).encode() + b"\n")

    def add(self, columns: dict[str, list[Any]]) -> None:
        for row in zip(*(columns[name] for name in _said(columns)), strict=True):
            self._sum.update(_ENCODE(row).encode() + b"\n")
            self.rows += 1

    def told(self) -> dict[str, str]:
        return {"dstest.rows": str(self.rows), "dstest.sha256": self._sum.hexdigest()}


def _written(target: Any, header: Header, ops: Iterator[Op], *, text_ids: bool) -> Counter[str]:
    pa: Any = need("pyarrow", EXTRA, _WHAT)
    pq: Any = need("pyarrow.parquet", EXTRA, _WHAT)
    schema = _schema(pa, header, text_ids)
    counted: Counter[str] = Counter()
    content = _Content(schema.metadata[b"dstest.header"], _text_columns(schema))
    with pq.ParquetWriter(target, schema, compression="zstd", write_page_checksum=True) as writer:
        while rows := list(islice(ops, ROWS)):
            columns = _columns(rows, header, text_ids)
            counted.update(columns["outcome"])
            content.add(columns)
            writer.write_table(pa.table(columns, schema=schema))
        writer.add_key_value_metadata(content.told())
    return counted


def _text_columns(schema: Any) -> set[str]:
    """The columns whose values are JSON."""
    return {f.name for f in schema if (f.metadata or {}).get(b"encoding") == b"json"}


@contextmanager
def _reading(path: Path) -> Iterator[None]:
    """Whatever is wrong with a file is a HistoryError."""
    pa: Any = need("pyarrow", EXTRA, _WHAT)
    try:
        yield
    except (
        *(OSError, pa.ArrowException, msgspec.MsgspecError),
        *(ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError),
    ) as error:
        said = getattr(error, "strerror", None) or f"{type(error).__name__}: {error}"
        raise HistoryError(f"{path} cannot be read: {said}", remedy=_REMEDY) from None


def _opened(path: Path) -> Any:
    pq: Any = need("pyarrow.parquet", EXTRA, _WHAT)
    return pq.ParquetFile(path, page_checksum_verification=True)


def _header_of(path: Path, file: Any) -> bytes:
    about = file.schema_arrow.metadata or {}
    if about.get(b"dstest.schema") != SCHEMA.encode():
        raise HistoryError(
            f"{path} is no history that dstest wrote", remedy="dstest export RUN --to parquet"
        )
    return bytes(about[b"dstest.header"])


def read_parquet_header(path: Path) -> Header:
    """The header of such a file. Raises HistoryError where it is none of ours."""
    with _reading(path), _opened(path) as file:
        return msgspec.json.decode(_header_of(path, file), type=Header)


def each_of_parquet(path: Path) -> Iterator[Op]:
    """The operations of such a file, one row group in memory at a time. Raises HistoryError, at the
    latest when all were read, where they are not those that were written."""
    with _reading(path), _opened(path) as file:
        told = file.metadata.metadata or {}
        text = _text_columns(file.schema_arrow)
        content = _Content(_header_of(path, file), text)
        if b"dstest.sha256" not in told:
            raise HistoryError(
                f"{path} has no digest of its rows: an older version wrote it, or something else "
                "has since",
                remedy=_REMEDY,
            )
        for batch in file.iter_batches(batch_size=ROWS, columns=_said(file.schema_arrow.names)):
            columns = batch.to_pydict()
            content.add(columns)
            yield from _rows(columns, text)
        wanted = {name: told.get(name.encode(), b"").decode() for name in content.told()}
        if wanted != content.told():
            raise HistoryError(
                f"{path} was changed since it was written: {wanted['dstest.rows']} operations "
                f"were, {content.rows} are there, and the digest of what they say is another",
                remedy=_REMEDY,
            )


def require_whole(path: Path) -> None:
    """Raises HistoryError where such a file is not as it was written."""
    for _ in each_of_parquet(path):
        pass


def _rows(columns: dict[str, list[Any]], text: Iterable[str]) -> Iterator[Op]:
    for name in text:
        columns[name] = [None if v is None else json.loads(v) for v in columns[name]]
    if _DUE in columns:
        columns[_DUE] = [UNSET if due is None else due for due in columns[_DUE]]
    names = _said(columns)
    for row in zip(*(columns[name] for name in names), strict=True):
        yield Op(**dict(zip(names, row, strict=True)))
