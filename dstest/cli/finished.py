"""What a run came to, as the commands that make one print it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import typer

from dstest.cli.output import say
from dstest.core.printable import printable

if TYPE_CHECKING:
    from dstest.core.verdict import Verdict
    from dstest.report.model import RunReport
    from dstest.runner.carry import Carried
    from dstest.runner.session import Finished


def show(done: Finished, as_json: bool, carried: Carried | None = None) -> NoReturn:
    """Print what a run came to and end with its exit code."""
    printed(done, as_json, carried)
    if done.failure is not None:
        typer.echo(f"dstest: {done.failure}", err=True)
    raise typer.Exit(int(done.exit_code))


def headline(path: Path, verdict: Verdict, report: RunReport | None = None) -> str:
    """As report.html begins; the reason of the verdict where the reports could not be written."""
    from dstest.core.errors import DstestError
    from dstest.report.headline import headline_of
    from dstest.report.model import load_report

    try:
        return headline_of(report or load_report(path))
    except DstestError:
        return verdict.reason


def printed(done: Finished, as_json: bool, carried: Carried | None = None) -> None:
    """What a run came to, and whether it is what a simulation had shown."""
    import sys

    import msgspec

    if as_json:
        from dstest.cli.known import known_plain
        from dstest.judge.fingerprint import all_fingerprints

        verdict = msgspec.to_builtins(done.verdict)
        message = None if done.failure is None else done.failure.message
        shown = {"run": str(done.path), "exit": int(done.exit_code), "ended_by": message}
        shown["fingerprints"] = [] if done.verdict is None else all_fingerprints(done.verdict)
        shown["headline"] = (
            None if done.verdict is None else headline(done.path, done.verdict, done.report)
        )
        shown["verdict"] = verdict
        if done.verdict is not None and done.verdict.verdict.failed:
            shown |= known_plain(done.path)
        if carried is not None:
            shown["carried"] = msgspec.to_builtins(carried)
        say(msgspec.json.encode(shown).decode())
    elif done.verdict is not None:
        from dstest.cli.known import known_lines
        from dstest.core.printable import one_line
        from dstest.report.write import summary

        typer.echo(summary(done.path, color=sys.stdout.isatty(), report=done.report))
        for line in known_lines(done.path) if done.verdict.verdict.failed else ():
            typer.echo(one_line(line))
    if carried is not None and not as_json:
        rows = {**carried.told, "violation": carried.words}
        typer.echo(f"carried     from {printable(carried.simulated)} to {carried.lab}")
        for topic, text in rows.items():
            typer.echo(f"{topic:<11} {printable(text)}")
