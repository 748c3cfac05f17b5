"""What a person sees while a run lasts: `Progress` prints lines, those of figures every five
seconds; `LiveView` draws below them how the run stands, in place, from a snapshot alone. All of it
goes to standard error; a run keeps the lines as `run.log`, stamped with the time of day.

Nothing that a node or a user has named is taken for markup or obeyed as a control sequence. The
terminal is written to through a descriptor of its own that never blocks: what it does not take now
(Ctrl-S, a lost connection), it gets later, and no new picture is drawn before. The cursor is never
hidden, so that no end of the process leaves it so.
"""

from __future__ import annotations

import contextlib
import io
import os
import select
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, TextIO

import msgspec
from rich.console import Console
from rich.text import Text

from dstest.core import clock
from dstest.core.live import FaultNow, Live, NodeNow
from dstest.core.words import printable, printable_line

LOG: Final = "run.log"

_EVERY_NS: Final = 5_000_000_000

_WAITING_MAX: Final = 1 << 16
"""Bytes that may wait for a terminal that does not read: lines beyond are not shown."""

_MOMENT_S: Final = 0.02
_LAST_S: Final = 0.5
_SIZE: Final = (80, 24)

PHASES: Final = ("lab", "connect", "deploy", "load", "settle", "final", "judge")
"""Of a run that nothing stops, in their order."""

_BARS: Final = "▁▂▃▄▅▆▇█"
_ASCII_BARS: Final = "_.-=+*#@"
_LABEL: Final = 7
_WIDE: Final = 70
_STYLES: Final = {
    "answering": "green",
    "refusing": "yellow",
    "silent": "red",
    "landed": "magenta",
    "in doubt": "yellow",
    "not landed": "yellow",
}

_DRAWN_NS_MIN: Final = 500_000_000
"""No two pictures come faster one after the other."""


class Progress:
    """Prints to `stream`. `phases` are those of the run that is told of, in their order."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = stream or sys.stderr
        self._origin_ns = clock.monotonic_ns()
        self._printed_ns = 0
        self._log: TextIO | None = None
        self.phases: list[str] = []

    def keep_log(self, path: Path) -> None:
        """A run begins: append to this file as well what is said from now on."""
        self.close_log()
        self.phases = []
        try:
            self._log = path.open("a", encoding="utf-8", buffering=1)
        except OSError as error:
            self._show(f"no {LOG}: {error.strerror}")

    def close_log(self) -> None:
        """Leave the file as it is; without one, nothing happens."""
        if self._log is not None:
            log, self._log = self._log, None
            with contextlib.suppress(OSError):
                log.close()

    def _record(self, text: str) -> None:
        if self._log is None:
            return
        try:
            self._log.write(f"{clock.utc_stamp()} {self._clock()}  {text}\n")
        except OSError as error:  # the run records what counts elsewhere, and has space kept back
            self.close_log()
            self._show(f"{LOG} ends here: {error.strerror}")

    def _clock(self) -> str:
        return f"{(clock.monotonic_ns() - self._origin_ns) / 1e9:6.1f}s"

    def say(self, text: str) -> None:
        """One line that stays; nodes have a hand in it."""
        text = printable(text)
        self._record(text)
        self._show(text)

    def _show(self, text: str) -> None:
        self._stream.write(f"{self._clock()}  {text}\n")
        self._stream.flush()

    def phase(self, name: str, detail: str = "") -> None:
        """A phase of the run begins, or tells how it goes on."""
        if name not in self.phases[-1:]:
            self.phases.append(name)
        self.say(f"[{name}] {detail}" if detail else f"[{name}]")

    def figures(self, text: str) -> None:
        """How the load goes, as one line."""
        if clock.monotonic_ns() - self._printed_ns >= _EVERY_NS:
            self._printed_ns = clock.monotonic_ns()
            self._record(text)
            self._show_figures(text)

    def _show_figures(self, text: str) -> None:
        self._show(text)

    def live(self, now: Live | None) -> None:
        """How the run stands, once a second; None when it has nothing more to tell. Lines say it
        all already."""


class Quiet(Progress):
    """Shows nothing; for tests. A log is kept all the same."""

    def _show(self, text: str) -> None:
        return None


def _own_descriptor(stream: TextIO) -> int | None:
    try:
        flags = os.O_WRONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
        return os.open(os.ttyname(stream.fileno()), flags)
    except (OSError, io.UnsupportedOperation):
        return None


class Screen:
    """`print` lines, `draw` the picture below them, `clear` takes it away."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._fd = _own_descriptor(stream)
        encoding = (getattr(stream, "encoding", None) or "utf-8").lower()
        self.ascii_only = not encoding.startswith("utf")
        self._encoding = encoding
        self._console = Console(
            file=io.StringIO(), force_terminal=True, markup=False, highlight=False, emoji=False,
            legacy_windows=False, width=_SIZE[0], height=_SIZE[1],
        )  # fmt: skip
        self._waiting = b""
        self._drawn: list[int] = []

    def _size(self) -> tuple[int, int]:
        """Columns and rows as they are now."""
        try:
            columns, rows = os.get_terminal_size(self._stream.fileno())
        except (OSError, ValueError, io.UnsupportedOperation):
            return _SIZE
        return (columns or _SIZE[0], rows or _SIZE[1])

    @property
    def width(self) -> int:
        """Columns of a picture: a full line wraps on some terminals."""
        return max(1, self._size()[0] - 1)

    def _over(self, columns: int) -> str:
        """Back to where the picture begins, however its lines lie in a window that was resized."""
        if not self._drawn:
            return "\r"
        rows = sum(max(1, -(-width // columns)) for width in self._drawn)
        self._drawn = []
        return f"\r\x1b[{rows}A\x1b[J"

    def print(self, lines: Sequence[str]) -> None:
        """Lines that stay. They may take the place of the picture, which is drawn anew then."""
        if len(self._waiting) < _WAITING_MAX:
            self._write(self._over(self._size()[0]) + "".join(f"{line}\n" for line in lines))
            self._wait(_MOMENT_S)

    def draw(self, lines: Sequence[Text]) -> None:
        """Replace the picture, unless the terminal has not read the last one yet."""
        self._send()
        if self._waiting:
            return
        columns, rows = self._size()
        width = self.width
        kept = list(lines[: max(1, rows - 2)])
        for line in kept:
            line.truncate(width, overflow="crop" if self.ascii_only else "ellipsis")
        file = self._console.file = io.StringIO()
        for line in kept:
            self._console.print(line, width=width, no_wrap=True, overflow="crop", crop=True)
        over = self._over(columns)
        self._drawn = [line.cell_len for line in kept]
        self._write(over + file.getvalue())

    def clear(self) -> None:
        """Take the picture away; the terminal is as it was."""
        if self._drawn:
            self._write(self._over(self._size()[0]))
        self._wait(_LAST_S)

    def _wait(self, limit_s: float) -> None:
        if self._waiting and self._fd is not None:
            select.select([], [self._fd], [], limit_s)
            self._send()

    def _write(self, text: str) -> None:
        if self._fd is None:
            self._stream.write(text)
            self._stream.flush()
            return
        self._stream.flush()
        self._waiting += text.encode(self._encoding, "replace")
        self._send()

    def _send(self) -> None:
        if self._fd is None or not self._waiting:
            return
        try:
            sent = os.write(self._fd, self._waiting)
        except BlockingIOError:
            return
        except OSError:  # it has gone
            sent = len(self._waiting)
        self._waiting = self._waiting[sent:]


def picture(now: Live, *, width: int = 80, ascii_only: bool = False) -> list[Text]:
    """Lines from the most important to those that can be cut off; `width` is how many characters
    of a line are seen."""
    lines = [_phases(now, ascii_only) if width >= _WIDE else _phase(now)]
    if now.ops.invoked:
        lines += [_time(now), _rate(now, width, ascii_only), _outcomes(now)]
    for fault in now.faults:
        lines += _fault(fault)
    for name in now.unhealed:
        lines.append(_line("fault", (f"{name}: its heal is not proven", "yellow")))
    if not now.faults and not now.unhealed and now.left_s is not None:
        lines.append(_line("fault", ("none stands", "dim")))
    if (due := now.next_fault) is not None:
        when = f"in {due.in_s:.0f} s" if due.in_s else "when the cluster has recovered"
        lines.append(_line("next", f"{due.id} {due.nemesis} {when}, {now.faults_left} to come"))
    lines += [_node(node) for node in now.nodes]
    return [Text(_rule(ascii_only) + printable_line(now.title), "dim"), *lines]


def _rule(ascii_only: bool) -> str:
    return ("--" if ascii_only else "──") + " "


def _line(label: str, *parts: str | tuple[str, str]) -> Text:
    """Text as it is: nothing in it is markup."""
    line = Text(f"{label:{_LABEL}}", "dim")
    line.no_wrap = True
    for part in parts:
        text, style = (part, "not dim") if isinstance(part, str) else part
        line.append(printable_line(text), style if "dim" in style else f"not dim {style}")
    return line


def _phases(now: Live, ascii_only: bool) -> Text:
    done, current, coming = ("+", ">", " ") if ascii_only else ("✓", "▶", "·")
    parts: list[tuple[str, str]] = [(f"{done} {name}  ", "green") for name in now.phases[:-1]]
    if now.phases:
        parts.append((f"{current} {now.phases[-1]}  ", "bold"))
    if set(now.phases) <= set(PHASES):  # else something has ended the run early
        after = max((PHASES.index(name) for name in now.phases if name in PHASES), default=-1)
        parts += [(f"{coming} {name}  ", "dim") for name in PHASES[after + 1 :]]
    return _line("phase", *parts)


def _phase(now: Live) -> Text:
    at = now.phases[-1] if now.phases else ""
    of = f", {PHASES.index(at) + 1} of {len(PHASES)}" if at in PHASES else ""
    return _line("phase", (at, "bold"), of)


def _span(seconds: float) -> str:
    minutes, rest = divmod(int(seconds), 60)
    hours = f"{minutes // 60}:{minutes % 60:02}" if minutes >= 60 else f"{minutes}"
    return f"{hours}:{rest:02}"


def _time(now: Live) -> Text:
    if now.left_s is None:
        return _line("time", _span(now.elapsed_s))
    left = f"{_span(now.left_s)} left" if now.left_s else "over; until the recovery is measured"
    return _line("time", f"{_span(now.elapsed_s)}, {left}")


def _rate(now: Live, width: int, ascii_only: bool) -> Text:
    rate = f"{now.rate_per_s:,.0f}  "
    room = max(1, width - _LABEL - len(rate))
    return _line("ok/s", rate, (_spark(now.rates[-room:], ascii_only), "cyan"))


def _spark(shown: Sequence[float], ascii_only: bool) -> str:
    """A character per look."""
    bars = _ASCII_BARS if ascii_only else _BARS
    most = max(shown, default=0.0)
    if not most:
        return bars[0] * len(shown)
    return "".join(bars[min(len(bars) - 1, int(rate / most * len(bars)))] for rate in shown)


def _outcomes(now: Live) -> Text:
    ops = now.ops
    under_way = max(0, ops.invoked - ops.ok - ops.fail - ops.unknown)
    return _line(
        "ops",
        f"ok {ops.ok:,}  fail {ops.fail:,}  ",
        (f"unknown {ops.unknown:,}", "yellow" if ops.unknown else ""),
        (f"  under way {under_way:,}", "dim"),
    )


def _node(node: NodeNow) -> Text:
    counts = f"  ok {node.ok:,}  fail {node.fail:,}  unknown {node.unknown:,} in 5 s"
    return _line(
        "node",
        f"{node.name:4} ",
        (f"{node.state:9}", _STYLES.get(node.state, "dim")),
        ("" if node.state == "idle" else counts, "dim"),
    )


def _fault(fault: FaultNow) -> list[Text]:
    where = f" on {', '.join(fault.on)}" if fault.on else ""
    head = _line(
        "fault",
        (f"{fault.id} {fault.nemesis}", "bold"),
        " ",
        (fault.state, _STYLES.get(fault.state, "bold")),
        f" {_span(fault.since_s)}{where}",
    )
    if (counter := fault.counter) is None:
        return [head, _line("", (fault.detail, "dim"))] if fault.detail else [head]
    age = f", {counter.age_s:.0f} s ago" if counter.age_s >= 3 else ""
    return [head, _line("", f"{counter.name}: {counter.before:,} -> {counter.now:,}{age}")]


class LiveView(Progress):
    """Draws on the terminal `stream`."""

    def __init__(self, stream: TextIO) -> None:
        super().__init__(stream)
        self._screen = Screen(stream)
        self._now: Live | None = None
        self._drawn_ns = 0

    def _show(self, text: str) -> None:
        lines = [f"{self._clock()}  {line}" for line in text.split("\n")]
        self._screen.print(lines)
        self._draw()

    def _show_figures(self, text: str) -> None:
        return None

    def live(self, now: Live | None) -> None:
        """Draw it; None takes the picture away."""
        self._now = now
        if now is None:
            self._screen.clear()
        elif clock.monotonic_ns() - self._drawn_ns >= _DRAWN_NS_MIN:
            self._drawn_ns = clock.monotonic_ns()
            self._draw()

    def _draw(self) -> None:
        if self._now is None:
            return
        with contextlib.suppress(Exception):  # the run goes on, whatever its picture comes to
            now = msgspec.structs.replace(self._now, phases=self.phases)
            screen = self._screen
            screen.draw(picture(now, width=screen.width, ascii_only=screen.ascii_only))


def _draws(stream: TextIO, environ: Mapping[str, str]) -> bool:
    try:
        return stream.isatty() and environ.get("TERM", "dumb") not in ("", "dumb", "unknown")
    except ValueError:  # it was closed
        return False


def progress_for(stream: TextIO | None = None) -> Progress:
    """What shows a run on this stream, by default standard error: a picture on a terminal that can
    draw, else lines."""
    stream = stream or sys.stderr
    return LiveView(stream) if _draws(stream, os.environ) else Progress(stream)
