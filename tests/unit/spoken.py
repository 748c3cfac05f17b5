"""Which commands the text of a test speaks, read from its syntax and not from its words alone."""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterator, Sequence
from pathlib import Path

__all__ = ["calls_in", "options_in", "speaks"]

Words = Sequence[str | None]
"""The words of one call, list or string; None for what is only known when the test runs."""


@functools.cache
def _nodes(file: Path) -> list[ast.AST]:
    return list(ast.walk(ast.parse(file.read_text())))


def _sequences(test: Path) -> Iterator[Words]:
    for node in _nodes(test):
        if isinstance(node, ast.Tuple | ast.List):
            yield list(_words(node.elts))
        elif isinstance(node, ast.Call):
            yield list(_words(node.args))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and " " in node.value:
            yield node.value.split()


def _words(items: Sequence[ast.expr]) -> Iterator[str | None]:
    for item in items:
        if isinstance(item, ast.Constant) and isinstance(item.value, str):
            yield from item.value.split() or [""]
        else:
            yield None


def speaks(test: Path, command: Sequence[str]) -> bool:
    """Do these words stand one after the other in it? The last of them may be given to a helper of
    the test that puts the others before it."""
    found = list(_sequences(test))
    if any(_has(words, command) for words in found):
        return True
    helped = len(command) > 1 and any(_has(words, [*command[:-1], None]) for words in found)
    return helped and any(command[-1] in words for words in found)


def _has(words: Words, wanted: Words) -> bool:
    return any(
        list(words[at : at + len(wanted)]) == list(wanted)
        for at in range(len(words) - len(wanted) + 1)
    )


def options_in(test: Path) -> set[str]:
    """All options that it speaks of, such as `--json`."""
    return {word for words in _sequences(test) for word in words if word and word.startswith("--")}


def calls_in(test: Path, function: str) -> set[str] | None:
    """The arguments that it gives to a function by keyword; None where it never calls it."""
    found = [
        {keyword.arg or "" for keyword in node.keywords}
        for node in _nodes(test)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id == function
    ]
    return set().union(*found) if found else None
