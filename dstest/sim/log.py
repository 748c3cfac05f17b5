"""What happened in a simulation, line by line, and the digest of it: equal seeds, equal digests."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Final

SHOWN_BYTES: Final = 200
"""Of a message, in a line."""


class Log:
    """At least `keep` of the last lines are kept, at most twice as many; all of them count for the
    digest."""

    def __init__(self, now_ns: Callable[[], int], keep: int = 100_000) -> None:
        self._now_ns = now_ns
        self._keep = keep
        self._sum = hashlib.sha256()
        self.lines: list[str] = []
        self.count = 0
        self.over = False

    def say(self, text: str, data: bytes = b"") -> None:
        """One event. `data` counts for the digest, and its first bytes are shown. What is said when
        all is `over` is no event."""
        if self.over:
            return
        line = f"{self._now_ns():>15} {text}" + (f" {data[:SHOWN_BYTES]!r}" if data else "")
        self._sum.update(line.encode() + b"\n" + data)
        self.count += 1
        self.lines.append(line)
        if len(self.lines) > 2 * self._keep:
            del self.lines[: -self._keep]

    @property
    def digest(self) -> str:
        """SHA-256 over all lines, in hex."""
        return self._sum.hexdigest()
