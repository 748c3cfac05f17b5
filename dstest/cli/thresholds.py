"""How users change thresholds, the same for every command that has any (`core/thresholds.py`)."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

Thresholds = Annotated[
    Path | None,
    typer.Option(metavar="FILE.toml", help="Other thresholds, `name = number` a line."),
]
Set = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="NAME=VALUE",
        help="Another threshold, before those of a file. May be repeated.",
    ),
]
