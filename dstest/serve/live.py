"""What a run that is going on says of itself: `live.json`, which it replaces each second, or the
end of its log where it has none."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

import msgspec

from dstest.core import clock
from dstest.core.live import Live, read_live
from dstest.core.words import printable, shell_word
from dstest.runner.screen import LOG
from dstest.store.inventory import StorePlace, state_of

STALE_S: Final = 10.0
"""It is replaced each second: one that is older was left by a process that hangs or died."""

AHEAD_S: Final = 5.0
"""A time that is further ahead of ours is none of a process that goes on."""

_TAIL_BYTES: Final = 16 * 1024
_LINES: Final = 40
_TEXT_MAX: Final = 300


class LiveStatus(msgspec.Struct, frozen=True, kw_only=True):
    """`life` is `running`, `silent` (its process is there and says nothing), `died` or `over`;
    `told` says that to people. `figures` is what live.json holds, None where it is not to be had;
    `log` are the last lines of run.log."""

    life: str
    told: str
    age_s: float | None = None
    figures: Live | None = None
    log: list[str] = msgspec.field(default_factory=list)


def live_of(place: StorePlace) -> LiveStatus:
    """Never raises for what lies in the directory."""
    _, life, _ = state_of(place)
    figures = read_live(place.path)
    age_s = None if figures is None else (clock.wall_ns() - figures.at_ns) / 1e9
    name = place.path
    if life == "over":
        return LiveStatus(life="over", told="This run is over.", log=_tail(place.path / LOG))
    if life == "died":
        recover = f"`dstest recover {shell_word(name)}` seals and judges it."
        told = f"Seems dead: its process is gone. {recover}"
        return LiveStatus(
            life="died", told=told, age_s=age_s, figures=figures, log=_tail(name / LOG)
        )
    told, state = "Running.", "running"
    if figures is None:
        told = "Running. It writes no live figures; these are the last lines of its log."
    elif age_s is not None and not -AHEAD_S <= age_s <= STALE_S:
        since = f"{age_s:.0f} s old" if age_s >= 0 else f"of a time {-age_s:.0f} s ahead of ours"
        state = "silent"
        told = (
            f"Seems dead: its process is there, but what it last said of itself is {since}. If it "
            f"does not go on, end it, and `dstest recover {shell_word(name)}` judges what it "
            "recorded."
        )
    return LiveStatus(life=state, told=told, age_s=age_s, figures=figures, log=_tail(name / LOG))


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
