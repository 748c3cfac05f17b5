"""`dstest points`: functions of a program at which `--nemesis aimed` can meet it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from clusters.labs import state
from dstest.cli.options import Json
from dstest.cli.output import say
from dstest.core.errors import ConfigError
from dstest.core.words import printable_line
from nemeses.tools.agent_points import functions, matching


def points(
    program: Annotated[
        str,
        typer.Argument(help="A program's file, here or in the newest image of nodes that has it."),
    ],
    search: Annotated[
        str, typer.Option(help="A word of the name, or a glob such as 'mvcc.*'.")
    ] = "",
    limit: Annotated[int, typer.Option(min=1, help="How many are listed.")] = 50,
    json_: Json = False,
) -> None:
    """Functions of a program, by its own tables: what `-o at=function:NAME` of aimed may say."""
    path = _where(program)
    try:
        rows, go = functions(str(path))
    except (OSError, ValueError) as error:
        remedy = "the program itself, not a script that starts it"
        raise ConfigError(str(error), remedy=remedy) from None
    globs = any(mark in search for mark in "*?[")
    found = matching(rows, search) if globs else [r for r in rows if search.lower() in r[0].lower()]
    if json_:
        names = [name for name, _ in found[:limit]]
        told = {"program": str(path), "go": go, "functions": len(rows), "fit": len(found)}
        say(json.dumps({**told, "names": names}))
        return
    for name, _ in found[:limit]:
        say(printable_line(name))
    more = f", {limit} of them listed" if len(found) > limit else ""
    kind = "of Go" if go else "with symbols" if rows else "without symbols"
    typer.echo(
        f"{path}: {len(rows):,} functions, a program {kind}; {len(found):,} fit{more}", err=True
    )


def _where(program: str) -> Path:
    """Raises ConfigError where there is no such file."""
    path = Path(program)
    if path.is_file():
        return path
    images = state.root_dir() / "images"
    found = [root / program.lstrip("/") for root in images.glob("*/rootfs")]
    found = sorted((p for p in found if p.is_file()), key=lambda p: p.stat().st_mtime)
    if not found:
        raise ConfigError(
            f"{program}: no such program here, nor in any image of nodes",
            remedy="its path, such as /usr/bin/etcd; `dstest lab up --system NAME` makes an image",
        )
    return found[-1]
