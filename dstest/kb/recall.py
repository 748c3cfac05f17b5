"""What is known of a run that failed: has it been seen, was it mended, has it come back?"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from dstest.kb.alike import Alike, alike
from dstest.kb.book import Book, Seen
from dstest.kb.records import Finding, Sighting

_TOP = 3


class Recalled(msgspec.Struct, frozen=True, kw_only=True):
    """Findings that this run shows once more, and others that resemble them. Sightings of the run
    itself are not among them."""

    known: tuple[Finding, ...]
    alike: tuple[Alike, ...]
    run: Sighting


def recalled(book: Book, seen: Seen, top: int = _TOP) -> Recalled:
    """Look up a run, before or after it was learnt."""
    known = []
    for finding in book.of(seen.system, seen.fingerprints):
        before = tuple(one for one in finding.sightings if one.run != seen.sighting.run)
        if before:
            came = _with_this(finding, seen.sighting)
            known.append(msgspec.structs.replace(came, sightings=before))
    everything = book.findings()
    shown = {(seen.system, fingerprint) for fingerprint in seen.fingerprints}
    others = [one for one in everything if (one.system, one.fingerprint) not in shown]
    near: dict[str, Alike] = {}
    for fingerprint in seen.fingerprints:
        for one in alike(seen.system, fingerprint, seen.sighting.nemesis, others, top):
            if one.finding.id not in near or near[one.finding.id].score < one.score:
                near[one.finding.id] = one
    best = sorted(near.values(), key=lambda one: (-one.score, one.finding.id))[:top]
    return Recalled(known=tuple(known), alike=tuple(best), run=seen.sighting)


def _with_this(finding: Finding, run: Sighting) -> Finding:
    """As it stands once this run is among its sightings."""
    fixes = []
    for fix in finding.fixes:
        mended = [one for one in finding.sightings if one.started <= fix.at]
        came = run.started > fix.at and run.may_be(mended or [run])
        fixes.append(msgspec.structs.replace(fix, outcome="came back") if came else fix)
    return msgspec.structs.replace(finding, fixes=tuple(fixes))


def told(found: Recalled) -> Iterator[str]:
    """A line or two for each, as a terminal shows it."""
    for finding in found.known:
        yield _line(finding)
        others = sorted({one.bug for one in finding.sightings if one.bug})
        if not found.run.may_be(finding.sightings):
            yield (
                f"  by its fingerprint alone: this bug is {found.run.bug}, that was"
                f" {'; '.join(others)} (type and faults): it may be another one"
            )
        for fix in finding.fixes:
            yield f"  {fix.commit} ({_day(fix.at)}): {fix.note or 'no note'}: {fix.outcome}"
        if finding.in_circles:
            yield (
                f"  going in circles: {len(finding.came_back)} fixes, and it came back after each; "
                "drive a model there and ask why (dstest spec drive, dstest spec why)"
            )
    for one in found.alike:
        common = ", ".join(one.common)
        yield f"like {one.finding.id} ({one.score:.0%}: {common}): {_short(one.finding)}"
        held: Sequence[str] = [
            fix.commit for fix in one.finding.fixes if fix.outcome != "came back"
        ]
        if held:
            yield f"  mended there by {', '.join(held)}"


def _line(finding: Finding) -> str:
    count, first = len(finding.sightings), finding.sightings[0]
    back = " It has come back." if finding.came_back else ""
    times = "once" if count == 1 else f"{count} times"
    return (
        f"{finding.id} {finding.fingerprint}: seen {times} before, first on {_day(first.started)} "
        f"({first.name}).{back}"
    )


def _short(finding: Finding) -> str:
    said = next((one.headline for one in finding.sightings if one.headline), "")
    return f"{finding.system}: {said or finding.fingerprint}"


def _day(stamp: str) -> str:
    """`20261128T130000Z` -> `2026-11-28`"""
    return f"{stamp[:4]}-{stamp[4:6]}-{stamp[6:8]}" if len(stamp) >= 8 else "an unknown day"
