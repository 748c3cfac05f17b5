"""`dstest report`: draw a run's reports again from its files."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dstest.cli.sessions import report_session

__all__ = ["report"]


def report(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="A run directory.")],
    verify_key: Annotated[
        Path | None,
        typer.Option(
            metavar="ALLOWED_SIGNERS",
            help="Ask for a signature by one of these, as in ssh-keygen(1).",
        ),
    ] = None,
    sign_key: Annotated[
        Path | None,
        typer.Option(envvar="DSTEST_SIGN_KEY", help="Sign again where a report is drawn anew."),
    ] = None,
) -> None:
    """Check a run's files and draw report.html, findings.md, junit.xml and the plots again.

    Exits with the code of the run's verdict, and with 3 where the files are not what the run left.
    """
    import sys

    from dstest.core.errors import ConfigError
    from dstest.report.model import load_report
    from dstest.report.terminal import summary_text
    from dstest.report.write import drawn, outdated, render
    from dstest.runner.integrity import finished, verified
    from dstest.runner.session_file import is_session
    from dstest.store.layout import RunDir
    from dstest.store.signing import signer_of
    from dstest.store.sums import SIGNATURE

    if is_session(run):
        signer = None if verify_key is None else signer_of(run.resolve(), verify_key)
        report_session(run, signer)
    opened = RunDir.open(run)
    if not finished(opened):
        raise ConfigError(f"{run} was not judged yet", remedy=f"`dstest recover {run}` judges it")
    signer = None if verify_key is None else signer_of(opened.path, verify_key)
    found = verified(opened)
    shown = load_report(opened.path)
    new = outdated(opened.path, drawn(shown))
    signed = (opened.path / SIGNATURE).exists()
    if new and signed and sign_key is None:
        names = ", ".join(sorted(new))
        said = "left as they were signed; --sign-key draws and signs them again"
        typer.echo(f"dstest: {names}: {said}", err=True)
    elif new:
        render(opened.path, shown)
        opened.write_sums(sign_key if signed else None)
    typer.echo(summary_text(shown, color=sys.stdout.isatty()))
    if signer is not None:
        typer.echo(f"signed      by {signer}")
    raise typer.Exit(int(found.exit_code))
