"""How long a comparison may take, and how much memory: looked at while it goes on, so that it comes
back with what it has.

What runs inside one guard, update or mapping is not interrupted.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Final

from dstest.core.clock import monotonic_ns

WITHIN_S: Final = 600.0
MEMORY_MB: Final = 4096
"""Of the whole process, resident."""

_EVERY: Final = 64
"""Steps between two looks at the clock."""
_TELL_S: Final = 10.0
"""Between two lines of progress."""


class Spent(Exception):
    """Time or memory is used up; its text says which, and how to allow more."""


class Watch:
    """`within_s` counts from when it is made. `tell` is given a line of progress now and then."""

    def __init__(
        self,
        within_s: float = WITHIN_S,
        memory_mb: int = MEMORY_MB,
        tell: Callable[[str], None] | None = None,
    ) -> None:
        self._within_s, self._memory_mb, self._tell = within_s, memory_mb, tell
        self._began_ns = self._told_ns = monotonic_ns()
        self._looks = 0
        self.doing = ""
        """In words, for progress."""

    def look(self) -> None:
        """Raises Spent. Cheap: most calls only count."""
        self._looks += 1
        if self._looks % _EVERY:
            return
        now_ns = monotonic_ns()
        took_s = (now_ns - self._began_ns) / 1e9
        if took_s > self._within_s:
            raise Spent(f"not decided within {self._within_s:g} s: allow more (--within)")
        used_mb = _resident_bytes() >> 20
        if used_mb > self._memory_mb:
            raise Spent(f"not decided in {self._memory_mb} MB of memory: allow more (--memory)")
        if self._tell is not None and now_ns - self._told_ns > _TELL_S * 1e9:
            self._told_ns = now_ns
            self._tell(f"{took_s:5.0f} s, {used_mb} MB: {self.doing}")


def _resident_bytes() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")
