"""Many seeds, on as many processes as are asked for, which end with the one that started them.

The first seed is simulated twice: where that gives two simulations, no seed would say anything.
"""

from __future__ import annotations

import multiprocessing
import os
from collections import Counter
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from itertools import chain

import msgspec

from dstest.core.errors import DstestError, Exit, HarnessError
from dstest.core.processes import end_with_parent
from dstest.core.rates import Rate, interval
from dstest.sim.simulate import SimResult, SimSpec, simulate


class Unlike(DstestError):
    """The same seed gave two simulations: nothing is shown by either."""

    exit_code = Exit.NOT_PROVEN


class SeedResult(msgspec.Struct, frozen=True, kw_only=True):
    """What one seed came to. `valid` is by checker; `anomalies` are those of all of them. `asked`:
    were there to be faults? `unserved`: when the cluster did not come to serve."""

    seed: int
    digest: str
    events: int
    ok: int
    fail: int
    unknown: int
    landed: dict[str, int]
    not_landed: int
    valid: dict[str, bool | str]
    anomalies: list[str]
    failures: list[str]
    unserved: list[str]
    asked: bool

    @property
    def violated(self) -> bool:
        """Did a checker find something?"""
        return False in self.valid.values()

    @property
    def vacuous(self) -> str | None:
        """Why it shows nothing; None where it does."""
        if not self.ok:
            return "no operation succeeded"
        if self.unserved:
            return f"the cluster did not serve {' and '.join(self.unserved)}"
        if self.asked and not self.landed:
            return "no fault landed"
        undecided = sorted(name for name, valid in self.valid.items() if valid == "unknown")
        if undecided or not self.valid:
            return f"undecided: {', '.join(undecided) or 'no checker was asked'}"
        return None


class Swept(msgspec.Struct):
    """All seeds together."""

    seeds: int = 0
    ops: int = 0
    violated: list[int] = msgspec.field(default_factory=list)
    vacuous: dict[str, int] = msgspec.field(default_factory=dict)
    failed: list[int] = msgspec.field(default_factory=list)
    landed: Counter[str] = msgspec.field(default_factory=Counter)
    not_landed: int = 0

    def add(self, seen: SeedResult) -> None:
        """One more."""
        self.seeds += 1
        self.ops += seen.ok + seen.fail + seen.unknown
        self.landed.update(seen.landed)
        self.not_landed += seen.not_landed
        if seen.violated:
            self.violated.append(seen.seed)
        elif seen.vacuous:
            self.vacuous[seen.vacuous] = self.vacuous.get(seen.vacuous, 0) + 1
        if seen.failures:
            self.failed.append(seen.seed)

    @property
    def rate(self) -> Rate:
        """Of seeds that show a violation, with its interval."""
        return interval(len(self.violated), self.seeds)


def seed_result(done: SimResult) -> SeedResult:
    """In short."""
    outcomes = Counter(op.outcome.value for op in done.history.ops)
    return SeedResult(
        seed=done.seed,
        digest=done.digest,
        events=done.events,
        ok=outcomes["ok"],
        fail=outcomes["fail"],
        unknown=outcomes["unknown"],
        landed=dict(Counter(one.fault.kind for one in done.faults if one.landed)),
        not_landed=sum(one.landed is None for one in done.faults),
        valid={one.checker: one.valid for one in done.results},
        anomalies=sorted({name for one in done.results for name in one.kinds}),
        failures=done.failures,
        unserved=done.unserved,
        asked=done.asked,
    )


def _one(wanted: SimSpec, seed: int) -> SeedResult:
    return seed_result(simulate(wanted, seed))


def require_alike(seed: int, digest: str, again: str) -> None:
    """Raises Unlike where the digests of two simulations of a seed differ."""
    if digest != again:
        raise Unlike(
            f"seed {seed} gave two simulations: {digest[:12]} and {again[:12]}",
            remedy="what is simulated asks something that no seed decides: a clock, random numbers"
            " of the process, the order of a set, id() or hash(): docs/simulation.md",
        )


def sweep(wanted: SimSpec, seeds: Iterable[int], workers: int = 1) -> Iterator[SeedResult]:
    """In the order of the seeds. Raises Unlike where the first one differs when it is repeated,
    and HarnessError where a process of the sweep has gone."""
    left = iter(seeds)
    first = next(left, None)
    if first is None:
        return
    if workers == 1:
        seen = _one(wanted, first)
        require_alike(first, seen.digest, _one(wanted, first).digest)
        yield seen
        for seed in left:
            yield _one(wanted, seed)
        return
    with ProcessPoolExecutor(
        workers, multiprocessing.get_context("spawn"), _of_parent, (os.getpid(),)
    ) as pool:
        twice = pool.submit(_one, wanted, first)
        pairs = zip(*((wanted, seed) for seed in chain([first], left)), strict=True)
        try:
            # One seed at a time: whoever interrupts it waits for those that have begun.
            for number, seen in enumerate(pool.map(_one, *pairs)):
                if number == 0:
                    require_alike(first, seen.digest, twice.result().digest)
                yield seen
        except BrokenProcessPool:
            raise HarnessError(
                "a process of the sweep has gone", remedy="was it killed? --workers 1 has none"
            ) from None
        finally:
            pool.shutdown(cancel_futures=True)


def _of_parent(parent: int) -> None:
    """A worker ends with its parent, even where that went while the worker began."""
    end_with_parent()
    if os.getppid() != parent:
        os._exit(1)
