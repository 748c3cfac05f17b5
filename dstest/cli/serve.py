"""`dstest serve`: a store in a browser, or as pages that need no server."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dstest.cli.output import say

if TYPE_CHECKING:
    from dstest.serve.index import Index


def serve(
    store: Annotated[
        Path, typer.Argument(metavar="STORE", help="A store; default ./store.")
    ] = Path("store"),
    host: Annotated[
        str,
        typer.Option(help="Listen at this address. Whoever reaches it reads the whole store."),
    ] = "127.0.0.1",
    port: Annotated[
        int, typer.Option(help="Listen at this port, up to 65535; 0 takes a free one.")
    ] = 8080,
    export: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR", help="Write the same pages as files into this new directory, and end."
        ),
    ] = None,
    cache: Annotated[
        bool,
        typer.Option(
            "--cache/--no-cache",
            help="Keep what was read below ~/.cache/dstest, so that the next start is quick.",
        ),
    ] = True,
    json_: Annotated[bool, typer.Option("--json", help="One JSON object on stdout.")] = False,
) -> None:
    """Look at a store in a browser: search, filter, two runs side by side, trends, violations over
    runs, what is running. Nothing is ever written to the store. Ends with Ctrl-C, exit 0."""
    from dstest.core.errors import ConfigError
    from dstest.serve.cache import Cache, cache_file
    from dstest.serve.index import Index

    if not host.strip():
        raise ConfigError(
            "--host is empty, which would be every address of this machine",
            remedy="leave it out for this machine alone; 0.0.0.0 for every address",
        )
    if not 0 <= port <= 65535:
        raise ConfigError(f"--port {port}: no port has this number", remedy="0 to 65535")
    kept = Cache(cache_file(store) if cache else None)
    if kept.why_not:
        typer.echo(f"dstest: nothing is kept for the next start: {kept.why_not}", err=True)
    try:
        index = Index(store, kept)
        if export is not None:
            _export(index, export, json_)
        else:
            _serve(index, host, port, json_)
    finally:
        kept.close()


def _export(index: Index, to: Path, json_: bool) -> None:
    import msgspec

    from dstest.serve.export import export

    typer.echo("reading the runs", err=True)
    index.refresh()
    runs = len(index.shown.rows)
    pages = export(index, to, lambda text: typer.echo(text, err=True))
    first = to / "index.html"
    if json_:
        say(msgspec.json.encode({"pages": pages, "runs": runs, "index": str(first)}).decode())
    else:
        typer.echo(f"{pages:,} pages of {runs:,} runs: {first}")


def _serve(index: Index, host: str, port: int, json_: bool) -> None:
    import msgspec

    from dstest.serve.http import is_loopback
    from dstest.serve.run import Listening, serve

    if not is_loopback(host):
        typer.echo(
            f"dstest: warning: {host} can be reached from elsewhere: whoever reaches it reads "
            "everything in this store, with the logs of its nodes; nobody is asked for a name",
            err=True,
        )

    def ready(at: Listening) -> None:
        if json_:
            shown = {"url": at.url, "host": at.host, "port": at.port, "store": str(index.store)}
            say(msgspec.json.encode(shown).decode())
        else:
            say(f"{index.store} is at {at.url} (Ctrl-C ends)")

    serve(index, host, port, ready)
