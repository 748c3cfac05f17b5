"""`dstest new`: a system, workload, nemesis or checker of one's own, and a test of it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dstest.cli.options import Json

_HERE = Path()


def new(
    kind: Annotated[str, typer.Argument(help="system, workload, nemesis or checker.")],
    name: Annotated[str, typer.Argument(help="Its name: lower case, with dashes.")],
    folder: Annotated[Path, typer.Option("--dir", help="Where the two files go.")] = _HERE,
    json_: Json = False,
) -> None:
    """Write a file of your own that runs at once, and a test of it."""
    from dstest.extend.scaffold.write import kind_called, write

    chosen = kind_called(kind)
    written = write(chosen, name, folder)
    skeleton, test = written
    commands = [f"pytest {_shown(test)}"]
    commands += [command.format(file=_shown(skeleton)) for command in chosen.commands]
    following = [_runnable(command) for command in commands]
    if json_:
        _as_json(kind, name, written, following)
        return
    typer.echo(f"written: {' and '.join(map(_shown, written))}; they are yours to change")
    typer.echo("next:")
    for command in following:
        typer.echo(f"  {command}")


def _as_json(kind: str, name: str, written: list[Path], following: list[str]) -> None:
    import msgspec

    from dstest.cli.output import say

    made = {"kind": kind, "name": name, "written": [*map(str, written)], "next": following}
    say(msgspec.json.encode(made).decode())


def _shown(path: Path) -> str:
    """As it is typed; a file of the current directory as `./x.py`."""
    import shlex

    return shlex.quote(str(path) if path.is_absolute() else f"./{path}")


def _runnable(command: str) -> str:
    """The command with the path of its program, where the shell would not find ours by name."""
    import shlex
    import shutil
    import sys

    program, rest = command.split(" ", 1)
    ours, on_path = Path(sys.executable).with_name(program), shutil.which(program)
    if not ours.exists() or (on_path is not None and Path(on_path).resolve() == ours.resolve()):
        return command
    return f"{shlex.quote(str(ours))} {rest}"
