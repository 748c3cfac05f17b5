"""Options that several commands have and mean alike, each declared once."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dstest.core.formats import AUTO, FORMATS

Json = Annotated[bool, typer.Option("--json", help="One JSON object on stdout.")]
JsonArray = Annotated[bool, typer.Option("--json", help="Print one JSON array.")]
JsonBesideOutput = Annotated[
    bool, typer.Option("--json", help="One JSON object on stdout; the history goes to -o.")
]
LabId = Annotated[str | None, typer.Option(help="Use or make the lab of this name.")]
At = Annotated[
    str | None,
    typer.Option(help="Where its workers are: local, ssh:HOST,HOST or tcp://ADDRESS:PORT."),
]
Format = Annotated[str, typer.Option("--format", help=f"{', '.join([AUTO, *FORMATS])}.")]
Output = Annotated[
    Path | None,
    typer.Option("-o", "--output", help="Default: stdout. Gzipped where it ends with .gz."),
]
