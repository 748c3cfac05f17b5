"""What the commands of `dstest lab` share: their options, and how a lab is found."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from dstest.cli import output
from dstest.core.errors import LabError

__all__ = ["Json", "Kind", "LabId", "SystemVersion", "lab_of_kind", "running_lab", "say", "show"]

SystemVersion = Annotated[
    list[str] | None,
    typer.Option(
        metavar="PATH",
        help="Another build than Debian's: a .deb (more than one is possible), or a directory to"
        " lie over each node's root.",
    ),
]
LabId = Annotated[str, typer.Option("--lab-id", help="Which lab; several may run side by side.")]
Kind = Annotated[str, typer.Option("--lab", help="How nodes come to be.")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]


def lab_of_kind(kind: str) -> Any:
    from dstest.core import registry

    return registry.load("labs", kind)


def say(text: str) -> None:
    typer.echo(text, err=True)


def show(value: Any) -> None:
    import msgspec

    output.say(msgspec.json.format(msgspec.json.encode(value), indent=2).decode())


def running_lab(kind: str, lab_id: str) -> Any:
    info = lab_of_kind(kind).status(lab_id)
    if info is None:
        raise LabError(f"lab {lab_id} is not running", remedy=f"dstest lab up --lab-id {lab_id}")
    return info
