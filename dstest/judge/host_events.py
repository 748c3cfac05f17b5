"""What happened to the control host while a run lasted: samples, and what in them is an event.

The control process takes a sample a second (`dstest.runner.samplers`), which holds nothing but
what the kernel counts. What counts as an event is decided here, so that a run judged again is
judged by the same figures.

Pressure on the CPU is written down and is no event: the load makes it.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Final

import msgspec

from dstest.core.rules import Rule

HOST: Final = "host.jsonl"
"""In a run directory: a `HostSample` a line."""

NEAR_NS: Final = 2_000_000_000
"""How far an event may be from an operation that it explains."""

SAMPLE_S: Final = 1.0
APART_MAX_NS: Final = 3_000_000_000
"""Where samples lie further apart, nobody looked in between."""


class HostSample(msgspec.Struct, frozen=True, kw_only=True):
    """What was read at `time_ns` of the run. All but `late_ns`, `fsync_ns`, `free_bytes` and the
    clock are counted from the start of the host.

    `wall_minus_mono_ns`: the wall clock minus the monotonic one, which nobody can set. `steal` and
    `cpu` are seconds of all CPUs, the ones that the hypervisor took and all. `swapped` counts pages
    in and out. `stalled` are seconds in which everything waited, by resource, and for `cpu` those
    in which something did. `throttled` are seconds by control group, of those that ever were.
    `late_ns`: how much later than due the sample was taken; `fsync_ns`: how long a sync of a small
    file beside the run took. None and a missing name: this host does not say.
    """

    time_ns: int
    wall_minus_mono_ns: int
    late_ns: int = 0
    steal: float | None = None
    cpu: float | None = None
    oom_kills: int | None = None
    swapped: int | None = None
    stalled: dict[str, float] = msgspec.field(default_factory=dict)
    throttled: dict[str, float] = msgspec.field(default_factory=dict)
    fsync_ns: int | None = None
    free_bytes: int | None = None


class HostEvent(msgspec.Struct, frozen=True, kw_only=True):
    """Something that happened between two samples. `said` gives the figure and its unit."""

    kind: str
    start_ns: int
    end_ns: int
    said: str


Pair = tuple[HostSample, HostSample]
"""Two samples, one after the other."""


class Threshold(Rule[Pair, float | None], frozen=True):
    """What it finds is an event from `least` on, and None not known. `title` says what the figure
    counts."""

    least: float


def _grown(before: float | None, after: float | None) -> float | None:
    return None if before is None or after is None else after - before


def _clock_set(pair: Pair) -> float:
    a, b = pair
    return abs(b.wall_minus_mono_ns - a.wall_minus_mono_ns) / 1e9


def _steal_share(pair: Pair) -> float | None:
    a, b = pair
    taken, all_ = _grown(a.steal, b.steal), _grown(a.cpu, b.cpu)
    return None if taken is None or not all_ or all_ <= 0 else 100 * taken / all_


def _throttled(pair: Pair) -> float:
    a, b = pair
    return max((s - a.throttled.get(g, 0.0) for g, s in b.throttled.items()), default=0.0)


def _stood_still(pair: Pair) -> float:
    return pair[1].late_ns / 1e9


def _killed(pair: Pair) -> float | None:
    return _grown(pair[0].oom_kills, pair[1].oom_kills)


def _swapped(pair: Pair) -> float | None:
    return _grown(pair[0].swapped, pair[1].swapped)


def _memory_stalled(pair: Pair) -> float | None:
    return _grown(pair[0].stalled.get("memory"), pair[1].stalled.get("memory"))


def _synced(pair: Pair) -> float | None:
    return None if pair[1].fsync_ns is None else pair[1].fsync_ns / 1e9


def _full(pair: Pair) -> float | None:
    return None if pair[1].free_bytes is None else float(pair[1].free_bytes < 16 << 20)


EVENTS: Final = (
    Threshold("clock-set", "s between the wall clock and the monotonic one", _clock_set, 0.02),
    Threshold("steal", "% of the CPU time stolen", _steal_share, 10),
    Threshold("throttled", "s of a control group throttled", _throttled, 0.1),
    Threshold("stood-still", "s in which the control process did not run", _stood_still, 1.0),
    Threshold("oom-kill", "processes killed for lack of memory", _killed, 1),
    Threshold("swap", "pages swapped in or out", _swapped, 1000),
    Threshold("memory-stall", "s in which everything waited for memory", _memory_stalled, 0.5),
    Threshold("disk-stall", "s for a sync of a small file in the store", _synced, 1.0),
    Threshold("store-full", "look at a store with less than 16 MiB left", _full, 1),
)
"""By kind, from what figure on something is an event."""

KINDS: Final = frozenset(row.id for row in EVENTS)


def events_of(samples: Sequence[HostSample]) -> list[HostEvent]:
    """All events, in order of time. The one before a sample began at the sample before it."""
    found = []
    for before, after in pairwise(samples):
        for row in EVENTS:
            figure = row.find((before, after))
            if figure is not None and figure >= row.least:
                said = f"{row.id}: {figure:,.3g} {row.title}"
                found.append(
                    HostEvent(kind=row.id, start_ns=before.time_ns, end_ns=after.time_ns, said=said)
                )
    return found


def near(events: Iterable[HostEvent], spans: Sequence[tuple[int, int]]) -> list[HostEvent]:
    """Those that lie within `NEAR_NS` of one of these stretches of time."""
    return [
        event
        for event in events
        if any(
            event.start_ns <= end + NEAR_NS and event.end_ns >= start - NEAR_NS
            for start, end in spans
        )
    ]


def watched(samples: Sequence[HostSample], spans: Sequence[tuple[int, int]]) -> bool:
    """Did somebody look all the time around each of these stretches of time?"""
    times = [sample.time_ns for sample in samples]
    for start, end in spans:
        inside = [t for t in times if start - APART_MAX_NS <= t <= end + APART_MAX_NS]
        if any(b - a > APART_MAX_NS for a, b in itertools.pairwise(inside)):
            return False
        # The sampler's own lateness is an event, and no gap.
        if not inside or inside[0] > start or inside[-1] < end:
            return False
    return bool(spans)
