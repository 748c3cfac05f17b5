"""A file of Python as it is, and as a commit has it."""

from __future__ import annotations

import ast
import subprocess
from pathlib import Path

from dstest.core.errors import ConfigError


def head_of(place: Path) -> str:
    """The commit that is checked out there, 12 digits. Raises ConfigError where there is none."""
    found = _git(place, "rev-parse", "--verify", "--quiet", "HEAD")
    if found.returncode:
        raise ConfigError(f"{place} is in no repository with a commit", remedy="--commit COMMIT")
    return found.stdout.strip()[:12]


def text_now(path: Path) -> str:
    """Raises ConfigError where it cannot be read, or is no Python."""
    try:
        return _python(path.read_text(), str(path))
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: {error}", remedy="a file of Python") from None


def text_at(path: Path, commit: str) -> str | None:
    """None where the commit has it neither under this name nor, as far as git can tell, another.

    Raises ConfigError where there is no such commit, or no repository around the file.
    """
    place = path.absolute()
    known = _git(place.parent, "rev-parse", "--verify", "--quiet", f"{commit}^{{commit}}")
    if known.returncode:
        raise ConfigError(f"{commit!r} is no commit around {path}", remedy="--since COMMIT")
    sha = known.stdout.strip()
    shown = _git(place.parent, "show", f"{sha}:./{place.name}")
    if shown.returncode:
        former = _former_name(place, sha)
        if former is None:
            return None
        shown = _git(place.parent, "show", f"{sha}:{former}")
    return _python(shown.stdout, f"{commit}:{path}")


def _former_name(place: Path, commit: str) -> str | None:
    """From the top of the repository. Git knows files that are added to its index."""
    prefix = _git(place.parent, "rev-parse", "--show-prefix").stdout.strip()
    asked = ("--name-status", "--diff-filter=R", "--find-renames=20%", "--no-relative")
    listed = _git(place.parent, "diff", "-z", *asked, commit).stdout.split("\0")
    pairs = zip(listed[1::3], listed[2::3], strict=False)
    return next((old for old, new in pairs if new == f"{prefix}{place.name}"), None)


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
