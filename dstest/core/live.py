"""`Live`, what a run says of itself in live.json while it lasts: for people who watch, and no
evidence. It is in no check sum, gone before a run is sealed, and no verdict reads it.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final, Literal

import msgspec

LIVE: Final = "live.json"
LIVE_PARTIAL: Final = ".live.json.partial"
LIVE_SCHEMA: Final = "dstest.live/1"

_BYTES_MAX: Final = 1_000_000
"""What a run says of itself is a few kB."""

RATES_MAX: Final = 60
"""Of so many looks, one a second, a run says how many operations went well."""

NodeState = Literal["answering", "refusing", "silent", "elsewhere", "idle"]


class Ops(msgspec.Struct, frozen=True, kw_only=True):
    """Operations since the load began."""

    invoked: int = 0
    ok: int = 0
    fail: int = 0
    unknown: int = 0


class NodeNow(msgspec.Struct, frozen=True, kw_only=True):
    """How operations that a node's own clients sent to it ended in the last five seconds.

    `answering`: some went well. `refusing`: none did, some failed. `silent`: none did or failed,
    though some are under way or ended with an unknown outcome. `elsewhere`: what its clients ask
    goes to other nodes. `idle`: nobody asks it.
    """

    name: str
    ok: int = 0
    fail: int = 0
    unknown: int = 0
    state: NodeState = "idle"


class Counter(msgspec.Struct, frozen=True, kw_only=True):
    """A counter of what injects a fault, before it and as it was read `age_s` ago."""

    name: str
    before: int
    now: int
    age_s: float


class FaultNow(msgspec.Struct, frozen=True, kw_only=True):
    """A fault that is not healed yet. `since_s` counts from its injection, and is 0 before it.

    `counter` is None for faults that have no counter which can be read while they stand; `detail`
    is what the last look at the fault found.
    """

    id: str
    nemesis: str
    on: list[str]
    state: Literal["injecting", "landed", "in doubt", "not landed", "healing"]
    since_s: float = 0.0
    counter: Counter | None = None
    detail: str = ""


class NextFault(msgspec.Struct, frozen=True, kw_only=True):
    """The next planned fault; `in_s` is 0 where it waits for the cluster to recover."""

    id: str
    nemesis: str
    in_s: float


class Live(msgspec.Struct, frozen=True, kw_only=True):
    """A run at one moment. `at_ns` is unix time.

    `elapsed_s` counts from the start of the load, before that from the making of the run directory.
    `left_s` is what is left of the time of the load, None before it and after it; at 0 the load may
    go on until a recovery is measured. `rates` are operations that went well per second, one for
    each of the last looks, oldest first; the last one is `rate_per_s`. `unhealed` are faults
    that do not stand any more as far as their nemesis knows, and whose heal nothing has proven:
    `f1 partition`.
    """

    schema: str = LIVE_SCHEMA
    pid: int
    phase: str
    at_ns: int
    elapsed_s: float
    left_s: float | None = None
    ops: Ops = Ops()
    rate_per_s: float = 0.0
    nodes: list[NodeNow] = msgspec.field(default_factory=list)
    faults: list[FaultNow] = msgspec.field(default_factory=list)
    unhealed: list[str] = msgspec.field(default_factory=list)
    next_fault: NextFault | None = None
    faults_left: int = 0
    phases: list[str] = msgspec.field(default_factory=list)
    rates: list[float] = msgspec.field(default_factory=list)
    title: str = ""


def _places(run: Path) -> Iterator[Path]:
    return (run / name for name in (LIVE, LIVE_PARTIAL))


def forget_live(run: Path) -> None:
    """Remove what a run, or a process that died with it, has left of it. Raises OSError."""
    for path in _places(run):
        path.unlink(missing_ok=True)


def read_live(run: Path) -> Live | None:
    """What the run in this directory said last, None where it says nothing that can be read."""
    try:
        with (run / LIVE).open("rb") as file:
            data = file.read(_BYTES_MAX + 1)
        if len(data) > _BYTES_MAX:
            return None
        live = msgspec.json.decode(data, type=Live)
    except (OSError, ValueError, RecursionError):
        return None
    return live if live.schema == LIVE_SCHEMA else None
