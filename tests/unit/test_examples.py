"""Each command has examples in its help, which it can read, and a mistake is told what is right."""

from __future__ import annotations

import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from failing_runs import passing
from typer.testing import CliRunner

from dstest.cli.app import app
from dstest.cli.commands import EXAMPLES
from dstest.cli.reference.pages import commands_page, every_command
from dstest.store import inventory

pytestmark = pytest.mark.slow

COMMANDS = {words.removeprefix("dstest "): command for words, command in every_command()}
CLI = CliRunner()


def said(*words: str) -> tuple[int, str]:
    done = CLI.invoke(app, list(words), env={"COLUMNS": "300", "TERM": "dumb"})
    return done.exit_code, " ".join((done.output + (done.stderr or "")).replace("│", " ").split())


def test_every_command_has_some_and_no_other() -> None:
    assert set(EXAMPLES) == set(COMMANDS)
    assert all(1 <= len(lines) <= 3 for lines in EXAMPLES.values())


@pytest.mark.parametrize("name", sorted(EXAMPLES))
def test_they_are_in_the_help_and_can_be_read(name: str) -> None:
    command: Any = COMMANDS[name]
    for line in EXAMPLES[name]:
        assert f"`{line}`" in (command.epilog or "")
        words = shlex.split(line)
        assert words[: 1 + len(name.split())] == ["dstest", *name.split()]
        command.make_context(name, words[1 + len(name.split()) :])


def test_what_cannot_be_read_would_be_seen() -> None:
    with pytest.raises(Exception, match="No such option"):
        COMMANDS["run"].make_context("run", ["--sytem", "etcd"])


def test_the_reference_has_them() -> None:
    page = commands_page()
    assert all(line in page for lines in EXAMPLES.values() for line in lines)


@pytest.mark.parametrize("words", [(), ("run",), ("lab",), ("lab", "up")], ids=" ".join)
def test_a_short_flag_asks_for_help(words: tuple[str, ...]) -> None:
    code, text = said(*words, "-h")
    assert code == 0 and "Usage" in text


@pytest.mark.parametrize(
    ("words", "remedy"),
    [
        (("run", "--concurrency", "2n"), "for Jepsen's 2n on 5 nodes 10"),
        (("run", "--time-limit", "30s"), "30, not 30s"),
        (("sim", "--seed", "x"), "a whole number alone"),
        (("compare", "A", "B"), "dstest compare --baseline RUN_A --candidate RUN_B"),
        (("lab", "adopt"), "dstest lab adopt nodes.toml"),
    ],
)
def test_a_mistake_is_told_what_is_right(words: tuple[str, ...], remedy: str) -> None:
    code, text = said(*words)
    assert code == 2
    assert remedy in text


def test_a_directory_without_a_run_is_wrong_usage(tmp_path: Path) -> None:
    for number in range(5):
        (tmp_path / f"link{number}").symlink_to("/nowhere")
    for more in ((), ("--out", str(tmp_path.parent / "out"))):
        done = subprocess.run(
            [sys.executable, "-m", "dstest", "report", str(tmp_path), *more],
            capture_output=True, text=True, check=False, timeout=60,
        )  # fmt: skip
        assert done.returncode == 2, done.stderr
        assert "link0" not in done.stdout + done.stderr


def test_looking_has_an_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inventory, "_EMPTY_MAX", 20)
    for number in range(30):
        (tmp_path / f"d{number}").mkdir()
    done = subprocess.run(
        [sys.executable, "-m", "dstest", "report", str(tmp_path)],
        capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    assert done.returncode == 2
    with pytest.raises(Exception, match="no run in its first 20 folders"):
        inventory.walk(tmp_path)


def test_a_check_of_a_store_points_to_the_command_for_it(tmp_path: Path) -> None:
    run = passing(tmp_path / "name" / "20260101T000000Z-7").path
    done = subprocess.run(
        [sys.executable, "-m", "dstest", "check", str(tmp_path)],
        capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    assert done.returncode == 2
    assert f"dstest report {tmp_path}" in done.stderr and f"dstest check {run}" in done.stderr
