"""`dstest export`: a run's history for other tools."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from collections.abc import Iterator


def export(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="A run directory or a history.")],
    fmt: Annotated[
        str,
        typer.Option(
            "--format", "--to", help="edn or json: Jepsen op maps. parquet (dstest[notebook])."
        ),
    ] = "edn",
    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", help="Default: stdout. Gzipped where it ends with .gz."),
    ] = None,
    keyed: Annotated[
        bool, typer.Option(help="Values as [key value] tuples, as Jepsen's independent workloads.")
    ] = True,
    json_: Annotated[
        bool, typer.Option("--json", help="One JSON object on stdout; the history goes to -o.")
    ] = False,
) -> None:
    """Write a history as Jepsen op maps, one event per line, or as Parquet, a row per operation.
    Parquet is written while it is read, however large it is. `--format json` has the history in
    JSON, `--json` an object that says what was written."""
    import msgspec

    from dstest.cli.check_source import history_file
    from dstest.cli.output import require_file, say
    from dstest.core.errors import ConfigError
    from dstest.runner.integrity import finished, verified
    from dstest.store.layout import RunDir

    if fmt not in ("edn", "json", "parquet"):
        raise ConfigError(
            f"--format {fmt}: edn, json or parquet", remedy="--format edn, json or parquet"
        )
    if fmt == "parquet" and output is None:
        raise ConfigError("--to parquet writes a file", remedy="-o FILE.parquet")
    require_file(output, "a history", json=json_)
    if run.is_dir():
        opened = RunDir.open(run)
        if finished(opened):
            verified(opened)
    file = history_file(run)
    if fmt == "parquet":
        assert output is not None
        count = _parquet(file, output)
    else:
        count = _op_maps(file, fmt, output, keyed)
    if json_:
        made = {"path": str(output), "format": fmt, "history": str(file), "operations": count}
        say(msgspec.json.encode(made).decode())


def _op_maps(file: Path, fmt: str, output: Path | None, keyed: bool) -> int:
    """How many operations were written."""
    from itertools import chain

    from dstest.cli.check_lints import require_sound
    from dstest.cli.output import writing
    from dstest.core.errors import HarnessError, HistoryError
    from dstest.store.export import export_lines
    from dstest.store.jsonl import read_history

    history = read_history(file)
    if weak := require_sound(history):
        raise HistoryError(
            f"what op maps cannot tell would be lost: {'; '.join(weak)}",
            remedy="judge the history as it is, with dstest check",
        )
    lines = export_lines(history, fmt, keyed=keyed)
    first: str | None = next(lines, None)  # what cannot be exported is refused beforehand
    every: Iterator[str] = iter(()) if first is None else chain([first], lines)
    with writing(output, refused=HarnessError) as out:
        for line in every:
            out.write(line.encode() + b"\n")
    return len(history.ops)


def _parquet(file: Path, output: Path) -> int:
    """How many operations were written. Nothing is judged: what contradicts itself is written as it
    is, but for operations that the recorder counted and that are not there."""
    from dstest.cli.check_lints import require_counts
    from dstest.cli.output import writing
    from dstest.core.errors import HarnessError
    from dstest.notebook.parquet import write_parquet
    from dstest.store.jsonl import each_op, read_header

    header = read_header(file)
    with writing(output, refused=HarnessError) as out:
        counted = write_parquet(out, header, lambda: each_op(file))
        require_counts(header, {name: counted[name] for name in ("ok", "fail", "unknown")})
    return counted.total()
