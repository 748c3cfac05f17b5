"""The order in which a run is made smaller (Scott et al., "Minimizing Faulty Executions of
Distributed Systems", NSDI 2016; discipline 3.3).

First what the violation itself suggests, since that spares most of the search; then faults, their
windows and targets, nodes, load; last each fault that is left, one by one.
"""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Sequence
from typing import Final

import msgspec

from dstest.core.reproducer import Rate
from dstest.shrink.candidate import Candidate
from dstest.shrink.faults import bare, fewer, guessed, none_spare, other_scopes, shorter
from dstest.shrink.load import fewer_clients, fewer_nodes, fewer_types, lighter, sooner_over
from dstest.shrink.oracle import Oracle, TimeUp
from dstest.shrink.record import ENOUGH
from dstest.shrink.sequential import STRICT

_BACK_MAX: Final = 3
_SAMPLE: Final = 3
"""From so many runs on their share says something about the rate."""


class Reduced(msgspec.Struct, frozen=True, kw_only=True):
    """`lost`: the violation did not come again at all."""

    candidate: Candidate
    lost: bool = False


def reduced(
    start: Candidate,
    oracle: Oracle,
    *,
    near: Sequence[str],
    before_ns: int | None,
    op_types: Collection[str],
    sure: int,
) -> Reduced:
    """The smallest that the steps find. `near` and `before_ns` are what is known of the violation
    (`faults.guessed`), `sure` is how many runs measure a rate. Raises TimeUp."""
    best = oracle.first(guessed(start, near, before_ns))
    if best is None:
        measured = oracle.measured(start, sure)
        if not measured.came:
            return Reduced(candidate=start, lost=True)
        oracle.rate = measured.share
        best = start
    else:
        _learn(oracle, best)
    best = fewer(best, oracle.first)
    best = _spared(best, oracle)
    best = shorter(best, oracle.shows)
    best = _narrower(best, oracle)
    best = oracle.first(list(fewer_nodes(best))) or best
    best = fewer_clients(best, oracle.shows_well)
    best = oracle.first(list(lighter(best)), STRICT) or best
    while smaller := oracle.first(list(fewer_types(best, op_types)), STRICT):
        best = smaller
    best = oracle.first(list(sooner_over(best)), STRICT) or best
    return Reduced(candidate=_spared(best, oracle))


def _spared(best: Candidate, oracle: Oracle) -> Candidate:
    """That no fault is needed is much to say, and a violation that comes once in a while comes
    without one as well: one run is not enough for it."""
    best = none_spare(best, oracle.first)
    if len(best.plans) != 1:
        return best
    return oracle.first([bare(best)], STRICT) or best


def _learn(oracle: Oracle, shown: Candidate) -> None:
    tried = oracle.progress.tried[shown.key]
    if tried.came + tried.gone >= _SAMPLE:
        oracle.rate = tried.came / (tried.came + tried.gone)


def _narrower(best: Candidate, oracle: Oracle) -> Candidate:
    """Faults that hit fewer nodes, by the word of the runs in which they did."""
    for candidate in other_scopes(best):
        if _targets(best, oracle) <= len(best.plans):
            break
        if not oracle.shows(candidate):
            continue
        if 0 < _targets(candidate, oracle) < _targets(best, oracle):
            best = candidate
        else:
            oracle.passed_over(candidate)
    return best


def _targets(candidate: Candidate, oracle: Oracle) -> int:
    return max((one.targets for one in oracle.attempts(candidate)), default=0)


def confirmed(best: Candidate, oracle: Oracle, sure: int) -> Candidate:
    """The smallest one, once runs that are made for that alone have measured how often the
    violation comes in it (`Progress.rate_of`); where that is too rarely, an earlier one in which it
    comes often enough, or else most often. One that was chosen among several for its rate is run as
    often again: the rate by which it was chosen flatters it. Where the time is up, what was
    measured until then decides."""
    rates: dict[str, Rate] = {}
    candidates = {one.key: one for one in (best, *reversed(oracle.shown))}
    try:
        for key, candidate in list(candidates.items())[: 1 + _BACK_MAX]:
            rates[key] = Rate()
            rates[key] = oracle.measured(candidate, sure)
            if rates[key].share >= ENOUGH:
                break
    except TimeUp:
        rates = {key: oracle.progress.rate_of(candidates[key]) for key in rates}
    chosen = candidates[max(rates, key=lambda key: min(rates[key].share, ENOUGH))]
    if len(rates) > 1:
        with contextlib.suppress(TimeUp):
            oracle.measured(chosen, 2 * sure)
    return chosen
