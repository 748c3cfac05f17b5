"""The same violation over runs: a row for each fingerprint."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from dstest.core.shares import Rate, interval
from dstest.serve.row import Row


class Seen(msgspec.Struct, frozen=True, kw_only=True):
    """A violation that was seen in `runs`, the newest first. `rate` is in how many of all judged
    runs of the tests that showed it: the same settings, but for seed and build. `seeds` are those
    that showed it. Runs that are damaged are in none of it: nobody can say what they found.
    `reproducer` is the path of the script of `reproduced_for`, the newest one that was made
    smaller, which may have been made smaller for another violation."""

    fingerprint: str
    runs: list[Row]
    rate: Rate
    tests: int
    systems: list[str]
    workloads: list[str]
    nemeses: list[str]
    seeds: list[str]
    reproducer: str
    reproduced_for: str

    @property
    def first(self) -> Row:
        return self.runs[-1]

    @property
    def last(self) -> Row:
        return self.runs[0]


def triage(rows: Iterable[Row]) -> list[Seen]:
    """The last seen first."""
    judged = [row for row in rows if row.judged]
    by_test: dict[str, int] = {}
    found: dict[str, list[Row]] = {}
    for row in judged:
        by_test[row.test.id] = by_test.get(row.test.id, 0) + 1
        for name in row.fingerprints:
            found.setdefault(name, []).append(row)
    seen = [_seen(name, having, by_test) for name, having in found.items()]
    return sorted(seen, key=lambda one: (one.last.started, one.fingerprint), reverse=True)


def _seen(name: str, having: Sequence[Row], by_test: dict[str, int]) -> Seen:
    runs = sorted(having, key=lambda row: (row.started, row.ref), reverse=True)
    tests = {row.test.id for row in runs}
    smaller = next((row for row in runs if row.reproducer), None)
    return Seen(
        fingerprint=name,
        runs=runs,
        rate=interval(len(runs), sum(by_test[test] for test in tests)),
        tests=len(tests),
        systems=_distinct(row.test.system for row in runs),
        workloads=_distinct(row.test.workload for row in runs),
        nemeses=_distinct(row.test.nemesis for row in runs),
        seeds=_distinct(row.test.seed for row in runs),
        reproducer="" if smaller is None else smaller.reproducer,
        reproduced_for="" if smaller is None else smaller.ref,
    )


def _distinct(values: Iterable[str]) -> list[str]:
    return sorted({value for value in values if value})
