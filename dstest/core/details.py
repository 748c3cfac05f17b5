"""What the facts of a landing record are called: the keys that each family of faults writes.

A record keeps its facts as plain JSON. These read them by name. A key that a record lacks has its
default here, and nothing is converted: what was written by hand may be anything.
"""

from __future__ import annotations

from typing import Any, Self

import msgspec

from dstest.core.evidence import LandingRecord

Counts = dict[str, dict[str, int]]
"""Operations of clients by node and outcome."""


class Details(msgspec.Struct, frozen=True, kw_only=True):
    """Base: a part of a record's facts."""

    @classmethod
    def of(cls, record: LandingRecord) -> Self:
        """Those of this record."""
        facts = record.facts
        return cls(**{name: facts[name] for name in cls.__struct_fields__ if name in facts})


class FaultDetails(Details, frozen=True, kw_only=True):
    """Of every fault: the counts of its clients when it was applied and when it was healed, and
    what became of it in between: `rechecks` are rows of `at_ns`, `present` and perhaps `gone`;
    `stood` says for how long it stood without a break (`looks`, `failed`, `watched_s`, `away_s`,
    `share`), empty where nobody could tell between two looks."""

    stood: dict[str, Any] = {}
    rechecks: list[dict[str, Any]] = []
    ended_early: bool = False
    requested_to_applied_ms: float | None = None
    traffic_at_inject: Counts = {}
    traffic_at_heal: Counts = {}


class LeadDetails(Details, frozen=True, kw_only=True):
    """Who led before, with the epoch that the system counts, and who leads since. `group` is empty
    where the system has one."""

    leader_before: str | None = None
    term_before: int | None = None
    group: str = ""
    new_leader: str | msgspec.UnsetType | None = msgspec.UNSET
    new_term: int | None = None

    @property
    def moved(self) -> bool:
        """Has the lead moved? Who leads may not be known yet where an epoch tells of it."""
        return self.new_leader is not msgspec.UNSET


class ProcessDetails(Details, frozen=True, kw_only=True):
    """Of a fault of processes: whom it is about, and what these and the others were before.

    `pids` are [pid, start time] of each member's main process, `processes` rows of all of a
    service's processes. `asked_before` counts answers by `asker->target`, `listening_before` has
    the pids at the ports of the targets. `counted` is [good operations, since when that stands],
    and `quiet` that of the servers which it must not rise at.
    """

    scope: str = ""
    seed: int = 0
    service: str = ""
    pids: dict[str, list[int]] = {}
    processes: dict[str, list[list[Any]]] = {}
    asked_before: dict[str, int] = {}
    listening_before: dict[str, list[int]] = {}
    counted: dict[str, list[int]] = {}
    quiet: dict[str, list[int]] = {}


class PathDetails(Details, frozen=True, kw_only=True):
    """Of a fault of paths: which are hit, where they arrive (`affected`), and how they were before.

    `baseline_packets` counts what each carried just before. `links` are the paths that the system
    says it uses (None: all), `idle_paths` those that are hit and not used. `cuts` is None in the
    record of a fault of another family.
    """

    shape: str = ""
    direction: str = ""
    clients: bool = False
    cuts: list[str] | None = None
    baseline_packets: dict[str, int] | None = None
    links: list[str] | None = None
    idle_paths: list[str] = []
    affected: list[str] = []
    probe_before: dict[str, list[int]] = {}
