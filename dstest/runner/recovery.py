"""Has the cluster recovered? Looked at each second, while the load goes on.

A run is over when the system serves again as it did before the first fault, not when the rules are
gone: the oracle is gated on quiescence (discipline 4.5). A cluster that never gets there is given
up on after a while, and the audit says so.
"""

from __future__ import annotations

from typing import Final

__all__ = ["GIVE_UP_S", "GOES_ON", "TAIL_S", "Recovery"]

STEADY_LOOKS: Final = 3
"""Good looks in a row."""

RATE_SHARE_MIN: Final = 0.6
"""Share of the rate before the first fault; the audit asks for half."""

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


class Recovery:
    """Feed it the cumulative counts once a second.

    A member that was cut off comes back with a higher term than the others, and a cluster without
    a pre-vote elects once more, seconds after it has served again: a stall that begins within
    `failover_s` of a heal belongs to its recovery. A later one does not.
    """

    def __init__(self, failover_s: float) -> None:
        self._failover_ns = int(failover_s * 1e9)
        self._last: tuple[int, int, int] | None = None
        self._baseline_per_s: float | None = None
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

    def look(self, now_ns: int, ok: int, unknown: int, *, whole: bool) -> None:
        """One look at run time `now_ns`. `whole` is false while a fault stands."""
        if whole and not self._whole:
            self._heals.append((now_ns, None))
        self._whole = whole
        if not whole:
            self._good = self._serving = 0
            self._good_since_ns = None
            if self._baseline_per_s is None and self._last is not None:
                then_ns, then_ok, _ = self._last
                self._baseline_per_s = then_ok / (then_ns / 1e9) if then_ns else 0.0
        elif self._last is not None:
            then_ns, then_ok, then_unknown = self._last
            rate_per_s = (ok - then_ok) / ((now_ns - then_ns) / 1e9)
            wanted_per_s = RATE_SHARE_MIN * (self._baseline_per_s or 0.0)
            self._serves(rate_per_s, unknown == then_unknown, then_ns)
            if rate_per_s > 0 and rate_per_s >= wanted_per_s and unknown == then_unknown:
                if self._good == 0:
                    self._good_since_ns = then_ns
                self._good += 1
            else:
                self._good = 0
                self._good_since_ns = None
        self._last = (now_ns, ok, unknown)

    def _serves(self, rate_per_s: float, sure: bool, since_ns: int) -> None:
        """Between two faults there is less time than at the end, and less is asked for."""
        served = rate_per_s > SERVED_SHARE_MIN * (self._baseline_per_s or 0.0)
        if served and sure:
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
