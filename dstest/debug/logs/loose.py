"""Logs that are of no run: files and directories, of which nobody knows the faults."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path

from dstest.core import registry
from dstest.core.clock import wall_ns
from dstest.core.errors import ConfigError, HistoryError
from dstest.core.log_lines import wall_time_ns
from dstest.core.protocols import LogReader, System
from dstest.debug.logs.analysis import FIRST_LINES, Extra
from dstest.debug.logs.formats import PatternReader
from dstest.debug.logs.lines import Source, each_line, sources_of
from dstest.debug.logs.run_logs import RunLogs
from dstest.debug.logs.scene import Clocks, Scene, Windows


def loose_logs(
    paths: Sequence[Path], nodes: str, system: str, pattern: str, origin_ns: int | None = None
) -> RunLogs:
    """What a look at them needs. `nodes` are those that there have to be, `n1,n2`; `system` or
    `pattern` say how their lines are read. With `origin_ns` times are told from that moment on.
    Raises ConfigError for paths that hold no logs, and for what is no list, system or pattern."""
    if system and pattern:
        raise ConfigError(
            "--system and --pattern both say how lines are read", remedy="leave one of them out"
        )
    theirs = registry.load("systems", system) if system else System()
    reader: LogReader | None = PatternReader(pattern) if pattern else theirs.logs.reader
    unread: list[str] = []
    sources = sources_of(paths, unread)
    named = [name.strip() for name in nodes.split(",") if name.strip()]
    if nodes and not named:
        raise ConfigError(f"--nodes {nodes!r} names nobody", remedy="--nodes n1,n2,n3")
    declared = named or sorted({source.node for source in sources})
    unknown = Windows([], known=False)
    return RunLogs(
        sources=sources,
        scene=Scene(declared, unknown, {}, named=bool(named), harmless=theirs.logs.harmless),
        clocks=Clocks(origin_ns, {}),
        reader=reader,
        extra=Extra(),
        system=system,
        records=[],
        unread=unread,
    )


def first_stamp_ns(sources: Sequence[Source]) -> int | None:
    """The earliest time, since 1970, that one of the first lines of a file tells, by stamps with a
    year where there is one; None where no line has any."""
    whole = [at for source in sources for at in _first(source, None)]
    return min(
        whole or [at for source in sources for at in _first(source, wall_ns())], default=None
    )


def _first(source: Source, now_ns: int | None) -> Iterator[int]:
    try:
        for _, text in islice(each_line(source), FIRST_LINES):
            if (at := wall_time_ns(text[:400], now_ns)) is not None:
                yield at
                return
    except HistoryError:
        return  # who reads all of it says so
