"""Does a candidate still show the violation? Runs it as often as the answer takes, and remembers.

Wald's sequential probability ratio test (Annals of Mathematical Statistics 16, 1945) between the
rate at which the violation has come so far and a third of it: a candidate of the old rate is given
up with a probability of `BETA` at most, one of a third of it is taken with about `ALPHA`. That is
generous: what comes out is run again by itself, and steps that cost its rate are taken back.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Sequence
from typing import Final, Literal

import msgspec

from dstest.campaign.shrink.candidate import Attempt, Candidate, CandidateRuns, Progress
from dstest.campaign.shrink.runs import Runs
from dstest.core.errors import ConfigError
from dstest.core.reproducer import Rate

ALPHA: Final = 1 / 3
STRICT: Final = 0.12
"""Instead of `ALPHA`, for what makes a violation rare by its nature: less load. Two runs that show
it, one after the other, are enough."""

BETA: Final = 0.05
UNKNOWN_RATE: Final = 0.8
"""Of a violation that was seen once."""

_RATES: Final = (0.05, 0.95)

FAILED_MAX: Final = 3
"""So many runs of a candidate that came to nothing, one after the other, are no accident."""


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


_Test = SequentialTest | OneDecides


class TimeUp(Exception):
    """There is no time for another run."""


class Oracle:
    """Answers by runs. `progress` holds all that was tried, `rate` the share of the runs in which
    the violation is known to come. `simulated`: a run that is made again is the same simulation.
    `time_left` is asked before each run; `keep` is called after."""

    def __init__(
        self,
        runs: Runs,
        progress: Progress,
        *,
        simulated: bool = False,
        time_left: Callable[[], bool],
        keep: Callable[[Progress], None],
        say: Callable[[str], None],
    ) -> None:
        self._runs, self.progress, self._simulated = runs, progress, simulated
        self._time_left, self._keep, self._say = time_left, keep, say
        self.rate = UNKNOWN_RATE
        self.shown: list[Candidate] = []
        """Those that still show it, the last one last."""
        self._refusals: dict[str, str] = {}

    def shows_well(self, candidate: Candidate) -> bool:
        """As `shows`, of what may make it rare."""
        return self.shows(candidate, STRICT)

    def shows(self, candidate: Candidate, alpha: float = ALPHA) -> bool:
        """Does it still come, as far as runs can tell? What stays open too long does not
        (`SequentialTest.most`).

        Raises TimeUp, ConfigError where no run of anything can be made.
        """
        return self.first([candidate], alpha) is not None

    def first(self, candidates: Sequence[Candidate], alpha: float = ALPHA) -> Candidate | None:
        """The first that still shows it, asked about one after the other. Where more runs can be
        made at once than one of them needs, those behind it get theirs beforehand. Raises as
        `shows`."""
        for at, candidate in enumerate(candidates):
            if self._still(candidate, alpha, candidates[at + 1 :]):
                self.shown.append(candidate)
                return candidate
        return None

    def _still(self, candidate: Candidate, alpha: float, behind: Sequence[Candidate]) -> bool:
        if self._refused(candidate):
            return False
        tried = self._known(candidate)
        test = OneDecides() if self._simulated else SequentialTest(self.rate, alpha)
        while (found := test.decided(tried.came, tried.gone)) is None:
            if not (wanted := _wanted(test, tried)):
                break
            self._make([*[candidate] * wanted, *self._beforehand(test, behind)])
            tried = self._known(candidate)
        self._say(f"{self._answer(found, tried)}: {candidate.said()}")
        return found == "shows"

    def _answer(self, found: str | None, tried: CandidateRuns) -> str:
        if found == "shows":
            return "still there"
        if not tried.came + tried.gone:
            return f"no run of it counts ({_why_not(tried)})"
        if self._simulated:
            return "gone, as one simulation shows"
        return f"gone in {tried.gone} of {tried.gone + tried.came} runs"

    def _beforehand(self, test: _Test, candidates: Sequence[Candidate]) -> list[Candidate]:
        """Each so often as it will be run at least, if it is asked about."""
        return [
            one
            for one in candidates[: self._runs.width]
            if not self._refused(one)
            for _ in range(_wanted(test, self._known(one)))
        ]

    def measured(self, candidate: Candidate, count: int) -> Rate:
        """How often it comes, by so many runs that are made for that alone; by fewer where they
        could not be made."""
        tried, refused = self._known(candidate), self._refused(candidate)
        while tried.rate.runs < count and not refused and not _lost(tried.attempts):
            self._make([candidate] * (count - tried.rate.runs), confirms=True)
            tried = self._known(candidate)
        if count and not tried.rate.runs and (why := refused or _why_not(tried)):
            raise ConfigError(
                f"no run of it could be made: {why}",
                remedy="mend that; the same command goes on from here",
            )
        return tried.rate

    def passed_over(self, candidate: Candidate) -> None:
        """It shows the violation, and is not what the search goes on with."""
        self.shown.remove(candidate)

    def attempts(self, candidate: Candidate) -> list[Attempt]:
        """Those of its runs in which it came."""
        tried = self.progress.tried.get(candidate.key)
        return [] if tried is None else [one for one in tried.attempts if one.came]

    def _known(self, candidate: Candidate) -> CandidateRuns:
        return self.progress.tried.get(candidate.key) or CandidateRuns(candidate=candidate)

    def _refused(self, candidate: Candidate) -> str:
        """Why it cannot be run at all; of what was run already nobody asks that again."""
        if self._known(candidate).attempts:
            return ""
        if candidate.key not in self._refusals:
            self._refusals[candidate.key] = self._runs.refused(candidate)
        return self._refusals[candidate.key]

    def _make(self, candidates: Sequence[Candidate], *, confirms: bool = False) -> None:
        """A run of each, of as many as can be made at once."""
        if not self._time_left():
            raise TimeUp
        now = candidates[: self._runs.width]
        for candidate, made in zip(now, self._runs.make(now), strict=True):
            before = self._known(candidate)
            attempt = msgspec.structs.replace(made, confirms=confirms)
            tried = msgspec.structs.replace(before, attempts=[*before.attempts, attempt])
            self.progress = msgspec.structs.replace(
                self.progress, tried={**self.progress.tried, candidate.key: tried}
            )
        self._keep(self.progress)
        if self._nothing_works():
            last = [one for tried in self.progress.tried.values() for one in tried.attempts][-1]
            raise ConfigError(
                f"{FAILED_MAX} runs came to nothing: {last.why_not}",
                remedy="mend that; the same command goes on from here",
            )

    def _nothing_works(self) -> bool:
        """Has nothing but runs that do not count been made, of whatever candidate?"""
        made = [one for tried in self.progress.tried.values() for one in tried.attempts]
        return len(made) >= FAILED_MAX and not any(one.judged for one in made)


def _wanted(test: _Test, tried: CandidateRuns) -> int:
    """So many more runs of it are needed at least; none where it is decided, or will not be."""
    if _lost(tried.attempts):
        return 0
    return min(test.least(tried.came, tried.gone), max(0, test.most - tried.came - tried.gone))


def _lost(attempts: list[Attempt]) -> bool:
    """Has it come to nothing, and would it again? A simulation that did is the same the next
    time."""
    if attempts and not attempts[-1].judged and attempts[-1].digest is not msgspec.UNSET:
        return True
    last = attempts[-FAILED_MAX:]
    return len(last) == FAILED_MAX and not any(one.judged for one in last)


def _why_not(tried: CandidateRuns) -> str:
    return next((one.why_not for one in reversed(tried.attempts) if one.why_not), "")
