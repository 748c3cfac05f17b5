"""The first commit under which a command fails, by halves, each in a worktree of its own.

The command's exit code is the answer, as for `git bisect run`: 0 good, 125 cannot be told (it does
not build), anything else up to 127 bad.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Literal

import msgspec

from dstest.core.errors import ConfigError

SKIP = 125
MOST = 127

Answer = Literal["good", "bad", "skipped"]


class Tried(msgspec.Struct, frozen=True):
    """One run of the command."""

    commit: str
    answer: Answer
    code: int


class Regressed(msgspec.Struct, frozen=True, kw_only=True):
    """`suspects` is the first bad commit alone, or with those before it that could not be told.
    `tried` begins with the two ends."""

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
    """`good` is before `bad`; merges are followed as `git bisect` follows them.

    Raises ConfigError where they are no commits in this order, or are not good and bad, or the
    command cannot be run.
    """
    names = [_git(repository, "rev-parse", "--verify", f"{one}^{{commit}}") for one in (good, bad)]
    good, bad = (one.strip() for one in names)
    if not _git(repository, "rev-list", "--ancestry-path", f"{good}..{bad}").split():
        raise ConfigError(
            f"{bad[:12]} does not come after {good[:12]}",
            remedy="the good commit first, then the bad one",
        )
    tried = list[Tried]()
    ends: tuple[tuple[str, Answer], ...] = ((good, "good"), (bad, "bad"))
    for commit, wanted in ends:
        tried.append(_end(repository, commit, wanted, command, timeout_s))
        on_tried(tried[-1])
    goods, skipped = [good], set[str]()
    while True:
        rows = _git(repository, "rev-list", "--bisect-all", bad, *(f"^{one}" for one in goods))
        open_ = [row.split()[0] for row in rows.splitlines()]
        left = [one for one in open_ if one != bad and one not in skipped]
        if not left:
            return Regressed(suspects=tuple(reversed(open_)), tried=tuple(tried))
        one = _try(repository, left[0], command, timeout_s)
        tried.append(one)
        on_tried(one)
        if one.answer == "good":
            goods.append(one.commit)
        elif one.answer == "bad":
            bad = one.commit
        else:
            skipped.add(one.commit)


def _end(
    repository: Path, commit: str, wanted: Answer, command: Sequence[str], timeout_s: float
) -> Tried:
    """What is said to be good or bad is asked first. Raises ConfigError where it is not."""
    one = _try(repository, commit, command, timeout_s)
    if one.answer != wanted:
        raise ConfigError(
            f"{commit[:12]} is {one.answer} (the command ended with {one.code}), not {wanted}",
            remedy="a commit under which the command passes, and one under which it fails",
        )
    return one


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


def _ended(command: Sequence[str], tree: Path, timeout_s: float) -> int:
    """Its exit code; with all that it has started it is ended where it takes too long."""
    process = subprocess.Popen(
        list(command),
        cwd=tree,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        return process.wait(timeout_s)
    except subprocess.TimeoutExpired:
        return SKIP
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _try(repository: Path, commit: str, command: Sequence[str], timeout_s: float) -> Tried:
    with tempfile.TemporaryDirectory(prefix="dstest-bisect-") as place:
        tree = Path(place) / "tree"
        _git(repository, "worktree", "add", "--detach", "--quiet", str(tree), commit)
        try:
            code = _ended(command, tree, timeout_s)
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
