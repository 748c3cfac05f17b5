"""Which files of a change can change what a program does."""

from __future__ import annotations

import re
from pathlib import PurePosixPath
from typing import Final

_TEXTS: Final = frozenset({".md", ".rst", ".txt", ".adoc", ".png", ".svg", ".jpg", ".gif", ".pdf"})
_PAPERS: Final = frozenset({"license", "licence", "copying", "authors", "notice", "codeowners"})
"""Without a suffix; with one it is a document by that, or a program that is called so."""

_SETTINGS: Final = frozenset({".gitignore", ".gitattributes", ".editorconfig", ".mailmap"})
_TEST: Final = re.compile(
    r"test_\w+\.py|\w+_test\.(?:py|go|cc|cpp|c|rs)|.+[._](?:test|spec)\.[jt]sx?"
)
"""As pytest, go test, googletest and Jest find theirs."""


def is_behaviour(path: PurePosixPath) -> bool:
    """Can a change of this file change what the program does? Not so documents and pictures; but
    whatever is no such file counts, wherever it lies."""
    name = path.name.casefold()
    if path.suffix.casefold() in _TEXTS or name in _PAPERS or name in _SETTINGS:
        return name in ("requirements.txt", "cmakelists.txt", "constraints.txt")
    return True


def is_test(path: PurePosixPath) -> bool:
    """Is it a test, by the usual names?"""
    name = path.name.casefold()
    folders = {part.casefold() for part in path.parts[:-1]}
    return bool(folders & {"test", "tests", "e2e"}) or _TEST.fullmatch(name) is not None
