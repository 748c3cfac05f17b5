"""Rates and latencies of runs, by the metrics of `dstest compare`. A history has to be read for
them, so they are kept by its key, and those of many runs come one after the other."""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections.abc import Callable, Iterable
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from typing import Final

import msgspec

from checkers.slo import measured
from dstest.compare.measured import METRICS
from dstest.core import clock
from dstest.core.parent import end_with_parent
from dstest.report.headline import headline_of
from dstest.report.model import RunReport, load_report
from dstest.serve.cache import Cache
from dstest.serve.reading import HISTORY
from dstest.serve.row import Figures, Row
from dstest.store.jsonl import read_history
from dstest.store.layout import RunDir

LARGEST_BYTES: Final = 64 * 1024 * 1024
"""A larger history takes minutes and gigabytes to read: `dstest compare` does."""

AT_ONCE_BYTES: Final = 2 * 1024 * 1024
"""A page waits for a history of this size."""


def figures_of(run: Path, failed: bool = False) -> Figures:
    """Of a sealed run, which has `failed` or not. Never raises for what lies there."""
    path, report = run / HISTORY, None
    try:
        size = path.stat().st_size
        if size > LARGEST_BYTES:
            mb = size / 1e6
            return Figures(why=f"its history is large ({mb:,.0f} MB): `dstest compare` reads it")
        report = _report(run) if failed else None
        history = read_history(path) if report is None else report.history
        meta = RunDir(run).read_meta()
        stopped = meta is not None and bool(meta.stopped_by)
        found = {metric: measured(history, metric, stopped=stopped) for metric in METRICS}
        values = {name: value for name, value in found.items() if not isinstance(value, str)}
        whys = {name: value for name, value in found.items() if isinstance(value, str)}
        none = "" if values else next(iter(whys.values()))
        figures = Figures(whys=whys, why=none, headline=_headline(report))
        return msgspec.structs.replace(figures, **values)
    except Exception as error:
        why = f"{error or type(error).__name__}".splitlines()[0]
        return Figures(why=why, headline=_headline(report))


def _report(run: Path) -> RunReport | None:
    """None where there is none to be had, for whatever reason."""
    try:
        return load_report(run)
    except Exception:
        return None


def _headline(report: RunReport | None) -> str:
    try:
        return "" if report is None else headline_of(report)
    except Exception:
        return ""


class Measures:
    """Of the runs of a store. Any thread may ask; `some` is for one thread alone, and reads in a
    process aside, so that pages do not wait for it."""

    def __init__(self, store: Path, cache: Cache) -> None:
        self._store = store
        self._cache = cache
        self._found = cache.figures()
        self._pool: ProcessPoolExecutor | None = None

    def of(self, row: Row) -> Figures | None:
        """What is known already; None where nobody has looked."""
        return self._found.get(row.key) if row.judged else None

    def headline(self, row: Row) -> str:
        """What the database did wrong, as exactly as it is known by now; empty where nothing is, or
        where the run is not to be believed."""
        known = self.of(row)
        return (known.headline if known is not None else "") or (row.headline if row.judged else "")

    def soon(self, row: Row) -> Figures | None:
        """What is known, or can be at once; None where it takes longer, and comes by and by."""
        try:
            large = (self._store / row.ref / HISTORY).stat().st_size > AT_ONCE_BYTES
        except OSError:
            large = False
        return self.of(row) if large else self.now(row)

    def now(self, row: Row) -> Figures:
        """Measure, if it is not known."""
        if not row.judged:
            return Figures(why=f"not measured: it is {row.word}")
        return self.of(row) or self._keep(row, figures_of(self._store / row.ref, row.failed))

    def some(self, rows: Iterable[Row], limit_s: float, stop: Callable[[], bool]) -> int:
        """Measure those that are not known, one after the other, for about so long; how many."""
        end_ns, count = clock.monotonic_ns() + int(limit_s * 1e9), 0
        for row in rows:
            if stop() or clock.monotonic_ns() > end_ns:
                break
            if row.judged and self.of(row) is None:
                found = self._aside(row, stop)
                if found is None:
                    break
                self._keep(row, found)
                count += 1
        return count

    def close(self) -> None:
        """End the process aside."""
        if self._pool is not None:
            self._pool.shutdown(wait=False, cancel_futures=True)
            self._pool = None

    def _keep(self, row: Row, found: Figures) -> Figures:
        self._found[row.key] = found
        self._cache.put_figures({row.key: found})
        return found

    def _aside(self, row: Row, stop: Callable[[], bool]) -> Figures | None:
        """None where somebody wants to end."""
        if self._pool is None:
            context = multiprocessing.get_context("spawn")
            self._pool = ProcessPoolExecutor(1, mp_context=context, initializer=_begins)
        try:
            future = self._pool.submit(figures_of, self._store / row.ref, row.failed)
            while not stop():
                try:
                    return future.result(timeout=0.2)
                except TimeoutError:
                    continue
        except BrokenProcessPool:
            self.close()
            return Figures(why="the process that read its history died of it")
        return None


def _begins() -> None:
    end_with_parent()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.nice(10)
