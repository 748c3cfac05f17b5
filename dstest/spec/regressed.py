"""The first commit under which a command fails, by halves, each in a worktree of its own.

The command's exit code is the answer, as for `git bisect run`: 0 good, 125 cannot be told (it does
not build), anything else up to 127 bad.
"""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Literal

import msgspec

from dstest.core.errors import ConfigError

__all__ = ["Regressed", "Tried", "first_bad"]

SKIP = 125
MOST = 127

Answer = Literal["good", "bad", "skipped"]


class Tried(msgspec.Struct, frozen=True):
    """One run of the command."""

    commit: str
    answer: Answer
    code: int


class Regressed(msgspec.Struct, frozen=True, kw_only=True):
    """`suspects` is the first bad commit alone, or with those before it that could not be told."""

    suspects: tuple[str, ...]
    tried: tuple[Tried, ...]


def first_bad(
    repository: Path,
    good: str,
    bad: str,
    command: Sequence[str],
    *,
    timeout_s: float = 600.0,
    on_tried: Callable[[Tried], None] = lambda _: None,
) -> Regressed:
    """`good` is before `bad`, and is taken at its word, as `bad` is.

    Raises ConfigError where they are no commits in this order, or the command cannot be run.
    """
    line = _git(repository, "rev-list", "--ancestry-path", "--reverse", f"{good}..{bad}").split()
    if not line:
        raise ConfigError(
            f"{bad} does not come after {good}", remedy="the good commit first, then the bad one"
        )
    tried: list[Tried] = []
    skipped: set[int] = set()
    low, high = -1, len(line) - 1  # good up to `low`, bad from `high` on
    while True:
        open_ = [i for i in range(low + 1, high) if i not in skipped]
        if not open_:
            break
        middle = min(open_, key=lambda i: abs(2 * i - low - high))
        one = _try(repository, line[middle], command, timeout_s)
        tried.append(one)
        on_tried(one)
        if one.answer == "good":
            low = middle
        elif one.answer == "bad":
            high = middle
        else:
            skipped.add(middle)
    return Regressed(suspects=tuple(line[low + 1 : high + 1]), tried=tuple(tried))


def _git(repository: Path, *words: str) -> str:
    done = subprocess.run(
        ["git", "-C", str(repository), *words], capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise ConfigError(
            f"git {words[0]}: {done.stderr.strip().splitlines()[-1:]}",
            remedy="names of commits of this repository",
        )
    return done.stdout


def _try(repository: Path, commit: str, command: Sequence[str], timeout_s: float) -> Tried:
    with tempfile.TemporaryDirectory(prefix="dstest-bisect-") as place:
        tree = Path(place) / "tree"
        _git(repository, "worktree", "add", "--detach", "--quiet", str(tree), commit)
        try:
            done = subprocess.run(
                list(command), cwd=tree, capture_output=True, timeout=timeout_s, check=False
            )
            code = done.returncode
        except subprocess.TimeoutExpired:
            code = SKIP
        except OSError as error:
            raise ConfigError(
                f"{command[0]}: {error.strerror}", remedy="a command that can be run in the tree"
            ) from None
        finally:
            _git(repository, "worktree", "remove", "--force", str(tree))
    if code < 0 or code > MOST:
        raise ConfigError(
            f"{command[0]} ended with {code} at {commit[:12]}",
            remedy="0 for good, 125 where it cannot be told, anything else up to 127 for bad",
        )
    answer: Answer = "good" if code == 0 else "skipped" if code == SKIP else "bad"
    return Tried(commit, answer, code)
