"""`--github` of the commands that annotate."""

from __future__ import annotations

import os
from typing import Annotated, Final

import typer

Github = Annotated[
    bool,
    typer.Option(
        "--github/--no-github",
        help="Print annotations of GitHub Actions. Default: where GITHUB_ACTIONS is set.",
        show_default=False,
    ),
]

ON_GITHUB: Final = os.environ.get("GITHUB_ACTIONS") == "true"
"""Does GitHub Actions run this? What `--github` is where nobody says it."""
