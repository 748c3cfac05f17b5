"""What is asked of a standing fault while the run waits for its next look at it.

How far its counter has come, for those who watch: what goes wrong with such a reading is not told,
and the last one stands with its age. And, every second, whether it stands (`StandRecord`): between
two looks of a run somebody may take a fault away and put it back. Neither is asked while a look or
a heal is under way: what those measure is measured as if nobody watched.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Final

import msgspec

from dstest.core.evidence import LandingRecord
from dstest.core.live import Counter
from dstest.core.protocols import (
    Lasting,
    Nemesis,
    NemesisContext,
    Ticking,
    Ticks,
)

_STOOD_EVERY_NS: Final = 1_000_000_000
_EVERY_NS: Final = 2_000_000_000
_EVERY_NS_MAX: Final = 32_000_000_000
_LIMIT_S: Final = 1.0
_CLEAR_NS: Final = 1_500_000_000
"""No reading begins this shortly before a look: one that takes its whole limit is over by then."""


class StandRecord(msgspec.Struct, frozen=True, kw_only=True):
    """How long a fault stood, of the time in which it was asked about: `looks` at it, the seconds
    between the first and the last of them, and in how many of these it did not stand, or had been
    away since the look before; `away` names where, `failed` counts looks that nobody answered."""

    looks: int = 0
    failed: int = 0
    watched_s: float = 0.0
    away_s: float = 0.0
    away: tuple[str, ...] = ()

    @property
    def share(self) -> float:
        """Of the watched time, 1 where that was none."""
        return 1.0 - self.away_s / self.watched_s if self.watched_s > 0 else 1.0


class StandWatch:
    """What a nemesis says every second of faults that stand. Of one whose mark is a word that stays
    the same, such as that no server runs, what was undone between two looks is not seen.

    Between two looks of a run somebody may take a fault away and put it back. It is not asked while
    a look or a heal is under way: what those measure is measured as if nobody watched.
    """

    def __init__(self, nemesis: Nemesis, ctx: NemesisContext) -> None:
        self._nemesis = nemesis if isinstance(nemesis, Lasting) else None
        self._ctx = ctx
        self._last: dict[str, tuple[int, dict[str, str]]] = {}
        self._stood: dict[str, StandRecord] = {}

    @property
    def asks(self) -> bool:
        """Is there anything to ask?"""
        return self._nemesis is not None

    def stood(self, fault_id: str) -> StandRecord | None:
        """None of a fault of which nobody could tell."""
        return self._stood.get(fault_id)

    async def look(self, record: LandingRecord) -> None:
        """Ask once. A node that does not answer in time is asked again at the next look, and the
        time until then is judged by that."""
        if self._nemesis is None or record.landed_at is None:
            return
        try:
            async with asyncio.timeout(_LIMIT_S):
                marks = await self._nemesis.in_force(self._ctx, record)
        except (Exception, SystemExit):  # a plug-in may have had a hand in it
            known = self._stood.get(record.fault_id, StandRecord())
            self._stood[record.fault_id] = msgspec.structs.replace(known, failed=known.failed + 1)
            return
        if not marks:
            return
        now_ns, now = self._ctx.clock.now_ns(), {str(k): str(v) for k, v in marks.items()}
        earlier = self._last.get(record.fault_id)
        self._last[record.fault_id] = (now_ns, now)
        known = self._stood.get(record.fault_id, StandRecord())
        if earlier is None:
            self._stood[record.fault_id] = msgspec.structs.replace(known, looks=1)
            return
        then_ns, then = earlier
        gone = {
            name for name in {**then, **now} if not now.get(name) or then.get(name) != now[name]
        }
        span_s = (now_ns - then_ns) / 1e9
        self._stood[record.fault_id] = msgspec.structs.replace(
            known,
            looks=known.looks + 1,
            watched_s=known.watched_s + span_s,
            away_s=known.away_s + (span_s if gone else 0.0),
            away=tuple(sorted({*known.away, *gone})),
        )


class Ticker:
    """Reads the counters of one nemesis, one fault after the other; a node that does not answer in
    time is asked half as often from then on.

    It is for those who watch: what goes wrong with a reading is not told, and the last one stands
    with its age. Nor is it asked while a look or a heal is under way.
    """

    def __init__(self, nemesis: Nemesis, ctx: NemesisContext) -> None:
        self._nemesis = nemesis if isinstance(nemesis, Ticking) else None
        self._ctx = ctx
        self._every_ns = _EVERY_NS
        self.watch = StandWatch(nemesis, ctx)
        self._read: dict[str, tuple[Ticks, int]] = {}

    def counter(self, record: LandingRecord) -> Counter | None:
        """The last reading of this fault, None where there was none."""
        if record.fault_id not in self._read:
            return None
        ticks, at_ns = self._read[record.fault_id]
        age_s = (self._ctx.clock.now_ns() - at_ns) / 1e9
        # Counters of faults begin with them.
        return Counter(name=ticks.name, before=0, now=ticks.now, age_s=round(age_s, 1))

    async def until(self, time_ns: int, standing: Mapping[str, LandingRecord]) -> None:
        """Sleep until run time `time_ns`, and read every second what stands, the counters now and
        then."""
        clock, read_ns = self._ctx.clock, 0
        asks = self.watch.asks or self._nemesis is not None
        while asks and (began_ns := clock.now_ns()) < time_ns - _CLEAR_NS:
            due = began_ns >= read_ns
            for record in list(standing.values()):
                if record.injected_at is not None and clock.now_ns() < time_ns - _CLEAR_NS:
                    await self.watch.look(record)
                    if due and self._nemesis is not None:
                        await self._look(self._nemesis, record)
            read_ns = began_ns + self._every_ns if due else read_ns
            await clock.until(min(time_ns, began_ns + _STOOD_EVERY_NS))
        await clock.until(time_ns)

    async def _look(self, nemesis: Ticking, record: LandingRecord) -> None:
        try:
            async with asyncio.timeout(_LIMIT_S):
                ticks = await nemesis.ticks(self._ctx, record)
        except (Exception, SystemExit):  # a plug-in may have had a hand in it
            self._every_ns = min(_EVERY_NS_MAX, 2 * self._every_ns)
            return
        if isinstance(ticks, Ticks) and isinstance(ticks.now, int):
            self._read[record.fault_id] = (ticks, self._ctx.clock.now_ns())
