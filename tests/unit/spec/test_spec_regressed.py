"""The first bad commit of 32 in six runs, those that do not build left out."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from dstest.core.errors import ConfigError
from dstest.spec.regressed import first_bad


def git(where: Path, *words: str) -> str:
    return subprocess.run(
        ["git", "-C", str(where), "-c", "user.name=a", "-c", "user.email=a@b", *words],
        check=True,
        capture_output=True,
        text=True,
    ).stdout.strip()


def repository(path: Path, commits: int, bad_from: int, broken: set[int]) -> list[str]:
    path.mkdir()
    git(path, "init", "--quiet")
    names = []
    for number in range(commits):
        word = "broken" if number in broken else "bad" if number >= bad_from else "good"
        (path / "state").write_text(f"{word} {number}")
        git(path, "add", "state")
        git(path, "commit", "--quiet", "-m", str(number))
        names.append(git(path, "rev-parse", "HEAD"))
    return names


LOOK = (
    "import sys; word = open('state').read().split()[0];"
    " sys.exit({'good': 0, 'bad': 1, 'broken': 125}[word])"
)
COMMAND = [sys.executable, "-c", LOOK]


@pytest.mark.parametrize("bad_from", [1, 17, 31])
def test_a_regression_among_32(tmp_path: Path, bad_from: int) -> None:
    names = repository(tmp_path / "r", 32, bad_from, set())
    found = first_bad(tmp_path / "r", names[0], names[-1], COMMAND)
    assert found.suspects == (names[bad_from],)
    assert len(found.tried) <= 6
    assert git(tmp_path / "r", "worktree", "list").count("\n") == 0


def test_what_does_not_build_is_left_out(tmp_path: Path) -> None:
    names = repository(tmp_path / "r", 16, 9, {7, 8, 12})
    found = first_bad(tmp_path / "r", names[0], names[-1], COMMAND)
    assert found.suspects == tuple(names[7:10])
    assert {one.answer for one in found.tried} == {"good", "bad", "skipped"}


def test_what_cannot_be_asked(tmp_path: Path) -> None:
    names = repository(tmp_path / "r", 3, 1, set())
    with pytest.raises(ConfigError, match="does not come after"):
        first_bad(tmp_path / "r", names[2], names[0], COMMAND)
    with pytest.raises(ConfigError, match="git rev-list"):
        first_bad(tmp_path / "r", "nowhere", names[0], COMMAND)
    with pytest.raises(ConfigError, match="no-such-program"):
        first_bad(tmp_path / "r", names[0], names[2], ["no-such-program"])
    assert git(tmp_path / "r", "worktree", "list").count("\n") == 0
