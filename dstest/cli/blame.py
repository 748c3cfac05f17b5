"""`dstest blame`: whose fault a violation is, by runs that are made to find out."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dstest.cli.completion import runs


def blame(
    run: Annotated[
        Path,
        typer.Argument(
            metavar="RUN",
            help="A run with a violation.",
            autocompletion=runs,
        ),
    ],
    times: Annotated[
        int, typer.Option(help="How many runs of each kind, more where it comes more rarely.")
    ] = 3,
    lab_id: Annotated[str | None, typer.Option(help="Use or make the lab of this name.")] = None,
    json_: Annotated[bool, typer.Option("--json", help="One JSON object on stdout.")] = False,
) -> None:
    """Run it again, and through a second client: is the system to blame, or are we?

    The runs, what they came to and a findings.md that counts them are kept in RUN.blame; the run
    itself stays as it is. Exits with 1, since the violation stands.
    """
    import msgspec

    from dstest.cli.output import say
    from dstest.core.errors import Exit
    from dstest.judge.blame import NOT_SIMULATED
    from dstest.judge.blame_file import aside_of
    from dstest.report.blame import said
    from dstest.runner.blame_runs import blame_run
    from dstest.store.layout import RunDir

    opened = RunDir.open(run)
    found = blame_run(opened.path, times, lab_id=lab_id)
    if json_:
        say(msgspec.json.encode(found).decode())
    else:
        for name, probe in found.probes.items():
            typer.echo(f"{name:24} {said(probe)}: {probe.said}")
        typer.echo(f"blame                    {found.blame}")
        if NOT_SIMULATED.said in found.why_not.values():
            typer.echo("what helps               another seed, or the same on nodes, without --lab")
        typer.echo(f"findings                 {aside_of(opened.path)}/findings.md")
    raise typer.Exit(int(Exit.FAIL))
