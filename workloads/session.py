"""`session`: reads and writes whose answers carry versions; each process is a session."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Final

from dstest.core import rng
from dstest.core.check import Fields
from dstest.core.protocols import OpDraft, Option
from workloads._workload import READ_AGAIN, ObjectWorkload, RotatingKeys

_OPTIONS: Final[Mapping[str, Option]] = {
    "keys": Option(
        type=int, default=3, least=1, most=100_000, help="keys live at a time, per load worker"
    ),
    "ops_per_key": Option(
        type=int,
        default=500,
        least=1,
        most=10_000_000,
        help="operations on a key before it is retired",
    ),
    "write_ratio": Option(
        type=float, default=0.4, least=0, most=1, help="share of operations that write"
    ),
}


class SessionGenerator:
    """One worker's stream. Operation k depends on seed, worker and k alone."""

    stream: ClassVar[str] = "session"
    """Of the seed's random streams, the one that this workload draws from."""

    def __init__(self, seed: int, worker: int, processes: int, options: Mapping[str, Any]) -> None:
        self._rng = rng.stream(seed, "workload", self.stream, worker)
        self._keys = RotatingKeys(worker, int(options["keys"]), int(options["ops_per_key"]))
        self._ratio = float(options["write_ratio"])
        self._value = 0

    def next(self) -> OpDraft:
        """The next operation; the stream never ends."""
        key = self._keys.pick(self._rng)
        if self._rng.random() >= self._ratio:
            again = self._rng.random() < READ_AGAIN
            return OpDraft("read", self._keys.read_again(self._rng) if again else key)
        self._value += 1
        return OpDraft("write", key, self._value)


SESSION: Final = ObjectWorkload(
    name="session",
    doc="reads and writes with versions, for the four session guarantees",
    capability="session",
    model="session",
    checkers=("sessions",),
    op_types=frozenset({"read", "write"}),
    make=SessionGenerator,
    options=_OPTIONS,
    minimum={"read": 100, "write": 100},
    claims=frozenset({"safety", "ordering"}),
    fields=Fields(family="session"),
)
