"""`register` and `cas-register`: reads, writes and compare-and-sets over independent keys.

A few keys are live at any time. Each takes a bounded number of operations and is then retired for a
fresh one, so that every key's history stays short enough to be decided exactly, and a stale or lost
value is seen against a small background. Some reads go back to retired keys: what was acknowledged
before a fault must still be there after it.

In `register` every written value is new to its key, so a read names the one write it saw. In
`cas-register` values are few (0 to 4), so that compare-and-sets succeed often.

Keys are named `<worker>-<sequence>`: a key belongs to one worker, whose processes are spread over
all nodes.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import Any, Final

from dstest.core import rng
from dstest.core.check import Fields
from dstest.core.protocols import OpDraft, Option, Workload
from workloads._workload import RETIRED_MAX, revisit_ratio

CAS_VALUES: Final = 5

_OPTIONS: Final[Mapping[str, Option]] = {
    "keys": Option(
        type=int, default=3, least=1, most=100_000, help="keys live at a time, per load worker"
    ),
    "ops_per_key": Option(
        type=int,
        default=120,
        least=1,
        most=10_000_000,
        help="operations on a key before it is retired",
    ),
    "revisit_ratio": revisit_ratio("operations"),
    "write_ratio": Option(
        type=float, default=0.5, least=0, most=1, help="share of operations that write"
    ),
}


class RegisterGenerator:
    """One worker's stream. Operation k depends on seed, worker and k alone."""

    def __init__(self, seed: int, worker: int, cas: bool, options: Mapping[str, Any]) -> None:
        self._rng = rng.stream(seed, "workload", "register", worker)
        self._cas = cas
        self._ops_per_key = max(1, int(options["ops_per_key"]))
        self._write_ratio = float(options["write_ratio"])
        self._worker = worker
        self._next_key = 0
        self._revisit_ratio = float(options["revisit_ratio"])
        self._retired: deque[str] = deque(maxlen=RETIRED_MAX)
        live = max(1, int(options["keys"]))
        # Staggered ages keep the live keys from retiring all at once.
        self._live = [self._fresh(age * self._ops_per_key // live) for age in range(live)]

    def _fresh(self, age: int = 0) -> list[Any]:
        """[key, operations so far, next value to write]."""
        self._next_key += 1
        return [f"{self._worker}-{self._next_key}", age, 1]

    def next(self) -> OpDraft:
        """The next operation; the stream never ends."""
        if self._retired and self._rng.random() < self._revisit_ratio:
            return OpDraft("read", self._rng.choice(self._retired))
        at = self._rng.randrange(len(self._live))
        slot = self._live[at]
        slot[1] += 1
        if slot[1] >= self._ops_per_key:
            self._retired.append(slot[0])
            self._live[at] = self._fresh()
        key = slot[0]
        if self._rng.random() >= self._write_ratio:
            return OpDraft("read", key)
        if not self._cas:
            value = slot[2]
            slot[2] += 1
            return OpDraft("write", key, value)
        if self._rng.random() < 0.5:
            return OpDraft("write", key, self._rng.randrange(CAS_VALUES))
        return OpDraft(
            "cas", key, [self._rng.randrange(CAS_VALUES), self._rng.randrange(CAS_VALUES)]
        )


class RegisterWorkload(Workload):
    """`register` or `cas-register`."""

    capability = "register"
    checkers: tuple[str, ...] = ("linearizable",)
    claims = frozenset({"safety"})
    fields = Fields()
    minimum: Mapping[str, int] = {"read": 30, "write": 30}
    options = _OPTIONS

    def __init__(self, cas: bool) -> None:
        self._cas = cas
        self.name = self.model = "cas-register" if cas else "register"
        self.doc = (
            "reads, writes and compare-and-sets over rotating keys"
            if cas
            else "reads and unique writes over rotating keys"
        )
        self.op_types = frozenset({"read", "write", "cas"} if cas else {"read", "write"})

    def generator(
        self, seed: int, worker: int, processes: int, options: Mapping[str, Any]
    ) -> RegisterGenerator:
        return RegisterGenerator(seed, worker, self._cas, options)


REGISTER = RegisterWorkload(cas=False)
CAS_REGISTER = RegisterWorkload(cas=True)
