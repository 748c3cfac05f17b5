"""Stretches of time in which a fault stood, as alerts know them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from dstest.core.evidence import LandingRecord
from dstest.core.run_meta import Recovery

__all__ = ["FaultWindow", "during", "windows_of"]


class FaultWindow(msgspec.Struct, frozen=True, kw_only=True):
    """From its injection until it was healed and the load went well again. Run nanoseconds; an end
    that is None never came. `proven`: it has landed."""

    fault_id: str
    nemesis: str
    start_ns: int
    end_ns: int | None
    proven: bool


def windows_of(
    records: Iterable[LandingRecord],
    recoveries: Sequence[Recovery],
    after_heal_s: float,
    timeout_ns: int = 0,
) -> list[FaultWindow]:
    """Of faults that were injected, in order. What was asked while one stood ends a timeout later
    at the latest."""
    found = []
    for record in records:
        if record.injected_at is None:
            continue
        end = record.healed_at
        if end is not None:
            of = next((r for r in recoveries if r.healed_ns >= end), None)
            settled = None if of is None else of.settled_ns
            end = (end + int(after_heal_s * 1e9)) if settled is None else max(end, settled)
            end += timeout_ns
        found.append(
            FaultWindow(
                fault_id=record.fault_id,
                nemesis=record.nemesis,
                start_ns=record.injected_at,
                end_ns=end,
                proven=record.landed == "yes",
            )
        )
    return sorted(found, key=lambda window: window.start_ns)


def during(windows: Iterable[FaultWindow], start_ns: int, end_ns: int) -> list[FaultWindow]:
    """Those that overlap a stretch."""
    return [
        window
        for window in windows
        if window.start_ns <= end_ns and (window.end_ns is None or window.end_ns >= start_ns)
    ]
