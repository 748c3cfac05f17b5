"""What the steps of a fault return: plain data, from which the driver makes the next record."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from dstest.core.evidence import LandingRecord, Signal

Facts = Mapping[str, Any]
Counts = Mapping[str, Mapping[str, int]]
"""Operations of clients by node and outcome."""


def with_facts(record: LandingRecord, facts: Facts) -> LandingRecord:
    """The record that says this besides."""
    return msgspec.structs.replace(record, facts={**record.facts, **facts})


class Choice(msgspec.Struct, frozen=True, kw_only=True):
    """Whom a fault is about, and what the record says of that; or why nothing is injected.

    Without `targets` they are those of the plan.
    """

    targets: list[str] | None = None
    facts: Facts = {}
    why_not: str = ""


class Observed(msgspec.Struct, frozen=True, kw_only=True):
    """The three signals as they are now, and what the record says besides."""

    injector: Signal
    victim: Signal
    control: Signal
    facts: Facts = {}


def with_signals(record: LandingRecord, seen: Observed) -> LandingRecord:
    """The record with the signals as they were observed, and what they say besides."""
    return msgspec.structs.replace(
        with_facts(record, seen.facts),
        injector=seen.injector,
        victim=seen.victim,
        control=seen.control,
    )


class Standing(msgspec.Struct, frozen=True, kw_only=True):
    """Does a fault still stand? `doubts` are reasons why it has not stood for its whole window."""

    present: bool = True
    doubts: Sequence[str] = ()
    facts: Facts = {}


class Reverted(msgspec.Struct, frozen=True, kw_only=True):
    """What taking a fault away has shown. `facts` are for the record, the rest for the proof.

    `first` and `second` are counters right afterwards and a moment later; `residue` is what is
    still on a node.
    """

    facts: Facts = {}
    first: Mapping[str, int] = {}
    second: Mapping[str, int] = {}
    residue: Sequence[str] = ()


class Healing(msgspec.Struct, frozen=True, kw_only=True):
    """What the proof of a heal compares with: counts of the load just before the fault was taken
    away and right after, and what taking it away has shown."""

    counts_before: Counts
    counts_after: Counts
    reverted: Reverted


class Proven(msgspec.Struct, frozen=True):
    """What is still missing for a proven heal (nothing: proven), the figures afterwards, what is
    still on a node, and facts for the record."""

    missing: Sequence[str]
    injector: Mapping[str, Any] = {}
    victim: Mapping[str, Any] = {}
    residue: Sequence[str] = ()
    facts: Facts = {}


class ApplyFailed(Exception):
    """Applying a fault failed, in part or whole: what the record is to say of it."""

    def __init__(self, notes: Sequence[str], facts: Facts | None = None) -> None:
        self.notes, self.facts = notes, facts or {}
