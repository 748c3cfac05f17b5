"""Of what is given (a run, directories, files; nodes and times): `dstest logs`, checks over the
logs of all nodes, and `dstest debug`, which patterns of failure a run shows, ranked, with evidence
and what to do.

`dstest trace`: where the time of requests went, and who asked whom.

`dstest monitor`: what was measured of a run, and what follows from it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer
from typer.core import TyperGroup

from dstest.cli.options import Json
from dstest.cli.output import Set, Thresholds, say
from dstest.core.errors import ConfigError, Exit

if TYPE_CHECKING:
    from dstest.debug.logs.analysis import Options
    from dstest.debug.logs.run_logs import RunLogs
    from dstest.debug.logs.scene import Rule
    from dstest.debug.patterns.diagnosis import Diagnosis
    from dstest.debug.traces.analysis import TracesOfRun
    from dstest.debug.traces.spans import Message, Span


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
    pattern: Annotated[
        str,
        typer.Option(
            metavar="REGEX", help="How lines are read: named groups message, level, time, ..."
        ),
    ] = "",
    since: Annotated[
        str, typer.Option(help="From then on: seconds of the run, or 2026-11-28T12:00:00Z.")
    ] = "",
    until: Annotated[str, typer.Option(help="Up to then, as --since.")] = "",
    baseline: Annotated[
        Path | None,
        typer.Option(help="A run whose latencies are the usual ones, outside of its faults."),
    ] = None,
    json_: Json = False,
) -> None:
    """Check the logs of all nodes: silent nodes, votes, messages, states, partitions, latencies,
    errors; of a run joined with its faults, so that what these explain is told as expected. Exit 0
    where nothing of high or critical severity is unexplained, 1 where something is, 2 for what
    cannot be read, 3 where nothing could be evaluated, or nothing was found and much not read."""
    import msgspec

    from dstest.cli.output import say
    from dstest.core.words import one_line
    from dstest.debug.logs.analysis import analyse, as_object, as_text, checks_named, code_of

    checks = checks_named(check or [])
    of = given(paths, nodes, system, pattern)
    asked = asked_of(of, checks, node or [], since, until)
    if baseline is not None:
        of.scene.usual = _usual(baseline)
    found = analyse(of.sources, of.scene, of.clocks, of.reader, asked, of.extra, unread=of.unread)
    name = one_line(" ".join(str(path) for path in paths))
    note = _read_by(of)
    if json_:
        told = as_object(name, found, of.scene, of.clocks, of.system, [note])
        say(msgspec.json.encode(told).decode())
    else:
        for line in as_text(name, found, of.scene, of.clocks, note):
            say(line)
    raise typer.Exit(int(code_of(found)))


def _read_by(of: RunLogs) -> str:
    if of.reader is not None and not of.system:
        return "as --pattern says, other lines as any text"
    if of.reader is not None:
        return f"{of.system} says how its lines are read"
    if of.system:
        return f"{of.system} does not say how its logs are read: they are read as any text"
    return "no --system: they are read as any text"


def _usual(path: Path) -> dict[str, float]:
    """p95 by operation of another run."""
    from dstest.core.errors import ConfigError
    from dstest.debug.logs.rates import Latencies

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


_SECONDS: Final = re.compile(r"[+-]?\d+(?:\.\d+)?")


def is_run(path: Path) -> bool:
    """Does it look like a run directory?"""
    return (path / "segments").is_dir() or (path / "session.json").is_file()


def given(paths: Sequence[Path], nodes: str, system: str, pattern: str = "") -> RunLogs:
    """A sealed run, or logs that are of none. Raises ConfigError, EvidenceError, HistoryError."""
    from dstest.debug.logs.loose import loose_logs

    runs = [path for path in paths if path.is_dir() and is_run(path)]
    if not runs:
        return loose_logs(paths, nodes, system, pattern)
    if len(paths) > 1:
        raise ConfigError(
            f"{runs[0]} is a run, and {len(paths) - 1} more paths are given",
            remedy="one run at a time: its faults are of its own clock",
        )
    if nodes or system or pattern:
        raise ConfigError(
            f"{runs[0]} says itself what its nodes and its system are, and how its lines are read",
            remedy="leave --nodes, --system and --pattern out",
        )
    from dstest.debug.logs.run_logs import run_logs
    from dstest.history.layout import RunDir
    from dstest.runner.integrity import intact, is_finished

    run = RunDir.open(runs[0])
    if is_finished(run):
        intact(run)
    return run_logs(run.path)


def asked_of(
    of: RunLogs, checks: Sequence[Rule], node: Sequence[str], since: str, until: str
) -> Options:
    """Raises ConfigError for a node or a time that there is none of."""
    from dstest.core.near import meant
    from dstest.debug.logs.analysis import Options

    for name in node:
        if name not in of.scene.declared:
            raise ConfigError(f"--node {name}: no such node", remedy=meant(name, of.scene.declared))
    if node:
        of.scene.declared = [name for name in of.scene.declared if name in node]
    since_ns, until_ns = _time(of, "--since", since), _time(of, "--until", until)
    if since_ns is not None and until_ns is not None and since_ns > until_ns:
        raise ConfigError(
            f"--since {since} is after --until {until}", remedy="give the earlier first"
        )
    return Options(checks, frozenset(node), since_ns, until_ns)


def _time(of: RunLogs, flag: str, text: str) -> int | None:
    """On the clock of all lines."""
    from dstest.core.log_lines import wall_time_ns

    if not text:
        return None
    if _SECONDS.fullmatch(text) and len(text) < 16:
        if of.clocks.origin_ns is None and not of.clocks.exact:
            raise ConfigError(
                f"{flag} {text}: these logs are of no run", remedy=f"{flag} 2026-11-28T12:00:00Z"
            )
        return int(float(text) * 1e9)
    wall_ns = wall_time_ns(text)
    if wall_ns is None:
        raise ConfigError(
            f"{flag} {text} is no time", remedy="seconds of the run, or 2026-11-28T12:00:00Z"
        )
    return wall_ns - (of.clocks.origin_ns or 0)


def debug(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="The directory of a sealed run.")],
    thresholds: Thresholds = None,
    set_: Set = None,
    all_: Annotated[
        bool, typer.Option("--all", help="All of it, and not what is read in a minute.")
    ] = False,
    write: Annotated[
        bool, typer.Option("--write", help="Also as debug.md and debug.json in RUN.debug.")
    ] = False,
    json_: Json = False,
) -> None:
    """Look for twenty-seven patterns of failure in a run, and say in four steps what was observed,
    what it may be (ranked, with evidence), how to test that, and how to verify that it is mended;
    with five checklists that are filled in. In short, with --all at length. Exit 0 where nothing of
    high or critical severity is unexplained, 1 where something is, 2 for what cannot be read, 3
    where nothing could be looked for."""
    import msgspec

    from dstest.cli.kb import notes_like
    from dstest.cli.output import say
    from dstest.core.settings import thresholds_of
    from dstest.debug.patterns.diagnosis import as_brief, as_object, as_query, as_text, diagnose
    from dstest.debug.patterns.model import Settings
    from dstest.history.layout import RunDir
    from dstest.runner.integrity import intact, is_finished

    settings = thresholds_of(Settings(), thresholds, set_ or [])
    opened = RunDir.open(run)
    if is_finished(opened):
        intact(opened)
    found = diagnose(run, settings)
    found.similar = [*_similar(run), *notes_like(as_query(found))]
    if write:
        _written(opened.path, found)
    if json_:
        say(msgspec.json.encode(as_object(found)).decode())
    else:
        for line in as_text(found) if all_ else as_brief(found):
            say(line)
    raise typer.Exit(int(found.code))


def _similar(run: Path) -> list[str]:
    """What the book of findings knows of a run that failed; nothing where there is no book."""
    from dstest.store.known_issues.book import Book, book_file, failing_runs, recall, render

    path = book_file()
    if not path.is_file():
        return []
    seen = next((one for one in failing_runs(run) if not isinstance(one, str)), None)
    if seen is None:
        return []
    with Book.opened(path) as book:
        return list(render(recall(book, seen)))


def _written(run: Path, found: Diagnosis) -> None:
    """Beside the run, whose own files stay as they were summed up."""
    import msgspec

    from dstest.debug.patterns.diagnosis import as_markdown, as_object
    from dstest.history.layout import write_file

    folder = run.with_name(run.name + ".debug")
    write_file(folder, "debug.md", as_markdown(found).encode())
    write_file(folder, "debug.json", msgspec.json.format(msgspec.json.encode(as_object(found))))


def trace(
    paths: Annotated[
        list[Path],
        typer.Argument(
            metavar="RUN|FILE...", help="A run directory, or files of spans: JSON lines or OTLP."
        ),
    ],
    which: Annotated[
        str,
        typer.Option(
            "--trace", help="The trace to tell at length, or an operation's id; else the longest."
        ),
    ] = "",
    compare: Annotated[
        str, typer.Option(help="Two spans, A,B: how their vector clocks stand to one another.")
    ] = "",
    skew: Annotated[
        bool, typer.Option(help="Correct clocks of nodes that differ for certain.")
    ] = True,
    mermaid: Annotated[
        Path | None, typer.Option(help="Write the flows between nodes as a Mermaid diagram.")
    ] = None,
    html: Annotated[
        Path | None, typer.Option(help="Write a page with the timeline, one file by itself.")
    ] = None,
    json_: Json = False,
) -> None:
    """Read traces: the critical path by time, slowest spans, work by node, flows, loops, storms,
    and what does not fit: orphans, several roots, clocks. Of a run each trace is linked to the
    operation of its history. Exit 0, 2 for what cannot be read, 3 where there is no span."""
    import msgspec

    from dstest.cli.output import say, write_whole
    from dstest.core.words import one_line
    from dstest.debug.traces.analysis import analyse, as_mermaid, as_object, as_text

    of = _given(paths)
    name = one_line(" ".join(str(path) for path in paths))
    if not of.spans:
        why = of.why or "there is no span in it"
        nothing = {"path": name, "exit": int(Exit.NOT_PROVEN), "traces": 0, "why": why}
        say(msgspec.json.encode(nothing).decode() if json_ else f"{name}: {why}")
        raise typer.Exit(int(Exit.NOT_PROVEN))
    found = analyse(of.spans, of.nodes, of.operations, wanted=which, correct=skew and not of.exact)
    if compare:
        say(_compared(found.traces.spans, compare, json=json_))
        return
    notes = [f"clocks: {said}" for said in of.clocks]
    if mermaid is not None:
        write_whole(mermaid, as_mermaid(found).encode(), "--mermaid")
    if html is not None:
        from dstest.report.trace_page import render

        write_whole(html, render(found, name, notes).encode(), "--html")
    if json_:
        say(msgspec.json.encode({**as_object(found, name, notes), "exit": 0}).decode())
        return
    for line in as_text(found, name, notes):
        say(line)


def _given(paths: Sequence[Path]) -> TracesOfRun:
    """A sealed run, or files. Raises ConfigError, EvidenceError, HistoryError."""
    from dstest.debug.traces.analysis import TracesOfRun, traces_of_run
    from dstest.history.layout import RunDir
    from dstest.runner.integrity import intact, is_finished

    runs = [path for path in paths if path.is_dir()]
    if not runs:
        return TracesOfRun(list(_files(paths)), [], {}, "", [])
    if len(paths) > 1:
        raise ConfigError(
            f"{runs[0]} is a directory, and {len(paths) - 1} more paths are given",
            remedy="one run at a time, or files",
        )
    if not is_run(runs[0]):
        raise ConfigError(
            f"{runs[0]} is no run directory", remedy=f"give its files: {runs[0]}/*.jsonl"
        )
    run = RunDir.open(runs[0])
    if is_finished(run):
        intact(run)
    return traces_of_run(run.path)


def _files(paths: Sequence[Path]) -> Iterator[Span | Message]:
    from dstest.core.errors import MemorySpent
    from dstest.debug.traces.spans import SPANS_MAX, read_file

    count = 0
    for path in paths:
        for one in read_file(path):
            count += 1
            if count > SPANS_MAX:
                raise MemorySpent(
                    f"more than {SPANS_MAX:,} spans", remedy="give fewer files, or a part of them"
                )
            yield one


def _compared(spans: Iterator[Span], asked: str, *, json: bool) -> str:
    """How two spans stand to one another."""
    import msgspec

    from dstest.debug.traces.spans import relation

    ids = [part.strip() for part in asked.split(",")]
    if len(ids) != 2 or not all(ids):
        raise ConfigError(f"--compare {asked}: two spans", remedy="--compare SPAN_A,SPAN_B")
    found = {span.id: span for span in spans if span.id in ids}
    for id_ in ids:
        if id_ not in found:
            raise ConfigError(f"--compare {asked}: no span {id_}", remedy="--json lists all spans")
    for id_ in ids:
        if not found[id_].vector:
            raise ConfigError(
                f"span {id_} has no vector clock", remedy="a vectorClock in both: {node: count}"
            )
    word = relation(found[ids[0]].vector, found[ids[1]].vector)
    if json:
        return msgspec.json.encode({"a": ids[0], "b": ids[1], "relation": word}).decode()
    return f"{ids[0]} {word} {ids[1]}" if word.startswith("happens") else f"{asked}: {word}"


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

    from dstest.core.settings import thresholds_of
    from dstest.core.words import one_line
    from dstest.debug.monitor.analysis import as_object, as_text, code_of
    from dstest.debug.monitor.settings import LEAST, MOST, Settings
    from dstest.runner.measurements import is_sampled, monitored

    settings = thresholds_of(Settings(), thresholds, set_ or [], least=LEAST, most=MOST)
    found, meta, _ = monitored(_intact(run), settings)
    name, sampling = one_line(str(run)), is_sampled(meta)
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
        list[Path] | None,
        typer.Argument(metavar="[RUN|SESSION...]", help="Runs of several sizes, or a session of."),
    ] = None,
    metric: Annotated[
        str,
        typer.Option(help="throughput, p50, p95, p99, the name of a series, or that with /op."),
    ] = "net_sent/op",
    table: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Instead of runs: CSV of size and value, a pair a line."),
    ] = None,
    expect: Annotated[
        str, typer.Option(metavar="CLASS", help="What it should be: 1, log, n, nlog or n2.")
    ] = "",
    json_: Json = False,
) -> None:
    """How a number grows with the number of nodes, or with the sizes of a table: O(1), O(log n),
    O(n), O(n log n) or O(n²), the one that fits best, or undecided where two fit alike. Exit 0;
    with --expect 1 where it is another one, and 3 where that is undecided; 2 for what cannot be
    read; 3 where more differs between the runs than their number of nodes, one ended early, or
    nodes of one have no samples of the metric."""
    import msgspec

    from dstest.core.words import one_line
    from dstest.debug.monitor.analysis import growth_lines
    from dstest.debug.monitor.exposition import read_sizes
    from dstest.debug.monitor.scale import class_named, fit

    if bool(runs) == (table is not None):
        raise ConfigError(
            "give runs, or --table: one of the two",
            remedy="dstest monitor scale RUN RUN RUN, or dstest monitor scale --table FILE",
        )
    expected = class_named(expect) if expect else None
    unfair: list[str] = []
    if table is not None:
        metric, unit, points = table.name, "value", read_sizes(table)
    else:
        points, unit, unfair = _sizes(runs or [], metric)
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
        of = "rows of sizes {}" if table is not None else "runs of {} nodes"
        lines = growth_lines(metric, unit, found, of)
        for line in [*lines, *(f"not fair: {one}" for one in unfair)]:
            say(one_line(line))
    raise typer.Exit(int(code))


def _sizes(runs: Sequence[Path], metric: str) -> tuple[list[tuple[int, float]], str, list[str]]:
    """(nodes, value) of each run, the unit of the value, and what makes them unfair."""
    from dstest.history.layout import RunDir
    from dstest.runner.measurements import points_of, whole_runs_of
    from dstest.store.compare.measured import sizes_apart

    whole = whole_runs_of(_intact(path) for path in runs)
    points, unit, lacking = points_of(whole, metric)
    met = [(run.path, run.read_meta()) for run in map(RunDir.open, whole)]
    unfair = [*sizes_apart([(p, meta) for p, meta in met if meta is not None]), *lacking]
    return points, unit, unfair


def _intact(path: Path) -> Path:
    """A run directory whose files are as they were, where it is over. Raises EvidenceError."""
    from dstest.history.layout import RunDir
    from dstest.runner.integrity import intact, is_finished

    if not (path / "session.json").is_file():
        run = RunDir.open(path)
        if is_finished(run):
            intact(run)
    return path
