"""`dstest models`: what histories can be held to: models of transactions, objects, and others."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dstest.cli.options import Json
from dstest.cli.output import say

if TYPE_CHECKING:
    import networkx as nx


def models(
    json_: Json = False,
    objects: Annotated[
        bool, typer.Option("--objects", help="Only the models of objects and of other checkers.")
    ] = False,
    svg: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Draw the lattice there, as SVG.")
    ] = None,
) -> None:
    """List the consistency models of transactions, what each implies and which anomalies it rules
    out; then the objects that are linearizable or not, and what other checkers hold histories to.

    `dstest check --model NAME` asks for one, with --checker where several checkers know it."""
    import json

    from checkers.txn.models import lattice

    graph = lattice()
    if svg is not None:
        from dstest.cli.output import write_whole
        from dstest.report.plots import lattice_svg

        write_whole(svg, lattice_svg(graph).encode(), "--svg")
    if json_:
        say(json.dumps(_by_checker() if objects else _as_json(graph), indent=2))
        return
    if not objects:
        _print(graph)
    _print_objects()


def _as_json(graph: nx.DiGraph) -> dict[str, Any]:
    from checkers.txn import exact
    from checkers.txn.models import UNTESTED
    from checkers.txn.plugin import LIST_APPEND

    return {
        model: {
            "implies": sorted(graph.successors(model)),
            "aliases": facts["aliases"],
            "proscribes": facts["proscribes"],
            "judged": model in LIST_APPEND.models,
            "decided": exact.SAME.get(model, model) in exact.MODELS,
            "untested": UNTESTED.get(model),
        }
        for model, facts in graph.nodes(data=True)
    }


def _print(graph: nx.DiGraph) -> None:
    from checkers.txn import exact
    from checkers.txn.models import UNTESTED
    from checkers.txn.plugin import LIST_APPEND

    typer.echo("Models of transactions (list-append, rw-register):\n")
    refused = [model for model in graph if model not in LIST_APPEND.models]
    for model, facts in graph.nodes(data=True):
        if model in refused:
            continue
        also = f" ({', '.join(facts['aliases'])})" if facts["aliases"] else ""
        typer.echo(f"{model}{also}")
        if below := sorted(graph.successors(model)):
            typer.echo(f"  implies     {', '.join(below)}")
        if facts["proscribes"]:
            typer.echo(f"  proscribes  {', '.join(facts['proscribes'])}")
        if exact.SAME.get(model, model) in exact.MODELS:
            typer.echo("  decided for registers, and for lists that agree on their order")
        elif model in UNTESTED:
            typer.echo(f"  clean histories stay unknown: {UNTESTED[model]} are not looked for")
    typer.echo(f"\nNot judged of transactions, and refused: {', '.join(refused)}")


def _by_checker() -> dict[str, Any]:
    """What each checker but those of transactions holds histories to, by model: the operations
    that it knows (null = any), and what the initial state may be given as."""
    from checkers.txn.columns import WORKLOADS
    from dstest.core import registry

    found = {}
    for name in registry.names("checkers"):
        if name in WORKLOADS:
            continue
        checker = registry.load("checkers", name)
        found[name] = {
            model: {
                "operations": sorted(checker.op_types[model])
                if model in checker.op_types
                else None,
                "initial": checker.initial.get(model),
            }
            for model in checker.models
        }
    return found


def _print_objects() -> None:
    from checkers.linearizable import CHECKER

    found = _by_checker()
    objects = found.pop(CHECKER.name)
    wide = max(map(len, objects))
    typer.echo(f"\nObjects (checker {CHECKER.name}: each key is one), and their operations:\n")
    for model, facts in objects.items():
        start = f"; --initial: {facts['initial']}" if facts["initial"] else ""
        typer.echo(f"{model.ljust(wide)}  {', '.join(facts['operations'])}{start}")
    typer.echo("\nOther checkers (--checker NAME), and the models that they know:\n")
    wide = max(map(len, found))
    for name, known in found.items():
        typer.echo(f"{name.ljust(wide)}  {', '.join(known)}")
