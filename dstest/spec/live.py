"""Invariants held to a cluster that runs: samples of its state, counted, with a health gauge.

A sample is what the nodes say of themselves, brought into the form of a state of the specification
by whoever takes it: the same predicates are executed as in the other layers. Invariants of steps
are not asked, since what happened between two samples is not known.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import msgspec

from dstest.spec.counts import Count, counted
from dstest.spec.declare import State
from dstest.spec.model import Invariant, Model, shown


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
        self.counts: dict[str, Count] = counted([*self._of_states, *self._sometimes])
        self.samples = 0
        self.healthy: bool | None = None
        """Did the last sample satisfy all of them? None before the first."""
        self._answering = True

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
            sample=shown(state),
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
            yield f"dstest_invariants_healthy {int(self.healthy is True and self._answering)}"
