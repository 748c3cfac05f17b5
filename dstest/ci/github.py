"""Workflow commands of GitHub Actions: `::error file=...,line=...,title=...::message`.

Source: GitHub Docs, Workflow commands for GitHub Actions, "Setting an error message". A line
break or a percent sign in what a run says would end a command or begin another, so they are
escaped as there.
"""

from __future__ import annotations

from typing import Literal

from dstest.core.printable import printable

Level = Literal["notice", "warning", "error"]


def _data(text: str) -> str:
    return printable(text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A"))


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")


def command(
    level: Level, title: str, message: str, *, file: str | None = None, line: int | None = None
) -> str:
    """One line, whatever is in the texts. `file` is relative to the root of the checkout."""
    place = [] if file is None else [f"file={_property(file)}"]
    place += [] if line is None else [f"line={line}"]
    return f"::{level} {','.join([*place, f'title={_property(title)}'])}::{_data(message)}"
