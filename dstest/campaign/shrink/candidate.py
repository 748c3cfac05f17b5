"""A candidate (what of a run can be made smaller: faults, windows, nodes, load) and what a
reduction has tried of them: `RUN.shrink/progress.json`, from which it goes on.

The run itself is sealed and stays as it is. Every attempt is a run directory below; what it says is
asked of that directory again whenever the file is read (`reproducer.py`).
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Final

import msgspec

from dstest.core.errors import ConfigError
from dstest.core.protocols import FaultPlan
from dstest.core.reproducer import Rate
from dstest.history.layout import is_locked, locked, write_file
from nemeses.base.schedule import RECOVERY_S, WARMUP_S

_S = 1_000_000_000
_GAP_NS = 4 * _S
"""What is left of a longer quiet time between two faults."""

PROGRESS: Final = "progress.json"
HISTORY: Final = "history.jsonl"
"""Beside the reproducer: the part of the run's history that shows the violation alone."""

RUNS: Final = "runs"
"""Directory of the attempts, beside the file that names them."""

_LOCK: Final = ".lock"

ENOUGH: Final = 0.8
"""A reproducer whose violation comes in a smaller share of its runs is no good one: steps are taken
back for it."""

SCHEMA: Final = "dstest.shrink/1"


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


class Attempt(msgspec.Struct, frozen=True, kw_only=True):
    """One run of a candidate. `path` is below the directory of the file. `judged`: a checker had
    its say, and its faults landed or it came all the same; only then it counts. `came`: it found
    the violation in question. `landed`: faults that were proven. `targets`: nodes that they hit in
    all. `ops`: what clients asked for. `why_not`: why it does not count. `confirms`: made to
    measure how often it comes, and for nothing else. `digest`: which simulation it was; unset on
    nodes."""

    path: str = ""
    judged: bool = False
    came: bool = False
    landed: int = 0
    targets: int = 0
    ops: int = 0
    why_not: str = ""
    confirms: bool = False
    digest: str | msgspec.UnsetType = msgspec.UNSET


class CandidateRuns(msgspec.Struct, frozen=True, kw_only=True):
    """A candidate and its runs so far."""

    candidate: Candidate
    attempts: list[Attempt] = msgspec.field(default_factory=list)

    @property
    def came(self) -> int:
        """In how many runs that count the violation came."""
        return sum(one.judged and one.came for one in self.attempts)

    @property
    def gone(self) -> int:
        """In how many it did not."""
        return sum(one.judged and not one.came for one in self.attempts)

    @property
    def rate(self) -> Rate:
        """How often it came in the runs that were made to measure that. Those that decided whether
        the candidate is taken do not count: they would have been others, had it not come."""
        told = [one for one in self.attempts if one.judged and one.confirms]
        digests = {one.digest for one in told} - {msgspec.UNSET}
        return Rate(
            runs=len(told),
            came=sum(one.came for one in told),
            simulations=len(digests) or msgspec.UNSET,
        )


class Progress(msgspec.Struct, frozen=True, kw_only=True):
    """`history_sha256` and `fingerprint` say which run and which violation of it this is about;
    `tried` is by the key of the candidate, in the order of the first run."""

    schema: str = SCHEMA
    run: str
    history_sha256: str
    fingerprint: str
    tried: dict[str, CandidateRuns] = msgspec.field(default_factory=dict)

    def rate_of(self, candidate: Candidate) -> Rate:
        """See `Tried.rate`."""
        tried = self.tried.get(candidate.key)
        return Rate() if tried is None else tried.rate

    @property
    def runs(self) -> int:
        """Made so far, also those that do not count."""
        return sum(len(one.attempts) for one in self.tried.values())


def aside_of(run: Path) -> Path:
    """Where the file and the runs that it names are."""
    return run.with_name(f"{run.name}.shrink")


def alone(run: Path) -> AbstractContextManager[None]:
    """Two reductions of one run would forget each other's attempts: the second is refused, by
    ConfigError."""
    busy = ConfigError(f"{run} is being made smaller by another process", remedy="wait for its end")
    return locked(aside_of(run) / _LOCK, busy)


def going_on(run: Path) -> bool:
    """Is it being made smaller now?"""
    return is_locked(aside_of(run) / _LOCK)


def write_progress(run: Path, progress: Progress) -> None:
    """Replaced atomically."""
    data = msgspec.json.format(msgspec.json.encode(progress), indent=1)
    write_file(aside_of(run), PROGRESS, data + b"\n")
