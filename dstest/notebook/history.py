"""`History`: a run's, or that of a file, for whoever looks at it with pandas."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from dstest.core.errors import ConfigError, EvidenceError
from dstest.core.formats import AUTO
from dstest.core.history import Header, Window
from dstest.core.op import Op
from dstest.core.words import shell_word
from dstest.notebook.sources import Source, counted, of_file, of_ops
from dstest.notebook.unchanged import Unchanged
from dstest.store.exact import write_exact

if TYPE_CHECKING:
    import pandas as pd

    from dstest.core.check import CheckResult
    from dstest.core.verdict import Verdict
    from dstest.report.model import RunReport
    from dstest.runner.integrity import Verified


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
        from dstest.runner.integrity import finished, verified
        from dstest.store.layout import RunDir

        run = RunDir.open(Path(path))
        if not finished(run):
            raise EvidenceError(
                f"{run.path} was not judged to its end ({run.status() or 'no status'})",
                remedy=f"`dstest recover {shell_word(run.path)}` judges it; History.from_file "
                "reads its history alone, where it is sealed",
            )
        files = Unchanged(run.path)
        checked = verified(run)
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
        from dstest.notebook.parquet import each_of_parquet, read_parquet_header, require_whole

        file = Path(path)
        require_whole(file)

        def each() -> Iterator[Op]:
            return each_of_parquet(file)

        return cls(Source(read_parquet_header(file), each, counted(file, each)))

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
    def windows(self) -> list[Window]:
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
        from dstest.notebook.parquet import write_parquet

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
        from dstest.core.option_words import option_words
        from dstest.core.own_commands import checked

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
            results = [checked(path.absolute(), [*words, *model], Path.cwd()) for model in asked]
            self._unchanged()
        return results
