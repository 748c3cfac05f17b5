"""Processes below a process."""

from __future__ import annotations

from pathlib import Path


def below(pid: int) -> set[int]:
    """All that descend from a process."""
    found: set[int] = set()
    left = [pid]
    while left:
        one = left.pop()
        for file in Path(f"/proc/{one}/task").glob("*/children"):
            try:
                children = {int(word) for word in file.read_text().split()}
            except OSError:
                continue
            left += children - found
            found |= children
    return found
