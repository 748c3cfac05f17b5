"""Many seeds, on as many processes as the machine has cores."""

from __future__ import annotations

import multiprocessing
from collections import Counter
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor

import msgspec

from dstest.core.shares import Rate, interval
from dstest.sim.simulate import Simulated, Wanted, simulate

__all__ = ["Seen", "Swept", "seen_in", "sweep"]


class Seen(msgspec.Struct, frozen=True, kw_only=True):
    """What one seed came to. `valid` is by checker; `anomalies` are those of all of them."""

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

    @property
    def violated(self) -> bool:
        """Did a checker find something?"""
        return False in self.valid.values()

    @property
    def vacuous(self) -> str | None:
        """Why it shows nothing; None where it does."""
        if not self.ok:
            return "no operation succeeded"
        if not self.landed and self.not_landed:
            return "no fault landed"
        if all(valid == "unknown" for valid in self.valid.values()):
            return "no checker could decide"
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
    anomalies: Counter[str] = msgspec.field(default_factory=Counter)

    def add(self, seen: Seen) -> None:
        """One more."""
        self.seeds += 1
        self.ops += seen.ok + seen.fail + seen.unknown
        self.landed.update(seen.landed)
        self.not_landed += seen.not_landed
        self.anomalies.update(seen.anomalies)
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


def seen_in(done: Simulated) -> Seen:
    """In short."""
    outcomes = Counter(op.outcome.value for op in done.history.ops)
    return Seen(
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
    )


def _one(wanted: Wanted, seed: int) -> Seen:
    return seen_in(simulate(wanted, seed))


def sweep(wanted: Wanted, seeds: Iterable[int], workers: int = 1) -> Iterator[Seen]:
    """In the order of the seeds."""
    if workers == 1:
        for seed in seeds:
            yield _one(wanted, seed)
        return
    with ProcessPoolExecutor(workers, multiprocessing.get_context("spawn")) as pool:
        yield from pool.map(
            _one, *zip(*((wanted, seed) for seed in seeds), strict=True), chunksize=4
        )
