"""A command with a limit of time: what it has started, detached or not, ends with it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from clusters.remote import agent_chore
from clusters.remote.bundle import pipe_text, piped_argv

pytestmark = pytest.mark.slow

PROGRAM = Path(agent_chore.__file__).read_text()


def watched(seconds: float, *argv: str, program: str = PROGRAM) -> tuple[int, str, str, float]:
    began = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", program, f"{seconds:g}", *argv],
        capture_output=True,
        text=True,
        timeout=20,
        check=False,
    )
    return done.returncode, done.stdout, done.stderr, time.monotonic() - began


def running(path: Path) -> list[int]:
    """Those of the processes that wrote their number there which still run."""
    pids = [int(line) for line in path.read_text().split()] if path.exists() else []
    return [pid for pid in pids if os.path.exists(f"/proc/{pid}/status") and not dead(pid)]


def dead(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] in "ZX"
    except OSError:
        return True


@pytest.mark.parametrize(
    ("script", "code"),
    [("exit 0", 0), ("exit 7", 7), ("kill -9 $$", 137), ("echo out; echo err >&2; exit 3", 3)],
)
def test_a_command_that_ends_in_time(script: str, code: int) -> None:
    status, out, err, seconds = watched(10, "sh", "-c", script)
    assert (status, seconds < 5) == (code, True)
    if "out" in script:
        assert (out, err) == ("out\n", "err\n")


def test_a_program_that_is_not_there() -> None:
    assert watched(5, "/nowhere/program")[0] == 127


DETACHED = {
    "setsid": "setsid sh -c 'echo $$ >>$0; exec sleep 60' {} </dev/null >/dev/null 2>&1 &",
    "nohup": "nohup sh -c 'echo $$ >>$0; exec sleep 60' {} </dev/null >/dev/null 2>&1 &",
    "twice, without environment": (
        "(env -i setsid sh -c 'echo $$ >>$0; sleep 60 & echo $! >>$0; exit' {} &) >/dev/null 2>&1"
    ),
    "deaf": "setsid sh -c 'trap \"\" TERM HUP INT; echo $$ >>$0; while :; do sleep 1; done' {} &",
}


@pytest.mark.parametrize("kind", DETACHED)
def test_what_has_detached_itself_ends_too(tmp_path: Path, kind: str) -> None:
    pids = tmp_path / "pids"
    script = DETACHED[kind].replace("{}", str(pids)) + "\nsleep 60"
    status, _, err, seconds = watched(1.0, "sh", "-c", script)
    assert pids.exists()
    assert running(pids) == []
    assert status == agent_chore.TIMED_OUT
    assert "no end within 1 s; ended: " in err
    assert 1.0 <= seconds < 6


def test_what_a_command_that_ends_in_time_leaves_behind_stays(tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    script = DETACHED["setsid"].replace("{}", str(pids)) + "\nsleep 0.3"
    assert watched(10, "sh", "-c", script)[0] == 0
    (left,) = running(pids)
    os.kill(left, signal.SIGKILL)


def test_where_it_cannot_be_found_that_is_said(tmp_path: Path) -> None:
    """A kernel, or a Python, that gives us no orphans."""
    blind = PROGRAM.replace("import ctypes", "raise ImportError")
    pids = tmp_path / "pids"
    script = DETACHED["twice, without environment"].replace("{}", str(pids)) + "\nsleep 60"
    status, _, err, _ = watched(0.7, "sh", "-c", script, program=blind)
    for pid in running(pids):
        os.kill(pid, signal.SIGKILL)
    assert status == agent_chore.LEFT
    assert "that may still run" in err


@pytest.mark.skipif(os.geteuid() != 0, reason="becoming another user needs root")
def test_what_may_not_be_ended_is_named(tmp_path: Path) -> None:
    """As with `--no-root`, where the command has used sudo."""
    pids = tmp_path / "pids"
    pids.touch(0o666)
    pids.chmod(0o666)
    program = PROGRAM.replace(
        "        left = deadline - time.monotonic()",
        "        left = deadline - time.monotonic()\n"
        "        if left <= 0: os.setresuid(65534, 65534, 65534)",
    )
    script = f"echo $$ >>{pids}; exec sleep 60 >/dev/null 2>&1"
    status, _, err, _ = watched(0.5, "sh", "-c", script, program=program)
    for pid in running(pids):
        os.kill(pid, signal.SIGKILL)
    assert status == agent_chore.LEFT
    assert "still there: sleep (" in err


def test_neither_the_program_nor_the_command_stands_in_the_list_of_processes() -> None:
    """As `pkill -f WORD` looks for it; what follows on standard input is the command's."""
    look = 'tr "\\0" " " <"/proc/$PPID/cmdline"; cat; echo "$WORD"'
    words = ["9", "sh", "-c", 'c=$LOOK; unset LOOK; eval "$c"']
    given = pipe_text(agent_chore, words, {"LOOK": look, "WORD": "needle"})
    done = subprocess.run(
        piped_argv(), input=given + b"rest\n", capture_output=True, timeout=20, check=True
    )
    shown = done.stdout.decode()
    assert shown.endswith("rest\nneedle\n")
    assert len(shown) < 400
    assert shown.count("needle") == 1
