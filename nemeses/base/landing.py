"""When a fault has landed: from its signals, and no more once it has not stood."""

from __future__ import annotations

import msgspec

from dstest.core.details import FaultDetails
from dstest.core.evidence import Landed, LandingRecord
from nemeses.base.steps import with_facts


def landed(record: LandingRecord) -> Landed:
    """`yes` needs both sides and untouched others; a fault that ended early stays in doubt."""
    injector = record.injector is not None and record.injector.shown
    victim = record.victim is not None and record.victim.shown
    control = record.control is not None and record.control.moved
    if not injector and not victim:
        return "no"
    whole = injector and victim and not control
    return "yes" if whole and not FaultDetails.of(record).ended_early else "ambiguous"


def only_others_hit(record: LandingRecord) -> bool:
    """Both sides show the fault, and somebody else seems to be hit as well.

    Asked once more before that is believed: one late datagram on a busy host hits nobody.
    """
    signals = (record.injector, record.victim)
    both = all(signal is not None and signal.shown for signal in signals)
    return both and record.control is not None and record.control.moved


def demote(record: LandingRecord, why: str) -> LandingRecord:
    """The fault did not stand for its whole window: never `yes` from here on."""
    was = record.landed == "yes" or record.landed_at is not None
    notes = record.notes if why in record.notes else [*record.notes, why]
    return msgspec.structs.replace(
        with_facts(record, {"ended_early": True}),
        landed="ambiguous" if was else record.landed,
        notes=notes,
    )
