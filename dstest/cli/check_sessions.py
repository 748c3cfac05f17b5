"""`dstest check` of other tools' sessions: transactions whose order is that of their session alone.

Real time is not in such files. What asks for it is judged by the strongest models below it that do
not: where those are violated it is, and else it is unknown.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from msgspec.structs import replace

from checkers._start import Start, start_of
from checkers.txn import api
from checkers.txn._native import DETECTABLE
from checkers.txn.duplicates import ONCE, written_twice
from checkers.txn.models import canonical, implied_models, judged_models
from checkers.txn.plugin import RW_REGISTER
from checkers.txn.sessions.formats import READERS, load_sessions, sessions_in
from dstest.cli.check_models import json_of
from dstest.cli.check_notes import ASKED, SUCH, start_told, with_notes
from dstest.cli.check_objects import memory_limit
from dstest.cli.check_txn import asked_models
from dstest.core.check import Anomaly, Budget, CheckResult
from dstest.core.clock import monotonic_ns
from dstest.core.errors import ConfigError, HistoryError
from dstest.core.formats import AUTO, SESSIONS
from dstest.core.history import INITIAL, Header, History

USUAL: Final = "strong-session-serializable"
"""The strongest model that the order of sessions decides."""

_WORKLOAD: Final = RW_REGISTER.name


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
        timed = options.get("linearizable-keys?") or (found and _timed(USUAL, found))
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
    asked = asked_models(model, USUAL)
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
        raise HistoryError(f"{path}: {written_twice(columns) or error}", remedy=ONCE) from None
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
