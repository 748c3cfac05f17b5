"""Positions in a log and what observers claim to have seen of it: shared by `watch` and `kafka`.

A place is `(offset, part)`: the offset orders the log, the part tells entries of one offset apart
(the key of an event, None where an offset holds one record). A claim says that its entries are all
there is in `[start, end]`.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from dataclasses import dataclass, field
from typing import Any

from checkers._findings import Findings, Part, Unreadable
from checkers.columns import Interner
from dstest.core.op import Op
from dstest.core.words import quoted

Offset = tuple[int, str]


def integer(op: Op, value: Any, name: str) -> int:
    """`value` where it is an integer. Raises Unreadable."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise Unreadable(op, f"its {name} is {quoted(value)}, not an integer")
    return value


@dataclass(slots=True)
class Claim:
    """What one observation returned: entries `(place, value)` in its own order."""

    op: Op
    start: int
    end: int
    entries: list[tuple[Offset, Any]]


@dataclass(slots=True)
class Log:
    """What writers were told. `attempts` and `refused` are by id of the value."""

    values: Interner = field(default_factory=Interner)
    acked: dict[Offset, tuple[int, Op]] = field(default_factory=dict)
    attempts: dict[int, list[Op]] = field(default_factory=dict)
    refused: dict[int, Op] = field(default_factory=dict)
    seen: dict[Offset, tuple[int, Op]] = field(default_factory=dict)
    covered: list[tuple[int, int]] = field(default_factory=list)

    def add(
        self, place: Offset, value: Any, op: Op, part: Part, findings: Findings, kind: str
    ) -> None:
        """An acknowledged entry. Two values at one place are an anomaly of this `kind`."""
        at = self.values.id_of(value)
        _, by = self.acked.setdefault(place, (at, op))
        if by is not op:
            said = f"ops {by.op_id} and {op.op_id} were both told offset {place[0]}"
            findings.anomaly(kind, part.key, [by, op], said)

    def reached(self, offset: int) -> bool:
        """Does any claim cover the offset?"""
        return any(start <= offset <= end for start, end in self.covered)


def _join(spans: list[tuple[int, int]]) -> list[tuple[int, int]]:
    joined: list[tuple[int, int]] = []
    for start, end in sorted(s for s in spans if s[0] <= s[1]):
        if joined and start <= joined[-1][1] + 1:
            joined[-1] = (joined[-1][0], max(joined[-1][1], end))
        else:
            joined.append((start, end))
    return joined


def check_claims(
    log: Log, claims: list[Claim], names: dict[str, str], part: Part, findings: Findings
) -> int:
    """Report every claim that contradicts itself, the writers or another claim.

    `names` gives the anomaly for `unordered`, `duplicated`, `early`, `conflict`, `phantom`,
    `missed` (another claim has it) and `lost` (nobody has it). Returns how many entries were
    expected and looked for.
    """
    told: set[int] = set()
    for claim in claims:
        findings.tick()
        _one(log, claim, names, part, findings, told)
    known = {**log.seen, **log.acked}
    places = sorted(known)
    offsets = [place[0] for place in places]
    tested = 0
    missing: set[Offset] = set()
    for claim in claims:
        findings.tick()
        low, high = bisect_left(offsets, claim.start), bisect_right(offsets, claim.end)
        tested += max(0, high - low)
        have = {place for place, _ in claim.entries}
        if high - low <= len(have) and have.issuperset(places[low:high]):
            continue
        for place in places[low:high]:
            if place not in have and place not in missing:
                missing.add(place)
                at, op = known[place]
                kind = names["missed"] if place in log.seen else names["lost"]
                message = (
                    f"op {claim.op.op_id} was told of all from {claim.start} to {claim.end}, but "
                    f"not of {quoted(log.values.values[at])} at {place[0]}, of which op {op.op_id} "
                    "was"
                )
                element = log.values.values[at]
                findings.anomaly(kind, part.key, [op, claim.op], message, element=element)
    log.covered = _join([(c.start, c.end) for c in claims])
    return tested


def _one(
    log: Log, claim: Claim, names: dict[str, str], part: Part, findings: Findings, told: set[int]
) -> None:
    """One claim against itself, the values at its places, and what was ever written."""
    last: int | None = None
    own: set[Offset] = set()
    for place, value in claim.entries:
        offset, at = place[0], log.values.id_of(value)
        if offset < claim.start:
            message = f"op {claim.op.op_id} asked for {claim.start} on and got {offset}"
            findings.anomaly(names["early"], part.key, [claim.op], message)
        if place in own:
            message = f"op {claim.op.op_id} holds {quoted(value)} at {offset} twice"
            findings.anomaly(names["duplicated"], part.key, [claim.op], message, element=value)
        elif last is not None and offset < last:
            message = f"op {claim.op.op_id} holds offset {offset} after {last}"
            findings.anomaly(names["unordered"], part.key, [claim.op], message)
        own.add(place)
        last = offset
        first, by = log.acked.get(place) or log.seen.setdefault(place, (at, claim.op))
        log.seen.setdefault(place, (at, claim.op))
        if first != at:
            message = (
                f"{offset} holds {quoted(log.values.values[first])} by op {by.op_id} and "
                f"{quoted(value)} by "
                f"op {claim.op.op_id}"
            )
            findings.anomaly(names["conflict"], part.key, [by, claim.op], message)
        elif at not in log.attempts and at not in told:
            told.add(at)
            if at in log.refused:
                message = f"{quoted(value)} was refused definitely, yet op {claim.op.op_id} has it"
                ops = [log.refused[at], claim.op]
                findings.anomaly("failed-but-applied", part.key, ops, message, element=value)
            else:
                message = (
                    f"op {claim.op.op_id} has {quoted(value)} at {offset}, which nobody ever wrote"
                )
                findings.anomaly(names["phantom"], part.key, [claim.op], message, element=value)
