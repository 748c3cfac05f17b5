"""A change, from `git diff`: its files, and whether any of it can change what the program does."""

from __future__ import annotations

import ast
import re
import subprocess
from collections.abc import Callable, Iterable
from pathlib import Path, PurePosixPath
from typing import Final

import msgspec

from dstest.core.errors import ConfigError
from dstest.plans.changes import is_behaviour, is_test

_GIT_S: Final = 60.0
_REMEDY: Final = "--change OLD..NEW of the repository in --repo, or --diff FILE with a `git diff`"
_COMMENT: Final = re.compile(r"\s*(#(?!include|define|if|el|endif|!|\[)|//|/\*|--\s|;;|%)")
_HUNKLESS: Final = ("rename from ", "Binary files ", "GIT binary patch", "old mode ")


class File(msgspec.Struct, frozen=True, kw_only=True):
    """A file of a change, by its new path. `why_not` is why it changes no behaviour; empty where it
    may."""

    path: str
    added: int
    removed: int
    why_not: str


class Change(msgspec.Struct, frozen=True, kw_only=True):
    """`name` is what the change is called: revisions, or the file of the diff."""

    name: str
    files: tuple[File, ...]
    subject: str = ""

    @property
    def behaviour(self) -> tuple[File, ...]:
        """Those of its files that can change what the program does."""
        return tuple(file for file in self.files if not file.why_not)


def git(repo: Path, *words: str) -> str:
    """What git says. Raises ConfigError where it refuses."""
    try:
        done = subprocess.run(
            ["git", "-C", str(repo), *words], capture_output=True, timeout=_GIT_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ConfigError(f"git {words[0]} in {repo}: {error}", remedy=_REMEDY) from None
    if done.returncode != 0:
        said = done.stderr.decode(errors="replace").strip().splitlines()
        raise ConfigError(
            f"git {words[0]} in {repo}: {said[0] if said else done.returncode}", remedy=_REMEDY
        )
    return done.stdout.decode(errors="replace")


def changed_by_git(repo: Path, revisions: str) -> Change:
    """The change between two revisions, as `OLD..NEW`; `REV` alone is what that commit did."""
    old, dots, new = revisions.partition("..")
    if revisions.startswith("-") or not old or (dots and not new.strip(".")):
        raise ConfigError(f"--change {revisions!r}: not two revisions", remedy=_REMEDY)
    pair = (old, new.strip(".")) if dots else (f"{old}^", old)
    how = ("--no-color", "--no-ext-diff", "--relative", "-M", "--unified=0")
    text = git(repo, "diff", *how, *pair, "--")
    subject = git(repo, "log", "-1", "--format=%s", pair[1], "--").strip()

    def at(which: int, path: str) -> str | None:
        try:
            return git(repo, "show", f"{pair[which]}:./{path}")
        except ConfigError:
            return None

    return Change(name=revisions, files=tuple(_files(text, at)), subject=subject)


def changed_by_diff(path: Path) -> Change:
    """The change in a file that `git diff` has written."""
    try:
        text = path.read_text(errors="replace")
    except OSError as error:
        raise ConfigError(f"--diff {path}: {error.strerror}", remedy=_REMEDY) from None
    files = tuple(_files(text, lambda which, name: None))
    if not files:
        raise ConfigError(f"--diff {path}: it changes no file", remedy=_REMEDY)
    return Change(name=path.name, files=files)


def _files(text: str, at: Callable[[int, str], str | None]) -> Iterable[File]:
    """`at(0, path)` is a file before the change, `at(1, path)` after it."""
    for part in re.split(r"(?m)^diff --git ", text)[1:]:
        head, *lines = part.splitlines()
        found = re.search(r" b/(.+)$", head)
        path = head.split()[-1] if found is None else found[1].strip('"')
        added = [line[1:] for line in lines if line[:1] == "+" and line[:4] != "+++ "]
        removed = [line[1:] for line in lines if line[:1] == "-" and line[:4] != "--- "]
        hunkless = any(line.startswith(_HUNKLESS) for line in lines)
        yield File(
            path=path,
            added=len(added),
            removed=len(removed),
            why_not=_why_not(PurePosixPath(path), removed, added, hunkless, at),
        )


def _why_not(
    path: PurePosixPath,
    removed: list[str],
    added: list[str],
    hunkless: bool,
    at: Callable[[int, str], str | None],
) -> str:
    if not is_behaviour(path):
        return "a document"
    if is_test(path):
        return "a test"
    if hunkless:
        return ""
    if path.suffix == ".py":
        before, after = at(0, str(path)), at(1, str(path))
        if before is not None and after is not None:
            return "comments, docstrings, imports or layout" if _same(before, after) else ""
    elif _same_lines(removed, added):
        return "comments or layout"
    return ""


def _same_lines(removed: list[str], added: list[str]) -> bool:
    """Are these the same lines in the same order, but for comments, blanks and layout? What else a
    line may mean, such as an import that does something, nobody knows here."""
    old, new = (
        [said for line in lines if not _COMMENT.match(line) and (said := "".join(line.split()))]
        for lines in (removed, added)
    )
    return old == new


def _same(before: str, after: str) -> bool:
    """Are two Python files one program, but for docstrings and for imports that nobody uses?"""
    try:
        old, new = ast.parse(before), ast.parse(after)
    except (SyntaxError, ValueError):
        return False
    was, now = _bound(old), _bound(new)
    moved = [name for name in was.keys() & now.keys() if was[name] != now[name]]
    return not moved and ast.dump(_bare(old)) == ast.dump(_bare(new))


def _bound(tree: ast.AST) -> dict[str, str]:
    """What each imported name comes from."""
    found: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {alias.asname or alias.name: alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            home = "." * node.level + (node.module or "")
            found |= {alias.asname or alias.name: f"{home}:{alias.name}" for alias in node.names}
    return found


def _bare(tree: ast.Module) -> ast.Module:
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        if not isinstance(body, list):
            continue
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            first = body[0] if body else None
            if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant):
                body.pop(0)
        body[:] = [one for one in body if not isinstance(one, ast.Import | ast.ImportFrom)]
    return tree
