"""Help texts are shown as they were written: nothing in them is taken for markup."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
import typer.main
from typer.testing import CliRunner

from dstest.cli.app import app

pytestmark = pytest.mark.slow


def commands(command: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    yield path, command
    for name, inner in getattr(command, "commands", {}).items():
        yield from commands(inner, (*path, name))


ALL = list(commands(typer.main.get_command(app)))


@pytest.mark.parametrize(("path", "command"), ALL, ids=[" ".join(p) or "dstest" for p, _ in ALL])
def test_brackets_survive(path: tuple[str, ...], command: Any) -> None:
    done = CliRunner().invoke(app, [*path, "--help"], terminal_width=300)
    assert done.exit_code == 0
    shown = re.sub(r"[^A-Za-z\[\]()<>]", "", done.output)
    for parameter in command.params:
        words = re.findall(r"\[[^\]]*\]|<[^>]*>", getattr(parameter, "help", None) or "")
        for word in words:
            assert re.sub(r"[^A-Za-z\[\]()<>]", "", word) in shown, (path, word)


@pytest.mark.parametrize("word", ["help", "version"])
def test_what_is_an_option_elsewhere_is_one_here(word: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "dstest", word], capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert f"did you mean --{word}?" in done.stderr
