"""`dstest models`: the consistency models that transactions can be held to."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dstest.cli.output import say

__all__ = ["models"]


def models(
    json_: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
    svg: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Draw the lattice there, as SVG.")
    ] = None,
) -> None:
    """List the consistency models, what each implies and which anomalies it rules out."""
    import json

    from checkers.txn import decided, exact
    from checkers.txn.models import UNTESTED, lattice
    from checkers.txn.plugin import LIST_APPEND

    graph = lattice()
    if svg is not None:
        from dstest.cli.output import write_whole
        from dstest.report.lattice import lattice_svg

        write_whole(svg, lattice_svg(graph).encode(), "--svg")
    if json_:
        rows = {
            model: {
                "implies": sorted(graph.successors(model)),
                "aliases": facts["aliases"],
                "proscribes": facts["proscribes"],
                "judged": model in LIST_APPEND.models,
                "decided": model in exact.MODELS,
                "untested": UNTESTED.get(model),
            }
            for model, facts in graph.nodes(data=True)
        }
        say(json.dumps(rows, indent=2))
        return
    for model, facts in graph.nodes(data=True):
        also = f" ({', '.join(facts['aliases'])})" if facts["aliases"] else ""
        typer.echo(f"{model}{also}")
        if below := sorted(graph.successors(model)):
            typer.echo(f"  implies     {', '.join(below)}")
        if facts["proscribes"]:
            typer.echo(f"  proscribes  {', '.join(facts['proscribes'])}")
        if model not in LIST_APPEND.models:
            typer.echo("  not judged of transactions: asking for it is refused")
        if model in decided.MODELS:
            typer.echo("  decided for registers (rw-register), and for lists that agree")
        elif model in exact.MODELS:
            typer.echo("  decided for registers (rw-register)")
        elif model in UNTESTED:
            typer.echo(f"  clean histories stay unknown: {UNTESTED[model]} are not looked for")
