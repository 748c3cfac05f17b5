"""Invariants held to a cluster that runs: samples of its state, counted, with a health gauge.

A sample is what the nodes say of themselves, `{NAME: answer or null}`: an object for who answered,
null for who did not. Recorded ones are lines of JSON; live ones are asked for (`ask.py`). Whoever
takes it brings it into the form of a state of the specification: the same predicates are executed
as in the other layers. Invariants of steps are not asked, since what happened between two samples
is not known.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import IO, Any

import msgspec

from dstest.core.errors import HistoryError
from dstest.spec.declare import State
from dstest.spec.merge import once
from dstest.spec.model import Count, Invariant, Model, new_counts, show


class Broken(msgspec.Struct, frozen=True, kw_only=True):
    """An invariant that a sample did not satisfy; `error` where it could not be evaluated."""

    id: str
    text: str
    time_ns: int
    sample: str
    error: str | None = None


class Monitor:
    """`on_broken` is told at once."""

    def __init__(
        self, model: Model, now_ns: Callable[[], int], on_broken: Callable[[Broken], None]
    ) -> None:
        self._now_ns, self._on_broken = now_ns, on_broken
        self._of_states: list[Invariant] = model.of_kind("state")
        self._sometimes: list[Invariant] = model.of_kind("sometimes")
        self.counts: dict[str, Count] = new_counts([*self._of_states, *self._sometimes])
        self.samples = 0
        self.healthy: bool | None = None
        """Did the last sample satisfy all of them? None before the first."""
        self._answering = True
        self._heard: dict[str, bool] = {}

    @property
    def silent(self) -> list[str]:
        """Members that have not answered once."""
        return [name for name, heard in self._heard.items() if not heard]

    def heard(self, sample: Mapping[str, Any]) -> None:
        """Who was asked, and who answered."""
        for name, answer in sample.items():
            self._heard[name] = self._heard.get(name, False) or answer is not None

    @property
    def asks(self) -> bool:
        """Is there an invariant that a sample could violate?"""
        return bool(self._of_states)

    def unanswered(self) -> None:
        """One look at the cluster that showed nothing: nobody knows how it is."""
        self._answering = False

    def sample(self, state: State) -> list[Broken]:
        """One look at the cluster."""
        self.samples += 1
        self._answering = True
        found = [one for one in (self._asked(i, state) for i in self._of_states) if one]
        for one in self._sometimes:
            if self._holds(one, state) is True:
                self.counts[one.id].passed += 1
        self.healthy = self.asks and not found
        for broken in found:
            self._on_broken(broken)
        return found

    def _holds(self, one: Invariant, state: State) -> bool | str:
        try:
            return one.asked(state)
        except Exception as error:  # a sample may lack what the predicate reads
            return f"{type(error).__name__}: {error}"

    def _asked(self, one: Invariant, state: State) -> Broken | None:
        held = self._holds(one, state)
        if held is True:
            self.counts[one.id].passed += 1
            return None
        self.counts[one.id].failed += 1
        return Broken(
            id=one.id,
            text=one.text,
            time_ns=self._now_ns(),
            sample=show(state),
            error=held if isinstance(held, str) else None,
        )

    def metrics(self) -> Iterable[str]:
        """As Prometheus reads it."""
        yield "# TYPE dstest_invariant_checks_total counter"
        for id_, count in self.counts.items():
            for word, value in (("passed", count.passed), ("failed", count.failed)):
                yield f'dstest_invariant_checks_total{{id="{id_}",result="{word}"}} {value}'
        yield "# TYPE dstest_invariants_healthy gauge"
        if self.healthy is not None or not self._answering:
            well = self.healthy is True and self._answering and not self.silent
            yield f"dstest_invariants_healthy {int(well)}"


Sample = dict[str, Any]


def no_number(text: str) -> float:
    """For `parse_constant`: JSON has no NaN. Raises ValueError."""
    raise ValueError(f"{text} is no number of JSON")


def read_samples(lines: Iterable[bytes] | IO[bytes], name: str) -> Iterator[Sample]:
    """Lines of a file. Raises HistoryError for one that is no sample."""
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            sample = json.loads(line, object_pairs_hook=once, parse_constant=no_number)
        except (ValueError, RecursionError):
            sample = None
        good = isinstance(sample, dict) and sample
        if not good or not all(v is None or isinstance(v, dict) for v in sample.values()):
            raise HistoryError(
                f"{name}, line {number}: no sample",
                remedy='{"n1": {..}, "n2": null}: what each has answered',
            )
        yield sample
