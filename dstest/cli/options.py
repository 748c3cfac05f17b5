"""`dstest options`: what `-o key=value` of a run takes."""

from __future__ import annotations

from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dstest.cli.output import say

if TYPE_CHECKING:
    from dstest.core.protocols import Option

__all__ = ["options"]


def options(
    system: Annotated[
        str | None, typer.Option(help="Those of this system: a name, or a file of your own.")
    ] = None,
    workload: Annotated[str | None, typer.Option(help="Those of this workload.")] = None,
    nemesis: Annotated[
        str | None, typer.Option(help="Those of this nemesis, or of several: partition,kill.")
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
            typer.echo(f"  -o {name}={_written(option.default)}")
            typer.echo(f"      {option.help}{_allowed(option)}")


def _plain(option: Option) -> dict[str, Any]:
    return {
        "type": option.type.__name__,
        "default": option.default,
        "choices": list(option.choices),
        "least": option.least,
        "most": option.most,
        "help": option.help,
    }


def _written(value: Any) -> str:
    """As one would give it."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def _allowed(option: Option) -> str:
    if option.choices:
        return f" ({', '.join(map(_written, option.choices))})"
    if option.type is bool:
        return " (true, false)"
    ends = (option.least, option.most)
    if ends == (None, None):
        return "" if option.type is str else f" ({option.type.__name__})"
    low, high = ("" if end is None else _number(end) for end in ends)
    if low and high:
        return f" ({option.type.__name__}, {low} to {high})"
    return f" ({option.type.__name__}, {low} or more)" if low else f" (at most {high})"


def _number(value: float) -> str:
    return f"{int(value):,}" if value == int(value) else f"{value:g}"
