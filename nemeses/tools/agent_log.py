"""Runs on a node: waits for a line in a file that grows.

    agent_log.py GUARD SECONDS N REGEX FILE...

Prints the N-th line from now on that fits, as a JSON string; an empty one where none came in that
time, or where the file GUARD is gone. A file that is replaced is read from its beginning. Standard
library only; Python 3.9 or newer.
"""

from __future__ import annotations

import json
import os
import re
import sys
import time
from collections.abc import Iterator

LOOK_S = 0.005
LINE_MAX = 65536


class Tail:
    """What a file gets from now on."""

    def __init__(self, path: str) -> None:
        self.path, self.rest = path, b""
        self.inode, self.at = self._now()

    def _now(self) -> tuple[int, int]:
        try:
            found = os.stat(self.path)
        except OSError:
            return 0, 0
        return found.st_ino, found.st_size

    def lines(self) -> Iterator[str]:
        """Whole lines since the last look."""
        inode, size = self._now()
        if inode != self.inode or size < self.at:
            self.inode, self.at, self.rest = inode, 0, b""
        if size == self.at:
            return
        try:
            with open(self.path, "rb") as file:
                file.seek(self.at)
                data = file.read()
        except OSError:
            return
        self.at += len(data)
        *whole, rest = (self.rest + data).split(b"\n")
        self.rest = rest[-LINE_MAX:]
        for line in whole:
            yield line[:LINE_MAX].decode("utf-8", "replace")


def wait(guard: str, seconds: float, number: int, pattern: str, paths: list[str]) -> str:
    """That line, empty where it did not come."""
    until, seen, expression = time.monotonic() + seconds, 0, re.compile(pattern)
    tails = [Tail(path) for path in paths]
    while time.monotonic() < until and os.path.exists(guard):
        for tail in tails:
            for line in tail.lines():
                seen += expression.search(line) is not None
                if seen >= number:
                    return line
        time.sleep(LOOK_S)
    return ""


if __name__ == "__main__":
    limit_s, wanted = float(sys.argv[2]), int(sys.argv[3])
    json.dump(wait(sys.argv[1], limit_s, wanted, sys.argv[4], sys.argv[5:]), sys.stdout)
