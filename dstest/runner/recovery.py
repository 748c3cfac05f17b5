"""Has the cluster recovered? Looked at each second, while the load goes on.

A run is over when the system serves again as it did before the first fault, not when the rules are
gone. A cluster that never gets there is given up on after a while, and the audit says so.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

STEADY_LOOKS: Final = 3
"""Good looks in a row."""

RATE_SHARE_MIN: Final = 0.6
"""Share of the rate before the first fault; the audit asks for half."""

EXPECTED_OPS: Final = 7.0
"""A node whose clients would have had so many successes by now, and had none, serves nobody: by
chance that happens once in a thousand looks. One member that refuses all of its clients is no
recovery, however fast the others serve."""

NODE_OPS_PER_S_MIN: Final = 0.5
"""Of a node with fewer there is not enough time to know."""

UNKNOWN_TIMES_MAX: Final = 2.0
"""As often as before the first fault: of a system that answers all there is no unknown outcome,
another one leaves some open at any time, as Galera does commits that it refuses."""

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
    """Operations so far, at run time `ns`: successes by node, and unknown outcomes."""

    ns: int
    ok: tuple[int, ...]
    unknown: int

    def ok_per_s(self, since: Counts) -> list[float]:
        """By node, between two looks."""
        seconds = max(1, self.ns - since.ns) / 1e9
        before = since.ok or (0,) * len(self.ok)
        return [(now - then) / seconds for now, then in zip(self.ok, before, strict=True)]


NOTHING: Final = Counts(0, (), 0)


class Recovery:
    """Feed it the cumulative counts once a second.

    A member that was cut off comes back with a higher term than the others, and a cluster without
    a pre-vote elects once more, seconds after it has served again: a stall that begins within
    `failover_s` of a heal belongs to its recovery. A later one does not.

    A run is over when the system serves again as it did before the first fault, not when the rules
    are gone: the oracle is gated on quiescence. A cluster that never gets there is given up on
    after a while, and the audit says so.
    """

    def __init__(self, failover_s: float) -> None:
        self._failover_ns = int(failover_s * 1e9)
        self._last = NOTHING
        self._baseline: list[float] | None = None
        self._unknown_per_s = 0.0
        self._served_ns: dict[int, int] = {}
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

    def look(self, now_ns: int, ok: Sequence[int], unknown: int, *, whole: bool) -> None:
        """One look at run time `now_ns`; `ok` are the successes of each node's clients. `whole` is
        false while a fault stands."""
        if whole and not self._whole:
            self._heals.append((now_ns, None))
        self._whole = whole
        now = Counts(now_ns, tuple(ok), unknown)
        rates = now.ok_per_s(self._last)
        self._served_ns |= {node: now_ns for node, rate in enumerate(rates) if rate > 0}
        if not whole:
            self._good = self._serving = 0
            self._good_since_ns = None
            if self._baseline is None:
                self._baseline = self._last.ok_per_s(NOTHING)
                self._unknown_per_s = self._last.unknown / max(1, self._last.ns) * 1e9
        elif self._last.ns and now.ns > self._last.ns:
            unknown_per_s = (now.unknown - self._last.unknown) / (now.ns - self._last.ns) * 1e9
            answered = unknown_per_s <= UNKNOWN_TIMES_MAX * self._unknown_per_s
            self._serves(sum(rates), answered, self._last.ns)
            if answered and self._well(rates, now_ns):
                self._good_since_ns = self._good_since_ns if self._good else self._last.ns
                self._good += 1
            else:
                self._good = 0
                self._good_since_ns = None
        self._last = now

    def _well(self, rates: Sequence[float], now_ns: int) -> bool:
        """Nearly as before the first fault, and at every node."""
        before = self._baseline or []
        return (
            sum(rates) > 0
            and sum(rates) >= RATE_SHARE_MIN * sum(before)
            and all(self._serves_at(node, rate, now_ns) for node, rate in enumerate(before))
        )

    def _serves_at(self, node: int, usual_per_s: float, now_ns: int) -> bool:
        """Did its clients have a success within the time in which they had several before?"""
        if usual_per_s < NODE_OPS_PER_S_MIN:
            return True
        patience_ns = int(EXPECTED_OPS / usual_per_s * 1e9)
        return now_ns - self._served_ns.get(node, 0) <= patience_ns

    def _serves(self, ok_per_s: float, answered: bool, since_ns: int) -> None:
        """Between two faults there is less time than at the end, and less is asked for."""
        served = ok_per_s > SERVED_SHARE_MIN * sum(self._baseline or [])
        if served and answered:
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
