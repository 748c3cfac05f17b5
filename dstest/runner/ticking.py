"""How far the counter of a standing fault has come, for those who watch.

It is read in the time in which the run waits for its next look at the fault, and never while a look
or a heal is under way: what becomes evidence is measured as if nobody watched. What goes wrong with
a reading is not told, and the last one stands with its age.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Final

from dstest.core.evidence import LandingRecord
from dstest.core.live import Counter
from dstest.core.protocols import Nemesis, NemesisContext, Ticking, Ticks

__all__ = ["Ticker"]

_EVERY_NS: Final = 2_000_000_000
_EVERY_NS_MAX: Final = 32_000_000_000
_LIMIT_S: Final = 1.0
_CLEAR_NS: Final = 1_500_000_000
"""No reading begins this shortly before a look: one that takes its whole limit is over by then."""


class Ticker:
    """Reads the counters of one nemesis, one fault after the other; a node that does not answer in
    time is asked half as often from then on."""

    def __init__(self, nemesis: Nemesis, ctx: NemesisContext) -> None:
        self._nemesis = nemesis if isinstance(nemesis, Ticking) else None
        self._ctx = ctx
        self._every_ns = _EVERY_NS
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
        """Sleep until run time `time_ns`, and read now and then what stands."""
        clock = self._ctx.clock
        while self._nemesis is not None and clock.now_ns() < time_ns - _CLEAR_NS:
            for record in list(standing.values()):
                if record.injected_at is not None and clock.now_ns() < time_ns - _CLEAR_NS:
                    await self._look(self._nemesis, record)
            await clock.until(min(time_ns, clock.now_ns() + self._every_ns))
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
