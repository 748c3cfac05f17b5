"""Who is a member, as each node lists it: what is removed, and when a list is whole again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from dstest.core.evidence import LandingRecord, Signal

Listing = dict[str, dict[str, list[Any]] | None]
"""node -> what it lists: identity (as text, for JSON) -> [name, is it a learner?]."""


def plain(members: Mapping[str, Mapping[int, tuple[str, bool]] | None]) -> Listing:
    """What each node lists, as JSON can say it."""
    return {
        n: None if row is None else {f"{i:x}": [*m] for i, m in row.items()}
        for n, row in members.items()
    }


def _identity(listing: Listing, name: str) -> dict[str, str | None]:
    """Under which identity each node lists a member."""
    return {
        n: next((i for i, (known, _) in (row or {}).items() if known == name), None)
        for n, row in listing.items()
    }


def incomplete(listing: Listing, names: Sequence[str]) -> list[str]:
    """What keeps each node's list from being one voter for each name."""
    problems = []
    for node, row in listing.items():
        if row is None:
            problems.append(f"{node} does not list the members")
        elif sorted(known for known, _ in row.values()) != sorted(names):
            problems.append(f"{node} lists {sorted(known for known, _ in row.values())}")
        elif learners := [known for known, learner in row.values() if learner]:
            problems.append(f"{node} lists {', '.join(learners)} as a learner")
    return problems


def unlisted(record: LandingRecord, gone: Signal) -> Signal:
    """No other node lists the record's targets any more, and their servers are `gone`."""
    before, now = record.facts["members_before"], record.facts["members"]
    others = [n for n in before if n not in record.targets]
    problems = [] if gone.moved else [gone.detail]
    for target in record.targets:
        known = _identity(before, target)
        problems += [f"{n} listed no {target} before" for n in others if known.get(n) is None]
        problems += [f"{n} does not answer" for n in others if now[n] is None]
        problems += [
            f"{n} still lists {target}" for n in others if now[n] and known.get(n) in now[n]
        ]
    return Signal(
        signal="members as each other node lists them",
        before={n: len(before[n] or ()) for n in others},
        during={n: len(now[n] or ()) for n in others},
        moved=bool(record.targets) and not problems,
        detail="; ".join(problems)
        or f"{', '.join(record.targets)} removed, as {len(others)} others say",
    )


def unchanged(record: LandingRecord, now: Listing) -> list[str]:
    """The nodes that list a target under the identity that it had before the fault."""
    was, found = record.facts.get("members_before", {}), list[str]()
    for target in record.targets:
        old = set(_identity(was, target).values())
        same = [n for n, known in _identity(now, target).items() if known in old]
        found += [f"{n} lists {target} under its old identity" for n in same]
    return found
