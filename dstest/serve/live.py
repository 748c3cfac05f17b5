"""What a run that is going on says of itself: `live.json`, which it replaces each second, or the
end of its log where it has none."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Final

import msgspec

from dstest.core import clock
from dstest.core.printable import printable
from dstest.retention.look import said
from dstest.retention.walk import Place
from dstest.runner.progress import LOG
from dstest.store.layout import RunDir

__all__ = ["LIVE", "Live", "live_of"]

LIVE: Final = "live.json"
SCHEMA: Final = "dstest.live/1"
STALE_S: Final = 10.0
"""It is replaced each second: one that is older was left by a process that hangs or died."""

AHEAD_S: Final = 5.0
"""A time that is further ahead of ours is none of a process that goes on."""

BYTES_MAX: Final = 1_000_000
"""What a run says of itself is a few kB."""

_DEEP_MAX: Final = 20
_TAIL_BYTES: Final = 16 * 1024
_LINES: Final = 40
_TEXT_MAX: Final = 300


class Live(msgspec.Struct, frozen=True, kw_only=True):
    """`life` is `running`, `silent` (its process is there and says nothing), `died` or `over`;
    `told` says that to people. `figures` is what live.json holds, as it is, None where it is not to
    be had or too large; `log` are the last lines of run.log."""

    life: str
    told: str
    age_s: float | None = None
    figures: dict[str, Any] | None = None
    log: list[str] = msgspec.field(default_factory=list)


def live_of(place: Place) -> Live:
    """Never raises for what lies in the directory."""
    _, life, _ = said(place)
    figures = _figures(place.path)
    age_s = None if figures is None else _age_s(figures)
    name = place.path
    if life == "over":
        return Live(life="over", told="This run is over.", log=_tail(place.path / LOG))
    if life == "died":
        told = f"Seems dead: its process is gone. `dstest recover {name}` seals and judges it."
        return Live(life="died", told=told, age_s=age_s, figures=figures, log=_tail(name / LOG))
    told, state = "Running.", "running"
    if figures is None:
        told = "Running. It writes no live figures; these are the last lines of its log."
    elif age_s is None or age_s > STALE_S or age_s < -AHEAD_S:
        since = _since(age_s)
        state = "silent"
        told = (
            f"Seems dead: its process is there, but what it last said of itself {since}. If it "
            f"does not go on, end it, and `dstest recover {name}` judges what it recorded."
        )
    return Live(life=state, told=told, age_s=age_s, figures=figures, log=_tail(name / LOG))


def _since(age_s: float | None) -> str:
    if age_s is None:
        return "says no time"
    return f"is {age_s:.0f} s old" if age_s >= 0 else f"is of a time {-age_s:.0f} s ahead of ours"


def _figures(run: Path) -> dict[str, Any] | None:
    try:
        if (run / LIVE).stat().st_size > BYTES_MAX:
            return None
        plain = RunDir(run).read_json(LIVE)
    except Exception:
        return None
    if not isinstance(plain, dict) or plain.get("schema") != SCHEMA or not _flat(plain):
        return None
    return plain


def _flat(value: Any, left: int = _DEEP_MAX) -> bool:
    """Can it be written down again, wherever that is done?"""
    if not isinstance(value, dict | list):
        return True
    inner = value.values() if isinstance(value, dict) else value
    return left > 0 and all(_flat(one, left - 1) for one in inner)


def _age_s(figures: dict[str, Any]) -> float | None:
    at = figures.get("at_ns")
    if not isinstance(at, int) or isinstance(at, bool):
        return None
    return (clock.wall_ns() - at) / 1e9


def _tail(path: Path) -> list[str]:
    """The last lines, each cut where it is long; none where there is no such file."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return []
    with os.fdopen(fd, "rb") as file:
        try:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - _TAIL_BYTES))
            data = file.read(_TAIL_BYTES)
        except OSError:
            return []
    lines = data.decode(errors="replace").splitlines()
    whole = lines[1:] if size > _TAIL_BYTES else lines
    return [printable(line)[:_TEXT_MAX] for line in whole[-_LINES:]]
