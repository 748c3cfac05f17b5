"""`docs/reference/commands.md`: each command with its arguments and options."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from types import NoneType
from typing import Any, Final, get_args

from typer.main import get_command

from dstest.cli.app import app
from dstest.cli.examples import EXAMPLES
from dstest.reference.tables import code, table

_HEAD: Final = """\
# Commands

Written by `python -m dstest.reference`; do not edit. Exit codes are in the README. `dstest COMMAND
--help` says the same.
"""

_INSTALLS: Final = frozenset({"--install-completion", "--show-completion", "--help", "-h"})


def every_command() -> Iterator[tuple[str, Any]]:
    """(words as one types them, command) of each that does something, those in groups included."""
    yield from _below("dstest", get_command(app))


def _below(words: str, group: Any) -> Iterator[tuple[str, Any]]:
    found: Mapping[str, Any] = group.commands
    for name, command in found.items():
        if command.hidden:
            continue
        if hasattr(command, "commands"):
            yield from _below(f"{words} {name}", command)
        else:
            yield f"{words} {name}", command


def commands_page() -> str:
    lines = [_HEAD]
    for words, command in every_command():
        lines += [f"## {words}", "", *_said(command.help or ""), ""]
        examples = EXAMPLES.get(words.removeprefix("dstest "), ())
        lines += ["Examples:", "", "```", *examples, "```", ""] if examples else []
        given = [p for p in command.params if not _INSTALLS & set(p.opts)]
        if given:
            lines += [*table(("", "takes", "default", ""), map(_row, given)), ""]
    return "\n".join(lines)


def _said(text: str) -> list[str]:
    """A help text; angle brackets and stars in it are no markup."""
    return re.sub(r"(?<!\w)([<>*])", r"\\\1", text.strip()).split("\n")


def _row(param: Any) -> tuple[str, str, str, str]:
    is_argument = param.param_type_name == "argument"
    names = [param.name.upper()] if is_argument else [*param.opts, *param.secondary_opts]
    return ", ".join(map(code, names)), _takes(param), _default(param), param.help or ""


def _takes(param: Any) -> str:
    if getattr(param, "is_flag", False):
        return ""
    many = " ..." if param.multiple or param.nargs == -1 else ""
    return code(f"{param.metavar or _kind(param.type_descriptor.annotation)}{many}")


def _kind(annotation: Any) -> str:
    """`int` of `list[int]` and of `int | None`."""
    inner = [kind for kind in get_args(annotation) if kind is not NoneType]
    return _kind(inner[0]) if inner else str(getattr(annotation, "__name__", annotation))


def _default(param: Any) -> str:
    if param.required:
        return "must be given"
    if param.default in (None, False, (), []) or callable(param.default):
        return ""
    return code(str(param.default))
