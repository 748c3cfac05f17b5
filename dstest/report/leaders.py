"""Changes of who leads: as the faults have recorded them, and how servers' logs speak of them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from dstest.core.details import LeadDetails
from dstest.core.evidence import LandingRecord

SPEAKS: Final = re.compile(
    r"became (?:the )?(?:leader|primary|master)|elected (?:as )?(?:the )?(?:leader|primary|master)"
    r"|new (?:leader|primary|master)\b|promot(?:ed|ing) (?:self |itself )?to"
    r"|switch-master|step(?:s|ped|ping) down|lost (?:the )?leader(?:ship)?\b|\bLEADING\b",
    re.IGNORECASE,
)
"""What logs of any system say where the lead changes."""


class LeaderChange(NamedTuple):
    """Somebody leads since `time_ns` at the latest; `said` names it: `n1 → n3, term 4`."""

    time_ns: int
    said: str
    fault: str


def _named(before: Any, after: Any, term: Any, group: str) -> str:
    said = f"{before or 'nobody'} → {after or 'nobody known'}"
    said += f", term {term}" if term is not None else ""
    return f"{group}: {said}" if group else said


def recorded_changes(records: Sequence[LandingRecord]) -> list[LeaderChange]:
    """What faults have seen of it, by time. A fault sees a change when it looks."""
    found = []
    for record in records:
        at = record.landed_at if record.landed_at is not None else record.healed_at
        if at is None:
            continue
        lead = LeadDetails.of(record)
        if lead.moved and isinstance(lead.new_leader, str | None):
            said = _named(lead.leader_before, lead.new_leader, lead.new_term, str(lead.group))
            found.append(LeaderChange(at, said, record.fault_id))
        found += _of_steps(record)
    return sorted(found)


def _of_steps(record: LandingRecord) -> list[LeaderChange]:
    """Of a fault that goes from node to node: its steps carry no times, so each was at the end of
    the fault at the latest."""
    steps = record.facts.get("steps")
    if not isinstance(steps, list) or record.injected_at is None:
        return []
    end = record.healed_at or record.landed_at or record.injected_at
    return [
        LeaderChange(
            end,
            _named(row.get("leader"), row.get("new_leader"), row.get("new_term"), "")
            + f", step {n} of {len(steps)}",
            record.fault_id,
        )
        for n, row in enumerate(steps, 1)
        if isinstance(row, dict) and row.get("moved")
    ]
