"""`dstest new`: a system, workload, nemesis or checker of one's own, and a test of it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

__all__ = ["new"]

_HERE = Path()


def new(
    kind: Annotated[str, typer.Argument(help="system, workload, nemesis or checker.")],
    name: Annotated[str, typer.Argument(help="Its name: lower case, with dashes.")],
    folder: Annotated[Path, typer.Option("--dir", help="Where the two files go.")] = _HERE,
) -> None:
    """Write a file of your own that runs at once, and a test of it. It has no `--json`: the files
    are its answer."""
    from dstest.scaffold.write import kind_called, write

    chosen = kind_called(kind)
    written = write(chosen, name, folder)
    typer.echo(f"written: {' and '.join(map(_shown, written))}; they are yours to change")
    typer.echo("next:")
    skeleton, test = written
    for command in (f"pytest {_shown(test)}", *chosen.commands):
        typer.echo(f"  {_runnable(command.format(file=_shown(skeleton)))}")


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
