"""Has the cluster recovered? Looked at each second, while the load goes on.

A run is over when the system serves again as it did before the first fault, not when the rules are
gone: the oracle is gated on quiescence (discipline 4.5). A cluster that never gets there is given
up on after a while, and the audit says so.
"""

from __future__ import annotations

import math
from typing import Final, NamedTuple

__all__ = ["GIVE_UP_S", "GOES_ON", "TAIL_S", "Recovery"]

STEADY_LOOKS: Final = 3
"""Good looks in a row."""

RATE_SHARE_MIN: Final = 0.6
"""Share of the rate before the first fault; the audit asks for half."""

GOOD_SHARE_MIN: Final = 0.9
"""Share of operations that succeed, of that before the first fault, which the audit looks at more
sharply: one member that refuses all clients is no recovery, however fast the others serve."""

SERVED_SHARE_MIN: Final = 0.1
"""Of the same rate, for a load that is served again after a heal, if not as before yet."""

TAIL_S: Final = 6.0
"""Load after the recovery, for the audit to measure."""

GIVE_UP_S: Final = 45.0
"""After the last heal."""

GOES_ON: Final = (
    "the time is up; the load goes on until its recovery is measured, at most"
    f" {GIVE_UP_S:.0f} s after the last heal"
)


class Counts(NamedTuple):
    """Operations so far, at run time `ns`; or between two looks, `ns` apart."""

    ns: int
    ok: int
    unknown: int
    failed: int

    def since(self, then: Counts) -> Counts:
        return Counts(*(a - b for a, b in zip(self, then, strict=True)))

    @property
    def ok_per_s(self) -> float:
        return self.ok / (self.ns / 1e9) if self.ns else 0.0

    @property
    def good_share(self) -> float:
        """Of those that are known to have succeeded or failed."""
        return self.ok / (self.ok + self.failed) if self.ok else 0.0


class Recovery:
    """Feed it the cumulative counts once a second.

    A member that was cut off comes back with a higher term than the others, and a cluster without
    a pre-vote elects once more, seconds after it has served again: a stall that begins within
    `failover_s` of a heal belongs to its recovery. A later one does not.
    """

    def __init__(self, failover_s: float) -> None:
        self._failover_ns = int(failover_s * 1e9)
        self._last = Counts(0, 0, 0, 0)
        self._baseline: Counts | None = None
        self._good_since_ns: int | None = None
        self._good = 0
        self._heals: list[tuple[int, int | None]] = []
        self._whole = True
        self._serving_since_ns: int | None = None
        self._serving = 0

    @property
    def heals(self) -> list[tuple[int, int | None]]:
        """Each time at which no fault stood any more, and since when the load was served again
        without a break; None where it was not before the next fault."""
        return list(self._heals)

    def look(self, now_ns: int, ok: int, unknown: int, failed: int = 0, *, whole: bool) -> None:
        """One look at run time `now_ns`. `whole` is false while a fault stands."""
        if whole and not self._whole:
            self._heals.append((now_ns, None))
        self._whole = whole
        now = Counts(now_ns, ok, unknown, failed)
        since = now.since(self._last)
        if not whole:
            self._good = self._serving = 0
            self._good_since_ns = None
            self._baseline = self._baseline or self._last
        elif since.ns and self._last.ns:
            self._serves(since, self._last.ns)
            if self._well(since):
                self._good_since_ns = self._good_since_ns if self._good else self._last.ns
                self._good += 1
            else:
                self._good = 0
                self._good_since_ns = None
        self._last = now

    def _well(self, since: Counts) -> bool:
        """Nearly as before the first fault."""
        before = self._baseline or Counts(0, 0, 0, 0)
        share = before.good_share
        noise = 3 * math.sqrt(share * (1 - share) / max(1, since.ok + since.failed))
        return (
            since.ok > 0
            and not since.unknown
            and since.ok_per_s >= RATE_SHARE_MIN * before.ok_per_s
            and since.good_share >= GOOD_SHARE_MIN * share - noise
        )

    def _serves(self, since: Counts, since_ns: int) -> None:
        """Between two faults there is less time than at the end, and less is asked for."""
        before_per_s = self._baseline.ok_per_s if self._baseline else 0.0
        served = since.ok_per_s > SERVED_SHARE_MIN * before_per_s
        if served and not since.unknown:
            self._serving_since_ns = self._serving_since_ns if self._serving else since_ns
            self._serving += 1
        else:
            self._serving = 0
        if not served and self._heals and since_ns < self._heals[-1][0] + self._failover_ns:
            self._heals[-1] = (self._heals[-1][0], None)
        if self._serving >= STEADY_LOOKS and self._heals and self._heals[-1][1] is None:
            self._heals[-1] = (self._heals[-1][0], self._serving_since_ns)

    @property
    def settled_ns(self) -> int | None:
        """Since when the system has been serving well without a break; None where it is not."""
        return self._good_since_ns if self._good >= STEADY_LOOKS else None
