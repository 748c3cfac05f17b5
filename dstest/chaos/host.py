"""How long the service's processes were ready to run and the host had no core for them.

What they wait for a core is no fault of theirs, nor a fault of ours: latencies of such seconds are
left out of every comparison. It is known of a service that `[service] command` started.

Processes below a process.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Final

import msgspec

from dstest.core.processes import children_of


def below(pid: int) -> set[int]:
    """All that descend from a process."""
    found: set[int] = set()
    left = [pid]
    while left:
        children = children_of(left.pop())
        left += children - found
        found |= children
    return found


_SECOND_NS: Final = 1_000_000_000
_SHARE: Final = 0.1
"""Of a second."""


class WaitSample(msgspec.Struct, frozen=True, kw_only=True):
    """Up to `at_ns` the service's processes had waited so long for a core, all together."""

    at_ns: int
    waited_ns: int


def waited_ns(pid: int) -> int:
    """Of all processes below this one: the second field of /proc/PID/schedstat (sched-stats.rst of
    the kernel's documentation). Those that have ended are not counted any more."""
    total = 0
    for one in below(pid):
        try:
            total += int(Path(f"/proc/{one}/schedstat").read_text().split()[1])
        except (OSError, IndexError, ValueError):
            continue  # it has ended meanwhile
    return total


def starved_seconds(samples: Sequence[WaitSample]) -> frozenset[int]:
    """Seconds of CLOCK_MONOTONIC in which the service waited for more than a tenth of the time, and
    those that follow, in which it catches up."""
    waited: dict[int, float] = {}
    for before, after in pairwise(samples):
        gained = max(0, after.waited_ns - before.waited_ns)
        second = after.at_ns // _SECOND_NS
        waited[second] = waited.get(second, 0.0) + gained
    full = {second for second, total in waited.items() if total > _SHARE * _SECOND_NS}
    return frozenset(full | {second + 1 for second in full})
