"""What a run looks like on a terminal, through a pseudo terminal and a small screen behind it."""

from __future__ import annotations

import fcntl
import io
import os
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TextIO

import msgspec
import pytest
from rich.cells import cell_len

from dstest.core.live import Counter, FaultNow, Live, NextFault, NodeNow, Ops
from dstest.runner.screen import LiveView, Progress, picture, progress_for

pytestmark = pytest.mark.slow

SEQUENCE = re.compile(r"\x1b\[([0-9;]*)([A-Za-z])|([\r\n])|([^\x1b\r\n]+)")


def snapshot(nodes: int = 5, second: int = 30, name: str = "etcd register") -> Live:
    return Live(
        pid=1, phase="load", at_ns=0, elapsed_s=second, left_s=60 - second, title=name,
        ops=Ops(invoked=1012, ok=1000, fail=5, unknown=3), rate_per_s=31.0,
        rates=[float(n % 7) for n in range(60)], phases=["lab", "connect", "deploy", "load"],
        nodes=[NodeNow(name=f"n{n}", ok=n, state="answering") for n in range(1, nodes + 1)],
        faults=[
            FaultNow(
                id="f1", nemesis="partition", on=["n1"], state="landed", since_s=4.0,
                counter=Counter(name="packets cut", before=0, now=1234, age_s=0.5),
            ),
            FaultNow(
                id="f2", nemesis="kill", on=["n2"], state="landed", since_s=4.0,
                detail="n2: [red]gone[/red] [/] \x1b[31mred\x1b[0m\nnext",
            ),
        ],
        next_fault=NextFault(id="f3", nemesis="pause", in_s=12.0), faults_left=1,
    )  # fmt: skip


class Terminal:
    """A pseudo terminal, and what is on its screen: as many rows as there were lines."""

    def __init__(self, columns: int, rows: int = 30) -> None:
        self.outer, self.inner = os.openpty()
        self.columns = columns
        self.resize(columns, rows)
        self.stream: TextIO = open(self.inner, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
        self.seen = ""
        self.rows = [""]
        self.row = self.column = 0

    def resize(self, columns: int, rows: int = 30) -> None:
        fcntl.ioctl(self.inner, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def read(self) -> str:
        data = b""
        while select.select([self.outer], [], [], 0.1)[0]:
            data += os.read(self.outer, 65536)
        text = data.decode()
        self.seen += text
        for count, code, line, words in SEQUENCE.findall(text):
            self._obey(int(count or 1) if code == "A" else 0, code, line, words)
        return text

    def _obey(self, count: int, code: str, line: str, words: str) -> None:
        if code == "A":
            assert count <= self.row, "above the screen"
            self.row -= count
        elif code == "J":
            self.rows[self.row :] = [""]
        elif line == "\r":
            self.column = 0
        elif line == "\n":
            self.row += 1
            if self.row == len(self.rows):
                self.rows.append("")
        elif words:
            assert self.column + cell_len(words) < self.columns, "a line that wraps"
            old = self.rows[self.row]
            self.rows[self.row] = old[: self.column] + words + old[self.column + len(words) :]
            self.column += len(words)

    def close(self) -> None:
        self.stream.close()
        os.close(self.outer)
        os.close(self.inner)


@pytest.fixture(params=[40, 80, 200])
def terminal(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Terminal]:
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.delenv("NO_COLOR", raising=False)
    made = Terminal(request.param)
    yield made
    made.close()


def view_on(terminal: Terminal) -> LiveView:
    ui = progress_for(terminal.stream)
    assert isinstance(ui, LiveView)
    return ui


def draw(ui: LiveView, now: Live | None) -> None:
    ui._drawn_ns = 0
    ui.live(now)


def test_the_picture_stays_below_the_lines_and_is_drawn_in_place(terminal: Terminal) -> None:
    ui = view_on(terminal)
    ui.phase("load", "register")
    for second in range(5):
        draw(ui, snapshot(second=second))
        terminal.read()
    ui.say("f1: injecting")
    draw(ui, snapshot(second=9))
    terminal.read()
    shown = [row for row in terminal.rows if row]
    assert [row.split("s  ", 1)[-1] for row in shown[:2]] == ["[load] register", "f1: injecting"]
    assert sum("etcd register" in row for row in shown) == 1
    assert sum("0:09, 0:51 left" in row for row in shown) == 1
    assert sum("packets cut: 0 -> 1,234" in row for row in shown) == 1
    assert len(shown) == 2 + len(picture(snapshot()))
    draw(ui, None)
    terminal.read()
    assert len([row for row in terminal.rows if row]) == 2
    assert terminal.column == 0


def test_names_are_neither_markup_nor_obeyed(terminal: Terminal) -> None:
    ui = view_on(terminal)
    ui.say("run [red]x[/red] [/]")
    draw(ui, snapshot(name="[b]x[/b] [/]"))
    terminal.read()
    shown = "\n".join(terminal.rows)
    assert "run [red]x[/red] [/]" in shown
    assert "[b]x[/b] [/]" in shown
    assert "n2: [red]gone[/red] [/] " in shown
    assert "\x1b[31m" not in terminal.seen.split("gone", 1)[1].split("\n", 1)[0]


def test_the_cursor_is_never_hidden(terminal: Terminal) -> None:
    ui = view_on(terminal)
    draw(ui, snapshot())
    terminal.read()
    assert "\x1b[?25" not in terminal.seen
    assert terminal.rows[-1] == "", "what is typed or printed next begins on a line of its own"


def test_no_color(monkeypatch: pytest.MonkeyPatch, terminal: Terminal) -> None:
    draw(view_on(terminal), snapshot())
    assert re.search(r"\x1b\[[0-9;]*3[1-7]m", terminal.read())
    monkeypatch.setenv("NO_COLOR", "1")
    draw(view_on(terminal), snapshot())
    assert not re.search(r"\x1b\[[0-9;]*3[0-9]", terminal.read())


@pytest.mark.parametrize("terminal", [80], indirect=True)
def test_a_window_that_was_made_narrow(terminal: Terminal) -> None:
    """Lines of 70 columns take two rows of 40 where the terminal lays them anew: all are cleared,
    and none above."""
    ui = view_on(terminal)
    draw(ui, snapshot())
    first = terminal.read()
    widths = [
        cell_len(re.sub(r"\x1b\[[0-9;]*m", "", row)) for row in first.lstrip("\r").splitlines()
    ]
    terminal.resize(40)
    draw(ui, snapshot())
    again = terminal.outer and os.read(terminal.outer, 65536).decode()
    match = re.match(r"\r\x1b\[(\d+)A\x1b\[J", str(again))
    assert match is not None
    assert int(match[1]) == sum(max(1, -(-width // 40)) for width in widths) > len(widths)


@pytest.mark.parametrize("terminal", [80], indirect=True)
def test_few_rows(terminal: Terminal) -> None:
    terminal.resize(80, rows=6)
    draw(view_on(terminal), snapshot(nodes=9))
    assert terminal.read().count("\n") == 4


@pytest.mark.parametrize("terminal", [80], indirect=True)
def test_a_terminal_that_does_not_read_delays_nothing(terminal: Terminal) -> None:
    ui = view_on(terminal)
    termios.tcflow(terminal.inner, termios.TCOOFF)
    began = time.thread_time(), time.monotonic()
    for n in range(200):
        ui.say(f"line {n}")
        draw(ui, snapshot(second=n % 60))
    assert time.monotonic() - began[1] < 20
    termios.tcflow(terminal.inner, termios.TCOON)
    for _ in range(50):
        terminal.read()
        draw(ui, snapshot(second=59))
    terminal.read()
    shown = "\n".join(terminal.rows)
    assert "line 199" in shown
    assert "0:59" in shown


def test_where_nothing_can_be_drawn(monkeypatch: pytest.MonkeyPatch, terminal: Terminal) -> None:
    for term in ("dumb", "", "unknown"):
        monkeypatch.setenv("TERM", term)
        assert type(progress_for(terminal.stream)) is Progress
    monkeypatch.delenv("TERM")
    assert type(progress_for(terminal.stream)) is Progress
    monkeypatch.setenv("TERM", "xterm")
    assert type(progress_for(io.StringIO())) is Progress


def test_a_terminal_without_unicode() -> None:
    text = "\n".join(line.plain for line in picture(snapshot(), ascii_only=True))
    assert text.replace("\ufffd", "?").isascii()


def test_a_run_that_was_stopped_shows_nothing_as_to_come() -> None:
    goes_on = picture(snapshot(), width=100)[1].plain
    assert "settle" in goes_on
    assert "judge" in goes_on
    phases = ["lab", "connect", "load", "stop"]
    stopped = picture(msgspec.structs.replace(snapshot(), phases=phases), width=100)[1].plain
    assert stopped.rstrip().endswith("stop")


def test_every_line_is_one_line() -> None:
    assert all("\n" not in line.plain for line in picture(snapshot(name="a\nb")))


CHILD = """
import sys, time
from dstest.runner.screen import progress_for
sys.path.insert(0, sys.argv[1])
from test_live_view import snapshot
ui = progress_for()
assert type(ui).__name__ == "LiveView"
try:
    for second in range(600):
        ui.live(snapshot(second=second % 60))
        time.sleep(0.6)
finally:
    ui.live(None)
"""


def at_a_terminal() -> None:
    """A process that its terminal can interrupt, however the tests were started (nohup, &)."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


def test_ctrl_c_leaves_the_terminal_as_it_was(tmp_path: Path) -> None:
    terminal = Terminal(80)
    before = termios.tcgetattr(terminal.inner)
    process = subprocess.Popen(
        [sys.executable, "-c", CHILD, str(Path(__file__).parent)],
        stdin=terminal.inner, stdout=terminal.inner, stderr=terminal.inner,
        start_new_session=True, env={**os.environ, "TERM": "xterm"},
        preexec_fn=at_a_terminal,
    )  # fmt: skip
    try:
        for _ in range(600):
            if "etcd register" in terminal.seen:
                break
            terminal.seen += os.read(terminal.outer, 65536).decode()
        os.write(terminal.outer, b"\x03")
        process.wait(timeout=30)
    finally:
        process.kill()
    left = terminal.seen + os.read(terminal.outer, 65536).decode()
    assert termios.tcgetattr(terminal.inner) == before
    assert "\x1b[?25l" not in left
    assert "KeyboardInterrupt" in left
    terminal.close()
