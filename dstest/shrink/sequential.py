"""How often must a candidate be run before it is known to show the violation, or not to?

Wald's sequential probability ratio test (Annals of Mathematical Statistics 16, 1945) between the
rate at which the violation has come so far and a third of it. A candidate that still shows it at
the old rate is given up with a probability of `BETA` at most: the lower limit is that of his
inequality. One that shows it at a third of the rate is taken with a probability of about `ALPHA`,
which is generous: what comes out in the end is run again by itself, and steps that cost its rate
are taken back then.
"""

from __future__ import annotations

import functools
import itertools
import math
from typing import Final, Literal

import msgspec

ALPHA: Final = 1 / 3
STRICT: Final = 0.12
"""Instead of `ALPHA`, for what makes a violation rare by its nature: less load. Two runs that show
it, one after the other, are enough."""

BETA: Final = 0.05
UNKNOWN_RATE: Final = 0.8
"""Of a violation that was seen once."""

_RATES: Final = (0.05, 0.95)


class SequentialTest(msgspec.Struct, frozen=True):
    """For a violation that comes in this share of the runs."""

    rate: float = UNKNOWN_RATE
    alpha: float = ALPHA

    @property
    def _rates(self) -> tuple[float, float]:
        least, most = _RATES
        high = min(most, max(least, self.rate))
        return high / 3, high

    def decided(self, came: int, gone: int) -> Literal["shows", "lost"] | None:
        """What so many runs with it and without it say; None while they say neither."""
        low, high = self._rates
        ratio = came * math.log(high / low) + gone * math.log((1 - high) / (1 - low))
        if ratio >= math.log((1 - BETA) / self.alpha):
            return "shows"
        if ratio <= math.log(BETA):
            return "lost"
        return None

    def least(self, came: int, gone: int) -> int:
        """So many more runs it takes at least, until they say something."""
        return next(
            n
            for n in range(1000)
            if self.decided(came + n, gone) is not None or self.decided(came, gone + n) is not None
        )

    @property
    def most(self) -> int:
        """After so many runs that leave it open a candidate is given up: by then, one that still
        shows it at the old rate was taken in all but `BETA` of the cases."""
        return _most(self)

    @property
    def misses(self) -> int:
        """After so many runs without it, and none with it, it is lost."""
        return next(n for n in range(1, 1000) if self.decided(0, n) == "lost")


class OneDecides(msgspec.Struct, frozen=True):
    """Instead of a test, where each run of a candidate is the same simulation: a second one says
    nothing that the first one did not."""

    most: int = 1

    def decided(self, came: int, gone: int) -> Literal["shows", "lost"] | None:
        """See `SequentialTest.decided`."""
        if came:
            return "shows"
        return "lost" if gone else None

    def least(self, came: int, gone: int) -> int:
        """See `SequentialTest.least`."""
        return self.most


@functools.lru_cache(maxsize=256)
def _most(test: SequentialTest) -> int:
    """By the exact distribution of how often it comes."""
    _, high = test._rates
    chances, taken = {0: 1.0}, 0.0
    for runs in itertools.count():
        still_open: dict[int, float] = {}
        for came, chance in chances.items():
            found = test.decided(came, runs - came)
            if found == "shows":
                taken += chance
            elif found is None:
                for more, share in ((1, high), (0, 1 - high)):
                    still_open[came + more] = still_open.get(came + more, 0.0) + chance * share
        if taken >= 1 - BETA:
            return runs
        chances = still_open
    raise AssertionError
