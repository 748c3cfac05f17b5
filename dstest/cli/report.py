"""`dstest report`: draw a run's reports again from its files."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

from dstest.cli.sessions import report_session

if TYPE_CHECKING:
    from dstest.core.errors import ConfigError
    from dstest.results.model import Result
    from dstest.store.layout import RunDir

__all__ = ["report"]


_Out = Annotated[
    Path | None,
    typer.Option(
        metavar="DIR", help="Write junit.xml, results.sarif, metrics.prom, summary.md there."
    ),
]
_Junit = Annotated[Path | None, typer.Option(metavar="FILE", help="Write JUnit XML there.")]
_Sarif = Annotated[Path | None, typer.Option(metavar="FILE", help="Write SARIF 2.1.0 there.")]
_Prometheus = Annotated[
    Path | None,
    typer.Option(metavar="FILE.prom", help="Write metrics there, in the text format."),
]
_Summary = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE", help="Append Markdown. With --github by default: $GITHUB_STEP_SUMMARY."
    ),
]
_Otlp = Annotated[
    str | None,
    typer.Option(
        metavar="URL|FILE", help="Traces of OpenTelemetry, sent or written (dstest[otel])."
    ),
]


def report(
    runs: Annotated[
        list[Path],
        typer.Argument(metavar="RUN...", help="Runs, sessions, or stores of them."),
    ],
    verify_key: Annotated[
        Path | None,
        typer.Option(
            metavar="ALLOWED_SIGNERS",
            help="Ask for a signature by one of these: a file of lines such as `me@example "
            "ssh-ed25519 AAAA...`, a name and a public key.",
        ),
    ] = None,
    sign_key: Annotated[
        Path | None,
        typer.Option(
            envvar="DSTEST_SIGN_KEY",
            help="Sign what was signed again, where a report is drawn anew.",
        ),
    ] = None,
    out: _Out = None,
    junit: _Junit = None,
    sarif: _Sarif = None,
    prometheus: _Prometheus = None,
    summary: _Summary = None,
    otlp: _Otlp = None,
    github: Annotated[
        bool,
        typer.Option(
            "--github/--no-github",
            help="Print annotations of GitHub Actions. Default: where GITHUB_ACTIONS is set.",
            show_default=False,
        ),
    ] = os.environ.get("GITHUB_ACTIONS") == "true",
) -> None:
    """Check a run's files, judge it again, draw report.html, findings.md, junit.xml and the plots.

    Of a session every run is checked, and the session judged again from them. Exits with the code
    of the verdict, and with 3 where the files are not what was left, or give another verdict. Of
    several runs, or a store, it shows a line each, and exits with the worst code: 1 before 3
    before 0. Formats for CI servers are made of the same, after the same checks (docs/ci.md).
    """
    from dstest.cli.report_formats import Wanted, write_formats
    from dstest.store.signing import require_key

    require_key(sign_key)
    wanted = Wanted(
        out=out,
        junit=junit,
        sarif=sarif,
        prometheus=prometheus,
        summary=summary,
        otlp=otlp,
        github=github,
    )
    one = runs[0] if len(runs) == 1 and not _is_store(runs[0]) else None
    if one is None:
        _no_signatures(verify_key, sign_key)
        _many(write_formats(wanted, runs))
    if wanted.any:
        write_formats(wanted, runs)
    _one(one, verify_key, sign_key)


def _is_store(path: Path) -> bool:
    """A directory that may hold runs, and is none."""
    from dstest.retention.walk import walk
    from dstest.runner.session_file import is_session

    if not path.is_dir() or is_session(path) or (path / "segments").exists():
        return False
    walked = walk(path)
    if any(one.path == path.resolve() for one in walked.odd):
        return False  # what is left of a run
    return bool(walked.places or any(one.why in ("cut", "link", "orphan") for one in walked.odd))


def _no_signatures(verify_key: Path | None, sign_key: Path | None) -> None:
    from dstest.core.errors import ConfigError

    if verify_key is not None:
        raise ConfigError("--verify-key is for one run or session", remedy="give them one by one")
    if sign_key is not None:
        typer.echo("dstest: --sign-key: many runs are shown, nothing is signed", err=True)


def _many(results: list[Result]) -> NoReturn:
    """A line for each, and the worst code."""
    from dstest.cli.output import say
    from dstest.results.gather import worst

    width = max(len(one.word) for one in results)
    for one in results:
        say(f"{one.word:{width}}  {one.path}  {' '.join(one.sentence.split())}")
    say(f"{sum(one.green for one in results)} of {len(results)} passed")
    raise typer.Exit(worst(results))


def _one(run: Path, verify_key: Path | None, sign_key: Path | None) -> NoReturn:
    import sys

    from dstest.judge.blame import blame
    from dstest.judge.blame_file import aside_of, read_blame
    from dstest.report.model import load_report
    from dstest.report.terminal import summary_text
    from dstest.report.write import drawn, outdated, render
    from dstest.runner.integrity import finished, verified
    from dstest.runner.session_file import is_session
    from dstest.shrink.record import aside_of as reduced_in
    from dstest.shrink.reread import read_reproducer
    from dstest.store.layout import RunDir
    from dstest.store.signing import signer_of
    from dstest.store.sums import SIGNATURE

    if is_session(run):
        if sign_key is not None:
            typer.echo("dstest: --sign-key: a session is shown, nothing is signed", err=True)
        signer = None if verify_key is None else signer_of(run.resolve(), verify_key)
        report_session(run, signer)
    opened = RunDir.open(run)
    if not finished(opened):
        raise _not_judged(opened)
    signer = None if verify_key is None else signer_of(opened.path, verify_key)
    checked = verified(opened)
    shown = load_report(opened.path)
    new = outdated(opened.path, drawn(shown))
    signed = (opened.path / SIGNATURE).exists()
    if new and (sign_key is not None or not signed):
        render(opened.path, shown)
        opened.write_sums(sign_key if signed else None)
    typer.echo(summary_text(shown, color=sys.stdout.isatty()))
    if told := read_blame(opened.path):
        where = aside_of(opened.path)
        typer.echo(f"blame       {blame(shown.evidence, told.probes)}, by the runs in {where}")
    if small := read_reproducer(opened.path, checked.verdict):
        typer.echo(
            f"reduced     from {small.before.events} fault events to {small.after.events}, comes in"
            f" {small.rate_after.said}: {reduced_in(opened.path)}"
        )
    if signer is not None:
        typer.echo(f"signed      by {signer}")
    if message := _of_the_signature(sorted(new), signed, sign_key):
        typer.echo(f"dstest: {message}", err=True)
    raise typer.Exit(int(checked.exit_code))


def _of_the_signature(new: list[str], signed: bool, sign_key: Path | None) -> str | None:
    """What became of the signature, where there was one or a key was given."""
    if not signed:
        return None if sign_key is None else "--sign-key: the run was not signed, and is not now"
    names = ", ".join(new)
    if sign_key is None:
        return f"{names}: left as signed; --sign-key draws and signs them again" if new else None
    if not new:
        return "--sign-key: nothing had to be drawn anew, the signature stays as it was"
    return f"{names}: drawn anew; the run is now signed with {sign_key} alone"


def _not_judged(run: RunDir) -> ConfigError:
    """Why there is no report of this run, and what to do about it."""
    from dstest.cli.lab_of_run import lab_left
    from dstest.core.errors import ConfigError
    from dstest.runner.session import alive

    meta = run.read_meta()
    if meta is not None and run.status() == "running" and alive(meta):
        return ConfigError(
            f"{run.path} is still running (pid {meta.pid})", remedy="wait for its end"
        )
    message = (f"`dstest recover {run.path}` judges it", None if meta is None else lab_left(meta))
    return ConfigError(f"{run.path} was not judged yet", remedy="; ".join(filter(None, message)))
