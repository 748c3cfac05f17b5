"""What a run is made of that can be made smaller: faults, their windows, nodes, load.

Plain data without behaviour on a cluster: steps make smaller ones of it (`faults.py`, `load.py`),
`runs.py` makes runs of it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

import msgspec

from dstest.core.protocols import FaultPlan
from nemeses.base.schedule import RECOVERY_S, WARMUP_S

_S = 1_000_000_000
_GAP_NS = 4 * _S
"""What is left of a longer quiet time between two faults."""


class Candidate(msgspec.Struct, frozen=True, kw_only=True):
    """`options` are `-o` pairs of system and workload, `fault_options` those of the nemeses, typed,
    as a schedule has them. `without` are types of operations that clients leave out."""

    nodes: int
    time_limit_s: float
    concurrency: int
    rate: float | None = None
    options: tuple[str, ...] = ()
    without: tuple[str, ...] = ()
    fault_options: dict[str, Any] = msgspec.field(default_factory=dict)
    plans: tuple[FaultPlan, ...] = ()

    @property
    def kinds(self) -> list[str]:
        """Nemeses that plan a fault of it, in the order of their first."""
        return list(dict.fromkeys(plan.nemesis for plan in self.plans))

    @property
    def nemesis(self) -> str:
        """As `--nemesis` has it."""
        return ",".join(self.kinds) or "none"

    @property
    def pairs(self) -> list[str]:
        """As `-o` has them, without those of the nemeses."""
        left_out = [f"without={'+'.join(self.without)}"] if self.without else []
        return [*self.options, *left_out]

    @property
    def events(self) -> int:
        """A fault is two: it begins, and it is healed."""
        return 2 * len(self.plans)

    @property
    def key(self) -> str:
        """Equal where the candidates are."""
        return hashlib.sha256(msgspec.json.encode(self, order="sorted")).hexdigest()[:16]

    @property
    def end_s(self) -> float:
        """When the last fault ends."""
        return max((p.start_ns + p.duration_ns for p in self.plans), default=0) / _S

    def with_plans(self, plans: Sequence[FaultPlan]) -> Candidate:
        """With these faults alone, at the times that they have."""
        return msgspec.structs.replace(self, plans=tuple(plans))

    def said(self) -> str:
        """In a line."""
        faults = len(self.plans)
        load = f"{self.concurrency} clients" + (f" at {self.rate:g}/s" if self.rate else "")
        left_out = f", without {', '.join(self.without)}" if self.without else ""
        return (
            f"{faults} fault{'' if faults == 1 else 's'} ({self.nemesis}), {self.time_limit_s:g} s,"
            f" {self.nodes} nodes, {load}{left_out}"
        )


def compact(candidate: Candidate) -> Candidate:
    """The same faults as early as a run has them, with no more than 4 s between two, and the run no
    longer than they need. Faults that stand together go on doing so."""
    if not candidate.plans:
        limit_s = min(candidate.time_limit_s, WARMUP_S + RECOVERY_S)
        return msgspec.structs.replace(candidate, time_limit_s=limit_s)
    found: list[FaultPlan] = []
    new_end_ns, old_end_ns = 0, 0
    for together in _overlapping(candidate.plans):
        old_start_ns = together[0].start_ns
        first_ns = min(old_start_ns, int(WARMUP_S * _S))
        gap_ns = min(max(0, old_start_ns - old_end_ns), _GAP_NS) if found else first_ns
        earlier_ns = old_start_ns - (new_end_ns + gap_ns)
        found += [msgspec.structs.replace(p, start_ns=p.start_ns - earlier_ns) for p in together]
        old_end_ns = max(plan.start_ns + plan.duration_ns for plan in together)
        new_end_ns = old_end_ns - earlier_ns
    limit_s = min(candidate.time_limit_s, new_end_ns / _S + RECOVERY_S)
    return msgspec.structs.replace(candidate, plans=tuple(found), time_limit_s=limit_s)


def _overlapping(plans: Sequence[FaultPlan]) -> list[list[FaultPlan]]:
    """Faults of which each but the first begins with or before the end of an earlier one."""
    groups: list[list[FaultPlan]] = []
    end_ns = -1
    for plan in sorted(plans, key=lambda plan: plan.start_ns):
        if groups and (plan.start_ns < end_ns or plan.start_ns == groups[-1][0].start_ns):
            groups[-1].append(plan)
        else:
            groups.append([plan])
            end_ns = -1
        end_ns = max(end_ns, plan.start_ns + plan.duration_ns)
    return groups
