"""`dstest options`: what `-o key=value` of a run takes."""

from __future__ import annotations

from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dstest.cli import completion
from dstest.cli.output import say

if TYPE_CHECKING:
    from dstest.core.protocols import Option


def options(
    system: Annotated[
        str | None,
        typer.Option(
            help="Those of this system: a name, or a file of your own.",
            autocompletion=completion.systems,
        ),
    ] = None,
    workload: Annotated[
        str | None,
        typer.Option(help="Those of this workload.", autocompletion=completion.workloads),
    ] = None,
    nemesis: Annotated[
        str | None,
        typer.Option(
            help="Those of this nemesis, or of several: partition,kill.",
            autocompletion=completion.nemeses,
        ),
    ] = None,
    plugin: Annotated[
        list[Path] | None, typer.Option(metavar="FILE.py", help="A file of your own with one.")
    ] = None,
    json_: Annotated[bool, typer.Option("--json", help="One JSON object on stdout.")] = False,
) -> None:
    """List every `-o` that a run takes: type, default, what it may be, what it does. Without a name
    those of the main job, etcd with register and partition.

    `dstest options --system etcd --nemesis kill`"""
    import msgspec

    from dstest.core.option_words import allowed, written
    from dstest.core.plugin_files import named_in, use
    from dstest.core.spec import RunSpec
    from dstest.runner.plugins import options_of

    use(plugin or [])
    if system is None and workload is None and nemesis is None:
        usual = RunSpec()
        system, workload, nemesis = usual.system, usual.workload, usual.nemesis
    rows = list(
        options_of(
            None if system is None else named_in("systems", system),
            None if workload is None else named_in("workloads", workload),
            None if nemesis is None else named_in("nemeses", nemesis),
        )
    )
    if json_:
        shown = [{"of": whose, "name": name, **_plain(option)} for whose, name, option in rows]
        say(msgspec.json.encode({"options": shown}).decode())
        return
    for whose, of_it in groupby(rows, key=lambda row: row[0]):
        typer.echo(f"{whose}:")
        for _, name, option in of_it:
            may_be = allowed(option)
            typer.echo(f"  -o {name}={written(option.default)}")
            typer.echo(f"      {option.help}{f' ({may_be})' if may_be else ''}")


def _plain(option: Option) -> dict[str, Any]:
    return {
        "type": option.type.__name__,
        "default": option.default,
        "choices": list(option.choices),
        "least": option.least,
        "most": option.most,
        "help": option.help,
    }
