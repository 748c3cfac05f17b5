"""What a run did, and when: its faults, its start and its end, and what of that explains a line."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from itertools import accumulate
from typing import Final

import msgspec

from dstest.core import registry
from dstest.core.errors import ConfigError
from dstest.core.evidence import LandingRecord
from dstest.core.protocols import NemesisTraits
from dstest.core.run_meta import RunMeta

NO_FAULT: Final = "no fault"
NO_TIME: Final = "no time stamp"
NO_WINDOWS: Final = frozenset({"", NO_FAULT, NO_TIME})
"""What stands for a window where there is none."""

EDGE_NS: Final = 5_000_000_000
"""So long after its heal a fault still explains what is said of it: servers notice, elect and
connect anew, and write of it when they do."""

START: Final = "start-up"
END: Final = "shut-down"


class Window(msgspec.Struct, frozen=True, kw_only=True):
    """Run nanoseconds; None is open. `start_ns` is when the fault was asked for: it does its work
    from then on, and is proven later. `until_ns` is when the load went well again. `nodes` are
    those that the fault was done to, empty for all; `explains` the kinds of alarms that it may
    cause. One that has not `landed` explains nothing."""

    id: str
    nemesis: str
    start_ns: int | None
    healed_ns: int | None
    until_ns: int | None
    nodes: frozenset[str] = frozenset()
    explains: frozenset[str] = frozenset()
    landed: bool = True

    def holds(self, time_ns: int, doubt_ns: int) -> bool:
        """Does this moment lie in it, for all that is known of the clock?"""
        after = self.start_ns is None or time_ns >= self.start_ns - doubt_ns
        return after and (self.until_ns is None or time_ns <= self.until_ns + doubt_ns)


class Expected(msgspec.Struct, frozen=True):
    """`window` is a fault's id or why there is none. `why` says what makes it expected or not.
    `by_fault`: a fault explains it, and not that servers were being begun or ended."""

    window: str
    expected: bool
    why: str
    by_fault: bool = False


_NEVER: Final = Expected(NO_FAULT, False, "no fault stood then")
_TIMELESS: Final = Expected(NO_TIME, False, "the line has no time stamp: no fault can explain it")
_UNKNOWN: Final = Expected(NO_FAULT, False, "these logs are of no run: no fault is known")


class Windows:
    """`known`: are these the logs of a run that says what it did?"""

    def __init__(self, every: Sequence[Window], *, known: bool) -> None:
        self.every, self.known = list(every), known
        first, last = -(1 << 62), 1 << 62
        rows = [
            (
                first if w.start_ns is None else w.start_ns,
                at,
                last if w.until_ns is None else w.until_ns,
            )
            for at, w in enumerate(self.every)
        ]
        rows.sort()
        self._starts = [start for start, _, _ in rows]
        self._at = [at for _, at, _ in rows]
        self._until = list(accumulate((until for _, _, until in rows), max))
        """The latest end of all that start no later."""

    def around(self, time_ns: int | None, doubt_ns: int) -> list[Window]:
        """Those in which a moment lies."""
        if time_ns is None:
            return []
        number = bisect_right(self._starts, time_ns + doubt_ns)
        found: list[int] = []
        while number and self._until[number - 1] >= time_ns - doubt_ns:
            number -= 1
            if self.every[self._at[number]].holds(time_ns, doubt_ns):
                found.append(self._at[number])
        return [self.every[at] for at in sorted(found)]

    def beginning(self, from_ns: int, to_ns: int) -> list[Window]:
        """Those that begin between two moments, both included."""
        first, last = bisect_left(self._starts, from_ns), bisect_right(self._starts, to_ns)
        return [self.every[at] for at in sorted(self._at[first:last])]

    def standing(self) -> list[tuple[int | None, int | None]]:
        """Begins and ends of all in which something may be excused: of faults, those that landed"""
        return [(w.start_ns, w.until_ns) for w in self.every if w.landed]

    def judged(
        self, time_ns: int | None, doubt_ns: int, nodes: Iterable[str], alarm: str = ""
    ) -> Expected:
        """Is something expected that was said then of these nodes? A fault explains what is about
        one of its own, and where nobody is named, all; an `alarm` only where it says so."""
        if not self.known:
            return _UNKNOWN
        if time_ns is None:
            return _TIMELESS
        found = _NEVER
        named = {node for node in nodes if node}
        for window in self.around(time_ns, doubt_ns):
            one = _by(window, named, alarm)
            if one.expected:
                return one
            found = one if found is _NEVER else found
        if found is _NEVER:
            healed = (w for w in self.every if w.nemesis and w.until_ns is not None)
            for window in healed:
                after_ns = time_ns - (window.until_ns or 0)
                if 0 <= after_ns <= EDGE_NS and (one := _by(window, named, alarm)).expected:
                    why = f"{one.why}: it was healed {after_ns / 1e9:.1f} s before"
                    return msgspec.structs.replace(one, why=why)
        return found


def _by(window: Window, named: set[str], alarm: str) -> Expected:
    if window.id in (START, END):
        when = "begun" if window.id == START else "ended"
        return Expected(window.id, True, f"the servers were being {when}")
    what = f"{window.nemesis} on {', '.join(sorted(window.nodes)) or 'all'}"
    if not window.landed:
        return Expected(NO_FAULT, False, f"{what} is not proven to have landed")
    if alarm and alarm not in window.explains:
        return Expected(window.id, False, f"{what} explains no {alarm}")
    if window.nodes and named and not named & window.nodes:
        return Expected(window.id, False, f"{what} is about others")
    return Expected(window.id, True, f"{what} explains it", by_fault=True)


def _explains(nemesis: str) -> frozenset[str]:
    try:
        return NemesisTraits.of(registry.load("nemeses", nemesis)).explains
    except ConfigError:
        return frozenset()


def _nodes(record: LandingRecord) -> frozenset[str]:
    """All that the fault was done to: also the other ends of the paths that were cut."""
    return frozenset(map(str, record.targets))


def windows_of_run(records: Sequence[LandingRecord], meta: RunMeta, last_ns: int) -> Windows:
    """Of a run's own words. `last_ns` is when its last operation ended."""
    starts = sorted(r.injected_at for r in records if r.injected_at is not None)
    found = []
    for record in records:
        if record.injected_at is None:
            continue
        found.append(
            Window(
                id=record.fault_id,
                nemesis=record.nemesis,
                start_ns=record.injected_at,
                healed_ns=record.healed_at,
                until_ns=_settled(record, meta, starts),
                nodes=_nodes(record),
                explains=_explains(record.nemesis),
                landed=record.landed == "yes",
            )
        )
    end_ns = max(last_ns, meta.load_end_ns if isinstance(meta.load_end_ns, int) else 0)
    edge = [Window(id=START, nemesis="", start_ns=None, healed_ns=0, until_ns=-1)]
    edge.append(Window(id=END, nemesis="", start_ns=end_ns + 1, healed_ns=None, until_ns=None))
    return Windows([*found, *edge], known=True)


def _settled(record: LandingRecord, meta: RunMeta, starts: Sequence[int]) -> int | None:
    """Until when the fault still shows: the load went well again, or the next fault began."""
    healed = record.healed_at
    if healed is None:
        return None
    for one in meta.recoveries or ():
        # Recoveries tell of the last heal before them; one may stand for several faults.
        if one.healed_ns >= healed:
            until = one.settled_ns
            if until is None:
                until = next((start for start in starts if start > one.healed_ns), None)
            # The load is looked at once a second, and may go well before all of a heal is done
            return until if until is None else max(until, healed)
    return healed
