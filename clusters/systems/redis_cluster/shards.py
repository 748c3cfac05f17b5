"""Which server has which slots."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

PORTS: Final = {"redis": 6379, "second": 6380}
"""By service: the first begins as a primary, the second as the replica of another node's."""

SLOTS: Final = 16_384


class Primary(NamedTuple):
    """A primary in `CLUSTER NODES`; `slots` are ranges with both ends."""

    address: str
    port: int
    failed: bool
    epoch: int
    slots: list[tuple[int, int]]


def primaries_of(said: Mapping[str, Mapping[str, Any]]) -> list[Primary]:
    """Those with slots, of what the library makes of `CLUSTER NODES`."""
    found = []
    for where, row in said.items():
        address, _, port = where.rpartition(":")
        flags = row["flags"].split(",")
        slots = [(int(ends[0]), int(ends[-1])) for ends in row["slots"]]
        if "master" in flags and slots:
            failed = "fail" in flags
            found.append(Primary(address, int(port), failed, int(row["epoch"]), slots))
    return found
