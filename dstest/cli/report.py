"""`dstest report`: draw a run's reports again from its files."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

__all__ = ["report"]


def report(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="A run directory.")],
) -> None:
    """Draw report.html, findings.md, junit.xml and the plots of a run again."""
    import sys

    from dstest.report.model import load_report
    from dstest.report.terminal import summary_text
    from dstest.report.write import render

    found = load_report(run)
    render(run.resolve(), found)
    typer.echo(summary_text(found, color=sys.stdout.isatty()))
