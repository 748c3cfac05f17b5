"""`History`: a run's, or that of a file, for whoever looks at it with pandas. Operations are read
anew each time that somebody goes through them, and refused where they are not what they were when
the history was checked.

Other tools' sessions of transactions have no times: an operation has its place in its session
instead, and between sessions the places say nothing. Where a file does not tell the place of a
transaction, as of aborted ones, its process is -1.
"""

from __future__ import annotations

import codecs
import hashlib
import re
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Self

from checkers.txn.columns import FAIL, OK, WRITE
from checkers.txn.sessions.formats import READERS
from dstest.core.errors import ConfigError, EvidenceError, HistoryError
from dstest.core.formats import AUTO, SESSIONS
from dstest.core.history import SCHEMA, FaultWindow, Header
from dstest.core.limits import UNPACKED_BYTES_MAX
from dstest.core.op import Op
from dstest.core.words import shell_word
from dstest.history.jsonl import each_op, read_header, write_exact

if TYPE_CHECKING:
    import pandas as pd

    from dstest.core.check import CheckResult
    from dstest.core.verdict import Verdict
    from dstest.report.model import RunReport
    from dstest.runner.integrity import Verified


_FILES: Final = (
    "history.jsonl",
    "verdict.json",
    "evidence.json",
    "run.json",
    "faults.jsonl",
    "canary.json",
)

_OURS: Final = re.compile(rb'\{"')


class FileStamp(NamedTuple):
    """What tells cheaply whether a file may be another one: of the times, a program can set back
    that of its content, but not that of its last change."""

    inode: int
    size: int
    content_ns: int
    change_ns: int


def file_stamp(path: Path) -> FileStamp | None:
    """None where nothing can be seen of it."""
    try:
        now = path.stat()
    except OSError:
        return None
    return FileStamp(now.st_ino, now.st_size, now.st_mtime_ns, now.st_ctime_ns)


def _sum(path: Path) -> str:
    """Empty where it cannot be read."""
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError:
        return ""


class Unchanged:
    """The files of a run that its verdict, history and report are read from, as they are now."""

    def __init__(self, run: Path) -> None:
        self._run = run
        paths = [run / name for name in _FILES]
        self._seen = {path: file_stamp(path) for path in paths}
        self._sums = {path: _sum(path) for path in paths}

    def require(self) -> None:
        """Raises EvidenceError where one of them has another content since. One that was written
        again as it was is the same."""
        for path, before in self._seen.items():
            now = file_stamp(path)
            if now == before:
                continue
            if _sum(path) != self._sums[path]:
                raise EvidenceError(
                    f"{path} was changed since it was read",
                    remedy="History.from_run checks it again",
                )
            self._seen[path] = now


class Source(NamedTuple):
    """A header, and a function that goes through the operations from the beginning. `path` with
    `words` is how `dstest check` is given the same, None where there is no such file. `size` says
    how many operations there are: once it was asked, without going through them again."""

    header: Header
    each: Callable[[], Iterator[Op]]
    size: Callable[[], int]
    path: Path | None = None
    words: tuple[str, ...] = ()


def of_ops(header: Header, ops: list[Op]) -> Source:
    """Of operations that are in memory."""
    return Source(header, lambda: iter(ops), lambda: len(ops))


def cached_count(path: Path, each: Callable[[], Iterator[Op]]) -> Callable[[], int]:
    """Counts what a file has, and counts again only where it is another one since."""
    known: dict[FileStamp | None, int] = {}

    def count() -> int:
        now = file_stamp(path)
        if now is None or now not in known:
            known.clear()
            known[now] = sum(1 for _ in each())
        return known[now]

    return count


def _is_ours(path: Path) -> bool:
    """Is it a plain file of ours, which can be read line by line?"""
    try:
        with path.open("rb") as file:
            head = file.readline(1 << 20)
    except OSError as error:
        raise HistoryError(f"{path}: {error.strerror}", remedy="check the path") from None
    ours = _OURS.match(head.removeprefix(codecs.BOM_UTF8)) is not None
    return ours and f'"{SCHEMA}"'.encode() in head and b'"dstest"' not in head


def of_file(path: Path, fmt: str, independent: bool | None) -> Source:
    """Of a file in any notation that `dstest check` reads. Raises HistoryError."""
    from checkers.txn.sessions.formats import sessions_in

    words = () if fmt == AUTO else ("--format", fmt)
    sessions = fmt if fmt in SESSIONS else sessions_in(path) if fmt == AUTO else None
    if sessions is not None:
        header, ops = read_sessions(path, sessions)
        return of_ops(header, ops)._replace(path=path, words=words)
    if fmt in (AUTO, "dstest") and _is_ours(path):

        def each() -> Iterator[Op]:
            return each_op(path)

        return Source(read_header(path), each, cached_count(path, each), path, words)
    from dstest.history.importers import load_history

    if independent is not None:
        words = (*words, "--independent" if independent else "--no-independent")
    history = load_history(path, fmt, independent=independent)
    return of_ops(history.header, history.ops)._replace(path=path, words=words)


class History:
    """Operations in order of invocation, with the header that says how they were recorded.

    What a run has besides (`verdict`, `faults`, `anomalies`) is there for one from `from_run`.
    """

    def __init__(
        self, source: Source, checked: Verified | None = None, files: Unchanged | None = None
    ) -> None:
        self._source = source
        self._checked = checked
        self._files = files
        self._report: RunReport | None = None

    @classmethod
    def from_run(cls, path: str | Path) -> Self:
        """A run that is over. Its files are compared with their sums first, as `dstest report`
        does: raises EvidenceError where it was cut off or edited or is not over yet, ConfigError
        where the path is no run.

        Whatever reads the files again later raises EvidenceError where they were changed since.
        """
        from dstest.history.layout import RunDir
        from dstest.runner.integrity import is_finished, verify_run

        run = RunDir.open(Path(path))
        if not is_finished(run):
            raise EvidenceError(
                f"{run.path} was not judged to its end ({run.status() or 'no status'})",
                remedy=f"`dstest recover {shell_word(run.path)}` judges it; History.from_file "
                "reads its history alone, where it is sealed",
            )
        files = Unchanged(run.path)
        checked = verify_run(run)
        source = of_file(run.history, "dstest", None)._replace(path=run.path)
        files.require()
        return cls(source, checked, files)

    @classmethod
    def from_file(
        cls, path: str | Path, *, format: str = AUTO, independent: bool | None = None
    ) -> Self:
        """A history in any notation that `dstest check` reads. Raises HistoryError.

        `independent`: are the values of a Jepsen history [key value] tuples? Sessions of other
        tools have no times; their operations have places within their session instead.
        """
        return cls(of_file(Path(path), format, independent))

    @classmethod
    def from_parquet(cls, path: str | Path) -> Self:
        """What `to_parquet` wrote, read once to see that it still is that: raises HistoryError. It
        is a history, and no run: it has no verdict."""
        from dstest.notebook.frames import each_of_parquet, read_parquet_header, require_whole

        file = Path(path)
        require_whole(file)

        def each() -> Iterator[Op]:
            return each_of_parquet(file)

        return cls(Source(read_parquet_header(file), each, cached_count(file, each)))

    @classmethod
    def of(cls, header: Header, ops: list[Op]) -> Self:
        """Of operations that were made in Python."""
        return cls(of_ops(header, ops))

    def __repr__(self) -> str:
        """System, workload, how many operations, verdict; of what is not known nothing."""
        header = self.header
        system = " ".join(part for part in (header.system, header.system_version) if part)
        named = [part for part in (system, header.workload) if part]
        count = self._source.size()
        verdict = "no run, not judged" if self._checked is None else self._verdict_word()
        return f"<History: {', '.join([*named, f'{count:,} operations', verdict])}>"

    def _verdict_word(self) -> str:
        assert self._checked is not None
        return str(self._checked.verdict.verdict.value)

    @property
    def header(self) -> Header:
        """Model, seed, nodes, clock, fault windows; what is not known is None."""
        return self._source.header

    @property
    def windows(self) -> list[FaultWindow]:
        """The fault windows."""
        return self.header.windows

    def __iter__(self) -> Iterator[Op]:
        """The operations, one at a time, in constant memory where the file allows it."""
        self._unchanged()
        yield from self._source.each()
        self._unchanged()

    @property
    def ops(self) -> list[Op]:
        """All operations in memory."""
        return list(self)

    def to_pandas(self) -> pd.DataFrame:
        """A row per operation: the twelve fields, `outcome`, the times as timedeltas (`invoke`,
        `complete`, `latency`) and the fault windows that it overlaps (`windows`, `in_fault`).
        Raises ConfigError without pandas."""
        from dstest.notebook.frames import ops_frame

        return ops_frame(self, self.windows)

    def to_parquet(self, path: str | Path) -> None:
        """Write all of it, in row groups; `from_parquet` gives the same history. Raises ConfigError
        without pyarrow."""
        from dstest.notebook.frames import write_parquet

        place = Path(path)
        partial = place.with_name(f".{place.name}.partial")
        try:
            write_parquet(partial, self.header, self.__iter__)
            partial.replace(place)
        finally:
            partial.unlink(missing_ok=True)

    @property
    def is_run(self) -> bool:
        """Is it that of a run, which was judged?"""
        return self._checked is not None

    @property
    def report(self) -> RunReport:
        """All that the page of the run shows. Raises ConfigError where there is no run."""
        self._of_run()
        if self._report is None:
            from dstest.report.model import load_report

            assert self._source.path is not None
            report = load_report(self._source.path)
            self._unchanged()
            self._report = report
        return self._report

    def _unchanged(self) -> None:
        if self._files is not None:
            self._files.require()

    def _of_run(self) -> Verified:
        if self._checked is None:
            raise ConfigError(
                "this is a history alone, without a run: nobody has judged it",
                remedy="History.from_run, or .check()",
            )
        self._unchanged()
        return self._checked

    @property
    def verdict(self) -> Verdict:
        """As the judge gave it, and gave it again when the run was read. A pass of a run that ended
        early is none: `passed` says so."""
        return self._of_run().verdict

    @property
    def passed(self) -> bool:
        """Is the verdict a pass, of a run that came to its end?"""
        return self._of_run().exit_code == 0 and self.verdict.verdict.passed

    def faults(self) -> pd.DataFrame:
        """A row per fault: when it was injected, landed and healed, and what proves it."""
        from dstest.notebook.frames import faults_frame

        return faults_frame(self.report)

    def anomalies(self) -> pd.DataFrame:
        """A row per anomaly. None is no pass: that is for the verdict to say, which is in
        `attrs["verdict"]`."""
        from dstest.notebook.frames import anomalies_frame

        return anomalies_frame(self.report)

    def check(
        self,
        *,
        models: Sequence[str] = (),
        workload: str | None = None,
        options: dict[str, Any] | None = None,
    ) -> list[CheckResult]:
        """Judge it by `dstest check`, in a process of its own: an answer for each of the models, or
        one for what the history says of itself. `valid` is True, False or "unknown".

        Raises HistoryError where it cannot be judged, as one of Python with values that JSON cannot
        hold as they are.
        """
        from dstest.core.processes import check_answer
        from dstest.core.run_words import option_words

        if isinstance(models, str):
            raise TypeError('models are several: models=["register"]')
        words = list(self._source.words)
        words += [] if workload is None else ["--workload", workload]
        words += option_words(options)
        asked = [["--model", model] for model in models] or [[]]
        with tempfile.TemporaryDirectory(prefix="dstest-notebook-") as scratch:
            path = self._source.path
            if path is None:
                path = Path(scratch) / "history.jsonl"
                write_exact(path, self.header, self)
            self._unchanged()
            results = [
                check_answer(path.absolute(), [*words, *model], Path.cwd()) for model in asked
            ]
            self._unchanged()
        return results


def read_sessions(path: Path, fmt: str) -> tuple[Header, list[Op]]:
    """A header and a `txn` per transaction. Raises HistoryError."""
    found, _ = READERS[fmt].load(path, UNPACKED_BYTES_MAX)
    outcomes, sessions = found.outcome.tolist(), found.session.tolist()
    asked: list[list[Any]] = [[] for _ in outcomes]
    answered: list[list[Any]] = [[] for _ in outcomes]
    for kind, key, value, txn, null in found.rows():
        writes = kind == WRITE
        asked[txn].append(["w", key, value] if writes else ["r", key, None])
        seen = value if writes or (outcomes[txn] == OK and not null) else None
        answered[txn].append(["w" if writes else "r", key, seen])
    places: dict[int, int] = {}
    ops = []
    for txn, (session, outcome, name) in enumerate(
        zip(sessions, outcomes, found.name.tolist(), strict=True)
    ):
        place = places[session] = places.get(session, -1) + 1
        ops.append(
            Op(
                op_id=name,
                process_id=session,
                invoke_ts=place,
                complete_ts=place if outcome in (OK, FAIL) else None,
                op_type="txn",
                input=asked[txn],
                output=answered[txn] if outcome == OK else None,
                error="aborted" if outcome == FAIL else None,
                timeout_marker=outcome not in (OK, FAIL),
            )
        )
    return Header(workload="rw-register", source=f"{fmt}: {path}"), ops
