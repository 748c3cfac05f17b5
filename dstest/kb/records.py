"""What the book holds."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final, Literal

import msgspec

Outcome = Literal["tried", "held", "came back"]

_ID: Final = re.compile(r"[Kk](\d{1,9})")


class Sighting(msgspec.Struct, frozen=True, kw_only=True):
    """A run that showed a finding. `run` is the digest of its history, by which it is known
    wherever it lies; `started` is UTC, `20261128T130000Z`. `bug` is the kind of bug that it showed
    and under which faults; empty where that is not known."""

    run: str
    name: str
    path: str
    started: str
    version: str
    workload: str
    nemesis: str
    seed: str
    headline: str
    bug: str = ""

    def may_be(self, others: Iterable[Sighting]) -> bool:
        """Is it the bug of one of these, as far as is known? One fingerprint may be of several."""
        type_, _, faults = self.bug.partition(" under ")
        for one in others:
            other, _, theirs = one.bug.partition(" under ")
            open_ = "unclassified" in (type_, other) or "" in (type_, other)
            if (not self.bug or not one.bug or faults == theirs) and (open_ or type_ == other):
                return True
        return False


class Fix(msgspec.Struct, frozen=True, kw_only=True):
    """What was done against a finding. `outcome` is `came back` where a run that started later
    showed it again, as the same kind of bug under the same faults, `held` where somebody said so,
    else `tried`."""

    commit: str
    note: str
    at: str
    outcome: Outcome


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """A violation of a system by its fingerprint, with all runs that showed it and all that was
    done against it, oldest first."""

    id: str
    system: str
    fingerprint: str
    sightings: tuple[Sighting, ...]
    fixes: tuple[Fix, ...]

    @property
    def came_back(self) -> tuple[Fix, ...]:
        """Fixes after which it was seen again."""
        return tuple(fix for fix in self.fixes if fix.outcome == "came back")

    @property
    def in_circles(self) -> bool:
        """Three fixes or more, and it came back after each (discipline 7.4, F-LEDGER)."""
        return len(self.came_back) >= 3


def finding_id(number: int) -> str:
    return f"K{number}"


def finding_number(text: str) -> int | None:
    """Of `K12`; None for what is no such name."""
    found = _ID.fullmatch(text.strip())
    return int(found[1]) if found else None
