"""Operations, faults and anomalies as data frames of pandas, and histories as Parquet, in row
groups, so that one larger than memory is written and read.

In Parquet the twelve fields are columns of these names; keys, inputs and outputs are JSON, and so
are ids where not all are integers. The header is in the metadata, with the number of rows and a
digest of what they say (`_Content`): Parquet notices few of the changes that a file may suffer, so
both are asked whenever a file is read, and a file that has none is refused.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec
from msgspec import UNSET

from dstest.core.errors import HistoryError
from dstest.core.extras import need
from dstest.core.history import RUN_END_NS, FaultWindow, Header, epochs_of
from dstest.core.op import FIELDS, Op, Outcome
from dstest.history.jsonl import exact_ops, require_exact
from dstest.report.model import RunReport
from dstest.report.moments import moments

if TYPE_CHECKING:
    import pandas as pd


EXTRA: Final = "notebook"

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


def _pandas() -> None:
    """Raises ConfigError where pandas is not installed."""
    need("pandas", EXTRA, "a data frame")


def windows_of(op: Op, windows: list[FaultWindow]) -> str:
    """The fault windows that an operation overlaps: `f1`, `f1 f2`, empty for none. One that never
    completed lasts until the end of the run, and so until all later windows."""
    return " ".join(epochs_of(op, windows, RUN_END_NS)) if windows else ""


class _Columns:
    """The twelve fields, and what is derived of them, a list each."""

    def __init__(self) -> None:
        self.rows: dict[str, list[Any]] = {
            name: [] for name in (*FIELDS, "due_ts", "outcome", "windows")
        }

    def add(self, ops: Iterable[Op], windows: list[FaultWindow]) -> None:
        put = {name: rows.append for name, rows in self.rows.items()}
        fields = [(put[name], name) for name in FIELDS]
        for op in ops:
            for append, name in fields:
                append(getattr(op, name))
            put["due_ts"](op.due_ns)
            put["outcome"](op.outcome.value)
            put["windows"](windows_of(op, windows))


def _ids(pd: Any, values: list[Any]) -> Any:
    """Integers where all are, else what they are."""
    if all(type(value) is int and -(2**63) <= value < 2**63 for value in values):
        return pd.Series(values, dtype="int64")
    return pd.Series(values, dtype="object")


def ops_frame(ops: Iterable[Op], windows: list[FaultWindow]) -> pd.DataFrame:
    """A row per operation, in order of invocation."""
    _pandas()
    import pandas as pd

    found = _Columns()
    found.add(ops, windows)
    rows = found.rows
    category: Any = "category"
    frame = pd.DataFrame(
        {
            "op_id": _ids(pd, rows.pop("op_id")),
            "process_id": _ids(pd, rows.pop("process_id")),
            "invoke_ts": pd.Series(rows.pop("invoke_ts"), dtype="int64"),
            "complete_ts": pd.Series(rows.pop("complete_ts"), dtype="Int64"),
            "op_type": pd.Series(rows.pop("op_type"), dtype=category),
            "key": pd.Series(rows.pop("key"), dtype="object"),
            "input": pd.Series(rows.pop("input"), dtype="object"),
            "output": pd.Series(rows.pop("output"), dtype="object"),
            "error": pd.Series(rows.pop("error"), dtype="object"),
            "timeout_marker": pd.Series(rows.pop("timeout_marker"), dtype="bool"),
            "node_seen": pd.Series(rows.pop("node_seen"), dtype=category),
            "fault_epoch": pd.Series(rows.pop("fault_epoch"), dtype=category),
        }
    )
    frame["outcome"] = pd.Categorical(rows.pop("outcome"), [one.value for one in Outcome])
    frame["invoke"] = pd.to_timedelta(frame["invoke_ts"], unit="ns")
    frame["complete"] = _times(pd, frame["complete_ts"])
    frame["latency"] = frame["complete"] - frame["invoke"]
    frame["due"] = pd.to_timedelta(pd.Series(rows.pop("due_ts"), dtype="int64"), unit="ns")
    frame["windows"] = pd.Series(rows.pop("windows"), dtype=category)
    frame["in_fault"] = frame["windows"] != ""
    return frame


def _times(pd: Any, values: Any) -> Any:
    """Nanoseconds as timedelta64[ns], NaT for none."""
    return pd.to_timedelta(pd.Series(values, dtype="Int64"), unit="ns")


def faults_frame(report: RunReport) -> pd.DataFrame:
    """A row per fault. `landed` is the judge's word, which may be less than the record's."""
    _pandas()
    import pandas as pd

    views = {view.id: view for view in report.faults}
    rows = [
        {
            "fault_id": record.fault_id,
            "nemesis": record.nemesis,
            "epoch": record.epoch,
            "kind": (view := views[record.fault_id]).kind,
            "targets": record.targets,
            "scheduled_at": record.scheduled_at,
            "injected_at": record.injected_at,
            "landed_at": record.landed_at,
            "heal_start": record.heal_start,
            "healed_at": record.healed_at,
            "landed": view.landed,
            "heal_verified": record.heal_verified,
            "residue": record.residue,
            "looks": view.looks,
            "injector": None if record.injector is None else record.injector.signal,
            "injector_moved": record.injector is not None and record.injector.moved,
            "victim": None if record.victim is None else record.victim.signal,
            "victim_moved": record.victim is not None and record.victim.moved,
            "control": None if record.control is None else record.control.signal,
            "notes": view.notes,
        }
        for record in report.records
    ]
    times = ("scheduled_at", "injected_at", "landed_at", "heal_start", "healed_at")
    names = list(rows[0]) if rows else ["fault_id", "nemesis", "landed", "heal_verified", *times]
    frame = pd.DataFrame(rows, columns=names)
    for name in times:
        frame[name] = _times(pd, frame[name])
    return frame


def anomalies_frame(report: RunReport) -> pd.DataFrame:
    """A row per anomaly with its witness. Whether there is none because all is well, the verdict
    says: it is in `attrs`."""
    _pandas()
    import pandas as pd

    rows = [
        {
            "number": one.number,
            "checker": one.checker,
            "type": one.anomaly.type,
            "key": one.anomaly.key,
            "explanation": one.anomaly.explanation,
            "did": one.meaning.did,
            "means": one.meaning.means,
            "where": one.where,
            "ops": list(one.anomaly.ops),
            "minimal": one.anomaly.minimal,
            "epochs": list(one.anomaly.epochs),
            "culprit": one.culprit,
            "start": one.start_ns,
            "told": one.told_ns,
        }
        for one in moments(report, [])
    ]
    names = list(rows[0]) if rows else ["number", "checker", "type", "key", "explanation", "ops"]
    frame = pd.DataFrame(rows, columns=names, dtype="object").infer_objects()
    for name in ("key", "culprit"):
        if name in frame:  # numbers beside none would become floats
            frame[name] = pd.Series([row[name] for row in rows], dtype="object")
    for name in ("start", "told"):
        if name in frame:
            frame[name] = _times(pd, frame[name])
    frame.attrs["verdict"] = report.state.value
    return frame


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
        return _write(target, header, exact_ops(each()), text_ids=False)
    except _NotIntegers:
        if hasattr(target, "seek"):
            target.seek(0)
            target.truncate()
        return _write(target, header, exact_ops(each()), text_ids=True)


def _data_columns(columns: Iterable[str]) -> list[str]:
    """The columns that say what was recorded; the others follow from them."""
    return [*FIELDS, *({_DUE} & {*columns})]


class _Content:
    """SHA-256 of what a file says, however Parquet encodes it: the header, the names of the columns
    that are JSON, then of each row its fields as a JSON list and a line end."""

    def __init__(self, header: bytes, text: Iterable[str]) -> None:
        self.rows = 0
        self._sum = hashlib.sha256(header + b"\n" + " ".join(sorted(text)).encode() + b"\n")

    def add(self, columns: dict[str, list[Any]]) -> None:
        for row in zip(*(columns[name] for name in _data_columns(columns)), strict=True):
            self._sum.update(_ENCODE(row).encode() + b"\n")
            self.rows += 1

    def told(self) -> dict[str, str]:
        return {"dstest.rows": str(self.rows), "dstest.sha256": self._sum.hexdigest()}


def _write(target: Any, header: Header, ops: Iterator[Op], *, text_ids: bool) -> Counter[str]:
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
        for batch in file.iter_batches(
            batch_size=ROWS, columns=_data_columns(file.schema_arrow.names)
        ):
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
    names = _data_columns(columns)
    for row in zip(*(columns[name] for name in names), strict=True):
        yield Op(**dict(zip(names, row, strict=True)))
