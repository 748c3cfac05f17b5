"""`dstest replay RUN --lab LAB`: a simulated run's violation, looked for on nodes."""

from __future__ import annotations

from pathlib import Path
from typing import NoReturn

import typer

from dstest.cli.finished import show


def carried(
    path: Path,
    times: int,
    store: Path,
    *,
    lab: str | None,
    rate: float | None,
    lab_id: str | None,
    key: Path | None,
    json_: bool,
) -> NoReturn:
    """Make the runs on nodes, and end with their exit code."""
    from dstest.core.errors import ConfigError
    from dstest.runner.carry import carry, carrying
    from dstest.runner.replay import check_times

    if lab is None:
        raise ConfigError(
            "--rate is for --lab: a replay has the rate of its run", remedy="leave --rate out"
        )
    check_times(times)
    asked = carrying(path, lab, rate)
    for topic, text in asked.told.items():
        typer.echo(f"{topic}: {text}", err=True)
    runs, came = carry(asked, times, store=store, lab_id=lab_id, sign_key=key)
    for done in runs[:-1]:
        state = "not judged" if done.verdict is None else done.verdict.verdict.value
        typer.echo(f"{state:32} {done.path}", err=True)
    show(runs[-1], json_, came)
