"""`dstest explain`: why a run went as it did, on one page: what was asked of the system, what the
checkers found, what patterns of failure it shows, what logs and measurements say that no fault of
ours explains. `debug`, `logs`, `monitor` and `trace` are its parts at length. Of logs that are of
no run, which patterns of failure and causes around a cluster they show."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, NoReturn

import typer

from dstest.cli.completion import runs
from dstest.cli.observe import is_run
from dstest.cli.options import Json
from dstest.cli.output import Telling, say
from dstest.core.errors import ConfigError, DstestError, EvidenceError, Exit
from dstest.core.words import one_line, shell_word

if TYPE_CHECKING:
    from dstest.debug.patterns.diagnosis import Diagnosis
    from dstest.report.model import RunReport

SHOWN_MAX: Final = 5
"""Rows of a part: each says which command has all of them."""


def explain(
    run: Annotated[
        Path | None,
        typer.Argument(
            metavar="[RUN]", help="A run directory; else give --logs.", autocompletion=runs
        ),
    ] = None,
    logs: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR", help="Logs that are of no run: a directory or a file for each node."
        ),
    ] = None,
    spans: Annotated[
        list[Path] | None,
        typer.Option(metavar="FILE", help="Beside --logs: spans. May be repeated."),
    ] = None,
    metrics: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="FILE",
            help="Beside --logs: Prometheus text, OpenMetrics, or CSV of time,node,name,value.",
        ),
    ] = None,
    nodes: Annotated[
        str, typer.Option(help="Beside --logs: all nodes that there have to be, n1,n2,...")
    ] = "",
    system: Annotated[
        str, typer.Option(help="Beside --logs: the system that says how its lines are read.")
    ] = "",
    pattern: Annotated[
        str,
        typer.Option(
            metavar="REGEX",
            help="Beside --logs: how lines are read: named groups message, level, time, ...",
        ),
    ] = "",
    all_: Annotated[
        bool, typer.Option("--all", help="Beside --logs: all of it, not what is read in a minute.")
    ] = False,
    json_: Json = False,
) -> None:
    """Why did it go so? Of a run: settings, what was found, the likeliest causes with their
    evidence, and what logs and measurements show that no fault explains. Of logs that are of no
    run: patterns of failure and causes around a cluster, ranked, with what tests them, checklists,
    and what cannot be known without a history.

    `dstest debug`, `logs`, `monitor` and `trace` have each part of a run at length. Exit 0 where
    the run is a pass and nothing of high or critical severity is unexplained, 1 where something is
    or the run failed, 2 for what cannot be read, 3 where it proved nothing or nothing could be
    looked for, and where nothing was found and files were not read, or most lines not understood.
    """
    if (run is None) == (logs is None):
        raise ConfigError(
            "give a run, or --logs: one of the two",
            remedy="dstest explain store/latest, or dstest explain --logs DIR",
        )
    if logs is not None:
        read_by = (nodes, system, pattern)
        _of_files(logs, spans or [], metrics or [], read_by, all_=all_, json_=json_)
    if spans or metrics or nodes or system or pattern or all_:
        raise ConfigError(
            "what stands beside --logs was given with a run, which says it itself",
            remedy="leave it out; `dstest debug RUN --all` has all of a run",
        )
    assert run is not None
    _of_run(run, json_=json_)


def _of_files(
    logs: Path,
    spans: list[Path],
    metrics: list[Path],
    read_by: tuple[str, str, str],
    *,
    all_: bool,
    json_: bool,
) -> NoReturn:
    """`read_by` are the nodes, the system and the pattern that were given."""
    import msgspec

    from dstest.cli.kb import notes_like
    from dstest.debug.patterns.analysis import OF_FILES
    from dstest.debug.patterns.diagnosis import (
        as_brief,
        as_object,
        as_query,
        as_text,
        diagnosis_of,
    )
    from dstest.debug.patterns.files import FilesScene

    if logs.is_dir() and is_run(logs):
        raise ConfigError(f"{logs} is a run", remedy=f"dstest explain {shell_word(str(logs))}")
    nodes, system, pattern = read_by
    with Telling(f"reading {logs}"):
        scene = FilesScene(
            logs, nodes=nodes, system=system, pattern=pattern, spans=spans, metrics=metrics
        )
        found = diagnosis_of(scene, OF_FILES)
    found.similar = notes_like(as_query(found))
    if json_:
        say(msgspec.json.encode(as_object(found)).decode())
    else:
        for line in as_text(found) if all_ else as_brief(found):
            say(line)
    raise typer.Exit(int(found.code))


def _of_run(run: Path, *, json_: bool) -> NoReturn:
    import msgspec

    from dstest.debug.patterns.diagnosis import as_object, diagnose
    from dstest.debug.patterns.model import Settings
    from dstest.history.layout import RunDir
    from dstest.report.model import load_report
    from dstest.runner.integrity import code_of, intact, is_finished

    opened = RunDir.open(run)
    if not is_finished(opened):
        raise EvidenceError(
            f"{opened.path} was not judged to its end",
            remedy=f"`dstest recover {shell_word(opened.path)}` judges it",
        )
    intact(opened)
    with Telling(f"reading {opened.path}") as tell:
        report = load_report(opened.path)
        tell("looking for patterns of failure")
        found = diagnose(run, Settings())
        tell("reading logs")
        logs = _part(_logs, opened.path)
        tell("reading measurements")
        alerts = _part(_alerts, opened.path)
    if json_:
        parts = {"logs": logs, "monitor": alerts}
        told = {"run": str(opened.path), "why": list(_why(report)), **parts}
        say(msgspec.json.encode({**told, "debug": as_object(found)}).decode())
    else:
        for line in _page(report, found, logs, alerts):
            say(one_line(line))
    codes = {int(found.code), code_of(report.verdict, report.meta)}
    raise typer.Exit(int(Exit.FAIL) if Exit.FAIL in codes else max(codes))


def _part(look: Any, path: Path) -> list[str] | str:
    """Its rows, or why there are none."""
    try:
        rows: list[str] = look(path)
    except DstestError as error:
        return error.message
    return rows


def _why(report: RunReport) -> Iterator[str]:
    """What was asked, and what came out; a documented setting before all else."""
    from dstest.report.moments import headline, moments
    from dstest.report.settings import documented, settings

    yield from (one.says for one in documented(report))
    yield settings(report)
    if report.state.failed:
        yield headline(report, moments(report, ()))[0]
    else:
        yield report.verdict.reason


def _logs(path: Path) -> list[str]:
    """Findings that no fault explains."""
    from dstest.debug.logs.analysis import Options, analyse
    from dstest.debug.logs.run_logs import run_logs

    of = run_logs(path)
    found = analyse(of.sources, of.scene, of.clocks, of.reader, Options(), of.extra)
    rows = [one for one in found.findings if one.bad]
    where = [f" on {','.join(one.nodes)}" if one.nodes else "" for one in rows]
    return [
        f"{one.severity} {one.check}{on}, {one.window}: {one.said}"
        for one, on in zip(rows, where, strict=True)
    ]


def _alerts(path: Path) -> list[str]:
    """Alerts that no fault explains."""
    from dstest.debug.monitor.alerts import severe
    from dstest.debug.monitor.analysis import alert_line
    from dstest.debug.monitor.settings import Settings
    from dstest.runner.measurements import monitored

    found, _, _ = monitored(path, Settings())
    return [alert_line(alert) for alert in severe(found.alerts)]


def _page(
    report: RunReport, found: Diagnosis, logs: list[str] | str, alerts: list[str] | str
) -> Iterator[str]:
    from dstest.debug.patterns.diagnosis import likeliest

    where = shell_word(report.path)
    yield f"{report.shown}  {report.path}"
    yield from (f"  {line}" for line in _why(report) if line)
    yield ""
    yield "Likeliest causes"
    yield from (f"  {line}" for line in likeliest(found))
    yield f"  all, with what tests them: dstest debug {where}"
    yield ""
    yield "Logs, what no fault explains"
    yield from _rows(logs, f"dstest logs {where}")
    yield ""
    yield "Measurements, what no fault explains"
    yield from _rows(alerts, f"dstest monitor {where}")
    if report.state.failed:
        yield ""
        yield f"is it there again, and whose is it: dstest confirm {where}"


def _rows(rows: list[str] | str, command: str) -> Iterator[str]:
    if isinstance(rows, str):
        yield f"  not looked at: {rows}"
        return
    yield from (f"  {row}" for row in rows[:SHOWN_MAX] or ["nothing"])
    more = f"{len(rows) - SHOWN_MAX} more, and " if len(rows) > SHOWN_MAX else ""
    yield f"  {more}all that was read: {command}"
