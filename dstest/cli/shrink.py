"""`dstest shrink`: the smallest run that fails as a failing one did."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dstest.cli.completion import runs

Within = Annotated[
    float, typer.Option(min=0.01, max=10_000, help="Minutes after which no run is begun.")
]
Confirm = Annotated[
    int,
    typer.Option(min=1, max=1000, help="How many runs measure how often the small one shows it."),
]
Violation = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        help="Which one of several, by its kind as `lost`, or its fingerprint; default: the one"
        " that the verdict names.",
    ),
]
At = Annotated[
    str | None,
    typer.Option(help="Where workers make the runs: local, ssh:HOST,HOST or tcp://ADDRESS:PORT."),
]
Workers = Annotated[
    int,
    typer.Option(
        min=0, max=64, help="How many runs side by side on this machine, each in its own lab."
    ),
]


def shrink(
    run: Annotated[
        Path,
        typer.Argument(
            metavar="RUN",
            help="A run with a violation.",
            autocompletion=runs,
        ),
    ],
    within: Within = 60.0,
    confirm: Confirm = 5,
    violation: Violation = None,
    lab_id: Annotated[str | None, typer.Option(help="Use or make the lab of this name.")] = None,
    at: At = None,
    workers: Workers = 0,
    json_: Annotated[bool, typer.Option("--json", help="One JSON object on stdout.")] = False,
) -> None:
    """Fewer faults, shorter windows, less load: what still shows the violation, run by run.

    What comes out is RUN.shrink/reproducer.json and repro.sh, which anybody can run; the run itself
    stays as it is. The same command goes on where it was ended. Exits with 1 where the small run
    shows the violation, with 3 where it does not come again often enough.
    """
    import msgspec

    from dstest.cli.output import say
    from dstest.core.errors import Exit
    from dstest.shrink.driver import shrink_run
    from dstest.shrink.record import aside_of
    from dstest.shrink.said import lines_of
    from dstest.store.layout import RunDir

    opened = RunDir.open(run)
    found = shrink_run(
        opened.path,
        within_s=within * 60,
        sure=confirm,
        lab_id=lab_id,
        at=at,
        workers=workers,
        violation=violation,
    )
    if found is None:
        typer.echo(
            f"dstest: the violation of {run} did not come again in {confirm} runs as it was:"
            " nothing is known to be needed for it\n  remedy: more of them with --confirm",
            err=True,
        )
        raise typer.Exit(int(Exit.NOT_PROVEN))
    if json_:
        say(msgspec.json.encode(found).decode())
    else:
        for line in lines_of(found, aside_of(opened.path)):
            typer.echo(line)
    raise typer.Exit(int(Exit.FAIL if found.confirmed else Exit.NOT_PROVEN))
