"""`dstest logs`: checks over the logs of all nodes."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from dstest.logs.of_run import OfRun


def logs(
    paths: Annotated[
        list[Path],
        typer.Argument(
            metavar="RUN|DIR|FILE...",
            help="A run directory; a directory with one per node, or a file for each; or files.",
        ),
    ],
    check: Annotated[
        list[str] | None,
        typer.Option(help="A check or a group of checks; all by default. May be repeated."),
    ] = None,
    node: Annotated[
        list[str] | None, typer.Option(help="Look at this node alone. May be repeated.")
    ] = None,
    nodes: Annotated[
        str, typer.Option(help="All nodes that there have to be, n1,n2,...; of a run it says so.")
    ] = "",
    system: Annotated[
        str, typer.Option(help="Whose logs they are; of a run it says so. Else: any.")
    ] = "",
    since: Annotated[
        str, typer.Option(help="From then on: seconds of the run, or 2026-11-28T12:00:00Z.")
    ] = "",
    until: Annotated[str, typer.Option(help="Up to then, as --since.")] = "",
    baseline: Annotated[
        Path | None,
        typer.Option(help="A run whose latencies are the usual ones, outside of its faults."),
    ] = None,
    json_: Annotated[bool, typer.Option("--json", help="One JSON object on stdout.")] = False,
) -> None:
    """Check the logs of all nodes: silent nodes, votes, messages, states, partitions, latencies,
    errors; of a run joined with its faults, so that what these explain is told as expected. Exit 0
    where nothing of high or critical severity is unexplained, 1 where something is, 2 for what
    cannot be read, 3 where nothing could be evaluated."""
    import msgspec

    from dstest.cli.logs_given import asked_of, given
    from dstest.cli.output import say
    from dstest.core.printable import one_line
    from dstest.logs.catalogue import chosen
    from dstest.logs.look import look
    from dstest.logs.told import as_object, as_text, code_of

    checks = chosen(check or [])
    of = given(paths, nodes, system)
    asked = asked_of(of, checks, node or [], since, until)
    if baseline is not None:
        asked = asked._replace(baseline=_usual(baseline))
    found = look(of.sources, of.scene, of.clocks, of.reader, asked, of.extra)
    name = one_line(" ".join(str(path) for path in paths))
    note = _read_by(of)
    if json_:
        told = as_object(name, found, of.scene, of.clocks, of.system, [note])
        say(msgspec.json.encode(told).decode())
    else:
        for line in as_text(name, found, of.scene, of.clocks, note):
            say(line)
    raise typer.Exit(int(code_of(found)))


def _read_by(of: OfRun) -> str:
    if of.reader is not None:
        return f"{of.system} says how its lines are read"
    if of.system:
        return f"{of.system} does not say how its logs are read: they are read as any text"
    return "no --system: they are read as any text"


def _usual(path: Path) -> dict[str, float]:
    """p95 by operation of another run."""
    from dstest.cli.logs_given import given
    from dstest.core.errors import ConfigError
    from dstest.logs.rates import Latencies

    of = given([path], "", "")
    measured = Latencies(of.scene)
    for number, op in of.extra.ops:
        measured.op(op, number)
    usual = measured.p95()
    if not usual:
        raise ConfigError(
            f"--baseline {path} has too few operations outside of its faults",
            remedy="a run with 20 or more of each type while no fault stands",
        )
    return usual
