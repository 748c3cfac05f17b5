"""`dstest workers`: what machines need to work for a night, a shrink or a batch of checks."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, NoReturn

import typer

from dstest.cli.output import say
from dstest.core.errors import Exit

Json = Annotated[bool, typer.Option("--json", help="One JSON object on stdout.")]

workers_app = typer.Typer(
    no_args_is_help=True, help="Machines that work for others: dstest is put there as it is here."
)


@workers_app.command()
def pack(
    target: Annotated[Path, typer.Argument(metavar="FILE.tar.gz", help="The archive.")],
    json_: Json = False,
) -> None:
    """Pack dstest and all that it needs for a machine with the same Python, processor and C
    library: unpack it anywhere, and put its `lib` into PYTHONPATH. What was packed is told as one
    JSON object, with `--json` and without."""
    import msgspec

    from dstest.fan.bundle import pack_bundle

    del json_  # the answer is one in any case
    _say(f"packing dstest and what it needs into {target}")
    bundle = pack_bundle(target)
    say(msgspec.json.encode(bundle).decode())


@workers_app.command()
def put(
    hosts: Annotated[list[str], typer.Argument(metavar="HOST", help="As `ssh HOST` reaches it.")],
    json_: Json = False,
) -> None:
    """Lay dstest on machines, as /opt/dstest-worker: for `--at ssh:HOST,HOST`. They need Python and
    no network. Exit 4 where one has not got it."""
    import asyncio
    import tempfile

    from dstest.fan.bundle import pack_bundle
    from dstest.fan.put import put as lay
    from dstest.fan.put import unreachable

    found = asyncio.run(unreachable(hosts))
    with tempfile.TemporaryDirectory(prefix="dstest-bundle-") as folder:
        if not (there := [host for host in hosts if not found[host]]):
            _told(found, json_)
        _say("packing dstest and what it needs")
        bundle = pack_bundle(Path(folder, "bundle.tar.gz"))
        _say(f"{bundle.bytes / 1e6:.0f} MB, for Python {bundle.python}: to {', '.join(there)}")
        found |= asyncio.run(lay(there, bundle))
    _told(found, json_)


def _say(text: str) -> None:
    typer.echo(text, err=True)


def _told(found: dict[str, str], json_: bool) -> NoReturn:
    """`found` has for each host why it is not ready; empty where it is."""
    import msgspec

    code = int(Exit.HARNESS if any(found.values()) else Exit.PASS)
    if json_:
        rows = [{"host": host, "ready": not why, "why_not": why} for host, why in found.items()]
        say(msgspec.json.encode({"exit": code, "machines": rows}).decode())
    else:
        for host, why in found.items():
            say(f"{host}: {why or 'ready'}")
    raise typer.Exit(code)
