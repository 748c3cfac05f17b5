"""`dstest nightly`: many cells with their controls, over night."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer
from typer.core import TyperGroup

from dstest.cli.output import say

if TYPE_CHECKING:
    from dstest.nightly.state import Night

__all__ = ["index", "nightly_app", "report", "resume", "run", "status"]

_RUN: Final = "run"


class _Nightly(TyperGroup):
    """`dstest nightly FILE` is `dstest nightly run FILE`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if args and args[0] not in self.commands and not args[0].startswith("-"):
            args = [_RUN, *args]
        return super().parse_args(ctx, args)


nightly_app = typer.Typer(
    cls=_Nightly,
    no_args_is_help=True,
    help="Many cells with their controls, over night: `dstest nightly nightly.toml`.",
)

Directory = Annotated[Path, typer.Argument(metavar="DIR", help="The directory of a night.")]
At = Annotated[
    str | None,
    typer.Option(help="Where its workers are: local, ssh:HOST,HOST or tcp://ADDRESS:PORT."),
]
Workers = Annotated[
    int | None, typer.Option(help="How many labs side by side on this machine.", min=1, max=64)
]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]


@nightly_app.command(_RUN)
def run(
    config: Annotated[Path, typer.Argument(metavar="NIGHTLY.toml", help="The night.")],
    store: Annotated[Path, typer.Option(help="Where the directory goes.")] = Path("store"),
    at: At = None,
    workers: Workers = None,
) -> None:
    """Run a night, or go on with the newest one of this file that did not end. Exit 0 only where
    every control was red or green as it must and every other cell passed; 1 where a cell that has
    to pass saw a violation; 3 where a control or a verdict is missing."""
    from dstest.nightly.driver import begin

    raise typer.Exit(begin(config, store=store, at=at, workers=workers, say=_say))


@nightly_app.command()
def resume(directory: Directory, at: At = None, workers: Workers = None) -> None:
    """Go on with a night that was stopped or killed."""
    from dstest.nightly.driver import resume as go_on

    raise typer.Exit(go_on(directory, at=at, workers=workers, say=_say))


@nightly_app.command()
def status(directory: Directory, json_: Json = False) -> None:
    """How far a night is. Exit 0 in any case: the verdict is that of `report`."""
    import msgspec

    from dstest.nightly.state import NightDir

    night = NightDir.open(directory).read()
    if json_:
        say(msgspec.json.encode(night).decode())
    else:
        _print(night)


@nightly_app.command()
def report(directory: Directory, json_: Json = False) -> None:
    """Judge every run of a night again from its evidence, and write its page anew. Exits as the
    night does, and with 3 where it is not over."""
    import msgspec

    from dstest.nightly.judged import exit_of, judge_night
    from dstest.nightly.state import NightDir
    from dstest.nightly.write import write_pages

    opened = NightDir.open(directory)
    night = judge_night(opened)
    code = exit_of(night.items)
    if night.ended:
        night.exit = int(code)
        opened.save(night)
    write_pages(opened, night)
    if json_:
        say(msgspec.json.encode({"exit": int(code), "night": night}).decode())
    else:
        _print(night)
    raise typer.Exit(int(code))


@nightly_app.command()
def index(
    folder: Annotated[
        Path, typer.Argument(metavar="FOLDER", help="The nights of one name: store/NAME.")
    ],
    again: Annotated[
        bool, typer.Option("--again", help="Judge every run of every night again first.")
    ] = False,
    json_: Json = False,
) -> None:
    """Make the index of all nights anew, and print what they say together: rates with their
    intervals, flaky cells, times to detection."""
    import msgspec

    from dstest.nightly.index import opened, rebuild
    from dstest.nightly.judged import judge_night
    from dstest.nightly.state import nights_of
    from dstest.nightly.trends import trends_of

    judged = [(one.path, judge_night(one)) for one in nights_of(folder)] if again else None
    file = rebuild(folder, judged)
    with opened(folder) as db:
        trends = trends_of(db)
    if json_:
        say(msgspec.json.encode(trends).decode())
        return
    typer.echo(f"{file}: {len(trends.nights)} of the last nights")
    for cell in trends.cells:
        stood = " ".join(standing for _, standing in cell.nights)
        typer.echo(f"{cell.cell:48} {cell.control or '-':6} {stood}")


def _print(night: Night) -> None:
    from dstest.nightly.page import headline

    for item in night.items:
        state = item.standing if item.tries else "running" if item.running else "not run"
        typer.echo(f"{item.id:52} {item.expected.control or '-':6} {state:11} {item.why_not}")
    word, sentence = headline(night)
    typer.echo(f"{word}: {sentence}")


def _say(text: str) -> None:
    typer.echo(text, err=True)
