"""`dstest nightly`: many cells with their controls, over night; and `dstest workers`: what machines
need to work for a night, a shrink or a batch of checks."""

from __future__ import annotations

import os
from collections.abc import Iterable
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Any, Final, NoReturn

import typer
from typer.core import TyperGroup

from dstest.cli.options import At, Json
from dstest.cli.output import Telling, say
from dstest.cli.report import remove
from dstest.core.errors import Exit

_RUN: Final = "run"


class _Nightly(TyperGroup):
    """`dstest nightly FILE` is `dstest nightly run FILE`, where FILE is not nearly a command."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if args and args[0] not in self.commands and not args[0].startswith("-"):
            near = get_close_matches(args[0], self.commands, n=1)
            if near and not Path(args[0]).exists():
                ctx.fail(f"no such command {args[0]!r}; did you mean {near[0]}?")
            args = [_RUN, *args]
        return super().parse_args(ctx, args)


nightly_app = typer.Typer(
    cls=_Nightly,
    no_args_is_help=True,
    help="Many cells with their controls, over night: `dstest nightly nightly.toml`.",
)

Config = Annotated[Path, typer.Argument(metavar="NIGHTLY.toml", help="The night.")]
Store = Annotated[Path, typer.Option(help="Where the directory goes.")]
Cells = Annotated[
    list[str] | None,
    typer.Option(
        "--cell", metavar="ID", help="Only this cell (`nightly show` names them); may be repeated."
    ),
]
NightSeed = Annotated[
    int | None,
    typer.Option(
        metavar="N",
        help="Draw the new seeds by this number: the same ones again.",
        min=0,
    ),
]
Directory = Annotated[Path, typer.Argument(metavar="DIR", help="The directory of a night.")]
Workers = Annotated[
    int | None, typer.Option(help="How many labs side by side on this machine.", min=1, max=64)
]


@nightly_app.command(_RUN)
def run(
    config: Config,
    store: Store = Path("store"),
    at: At = None,
    workers: Workers = None,
    cell: Cells = None,
    night_seed: NightSeed = None,
    json_: Json = False,
) -> None:
    """Run a night, or go on with the newest one of this file that did not end. Exit 0 only where
    every control was red or green as it must and every other cell passed; 1 where a cell that has
    to pass saw a violation; 3 where a control or a verdict is missing, and with --cell where all
    others come to 0: what was not asked is not proven."""
    from dstest.campaign.nightly.driver import begin

    places: list[Path] = []
    given: dict[str, Any] = {"at": at, "workers": workers, "chosen": tuple(cell or ())}
    given["night_seed"] = night_seed
    code = begin(config, store=store, say=_say, began=places.append, **given)
    _ended(places[0], code, json_)


@nightly_app.command()
def show(
    config: Config,
    store: Store = Path("store"),
    cell: Cells = None,
    night_seed: NightSeed = None,
    json_: Json = False,
) -> None:
    """What the next night of this file will ask, in its order: cells, their controls and seeds, the
    commands, and how long they may take. New seeds are drawn by a number that is told: a night with
    `--night-seed` has the same. Nothing is run or written."""
    import msgspec

    from dstest.campaign.nightly.cells import read_config
    from dstest.campaign.nightly.driver import night_after, plan_cells
    from dstest.campaign.nightly.page import cells_text
    from dstest.campaign.nightly.state import nights_in

    read = read_config(config)
    folder, chosen = store / read.name, tuple(cell or ())
    cells = plan_cells(read, config, chosen)
    before = nights_in(folder)
    night = night_after(before, read, cells, folder, chosen=chosen, night_seed=night_seed)
    if json_:
        say(msgspec.json.encode(night).decode())
    else:
        _print(cells_text(night, cells))


@nightly_app.command()
def resume(
    directory: Directory, at: At = None, workers: Workers = None, json_: Json = False
) -> None:
    """Go on with a night that was stopped or killed."""
    from dstest.campaign.nightly.driver import resume as go_on

    _ended(directory, go_on(directory, at=at, workers=workers, say=_say), json_)


def _ended(directory: Path, code: int, json_: bool) -> NoReturn:
    """Tell a program what came of it, and exit."""
    import msgspec

    from dstest.campaign.nightly.state import NightDir

    if json_:
        opened = NightDir.open(directory)
        shown = {"directory": str(opened.path), "exit": code, "night": opened.read()}
        say(msgspec.json.encode(shown).decode())
    raise typer.Exit(code)


@nightly_app.command()
def status(directory: Directory, json_: Json = False) -> None:
    """How far a night is: how each cell stands, what runs since when, and the time that is left.
    Exit 0 in any case: the verdict is that of `report`."""
    import msgspec

    from dstest.campaign.nightly.page import night_text
    from dstest.campaign.nightly.state import NightDir
    from dstest.campaign.nightly.verdict import contradictions, exit_now
    from dstest.store.nights import differing

    opened = NightDir.open(directory)
    night = opened.read()
    night.wrong = [*contradictions(opened, night)]
    night.wrong += [f"{os.path.relpath(p, opened.path)}: {w}" for p, w, _ in differing(opened.path)]
    if night.ended:
        night.exit = int(exit_now(night))
    if json_:
        say(msgspec.json.encode(night).decode())
    else:
        _print(night_text(night, opened.path))


@nightly_app.command()
def report(directory: Directory, json_: Json = False) -> None:
    """Read every run of a night again, held to its sums, and write its page and junit.xml anew.
    Exits as the night does; one that is not over is no pass: 1 where it has seen a violation, else
    3."""
    import msgspec

    from dstest.campaign.nightly.page import night_text
    from dstest.campaign.nightly.reports import JUNIT, PAGE, write_pages
    from dstest.campaign.nightly.state import NightDir
    from dstest.campaign.nightly.verdict import exit_now, judge_night

    opened = NightDir.open(directory)
    remove((opened.path / name for name in (PAGE, JUNIT)), "night")
    with Telling(f"reading the runs of {opened.path}") as tell:
        night = judge_night(opened, tell)
    code = exit_now(night)
    if night.ended:
        night.exit = int(code)
        opened.save(night)
    write_pages(opened, night)
    if json_:
        say(msgspec.json.encode({"exit": int(code), "night": night}).decode())
    else:
        _print(night_text(night, opened.path))
        typer.echo(f"{opened.path / PAGE}, {JUNIT} beside it")
    raise typer.Exit(int(code))


@nightly_app.command()
def index(
    folder: Annotated[
        Path, typer.Argument(metavar="FOLDER", help="The nights of one name: store/NAME.")
    ],
    again: Annotated[
        bool, typer.Option("--again", help="Read every run of every night again first.")
    ] = False,
    json_: Json = False,
) -> None:
    """Make the index of all nights anew, and print what they say together: rates with their
    intervals, flaky cells, times to detection."""
    import msgspec

    from dstest.campaign.nightly.index import open_index, rebuild, trends_of
    from dstest.campaign.nightly.page import plain, trends_text
    from dstest.campaign.nightly.state import nights_in
    from dstest.campaign.nightly.verdict import judge_night

    nights = nights_in(folder)
    with Telling(f"reading the runs of {folder}") as tell:
        judged = [(one.path, judge_night(one, tell)) for one, _ in nights.whole] if again else None
    file = rebuild(folder, judged)
    for told in nights.damaged:
        _say(told)
    with open_index(folder) as db:
        trends = trends_of(db)
    if json_:
        say(msgspec.json.encode(plain(trends)).decode())
        return
    typer.echo(f"{file}: {len(nights.whole)} nights")
    _print(trends_text(trends))


def _print(lines: Iterable[str]) -> None:
    for line in lines:
        typer.echo(line)


def _say(text: str) -> None:
    typer.echo(text, err=True)


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

    from dstest.campaign.workers.bundle import pack_bundle

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

    from dstest.campaign.workers.bundle import pack_bundle, unreachable
    from dstest.campaign.workers.bundle import put as lay

    found = asyncio.run(unreachable(hosts))
    with tempfile.TemporaryDirectory(prefix="dstest-bundle-") as folder:
        if not (there := [host for host in hosts if not found[host]]):
            _told(found, json_)
        _say("packing dstest and what it needs")
        bundle = pack_bundle(Path(folder, "bundle.tar.gz"))
        _say(f"{bundle.bytes / 1e6:.0f} MB, for Python {bundle.python}: to {', '.join(there)}")
        found |= asyncio.run(lay(there, bundle))
    _told(found, json_)


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
