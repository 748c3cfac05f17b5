"""A file of Python as it is, and as a commit has it."""

from __future__ import annotations

import ast
import subprocess
from pathlib import Path

from dstest.core.errors import ConfigError

__all__ = ["text_at", "text_now"]


def text_now(path: Path) -> str:
    """Raises ConfigError where it cannot be read, or is no Python."""
    try:
        return _python(path.read_text(), str(path))
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: {error}", remedy="a file of Python") from None


def text_at(path: Path, commit: str) -> str:
    """Empty where the commit does not have the file: then nothing can be weaker than there.

    Raises ConfigError where there is no such commit, or no repository around the file.
    """
    place = path.absolute()
    known = _git(place.parent, "rev-parse", "--verify", "--quiet", f"{commit}^{{commit}}")
    if known.returncode:
        raise ConfigError(f"{commit!r} is no commit around {path}", remedy="--since COMMIT")
    shown = _git(place.parent, "show", f"{commit}:./{place.name}")
    return _python(shown.stdout, f"{commit}:{path}") if shown.returncode == 0 else ""


def _git(where: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["git", "-C", str(where), *words], capture_output=True, text=True, check=False
    )


def _python(text: str, name: str) -> str:
    try:
        ast.parse(text)
    except SyntaxError as error:
        raise ConfigError(f"{name}: {error}", remedy="a file of Python") from None
    return text
