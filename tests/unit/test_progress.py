"""What a run says: to whom, and what is kept of it."""

from __future__ import annotations

import io
import time
from pathlib import Path

import pytest

from dstest.cli.output import Telling
from dstest.runner.screen import Progress, Quiet


def test_what_is_said_is_kept(tmp_path: Path) -> None:
    shown, path = io.StringIO(), tmp_path / "run.log"
    ui = Progress(shown)
    ui.say("before there is a run")
    ui.keep_log(path)
    ui.phase("load", "register for 20 s")
    ui.figures("1 ok/s")
    ui.figures("2 ok/s")
    ui.close_log()
    ui.say("after its end")
    lines = path.read_text().splitlines()
    assert [line.split("s  ", 1)[1] for line in lines] == ["[load] register for 20 s", "1 ok/s"]
    assert all(line[:2] == "20" and line[15] == "Z" for line in lines)
    assert shown.getvalue().count("\n") == 4


def test_a_quiet_one_keeps_a_log_all_the_same(tmp_path: Path) -> None:
    ui = Quiet()
    ui.keep_log(tmp_path / "run.log")
    ui.say("heal proven")
    ui.close_log()
    assert (tmp_path / "run.log").read_text().endswith("  heal proven\n")


def test_a_disk_that_is_full_ends_the_log_and_not_the_run() -> None:
    shown = io.StringIO()
    ui = Progress(shown)
    ui.keep_log(Path("/dev/full"))
    ui.say("first")
    ui.say("second")
    ui.close_log()
    assert "run.log ends here: No space left" in shown.getvalue()
    assert shown.getvalue().count("second") == 1


def test_a_long_command_says_what_it_is_at(capsys: pytest.CaptureFixture[str]) -> None:
    """Also one that does not come to say so itself, and only while it lasts."""
    with Telling("begun", first_s=0.05, every_s=0.2) as tell:
        wait_for(capsys, "dstest: begun\n")
        tell("at 1")
        tell("at 2")
        wait_for(capsys, "dstest: at 2\n")
    with Telling("soon over"):
        pass
    assert "soon over" not in capsys.readouterr().err


def wait_for(capsys: pytest.CaptureFixture[str], text: str) -> None:
    seen = ""
    end_s = time.monotonic() + 60
    while text not in (seen := seen + capsys.readouterr().err) and time.monotonic() < end_s:
        time.sleep(0.01)
    assert text in seen


def test_a_path_gives_no_line_of_its_own(capsys: pytest.CaptureFixture[str]) -> None:
    with Telling("x\n::error::boo\x1b[31m", first_s=0.01):
        wait_for(capsys, "dstest: x\\n::error::boo\ufffd[31m\n")
