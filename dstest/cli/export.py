"""`dstest export`: a run's history for other tools."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

__all__ = ["export"]


def export(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="A run directory or a history.")],
    fmt: Annotated[str, typer.Option("--format", help="edn or json: Jepsen op maps.")] = "edn",
    output: Annotated[Path | None, typer.Option("-o", "--output", help="Default: stdout.")] = None,
    keyed: Annotated[
        bool, typer.Option(help="Values as [key value] tuples, as Jepsen's independent workloads.")
    ] = True,
) -> None:
    """Write a history as Jepsen op maps, one event per line. It has no `--json`: the history is its
    answer, in JSON with `--format json`."""
    from itertools import chain

    from dstest.cli.check_lints import require_sound
    from dstest.cli.check_source import history_file
    from dstest.cli.output import writing
    from dstest.core.errors import ConfigError, HarnessError, HistoryError
    from dstest.runner.integrity import finished, verified
    from dstest.store.export import export_lines
    from dstest.store.jsonl import read_history
    from dstest.store.layout import RunDir

    if fmt not in ("edn", "json"):
        raise ConfigError(f"--format {fmt}: edn or json", remedy="--format edn or --format json")
    if run.is_dir():
        opened = RunDir.open(run)
        if finished(opened):
            verified(opened)
    history = read_history(history_file(run))
    if weak := require_sound(history):
        raise HistoryError(
            f"what op maps cannot tell would be lost: {'; '.join(weak)}",
            remedy="judge the history as it is, with dstest check",
        )
    lines = export_lines(history, fmt, keyed=keyed)
    first = next(lines, None)  # what cannot be exported is refused before anything is written
    with writing(output, refused=HarnessError) as out:
        for line in () if first is None else chain([first], lines):
            out.write(line.encode() + b"\n")
