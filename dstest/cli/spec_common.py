"""What the commands of `dstest spec` share: their arguments, and how traces are told."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dstest.cli.output import say

if TYPE_CHECKING:
    from dstest.spec.trace import Trace

Given = Annotated[
    str, typer.Argument(metavar="SPEC", help="A name of `dstest spec list`, or FILE.py[:CLASS].")
]
Constants = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="NAME=VALUE", help="Another constant; may be given again."),
]
Adversary = Annotated[
    str,
    typer.Option(
        metavar="KINDS",
        help="What clients may do that keep to no rule: duplicate, stale, out-of-order, malformed, "
        "crash, in a list; all, or none.",
    ),
]
Out = Annotated[
    Path | None, typer.Option(metavar="FILE", help="Write the trace of the first violation there.")
]


def as_json(value: Any) -> None:
    """One object."""
    import msgspec

    say(msgspec.json.encode(value, enc_hook=str).decode())


def told(trace: Trace) -> None:
    """For people."""
    from dstest.spec.trace import lines

    for line in lines(trace):
        say(line)
