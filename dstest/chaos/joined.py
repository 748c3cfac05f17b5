"""Which fault hit which request of the load, and whether each fault landed.

A fault belongs to the request whose id the proxy saw. Where a service hands no id on to what it
needs, the fault belongs to each request that was in flight all the while: `by_time` says so, and
how much is due to a fault is then told too low rather than too high.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Container, Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from dstest.chaos.profile import Kind
from dstest.chaos.records import Began, Entry, Passed

_NOTICED_S: Final = 0.01
_SECOND_NS: Final = 1_000_000_000


class Asked(NamedTuple):
    """A request of the load with what happened to it on its way."""

    entry: Entry
    phase: str
    share: float | None
    """Of faults in its phase: 0 where none stood."""
    faults: tuple[Passed, ...]
    calm: bool
    """No fault hit it, none stood, and those before it are over as long as a caller waits."""
    starved: bool
    """The host had no core for the service in that second, or in the one before."""
    passes: int
    """How often proxies other than the front one were asked on its behalf, where ids tell."""

    @property
    def hit(self) -> bool:
        return bool(self.faults)

    @property
    def timed_out_starved(self) -> bool:
        """It had no answer in time, and the service had no core: that says nothing of either."""
        return self.starved and self.entry.trouble == "timeout"


class Landing(NamedTuple):
    """Of one kind at one proxy."""

    proxy: str
    kind: Kind
    injected: int
    landed: int


class Joined(NamedTuple):
    asked: Sequence[Asked]
    """Those that ended, by when they were due."""
    unfinished: int
    landings: Sequence[Landing]
    by_time: frozenset[str]
    """Proxies at which faults hit requests that showed no id."""
    guessed: frozenset[str]
    """Faults without an id while requests to several endpoints were in flight: any may have met
    them."""
    passes: Sequence[Passed]
    spans: Sequence[tuple[float, float]]
    """From when to when faults stood."""

    def stood(self, time_ns: int) -> bool:
        """Did faults stand then?"""
        return any(low <= time_ns < high for low, high in self.spans)


def joined(
    entries: Iterable[Entry],
    passes: Sequence[Passed],
    phases: Sequence[Began],
    front: str | None,
    timeout_s: float,
    starved: Container[int] = (),
) -> Joined:
    """Put the three logs together. `front` names the proxy that the load goes through, `timeout_s`
    is how long the load waits for an answer. `starved` has the seconds in which the host had no
    core for the service."""
    listed = sorted(entries, key=lambda one: one.due_ns)
    done = [one for one in listed if one.trouble != "unfinished"]
    by_time = _without_ids(passes, front)
    faults, guessed = _faults_of(done, passes, by_time)
    counts: dict[int, int] = defaultdict(int)
    for one in passes:
        if one.request is not None and one.proxy != front:
            counts[one.request] += 1
    starts = [one.at_ns for one in phases]
    asked = []
    for entry in done:
        place = bisect_right(starts, entry.due_ns) - 1
        phase = phases[place] if place >= 0 else Began(name="", share=0.0, at_ns=0)
        hits = tuple(faults.get(entry.n, ()))
        over = place == 0 or entry.due_ns - phase.at_ns > timeout_s * 1e9
        calm = phase.share == 0 and not hits and over
        waited = any(
            second in starved
            for second in range(entry.due_ns // _SECOND_NS, entry.end_ns // _SECOND_NS + 1)
        )
        asked.append(
            Asked(entry, phase.name, phase.share, hits, calm, waited, counts.get(entry.n, 0))
        )
    ends = [*starts[1:], math.inf]  # of a run that was cut off, none
    return Joined(
        asked=asked,
        unfinished=len(listed) - len(done),
        landings=_landings(asked, passes, front),
        by_time=by_time,
        guessed=guessed,
        passes=passes,
        spans=[(one.at_ns, end) for one, end in zip(phases, ends, strict=False) if one.share != 0],
    )


def _without_ids(passes: Sequence[Passed], front: str | None) -> frozenset[str]:
    names = {one.proxy for one in passes if one.proxy != front}
    return frozenset(names & {one.proxy for one in passes if one.request is None and one.kind})


def _faults_of(
    entries: Sequence[Entry], passes: Sequence[Passed], by_time: frozenset[str]
) -> tuple[Mapping[int, list[Passed]], frozenset[str]]:
    """By request, and which of them are guesses."""
    found: dict[int, list[Passed]] = defaultdict(list)
    guessed = set()
    loose = []
    for one in passes:
        if one.kind is None:
            continue
        if one.request is not None:
            found[one.request].append(one)
        elif one.proxy in by_time:
            loose.append(one)
    known = {(one.proxy, one.request) for one in passes if one.request is not None}
    for fault in loose:
        near = [
            entry
            for entry in entries
            if entry.begin_ns <= fault.begin_ns <= entry.end_ns
            and (fault.proxy, entry.n) not in known
        ]
        for entry in near:
            found[entry.n].append(fault)
        if len({entry.endpoint for entry in near}) > 1:
            guessed.add(str(fault.id))
    return found, frozenset(guessed)


def _landings(
    asked: Sequence[Asked], passes: Sequence[Passed], front: str | None
) -> Sequence[Landing]:
    by_request = {one.entry.n: one.entry for one in asked}
    hits = {fault.id for one in asked for fault in one.faults}
    table: dict[tuple[str, Kind], list[int]] = defaultdict(lambda: [0, 0])
    for one in passes:
        if one.kind is None:
            continue
        row = table[one.proxy, one.kind]
        row[0] += 1
        seen = by_request.get(one.request) if one.request is not None else None
        if one.proxy == front:
            row[1] += _met(one, seen)
        else:
            row[1] += one.id in hits and _borne(one)
    return [Landing(proxy, kind, *row) for (proxy, kind), row in sorted(table.items())]


def _borne(fault: Passed) -> bool:
    """Was the proxy's client there? One that left may have had enough of waiting for us."""
    waited_s = (fault.end_ns - fault.begin_ns) / 1e9
    return fault.ended != "client left" or waited_s >= _NOTICED_S


def _met(fault: Passed, entry: Entry | None) -> bool:
    """Did the load's client see this fault of the front proxy?"""
    if entry is None:
        return False
    match fault.kind:
        case "delay":
            return entry.service_s >= fault.delay_s or entry.trouble == "timeout"
        case "error":
            return entry.status == fault.status and entry.chaos_id == fault.id
        case "reset" | "drop":
            return entry.trouble in ("reset", "closed")
        case _:
            return entry.trouble == "timeout"
