"""`dstest check` of transactional histories: the file goes straight into columns.

Columns know events by their position only. What was found in a history of ours is therefore looked
up again in the file, for its times and fault epochs.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec
import numpy as np
from msgspec.structs import replace

from checkers._start import Start, start_of
from checkers.txn import api, ingest, models
from checkers.txn._native import DETECTABLE
from checkers.txn.begun import begun
from checkers.txn.columns import TxnColumns, UnfitError
from checkers.txn.duplicates import ONCE, written_twice
from checkers.txn.workloads import KINDS
from dstest.cli.check_lints import require_counts, weakened
from dstest.cli.check_look import log_as_edn, opened
from dstest.cli.check_models import json_of
from dstest.cli.check_notes import ASKED, HEADER, USUAL, start_told, with_notes, with_unread
from dstest.core.check import Anomaly, Budget, CheckResult
from dstest.core.clock import monotonic_ns
from dstest.core.errors import ConfigError, HistoryError
from dstest.core.history import INITIAL, SCHEMA, Header, History, Window, epochs_of
from dstest.core.op import Op
from dstest.store.jepsen import from_edn, from_json, sorted_lines
from dstest.store.jepsen_open import cut_off
from dstest.store.jsonl import require_plain

_LINEARIZABLE: Final = "--model strict-serializable: the same, of transactions"
_REMEDY: Final = "--workload list-append or rw-register says what it is; see docs/formats.md"


def judge_transactions(
    path: Path,
    format_: str,
    workload: str,
    model: str | None,
    budget: Budget,
    options: dict[str, Any],
    initial: str | None = None,
) -> CheckResult:
    """The answer of a transaction checker, with our own records where the file holds them.

    Raises ConfigError for a model that cannot be judged, HistoryError for a file that cannot be,
    MemorySpent where reading it takes more than the budget.
    """
    asked = asked_models(model)
    by_session(asked if model is not None else [], options)  # before much is read
    started = monotonic_ns()
    read = read_transactions(path, format_, workload, budget, initial)
    if model is None and read.model is not None:
        asked = [read.model]
    asked, given = by_session(asked, options)
    load_s = (monotonic_ns() - started) / 1e9
    try:
        result = api.check(read.columns, workload, asked, given, budget)
    except UnfitError as error:
        twice = written_twice(read.columns)
        remedy = ONCE if twice else _REMEDY
        raise HistoryError(f"{path}: {twice or error}", remedy=remedy) from None
    except ValueError as error:
        raise ConfigError(str(error), remedy="name others behind -o anomalies or --model") from None
    anomalies = with_records(path, result.anomalies)
    whole = replace(result, anomalies=anomalies, seconds=replace(result.seconds, load=load_s))
    told = noted(whole, workload, read.start, read.header, initial)
    return weakened(with_unread(told, read.columns.unread), read.weak)


class Read(NamedTuple):
    """A file's transactions, each key starting with null; `weak` says what keeps a clean one from
    being valid, `start` what the keys started with where somebody says."""

    columns: TxnColumns
    header: Header | None
    start: Start | None
    weak: list[str]

    def told(self, initial: str | None) -> str:
        """What the keys start with, where `--initial` or the file says it; else nothing."""
        if self.start is None:
            return ""
        value = self.start.every if self.start.by_key is None else dict(self.start.by_key)
        return start_told(value, HEADER if initial is None else ASKED)

    @property
    def model(self) -> str | None:
        """What the file says it is held to, where that can be judged."""
        return model_of(self.header)


def model_of(header: Header | None) -> str | None:
    """The model that a header names, where transactions can be judged by it."""
    said = None if header is None else header.model
    return said if said in models.judged_models(DETECTABLE) else None


def read_transactions(
    path: Path, format_: str, workload: str, budget: Budget, initial: str | None
) -> Read:
    """What a file holds. Raises HistoryError, MemorySpent where it takes more than the budget."""
    columns = _columns(path, format_, budget.memory_mb)
    header, exported = header_of(path)
    weak: list[str] = []
    if header is not None:
        outcomes = np.bincount(columns.outcome, minlength=3).tolist()
        if exported and (open_ := int(np.count_nonzero(columns.complete_pos < 0))):
            weak.append(cut_off(open_))
        require_counts(header, dict(zip(("ok", "fail", "unknown"), outcomes, strict=True)), weak)
    start = initial_of(header, initial)
    if start is not None:
        columns = begun(columns, workload, start)
    return Read(columns, header, start, weak)


def _columns(path: Path, format_: str, memory_mb: int) -> TxnColumns:
    """The transactions in a file, a log and events out of order included."""
    told = log_as_edn(path, format_)
    try:
        if told is None:
            return ingest.load(path, format_, memory_mb=memory_mb)
        return ingest.load(told.encode(), "edn", memory_mb=memory_mb)
    except ingest.OutOfOrder:
        if told is None:
            with opened(path) as file:
                told = file.read().decode("utf-8-sig")
        return ingest.load(sorted_lines(told), "json", memory_mb=memory_mb)
    except HistoryError as error:
        if told is None or error.column is None:
            raise
        message = error.message.partition(": ")[2]  # columns are those of the op map
        raise HistoryError(message, line=error.line, remedy=error.remedy) from None


def noted(
    result: CheckResult, workload: str, start: Start | None, header: Header | None,
    initial: str | None,
) -> CheckResult:  # fmt: skip
    """The answer, with the initial state that it holds for."""
    if start is not None:
        told = start.every if start.by_key is None else dict(start.by_key)
        said = start_told(told, HEADER if initial is None else ASKED)
        return with_notes(replace(result, stats={**result.stats, INITIAL: told}), said)
    if header is not None:
        return result
    kind = KINDS[workload]
    return with_notes(
        result, f"every key starts as {kind.first}, {USUAL if kind.starts else 'as usual'}"
    )


def initial_of(header: Header | None, initial: str | None) -> Start | None:
    """What the keys start with, by `--initial` or else by the header; None where nobody says."""
    options = {} if header is None else header.options
    if initial is not None:
        options = {**options, INITIAL: json_of(initial)}
    return start_of(History(header=Header(options=options), ops=[]))


def asked_models(model: str | None, usual: str = models.STRONGEST) -> list[str]:
    """The models that are asked for, `usual` where none is. Raises ConfigError for one that cannot
    be judged."""
    asked = [name.strip() for name in (model or usual).split(",")]
    try:
        for name in asked:
            models.require_judged(name, DETECTABLE)
    except ValueError as error:
        remedy = _LINEARIZABLE if name == "linearizable" else "choose another --model"
        raise ConfigError(str(error), remedy=remedy) from None
    return asked


def by_session(asked: list[str], options: dict[str, Any]) -> tuple[list[str], dict[str, Any]]:
    """The models, and the options without that one which says that each is asked for in the form
    that counts sessions. Raises ConfigError where a model has no such form."""
    given = dict(options)
    if not given.pop("session-order?", False):
        return asked, given
    try:
        return [models.with_sessions(name) for name in asked], given
    except ValueError as error:
        raise ConfigError(
            str(error), remedy="choose another --model, or leave -o session-order out"
        ) from None


def _own(first: bytes) -> Header | None:
    """The header that a first line of ours is; None where it is something else."""
    try:
        header = msgspec.json.decode(first.removeprefix(b"\xef\xbb\xbf"), type=Header)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    named = msgspec.json.decode(first.removeprefix(b"\xef\xbb\xbf"))
    ours = header.schema == SCHEMA and "schema" in named and "process" not in named
    return header if ours else None


def header_of(path: Path) -> tuple[Header | None, bool]:
    """The header of a history of ours, or of an export of ours, and whether it is an export; None
    where the file has none."""
    with opened(path) as file:
        first = file.readline().removeprefix(b"\xef\xbb\xbf")
    if (header := _own(first)) is not None:
        require_plain(first, 1)
        return header, False
    try:
        event = next(iter((from_json if b'"type"' in first else from_edn)(first.decode())))
    except (HistoryError, StopIteration, UnicodeDecodeError, RecursionError):
        return None, False
    return (event.hints.header, True) if event.hints is not None else (None, False)


class _Times(msgspec.Struct):
    op_id: int | str
    invoke_ts: int
    complete_ts: int | None = None


def _records(path: Path, wanted: set[int | str]) -> tuple[dict[int | str, Op], list[Window], int]:
    """The wanted operations by id, the fault windows and the end of the run; nothing where the
    history is not ours."""
    with opened(path) as file:
        header = _own(file.readline())
        if header is None:
            return {}, [], 0
        records: dict[int | str, Op] = {}
        end_ns = 0
        for line in file:
            if not line.strip():
                continue
            times = msgspec.json.decode(line, type=_Times)
            end_ns = max(end_ns, times.invoke_ts, times.complete_ts or 0)
            if times.op_id in wanted:
                records[times.op_id] = msgspec.json.decode(line, type=Op)
    return records, header.windows, end_ns


def with_records(
    path: Path, anomalies: dict[str, list[Anomaly]], last_ns: int = 0
) -> dict[str, list[Anomaly]]:
    """The anomalies with the records of a history of ours, which ends at `last_ns` or later."""
    wanted = {op for group in anomalies.values() for anomaly in group for op in anomaly.ops}
    if not wanted:
        return anomalies
    ops, windows, end_ns = _records(path, wanted)
    end_ns = max(end_ns, last_ns)
    if wanted - ops.keys():
        return anomalies

    def whole(anomaly: Anomaly) -> Anomaly:
        epochs = {
            epoch: None for op in anomaly.ops for epoch in epochs_of(ops[op], windows, end_ns)
        }
        witness: list[dict[str, Any]] = []
        for row in anomaly.witness:
            edge = {"edge": row["edge"]} if "edge" in row else {}
            witness.append({**msgspec.to_builtins(ops[row["op_id"]]), **edge})
        return replace(anomaly, witness=witness, epochs=list(epochs))

    return {kind: [whole(anomaly) for anomaly in group] for kind, group in anomalies.items()}
