"""`dstest monitor`: what was measured of a run, and what follows from it."""

from __future__ import annotations

from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Any, Final

import typer
from typer.core import TyperGroup

from dstest.cli.output import say
from dstest.cli.thresholds import Set, Thresholds

_SHOW: Final = "show"


class _Monitor(TyperGroup):
    """`dstest monitor RUN` is `dstest monitor show RUN`, where RUN is not nearly a command."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if args and args[0].startswith("-") and args[0] not in ctx.help_option_names:
            command = next((word for word in args if word in self.commands), None)
            if command is not None:
                ctx.fail(f"options follow the command: dstest monitor {command} ... {args[0]}")
            args = [_SHOW, *args]
        elif args and args[0] not in self.commands:
            near = get_close_matches(args[0], self.commands, n=1)
            if near and not Path(args[0]).exists():
                ctx.fail(f"no such command {args[0]!r}; did you mean {near[0]}?")
            args = [_SHOW, *args]
        return super().parse_args(ctx, args)


monitor_app = typer.Typer(
    cls=_Monitor,
    no_args_is_help=True,
    help="What was measured of nodes, servers and clients of a run: `dstest monitor store/latest`.",
)

Json = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]


@monitor_app.command(_SHOW)
def show(
    run: Annotated[
        Path, typer.Argument(metavar="RUN", help="A run directory, of a run that goes on as well.")
    ],
    thresholds: Thresholds = None,
    set_: Set = None,
    json_: Json = False,
) -> None:
    """Baseline, alerts, health, correlations and series of a run. Exit 0 where no alert of high or
    critical severity is unexplained, 1 where one is, 2 for what cannot be read, 3 where neither a
    baseline nor a sample is there, or no sample though nodes were to be sampled."""
    import msgspec

    from dstest.core.printable import one_line
    from dstest.core.thresholds import thresholds_of
    from dstest.monitor.settings import LEAST, MOST, Settings
    from dstest.monitor.told import as_object, as_text, code_of
    from dstest.runner.monitored import asked, monitored

    settings = thresholds_of(Settings(), thresholds, set_ or [], least=LEAST, most=MOST)
    found, meta, _ = monitored(_intact(run), settings)
    name, sampling = one_line(str(run)), asked(meta)
    if json_:
        told = as_object(name, found, meta.monitor, settings, sampling=sampling)
        say(msgspec.json.encode(told).decode())
    else:
        for line in as_text(name, found, meta.monitor, sampling=sampling):
            say(line)
    raise typer.Exit(int(code_of(found, sampling=sampling)))


@monitor_app.command()
def scale(
    runs: Annotated[
        list[Path],
        typer.Argument(metavar="RUN|SESSION...", help="Runs of several sizes, or a session of."),
    ],
    metric: Annotated[
        str,
        typer.Option(help="throughput, p50, p95, p99, the name of a series, or that with /op."),
    ] = "net_sent/op",
    expect: Annotated[
        str, typer.Option(metavar="CLASS", help="What it should be: 1, log, n, nlog or n2.")
    ] = "",
    json_: Json = False,
) -> None:
    """How a number grows with the number of nodes: O(1), O(log n), O(n), O(n log n) or O(n²), the
    one that fits best, or undecided where two fit alike. Exit 0; with --expect 1 where it is
    another one, and 3 where that is undecided; 2 for what cannot be read; 3 where more differs
    between the runs than their number of nodes, one ended early, or nodes of one have no samples of
    the metric."""
    import msgspec

    from dstest.compare.fair import sizes_apart
    from dstest.core.errors import Exit
    from dstest.core.printable import one_line
    from dstest.monitor.complexity import class_named, fit
    from dstest.monitor.told import growth_lines
    from dstest.runner.monitored import points_of, runs_of
    from dstest.store.layout import RunDir

    expected = class_named(expect) if expect else None
    whole = runs_of(_intact(path) for path in runs)
    points, unit, lacking = points_of(whole, metric)
    met = [(run.path, run.read_meta()) for run in map(RunDir.open, whole)]
    unfair = [*sizes_apart([(p, meta) for p, meta in met if meta is not None]), *lacking]
    found = fit(points, expected)
    code = Exit.PASS
    if expected is not None and found.agrees is not True:
        code = Exit.FAIL if found.agrees is False else Exit.NOT_PROVEN
    code = Exit.NOT_PROVEN if unfair else code
    if json_:
        told = {"metric": metric, "unit": unit, "exit": int(code), "values": points}
        told["unfair"] = unfair
        say(msgspec.json.encode({**told, **msgspec.to_builtins(found)}).decode())
    else:
        for line in [*growth_lines(metric, unit, found), *(f"not fair: {one}" for one in unfair)]:
            say(one_line(line))
    raise typer.Exit(int(code))


def _intact(path: Path) -> Path:
    """A run directory whose files are as they were, where it is over. Raises EvidenceError."""
    from dstest.runner.integrity import finished, intact
    from dstest.store.layout import RunDir

    if not (path / "session.json").is_file():
        run = RunDir.open(path)
        if finished(run):
            intact(run)
    return path
