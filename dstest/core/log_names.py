"""Under which names the logs of a member are kept in a run directory."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

LOG_OPTION: Final = "log_mb"
LOG_MB: Final = 32
"""Mebibytes that a run keeps of each log where `-o log_mb` says nothing else."""

PACKED: Final = ".gz"
"""What the name of a large log ends with in a run directory, where it is kept compressed."""

_STRANGE: Final = re.compile(r"[^A-Za-z0-9._+=@,-]")
"""What no path of ours has: a node may name files as it likes."""

PART_MAX: Final = 100


def kept_as(paths: Iterable[str]) -> dict[str, str]:
    """Path -> name: the base name, with as many folders before it as no other path ends with.

    `/opt/db/log` and `/opt/proxy/log` are `db-log` and `proxy-log`.
    """
    ends = {path: _ends(path) for path in paths}
    found = {}
    for path, mine in ends.items():
        others = {end for other, theirs in ends.items() if other != path for end in theirs}
        found[path] = next((end for end in mine if end not in others), mine[-1])
    return found


def kept_name(name: str) -> str:
    """The name of a log, kept compressed or not."""
    return name.removesuffix(PACKED)


def _ends(path: str) -> list[str]:
    """The base name, that with its folder, and so on up to the whole path."""
    parts = [_STRANGE.sub("_", part).lstrip(".")[-PART_MAX:] for part in path.split("/")]
    parts = [part for part in parts if part] or ["unnamed"]
    return ["-".join(parts[at:]) for at in range(len(parts) - 1, -1, -1)]
