"""The kinds of transactional histories."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple


class Kind(NamedTuple):
    """`code` is its number in csrc/txn. `lists`: reads return lists, to which the micro-operation
    `write` appends; else single values. `starts` is what the value that a key starts with is given
    as; empty where all start alike, with `first`."""

    code: int
    lists: bool
    write: str
    first: str
    starts: str = ""


KINDS: Final[Mapping[str, Kind]] = {
    "list-append": Kind(0, True, "append", "[]"),
    "rw-register": Kind(1, False, "w", "null", "a scalar"),
}
WORKLOADS: Final = tuple(KINDS)
