"""Readers that go away, and Ctrl-C: no traceback, no exit code that means something else."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from dstest.history.generator.histories import Spec, events, lines

pytestmark = pytest.mark.slow

DSTEST = [sys.executable, "-m", "dstest"]


@pytest.fixture
def large(tmp_path: Path) -> Path:
    path = tmp_path / "h.jsonl"
    spec = Spec(txns=3000)
    path.write_bytes(b"".join(lines(events(spec), spec, "jsonl")))
    return path


def first_line_of(*arguments: str) -> tuple[bytes, int, str]:
    """What a reader of one line gets, the exit code, and what was said."""
    with subprocess.Popen(
        [*DSTEST, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as child:
        assert child.stdout is not None
        assert child.stderr is not None
        line = child.stdout.readline()
        child.stdout.close()
        said = child.stderr.read().decode()
        return line, child.wait(60), said


@pytest.mark.parametrize(
    "command",
    [["export"], ["export", "--format", "json"], ["generate", "--txns", "3000", "--seed", "17"]],
)
def test_a_reader_that_has_seen_enough_is_no_error(large: Path, command: list[str]) -> None:
    source = [] if command[0] == "generate" else [str(large)]
    line, code, said = first_line_of(*command, *source)
    assert line.endswith(b"\n")
    assert (code, said) == (0, "")


def test_the_verdict_keeps_its_exit_code(tmp_path: Path) -> None:
    path = tmp_path / "h.jsonl"
    spec = Spec(txns=50, inject={"G1a": 1})
    path.write_bytes(b"".join(lines(events(spec), spec, "jsonl")))
    with subprocess.Popen(
        [*DSTEST, "check", str(path)], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as child:
        assert child.stdout is not None
        child.stdout.close()
        assert child.wait(60) == 1
        assert child.stderr is not None
        assert child.stderr.read() == b""


@pytest.mark.parametrize("after_s", [0.15, 0.3, 0.6, 1.2])
def test_ctrl_c_is_130_without_a_traceback(after_s: float) -> None:
    # Who runs the tests in the background of a shell has them ignore the signal.
    with subprocess.Popen(
        ["env", "--default-signal=INT", *DSTEST, "generate", "--txns", "5000000"],
        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
    ) as child:  # fmt: skip
        time.sleep(after_s)
        child.send_signal(signal.SIGINT)
        assert child.stderr is not None
        said = child.stderr.read().decode()
        code = child.wait(30)
    if code == -signal.SIGINT or "Fatal Python error" in said:
        return  # Python itself was not up yet
    assert "Traceback" not in said
    assert (code, said) == (130, "dstest: interrupted\n")


IN_A_CLASS = """
import sys
from dstest.cli import entry
class Interrupting:
    def __set_name__(self, owner, name):
        raise KeyboardInterrupt
entry.app_of = lambda _: type("Made", (), {"part": Interrupting()})
sys.argv = ["dstest", "models"]
entry.main()
"""


def test_one_that_comes_while_a_class_is_made_is_one() -> None:
    """Python tells it as a RuntimeError that it is the cause of."""
    words = [sys.executable, "-c", IN_A_CLASS]
    done = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 130, done.stderr
    assert "interrupted" in done.stderr and "Traceback" not in done.stderr
