"""Which files of a change can change what a program does."""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import Final

__all__ = ["is_behaviour", "is_test"]

_TEXTS: Final = frozenset({".md", ".rst", ".txt", ".adoc", ".png", ".svg", ".jpg", ".gif", ".pdf"})
_PAPERS: Final = frozenset({"license", "licence", "copying", "authors", "notice", "codeowners"})
_SETTINGS: Final = frozenset({".gitignore", ".gitattributes", ".editorconfig", ".mailmap"})
_DOCS: Final = frozenset({"docs", "doc", "documentation"})


def is_behaviour(path: PurePosixPath) -> bool:
    """Can a change of this file change what the program does? Not so documents and pictures, and
    what is in folders of documents, but for what is built from there."""
    name = path.name.casefold()
    if path.suffix.casefold() in _TEXTS or path.stem.casefold() in _PAPERS or name in _SETTINGS:
        return name in ("requirements.txt", "cmakelists.txt", "constraints.txt")
    return not (_DOCS & {part.casefold() for part in path.parts[:1]})


def is_test(path: PurePosixPath) -> bool:
    """Is it a test, by the usual names?"""
    name = path.name.casefold()
    folders = {part.casefold() for part in path.parts[:-1]}
    return bool(folders & {"test", "tests", "spec", "specs", "e2e", "integration"}) or (
        name.startswith("test_")
        or any(mark in name for mark in ("_test.", ".test.", "_spec.", ".spec.", "test."))
    )
