"""Tracebacks of Python in answers and logs, and the deepest frame of each that is the service's."""

from __future__ import annotations

import html
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final, NamedTuple

_FRAME: Final = re.compile(r'File "(?P<file>[^"]+)", line (?P<line>\d+), in (?P<where>\S+)')
_BEGIN: Final = "Traceback (most recent call last):"
_FRAMES_MAX: Final = 200


class Raised(NamedTuple):
    """An exception, and where the service's own source raised or called it. `file` is relative to
    the source's root."""

    file: str
    line: int
    function: str
    error: str


def raised_in(text: str, root: Path) -> Raised | None:
    """Of the last traceback of a text that has a frame below `root`."""
    plain = html.unescape(text).replace("\\n", "\n").replace('\\"', '"')  # within HTML, within JSON
    found = None
    for one in raised_in_lines(plain.splitlines(), root):
        found = one
    return found


def raised_in_lines(lines: Iterable[str], root: Path) -> Iterator[Raised]:
    """Of each traceback, as its last line is read."""
    return (raised for raised, _ in raised_after(lines, root))


def names_path(line: str, endpoint: str) -> bool:
    """Does a line of a log name the path of `METHOD /path`?"""
    path = re.escape(endpoint.partition(" ")[2])
    return len(path) > 1 and re.search(rf"(?<![\w/.-]){path}(?![\w/.-])", line) is not None


def raised_after(lines: Iterable[str], root: Path) -> Iterator[tuple[Raised, str]]:
    """Of each traceback, as its last line is read, and the line before it."""
    frames: list[re.Match[str]] | None = None
    last = before = ""
    for line in lines:
        if _BEGIN in line:
            frames, before = [], f"{last} {line.partition(_BEGIN)[0]}"
        elif frames is not None:
            if match := _FRAME.search(line):
                if len(frames) < _FRAMES_MAX:
                    frames.append(match)
            elif line.strip() and not line.startswith((" ", "\t")):
                if told := _deepest(frames, line.strip(), root):
                    yield told, before
                frames = None
        last = line.strip() or last


def _deepest(frames: list[re.Match[str]], error: str, root: Path) -> Raised | None:
    base = root.resolve()
    for frame in reversed(frames):
        path = Path(frame["file"])
        absolute = path if path.is_absolute() else base / path
        try:
            inside = absolute.resolve().relative_to(base)
        except (ValueError, OSError):
            continue
        if "site-packages" not in inside.parts:
            return Raised(str(inside), int(frame["line"]), frame["where"], error[:300])
    return None
