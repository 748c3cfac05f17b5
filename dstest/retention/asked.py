"""Has a run ever asked its system for anything? One that has not found nothing, and hides nothing:
its lab did not come up, its servers did not start, or it was interrupted before."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from dstest.store.segment import Damage, read_lines

_INVOCATION: Final = b'["i",'
_JUDGED: Final = ("verdict.json", "evidence.json", "sha256sums")


def asked_anything(run: Path) -> bool:
    """Has it recorded an operation? What cannot be read may hold one."""
    damage: list[Damage] = []
    try:
        for path in sorted((run / "segments").glob("worker-*")):
            if any(line.startswith(_INVOCATION) for line in read_lines(path, damage)):
                return True
        return any(found.lines for found in damage) or _sealed_operations(run / "history.jsonl")
    except OSError:
        return True


def _sealed_operations(history: Path) -> bool:
    """Is there a line after the first, which is no operation?"""
    if not history.is_file():
        return False
    with history.open("rb") as file:
        file.readline()
        return bool(file.readline())


def never_started(run: Path) -> bool:
    """Did it end, without a verdict, before it asked for anything?"""
    return not any((run / name).exists() for name in _JUDGED) and not asked_anything(run)
