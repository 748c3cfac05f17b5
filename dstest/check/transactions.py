"""`dstest check` of transactional histories: the file goes straight into columns.

Columns know events by their position only. What was found in a history of ours is therefore looked
up again in the file, for its times and fault epochs.

`dstest check` of other tools' sessions: transactions whose order is that of their session alone.

Real time is not in such files. What asks for it is judged by the strongest models below it that do
not: where those are violated it is, and else it is unknown.

`dstest check --batch`: many small histories, one a line, here or on the workers of a pool.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec
import numpy as np
from msgspec.structs import replace

from checkers._findings import Start, start_of
from checkers.txn import api, ingest, models
from checkers.txn._native import DETECTABLE
from checkers.txn.columns import (
    KINDS,
    ONCE,
    REGISTERS,
    TxnColumns,
    UnfitError,
    double_writers,
    start_at_null,
)
from checkers.txn.models import canonical, implied_models, judged_models
from checkers.txn.sessions.formats import READERS, load_sessions, sessions_in
from dstest.check.notes import ASKED, HEADER, SUCH, USUAL, start_told, with_notes, with_unread
from dstest.check.objects import json_of, memory_limit
from dstest.check.source import log_as_edn, opened, require_counts, weakened
from dstest.core.check import Anomaly, Budget, CheckResult
from dstest.core.clock import monotonic_ns
from dstest.core.errors import ConfigError, HistoryError
from dstest.core.formats import AUTO, SESSIONS
from dstest.core.history import INITIAL, SCHEMA, FaultWindow, Header, History, epochs_of
from dstest.core.op import Op
from dstest.history.jepsen_words import cut_off
from dstest.history.jsonl import require_plain

if TYPE_CHECKING:
    pass


_LINEARIZABLE: Final = "--model strict-serializable: the same, of transactions"
_REMEDY: Final = (
    "--workload list-append or rw-register says what it is; see docs/reference/formats.md"
)


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
        twice = double_writers(read.columns) if KINDS[workload].lists else None
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
        columns = start_at_null(columns, workload, start)
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
        from dstest.history.jepsen import sorted_lines

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
    from dstest.history.jepsen import from_edn, from_json

    try:
        event = next(iter((from_json if b'"type"' in first else from_edn)(first.decode())))
    except (HistoryError, StopIteration, UnicodeDecodeError, RecursionError):
        return None, False
    return (event.hints.header, True) if event.hints is not None else (None, False)


class _Times(msgspec.Struct):
    op_id: int | str
    invoke_ts: int
    complete_ts: int | None = None


def _records(
    path: Path, wanted: set[int | str]
) -> tuple[dict[int | str, Op], list[FaultWindow], int]:
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


USUAL_SESSION: Final = "strong-session-serializable"
"""The strongest model that the order of sessions decides."""

_WORKLOAD: Final = REGISTERS


def session_format(path: Path, format_: str) -> str | None:
    """The format of other tools' sessions that a path is in, or is said to be in."""
    if format_ == AUTO:
        return sessions_in(path)
    return format_ if format_ in SESSIONS else None


def _timed(model: str, anomalies: tuple[str, ...] = ()) -> bool:
    """Does it ask for real time?"""
    wanted = api.reportable((model,), anomalies)
    return any(anomaly.endswith("-realtime") for anomaly in wanted)


def _untimed(model: str) -> list[str]:
    """The strongest models below that do without real time."""
    able = {*judged_models(DETECTABLE)}
    below = {m for m in implied_models(canonical(model)) & able if not _timed(m)}
    implied = {m for b in below for m in implied_models(b) - {b}}
    return sorted(below - implied)


def _require(workload: str | None, checker: str | None, fmt: str, options: dict[str, Any]) -> None:
    """Raises ConfigError for what these files do not hold."""
    if other := next((n for n in (workload, checker) if n not in (None, _WORKLOAD)), None):
        raise ConfigError(
            f"a {fmt} file holds transactions on registers: {other} cannot judge it",
            remedy=f"leave it out, or --workload {_WORKLOAD}",
        )
    found = tuple(options.get("anomalies") or ())
    try:
        timed = options.get("linearizable-keys?") or (found and _timed(USUAL_SESSION, found))
    except ValueError as error:
        raise ConfigError(str(error), remedy="`dstest models` names them") from None
    if timed:
        raise ConfigError(
            f"a {fmt} file has no times: what asks for real time cannot be found in it",
            remedy="leave out -o linearizable-keys, and anomalies that end with -realtime",
        )


def begun_as(initial: str | None) -> dict[str, Start | None]:
    """What `--initial` says the keys start with, for `load_sessions`."""
    if initial is None:
        return {}
    header = Header(options={INITIAL: json_of(initial)})
    return {"start": start_of(History(header=header, ops=[]))}


def _untold(anomaly: Anomaly) -> Anomaly:
    """An anomaly without positions of events, which no such file tells."""
    nowhere = {"invoke_event": None, "complete_event": None}
    return replace(anomaly, witness=[{**row, **nowhere} for row in anomaly.witness])


def _noted(result: CheckResult, fmt: str, initial: str | None) -> CheckResult:
    """The answer, with the initial state that it holds for."""
    if initial is not None:
        start = json_of(initial)
        told = with_notes(result, start_told(start, ASKED))
        return replace(told, stats={**result.stats, INITIAL: start})
    reader = READERS[fmt]
    return with_notes(result, reader.assumed if reader.numbered else f"{reader.assumed}, {SUCH}")


def judge_sessions(
    path: Path,
    fmt: str,
    workload: str | None,
    checker: str | None,
    model: str | None,
    budget: Budget,
    options: dict[str, Any],
    initial: str | None,
) -> CheckResult:
    """The answer about a file of sessions. Raises HistoryError for what cannot be read, ConfigError
    for what cannot be asked, MemorySpent where reading takes more than the budget."""
    _require(workload, checker, fmt, options)
    asked = asked_models(model, USUAL_SESSION)
    timed = [m for m in asked if _timed(m)]
    judged = [m for name in asked for m in (_untimed(name) if name in timed else [name])]
    judged = list(dict.fromkeys(judged))
    told = begun_as(initial)
    started = monotonic_ns()
    with memory_limit(budget.memory_mb):
        columns = load_sessions(path, fmt, memory_mb=budget.memory_mb, **told)
    load_s = (monotonic_ns() - started) / 1e9
    try:
        result = api.check(columns, _WORKLOAD, judged, options, budget)
    except ValueError as error:
        raise HistoryError(f"{path}: {error}", remedy="see docs/reference/formats.md") from None
    result = replace(
        result,
        model=",".join(asked),
        anomalies={kind: list(map(_untold, found)) for kind, found in result.anomalies.items()},
        seconds=replace(result.seconds, load=load_s),
        stats={**result.stats, "format": fmt, "judged": judged},
    )
    if timed and result.valid is True:
        said = f"{', '.join(timed)} asks for real time, and the file has no times"
        result = replace(result, valid="unknown", reason=f"{said}; {', '.join(judged)} holds")
    return _noted(result, fmt, initial)
