"""The first bad commit of 32 in six runs, those that do not build left out."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest

from dstest.core.errors import ConfigError
from dstest.spec.mutate import first_bad

pytestmark = pytest.mark.slow


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
    assert len(found.tried) - 2 <= 6
    assert git(tmp_path / "r", "worktree", "list").count("\n") == 0


def test_what_does_not_build_is_left_out(tmp_path: Path) -> None:
    names = repository(tmp_path / "r", 16, 9, {7, 8, 12})
    found = first_bad(tmp_path / "r", names[0], names[-1], COMMAND)
    assert sorted(found.suspects) == sorted(names[7:10])
    assert {one.answer for one in found.tried} == {"good", "bad", "skipped"}


def test_a_branch_that_was_merged(tmp_path: Path) -> None:
    """The regression came by a side branch, between two commits of the line."""
    place = tmp_path / "r"
    names = repository(place, 3, 99, set())
    git(place, "checkout", "--quiet", "-b", "side", names[1])
    for number, word in enumerate(("good", "bad", "bad")):
        (place / "state").write_text(f"{word} side {number}")
        git(place, "commit", "--quiet", "-am", f"side {number}")
    side = git(place, "rev-list", "--reverse", f"{names[1]}..side").split()
    git(place, "checkout", "--quiet", "-b", "line", names[2])
    git(place, "merge", "--quiet", "-X", "theirs", "-m", "merged", "side")
    assert (place / "state").read_text().startswith("bad")
    found = first_bad(place, names[0], "line", COMMAND)
    assert found.suspects == (side[1],)


def test_ends_that_are_not_as_they_are_said_to_be(tmp_path: Path) -> None:
    names = repository(tmp_path / "r", 3, 2, set())
    with pytest.raises(ConfigError, match=r"is good .*, not bad"):
        first_bad(tmp_path / "r", names[0], names[1], COMMAND)
    with pytest.raises(ConfigError, match=r"is bad .*, not good"):
        first_bad(tmp_path / "r", names[0], names[2], [sys.executable, "-c", "exit(1)"])


def test_what_a_command_has_started_ends_with_it(tmp_path: Path) -> None:
    names = repository(tmp_path / "r", 2, 1, set())
    mark = tmp_path / "alive"
    slow = f"import subprocess, sys, time; subprocess.Popen(['sh', '-c', 'sleep 2; touch {mark}']);"
    slow += "sys.exit(0) if 'good' in open('state').read() else time.sleep(60)"
    with pytest.raises(ConfigError, match="is skipped"):
        first_bad(tmp_path / "r", names[0], names[1], [sys.executable, "-c", slow], timeout_s=1)
    time.sleep(2.5)
    assert not mark.exists()


def test_what_cannot_be_asked(tmp_path: Path) -> None:
    names = repository(tmp_path / "r", 3, 1, set())
    with pytest.raises(ConfigError, match="does not come after"):
        first_bad(tmp_path / "r", names[2], names[0], COMMAND)
    with pytest.raises(ConfigError, match="git rev-parse"):
        first_bad(tmp_path / "r", "nowhere", names[0], COMMAND)
    with pytest.raises(ConfigError, match="no-such-program"):
        first_bad(tmp_path / "r", names[0], names[2], ["no-such-program"])
    assert git(tmp_path / "r", "worktree", "list").count("\n") == 0
