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
        bool, typer.Option(help="Values as [key value], as Jepsen's independent workloads.")
    ] = True,
) -> None:
    """Write a history as Jepsen op maps, one event per line."""
    import contextlib
    import sys

    from dstest.core.errors import ConfigError, HarnessError
    from dstest.runner.integrity import finished, verified
    from dstest.store.export import export_lines
    from dstest.store.jsonl import read_history
    from dstest.store.layout import RunDir

    if fmt not in ("edn", "json"):
        raise ConfigError(f"--format {fmt}: edn or json")
    if run.is_dir():
        opened = RunDir.open(run)
        if finished(opened):
            verified(opened)
    history = read_history(run / "history.jsonl" if run.is_dir() else run)
    try:
        with contextlib.ExitStack() as stack:
            out = stack.enter_context(output.open("w")) if output else sys.stdout
            for line in export_lines(history, fmt, keyed=keyed):
                out.write(line + "\n")
    except OSError as error:
        raise HarnessError(f"cannot write the export: {error.strerror}") from None
