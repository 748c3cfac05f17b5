"""`dstest workers`: what machines need to work for a night, a shrink or a batch of checks."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, NoReturn

import typer

from dstest.cli.output import say
from dstest.core.errors import Exit

__all__ = ["pack", "put", "workers_app"]

workers_app = typer.Typer(
    no_args_is_help=True, help="Machines that work for others: dstest is put there as it is here."
)


@workers_app.command()
def pack(
    target: Annotated[Path, typer.Argument(metavar="FILE.tar.gz", help="The archive.")],
) -> None:
    """Pack dstest and all that it needs for a machine with the same Python, processor and C
    library: unpack it anywhere, and put its `lib` into PYTHONPATH. It needs no `--json`: it prints
    one JSON object in any case."""
    import msgspec

    from dstest.fan.bundle import pack_bundle

    _say(f"packing dstest and what it needs into {target}")
    bundle = pack_bundle(target)
    say(msgspec.json.encode(bundle).decode())


@workers_app.command()
def put(
    hosts: Annotated[list[str], typer.Argument(metavar="HOST", help="As `ssh HOST` reaches it.")],
) -> None:
    """Lay dstest on machines, as /opt/dstest-worker: for `--at ssh:HOST,HOST`. They need Python and
    no network. Exit 4 where one has not got it. It needs no `--json`: it prints one JSON object in
    any case."""
    import asyncio
    import tempfile

    from dstest.fan.bundle import pack_bundle
    from dstest.fan.put import put as lay
    from dstest.fan.put import unreachable

    found = asyncio.run(unreachable(hosts))
    with tempfile.TemporaryDirectory(prefix="dstest-bundle-") as folder:
        if not (there := [host for host in hosts if not found[host]]):
            _told(found)
        _say("packing dstest and what it needs")
        bundle = pack_bundle(Path(folder, "bundle.tar.gz"))
        _say(f"{bundle.bytes / 1e6:.0f} MB, for Python {bundle.python}: to {', '.join(there)}")
        found |= asyncio.run(lay(there, bundle))
    _told(found)


def _say(text: str) -> None:
    typer.echo(text, err=True)


def _told(found: dict[str, str]) -> NoReturn:
    for host, why in found.items():
        say(f"{host}: {why or 'ready'}")
    raise typer.Exit(int(Exit.HARNESS if any(found.values()) else Exit.PASS))
