"""Times as names of directories have them: `20261121T215100Z` (`core/clock.py` writes them)."""

from __future__ import annotations

import datetime
from typing import Final

_FORM: Final = "%Y%m%dT%H%M%SZ"


def time_of(stamp: str | None) -> datetime.datetime | None:
    """The time, None where it is no such stamp."""
    try:
        return datetime.datetime.strptime(f"{stamp}+0000", f"{_FORM}%z")
    except ValueError:
        return None


def stamp_of(time_ns: int) -> str:
    """The stamp of a wall clock."""
    return datetime.datetime.fromtimestamp(time_ns / 1e9, datetime.UTC).strftime(_FORM)
