"""`dstest nemeses`: every kind of fault, whether it can be delivered, and why not."""

from __future__ import annotations

from typing import Annotated

import typer

from dstest.cli.output import say


def nemeses(
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON array.")] = False,
    as_markdown: Annotated[
        bool, typer.Option("--markdown", help="Print the page that is docs/nemeses.md.")
    ] = False,
) -> None:
    """All kinds of faults: what each needs, which nemesis delivers it, or why none does."""
    from nemeses.catalogue import markdown, rows

    if as_markdown:
        say(markdown(), end="")
        return
    catalogue = rows()
    if as_json:
        import msgspec

        say(msgspec.json.format(msgspec.json.encode(catalogue), indent=2).decode())
        return
    for row in catalogue:
        by = ", ".join(row.nemeses) if row.delivered else "-"
        typer.echo(f"{row.number}  {row.name:31} {by:12} needs {row.needs}")
        typer.echo(
            f"     {'proof: ' + row.proof if row.delivered else 'why not: ' + str(row.reason)}"
        )
    count = sum(row.delivered for row in catalogue)
    typer.echo(f"{count} of {len(catalogue)} can be delivered")
