"""A part of a terminal that is drawn in place, below lines that stay.

The terminal is written to through a descriptor of its own that never blocks: what it does not take
now, it gets later, and no new picture is drawn before. Pictures are rendered by rich, which knows
colours, NO_COLOR and the width of characters.
"""

from __future__ import annotations

import io
import os
import select
from collections.abc import Sequence
from typing import Final, TextIO

from rich.console import Console
from rich.text import Text

_WAITING_MAX: Final = 1 << 16
"""Bytes that may wait for a terminal that does not read: lines beyond are not shown."""

_MOMENT_S: Final = 0.02
_LAST_S: Final = 0.5
_SIZE: Final = (80, 24)


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
