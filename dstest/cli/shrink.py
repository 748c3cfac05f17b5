"""After a failing run: `dstest confirm`, all that runs can tell of a violation, and its parts:
`dstest shrink`, the smallest run that fails as it did, and `dstest blame`, whose fault it is."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dstest.cli.completion import runs
from dstest.cli.options import At, Json, LabId

if TYPE_CHECKING:
    from dstest.campaign.confirm import Confirmed

Violated = Annotated[
    Path,
    typer.Argument(metavar="RUN", help="A run with a violation.", autocompletion=runs),
]
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
Workers = Annotated[
    int,
    typer.Option(
        min=0, max=64, help="How many runs side by side on this machine, each in its own lab."
    ),
]


def shrink(
    run: Violated,
    within: Within = 60.0,
    confirm: Confirm = 5,
    violation: Violation = None,
    lab_id: LabId = None,
    at: At = None,
    workers: Workers = 0,
    json_: Json = False,
) -> None:
    """Fewer faults, shorter windows, less load: what still shows the violation, run by run.

    What comes out is RUN.shrink/reproducer.json and repro.sh, which anybody can run; the run itself
    stays as it is. The same command goes on where it was ended. Exits with 1 where the small run
    shows the violation, with 3 where it does not come again often enough.
    """
    import msgspec

    from dstest.campaign.shrink.candidate import aside_of
    from dstest.campaign.shrink.driver import shrink_run
    from dstest.campaign.shrink.reproducer import lines_of
    from dstest.cli.output import say
    from dstest.core.errors import Exit
    from dstest.history.layout import RunDir

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


def blame(
    run: Violated,
    times: Annotated[
        int, typer.Option(help="How many runs of each kind, more where it comes more rarely.")
    ] = 3,
    lab_id: LabId = None,
    json_: Json = False,
) -> None:
    """Run it again, and through a second client: is the system to blame, or are we?

    The runs, what they came to and a findings.md that counts them are kept in RUN.blame; the run
    itself stays as it is. Exits with 1, since the violation stands.
    """
    import msgspec

    from dstest.campaign.blame_runs import blame_run
    from dstest.cli.output import say
    from dstest.core.errors import Exit
    from dstest.history.layout import RunDir
    from dstest.judge.blame import NOT_SIMULATED, aside_of
    from dstest.report.terminal import probe_word

    opened = RunDir.open(run)
    found = blame_run(opened.path, times, lab_id=lab_id)
    if json_:
        say(msgspec.json.encode(found).decode())
    else:
        for name, probe in found.probes.items():
            typer.echo(f"{name:24} {probe_word(probe)}: {probe.said}")
        typer.echo(f"blame                    {found.blame}")
        if NOT_SIMULATED.said in found.why_not.values():
            typer.echo("what helps               another seed, or the same on nodes, without --lab")
        typer.echo(f"findings                 {aside_of(opened.path)}/findings.md")
    raise typer.Exit(int(Exit.FAIL))


def confirm(
    run: Violated,
    within: Annotated[
        float, typer.Option(min=0.01, max=10_000, help="Minutes for all of it.")
    ] = 60.0,
    times: Annotated[int, typer.Option(min=1, max=100, help="How many runs of each kind.")] = 2,
    store: Annotated[Path, typer.Option(help="Where the replays go.")] = Path("store"),
    lab_id: LabId = None,
    json_: Json = False,
) -> None:
    """Is the violation there again, is the system to blame or are we, and how little does it take?

    The run is replayed, made through a second client (`dstest blame`) and made small (`dstest
    shrink`), in this order, as far as the minutes go. Exits with 1, since the violation stands,
    with 3 where no replay showed it again.
    """
    import msgspec

    from dstest.campaign.confirm import confirm_run
    from dstest.cli.output import say
    from dstest.core.errors import Exit
    from dstest.core.words import one_line

    found = confirm_run(
        run,
        within_s=within * 60,
        times=times,
        store=store,
        lab_id=lab_id,
        say=lambda line: typer.echo(f"dstest: {line}", err=True),
    )
    if json_:
        say(msgspec.json.encode(found).decode())
    else:
        for line in _confirmed(found):
            say(one_line(line))
    raise typer.Exit(int(Exit.FAIL if found.reproduced else Exit.NOT_PROVEN))


def _confirmed(found: Confirmed) -> Iterator[str]:
    from dstest.campaign.shrink.candidate import aside_of
    from dstest.core.reproducer import SCRIPT
    from dstest.core.words import shell_word

    yield found.verdict
    same = found.identical
    alike = "" if same is None else f", {same} of them byte for byte the same simulation"
    yield f"again       in {found.reproduced} of {found.replays} replays{alike}"
    if found.blame is not None:
        yield f"blame       {found.blame.blame}"
        for name, probe in found.blame.probes.items():
            yield f"            {name}: {probe.said}"
    if (small := found.reproducer) is not None:
        before, after = small.before, small.after
        yield (
            f"smallest    {before.events} -> {after.events} fault events, {before.time_limit_s:g}"
            f" -> {after.time_limit_s:g} s of load; comes in {small.rate_after.said}"
        )
        yield f"made again  sh {shell_word(aside_of(Path(found.run)) / SCRIPT)}"
    for part, why in found.left.items():
        yield f"{part:<11} not done: {why}"
