"""`dstest check` of list-append that is larger than memory: read once, and executed meanwhile.

What comes out is valid where the execution came to the end. Where it did not, the file is read a
second time for the operations on the keys that may tell why. What these violate is a violation;
else the answer is unknown, and says where the execution ended.
"""

from __future__ import annotations

import gzip
import resource
import tempfile
import zlib
from collections.abc import Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import IO, Any, Final, NamedTuple

import msgspec
from msgspec.structs import replace

from checkers.txn import api, ingest, models
from checkers.txn.columns import UnfitError, start_at_null
from checkers.txn.ingest import ENDS, STREAMED, Report, Stream, on_keys
from dstest.check.notes import with_notes
from dstest.check.source import opened, require_counts
from dstest.check.transactions import (
    asked_models,
    by_session,
    header_of,
    initial_of,
    judge_transactions,
    model_of,
    noted,
    with_records,
)
from dstest.core.check import Budget, CheckResult, KeyCount, OpCount, Seconds, Valid
from dstest.core.clock import monotonic_ns
from dstest.core.errors import ConfigError, HistoryError, MemorySpent
from dstest.core.formats import AUTO
from dstest.core.history import Header

_OURS: Final = b'{"schema":'
_PIECE_BYTES_MAX: Final = 4 << 20
_PIECE_BYTES_MIN: Final = 1 << 16
_PIECES: Final = 4
"""At a time: one being read, one being judged, what is left of one, and a copy."""

_HELD_SHARE: Final = 0.6
"""Of the memory budget, for what is held: many small blocks take up to two thirds more of the
system than they hold."""

_SELECTED_SHARE: Final = 8
"""The operations that are looked at again may be so small a part of the memory as text: judging
them takes several times as much."""

_PROVED: Final = "strong-serializable"
"""What an execution in order of real time shows."""

_UNSEEN: Final = "no transaction read what another one appended"


class _Limits(NamedTuple):
    """`window_bytes` and `piece_bytes` are for tests; the memory budget gives them else."""

    budget: Budget
    began_ns: int
    window_bytes: int | None = None
    piece_bytes: int | None = None

    @property
    def left_s(self) -> float:
        return self.budget.time_s - (monotonic_ns() - self.began_ns) / 1e9

    def left_mb(self, report: Report) -> int:
        """What the execution leaves of the memory, which stands while some operations are judged
        by themselves."""
        return max(1, self.budget.memory_mb - (report.memory_bytes >> 20))

    @property
    def line(self) -> int:
        """Bytes that a line may have."""
        share = (self.budget.memory_mb << 20) // 64
        return min(max(share, _PIECE_BYTES_MIN), _PIECE_BYTES_MAX)

    @property
    def piece(self) -> int:
        return self.piece_bytes or self.line


def judge_whole_or_stream(
    path: Path,
    format_: str,
    workload: str,
    model: str | None,
    budget: Budget,
    options: dict[str, Any],
    initial: str | None,
    *,
    stream: bool,
) -> CheckResult:
    """The answer about transactions, as they are read where that is asked, or where memory is too
    little to read them all."""
    if stream:
        if workload != STREAMED or format_ not in (AUTO, "dstest"):
            raise ConfigError(
                f"--stream judges {STREAMED} histories of ours (JSONL) alone",
                remedy="leave --stream out",
            )
        return judge_stream(path, model, budget, options, initial)
    began_ns = monotonic_ns()
    try:
        return judge_transactions(path, format_, workload, model, budget, options, initial)
    except MemorySpent:
        able = workload == STREAMED and not options and _streamable(path)
        if not able:
            raise
    left_s = budget.time_s - (monotonic_ns() - began_ns) / 1e9
    return judge_stream(path, model, replace(budget, time_s=max(0.0, left_s)), {}, initial)


def _streamable(path: Path) -> bool:
    """Can the file be judged piece by piece? Histories of ours can, and be read twice."""
    if not path.is_file():
        return False
    try:
        with opened(path) as file:
            return file.read(len(_OURS) + 3).removeprefix(b"\xef\xbb\xbf").startswith(_OURS)
    except (OSError, EOFError, zlib.error):
        return False  # the reader says what is wrong with it


def require_streamable(path: Path) -> None:
    """Raises HistoryError where there is nothing to read, ConfigError where it is no history of
    ours."""
    try:
        with opened(path) as file:
            first = file.read(1)
    except (OSError, EOFError, zlib.error) as error:
        raise HistoryError(f"{path}: {getattr(error, 'strerror', None) or error}") from None
    if not first:
        raise HistoryError(f"{path} is empty", remedy="a history of ours begins with its header")
    if not _streamable(path):
        raise ConfigError(
            f"--stream reads histories of ours (JSONL): {path} is none",
            remedy="leave --stream out, and give a --budget-mb that the history fits in",
        )


def judge_stream(
    path: Path,
    model: str | None,
    budget: Budget,
    options: dict[str, Any],
    initial: str | None = None,
    *,
    window_bytes: int | None = None,
    piece_bytes: int | None = None,
) -> CheckResult:
    """The answer about a list-append history of ours.

    Raises ConfigError for what cannot be asked so, HistoryError for a file that cannot be judged.
    """
    limits = _Limits(budget, monotonic_ns(), window_bytes, piece_bytes)
    require_streamable(path)
    before_mb = _resident_mb()
    asked, header = _asked(path, model, options)
    start = initial_of(header, initial)
    if start is not None:
        start_at_null(ingest.load(_first_line(path)), STREAMED, start)
    memory = int((budget.memory_mb << 20) * _HELD_SHARE) - _PIECES * limits.piece
    if memory <= 0:
        raise ConfigError("--budget-mb is too small to read a piece", remedy="8 or more")
    stream = Stream(memory, limits.window_bytes)
    why = _read(stream, path, limits)
    report = stream.report()
    if why is None and header is not None:
        outcomes = report.ok, report.failed, report.unknown
        require_counts(header, dict(zip(("ok", "fail", "unknown"), outcomes, strict=True)))
    result = _executed(report, asked, why)
    if why is None and report.end:
        result = _looked_at(stream, path, asked, limits, result)
    return noted(_measured(result, limits, before_mb), STREAMED, start, header, initial)


def _asked(
    path: Path, model: str | None, options: dict[str, Any]
) -> tuple[list[str], Header | None]:
    header, _ = header_of(path)
    asked = asked_models(model)
    if model is None and (said := model_of(header)) is not None:
        asked = [said]
    if header is not None and header.workload not in (None, STREAMED):
        raise ConfigError(
            f"--stream is for {STREAMED}, and the history is of {header.workload}",
            remedy="leave --stream out",
        )
    asked, given = by_session(asked, options)
    if given:
        raise ConfigError(
            f"--stream takes no -o {', '.join(given)}".replace("?", ""),
            remedy="leave it out, or --stream",
        )
    return asked, header


def _first_line(path: Path) -> bytes:
    with opened(path) as file:
        return file.readline()


def _pieces(path: Path, limits: _Limits) -> Generator[bytes]:
    """Whole lines, about a piece at a time. Raises HistoryError where the file is not whole,
    MemorySpent for a line that does not fit in the pieces that are counted with."""
    try:
        with opened(path) as file, ThreadPoolExecutor(1, "reading") as ahead:
            yield from _whole_lines(file, ahead, limits.piece, limits.line)
    except (OSError, EOFError, zlib.error) as error:
        raise HistoryError(f"not whole: {error}", remedy="copy the file again") from None


def _whole_lines(
    file: IO[bytes] | gzip.GzipFile, ahead: ThreadPoolExecutor, size: int, limit: int
) -> Iterator[bytes]:
    parts: list[bytes] = []
    held = 0
    coming = ahead.submit(file.read, size)
    while part := coming.result():
        coming = ahead.submit(file.read, size)
        end = part.rfind(b"\n") + 1
        if end:
            yield b"".join((*parts, part[:end]))
            parts, held = [part[end:]], len(part) - end
            continue
        parts.append(part)
        held += len(part)
        if held > limit:
            raise MemorySpent("memory budget spent on a line", remedy=ingest.MORE)
    if held:
        yield b"".join(parts)


def _read(stream: Stream, path: Path, limits: _Limits) -> str | None:
    """Feeds the whole file. Why that ended early, None where it did not."""
    with closing(_pieces(path, limits)) as pieces:
        for piece in pieces:
            if (why := stream.feed(piece, limits.left_s)) is not None:
                return why
    return stream.feed(b"", limits.left_s)


def _executed(report: Report, asked: list[str], why: str | None) -> CheckResult:
    """What the execution alone says."""
    doubts = [] if why is None else [f"{why}; not everything was looked at"]
    if why is None and report.end:
        doubts.append(
            f"operation {report.op_id} could not be executed in order of real time: "
            f"{ENDS[report.end]}"
        )
    elif why is None:
        doubts += [] if report.seen else [_UNSEEN]
        doubts += report.weaknesses
        proved = models.implied_models(_PROVED)
        if beyond := [name for name in asked if models.canonical(name) not in proved]:
            doubts.append(f"{', '.join(beyond)}: no order shows it")
        if report.touching and any(map(models.counts_sessions, asked)):
            doubts.append(api.TWO_AT_ONCE)
    valid: Valid = "unknown" if doubts else True
    return CheckResult(
        checker=STREAMED,
        valid=valid,
        workload=STREAMED,
        model=",".join(asked),
        ops=OpCount(total=report.ops, consumed=report.ops),
        keys=KeyCount(total=report.keys, decided=report.keys),
        reason="; ".join(doubts) or None,
        stats={"method": "streamed"},
    )


def _looked_at(
    stream: Stream, path: Path, asked: list[str], limits: _Limits, result: CheckResult
) -> CheckResult:
    """The answer, with what the operations on the keys where the execution ended violate."""
    report = stream.report()
    said: list[str] = []
    for keys in dict.fromkeys((len(report.involved), 1)):
        lines = _naming(stream, path, keys, limits)
        if lines is None:
            said.append(f"operations on {keys} keys that could tell why are too many to look at")
            continue
        for some in dict.fromkeys((1, keys)):
            try:
                found = _on_keys(lines, report, some, asked, limits)
            except (HistoryError, UnfitError, msgspec.DecodeError) as error:
                said.append(f"operations on {some} keys that could tell why: {error}")
                continue
            if found.valid is False:
                events = f"events are counted among {found.ops.total:,} of the operations"
                said = [*filter(None, [result.reason, found.reason, events])]
                whole = replace(found, ops=result.ops, keys=result.keys, stats=result.stats)
                return replace(whole, reason="; ".join(said))
        said.append(f"the {len(lines) - 1:,} operations on {keys} keys that could tell why do not")
        break
    remedy = "a larger --budget-mb looks further ahead, or is enough without --stream"
    return with_notes(result, *said, remedy)


def _naming(stream: Stream, path: Path, keys: int, limits: _Limits) -> list[bytes] | None:
    """The header, and the lines that name one of the first `keys` involved keys; None where that is
    too much, or takes too long."""
    room = (limits.left_mb(stream.report()) << 20) // _SELECTED_SHARE
    lines: list[bytes] = [_first_line(path).rstrip(b"\n")]
    first = True
    with closing(_pieces(path, limits)) as pieces:
        for piece in pieces:
            found = stream.naming(piece, keys, first=first)
            first = False
            room -= sum(map(len, found))
            lines += found
            if room < 0 or limits.left_s < 0:
                return None
    return lines


def _on_keys(
    lines: list[bytes], report: Report, some: int, asked: list[str], limits: _Limits
) -> CheckResult:
    """The ordinary answer about what the lines did to the first keys."""
    keys = {(type(name), name) for name in report.involved[:some] if name is not None}
    memory_mb = max(1, limits.left_mb(report) - 2 * (sum(map(len, lines)) >> 20))
    text = b"".join(line + b"\n" for line in (lines[0], *on_keys(lines[1:], keys)))
    columns = ingest.load(text, "dstest", memory_mb=memory_mb)
    budget = replace(limits.budget, time_s=max(1.0, limits.left_s), memory_mb=memory_mb)
    result = api.check(columns, STREAMED, asked, {}, budget)
    with tempfile.NamedTemporaryFile(prefix="dstest-") as file:
        file.writelines(line + b"\n" for line in lines)
        file.flush()
        anomalies = with_records(Path(file.name), result.anomalies, report.last_ns)
    return replace(result, anomalies=anomalies)


def _resident_mb() -> float:
    """What this process has had at most so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def _measured(result: CheckResult, limits: _Limits, before_mb: float) -> CheckResult:
    """With time and memory, which are what this is for. The budget is for what came on top of the
    `before_mb` that the program takes by itself."""
    peak_mb = _resident_mb()
    took_s = (monotonic_ns() - limits.began_ns) / 1e9
    return with_notes(
        replace(result, seconds=Seconds(check=took_s), peak_rss_mb=peak_mb),
        f"executed while it was read; it took {peak_mb:,.0f} MB, {before_mb:,.0f} of them before it"
        " began",
    )
