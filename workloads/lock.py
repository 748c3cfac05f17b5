"""`lock`, `critical-section`, `lease`: processes acquire a few locks, hold them, release them.

A process goes on according to how its last operation ended: who got a lock holds it for a few
renewals, then releases it. It is busy for a moment before each of these: whoever went on at once
would hold the lock for no time in which another one could get it, too. In a critical section it is
busy for long, as an application is, and renews nothing: that is when a lock that expires is given
to somebody else. A lock is retired after so many operations, because one whose acquire or release
got lost may stay taken for ever.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any, Final

from dstest.core import rng
from dstest.core.check import Fields
from dstest.core.protocols import Answer, OpDraft, Option
from workloads._workload import ObjectWorkload, RotatingKeys

_KEYS: Final[Mapping[str, Option]] = {
    "keys": Option(
        type=int, default=2, least=1, most=100_000, help="locks live at a time, per load worker"
    ),
    "ops_per_key": Option(
        type=int,
        default=300,
        least=1,
        most=10_000_000,
        help="acquires of a lock before it is retired",
    ),
}


def _hold_ms(default: int) -> Option:
    return Option(
        type=int,
        default=default,
        least=1,
        most=3_600_000,
        help="how long a holder is busy, at most; half of it on average",
    )


_LOCK_OPTIONS: Final[Mapping[str, Option]] = {**_KEYS, "hold_ms": _hold_ms(20)}
_HELD_OPTIONS: Final[Mapping[str, Option]] = {**_KEYS, "hold_ms": _hold_ms(1000)}
_LEASE_OPTIONS: Final[Mapping[str, Option]] = {
    **_LOCK_OPTIONS,
    "ttl_s": Option(
        type=int, default=3, least=2, most=3600, help="time to live of a lease; etcd's least is 2"
    ),
    "renewals": Option(
        type=float, default=0.7, least=0, most=1, help="chance that a holder renews once more"
    ),
}


class LockGenerator:
    """One worker's processes. What a process does next depends on seed, worker, the order of
    answers, and its own last one."""

    def __init__(
        self,
        seed: int,
        worker: int,
        processes: int,
        options: Mapping[str, Any],
        *,
        name: str,
    ) -> None:
        self._rng = rng.stream(seed, "workload", name, worker)
        self._keys = RotatingKeys(worker, int(options["keys"]), int(options["ops_per_key"]))
        ttl_s = options.get("ttl_s")
        self._input = None if ttl_s is None else {"ttl_ns": int(ttl_s) * 1_000_000_000}
        self._renewals = float(options.get("renewals", 0.0))
        self._hold_ns = int(options["hold_ms"]) * 1_000_000

    def next(self) -> OpDraft:
        """For a process that holds nothing."""
        return OpDraft("acquire", self._keys.pick(self._rng), self._input)

    def next_for(self, slot: int, last: Answer | None) -> OpDraft:
        """Acquire; who holds renews, or is busy for a while and releases."""
        if last is None or last.kind != "ok" or last.draft.op_type == "release":
            return self.next()
        if last.draft.op_type == "acquire" and last.output is False:
            return self.next()
        kind = "renew" if self._rng.random() < self._renewals else "release"
        return OpDraft(kind, last.draft.key, self._input, self._rng.randrange(self._hold_ns))


LOCK: Final = ObjectWorkload(
    name="lock",
    doc="locks without a time to live: acquire and release",
    capability="lock",
    model="lock",
    checkers=("exclusion",),
    op_types=frozenset({"acquire", "release"}),
    make=partial(LockGenerator, name="lock"),
    options=_LOCK_OPTIONS,
    minimum={"acquire": 100, "release": 30},
    fields=Fields(busy_after=frozenset({"acquire"})),
)
CRITICAL_SECTION: Final = replace(
    LOCK,
    name="critical-section",
    doc="locks that are held for a while, by who is busy and renews nothing",
    make=partial(LockGenerator, name="critical-section"),
    options=_HELD_OPTIONS,
    minimum={"acquire": 100, "release": 20},
)
LEASE: Final = ObjectWorkload(
    name="lease",
    doc="leases: acquire, renew and release, with fencing tokens",
    capability="lease",
    model="lease",
    checkers=("exclusion",),
    op_types=frozenset({"acquire", "renew", "release"}),
    make=partial(LockGenerator, name="lease"),
    options=_LEASE_OPTIONS,
    minimum={"acquire": 100, "renew": 20, "release": 20},
    fields=Fields(family="lease", ttl_option="ttl_s", busy_after=frozenset({"acquire", "renew"})),
)
