"""Smaller candidates by fewer nodes, clients and operations (discipline 3.3, R2 and R3)."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from typing import Final

import msgspec

from dstest.shrink.candidate import Candidate

NODES_LEAST: Final = 3
"""Of a cluster with a majority that outlives a fault of one."""

RATES: Final = (20.0, 100.0, 500.0)
"""Operations per second that are tried, instead of as many as the clients can."""

TAIL_S: Final = 1.0

Shows = Callable[[Candidate], bool]


def fewer_nodes(candidate: Candidate) -> Iterator[Candidate]:
    """The smallest cluster first."""
    for nodes in range(NODES_LEAST, candidate.nodes, 2):
        yield msgspec.structs.replace(candidate, nodes=nodes)


def fewer_clients(candidate: Candidate, shows: Shows) -> Candidate:
    """Half of them, as often as it goes; one per node at least."""
    while candidate.concurrency > candidate.nodes:
        half = max(candidate.nodes, candidate.concurrency // 2)
        smaller = msgspec.structs.replace(candidate, concurrency=half)
        if not shows(smaller):
            break
        candidate = smaller
    return candidate


def lighter(candidate: Candidate) -> Iterator[Candidate]:
    """At a rate that is offered, the lowest first."""
    for rate in RATES:
        if candidate.rate is None or rate < candidate.rate:
            yield msgspec.structs.replace(candidate, rate=rate)


def fewer_types(candidate: Candidate, op_types: Collection[str]) -> Iterator[Candidate]:
    """Without one more type of operation, each of those that are left but for the last."""
    left = sorted({*op_types} - {*candidate.without})
    if len(left) < 2:
        return
    for op_type in left:
        yield msgspec.structs.replace(
            candidate, without=tuple(sorted({*candidate.without, op_type}))
        )


def sooner_over(candidate: Candidate) -> Iterator[Candidate]:
    """With less load after the last fault."""
    end_s = candidate.end_s + TAIL_S
    if candidate.plans and end_s < candidate.time_limit_s:
        yield msgspec.structs.replace(candidate, time_limit_s=end_s)
