"""What a checker is given and what it gives back; what a workload claims to test, and what its
records must hold for the claim to be judged.

`CheckResult` is the object that `dstest check --json` prints; its keys are a contract.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, Literal

import msgspec
from msgspec import UNSET, UnsetType

from dstest.core import limits
from dstest.core.errors import Exit

__all__ = [
    "CATEGORIES",
    "FAMILIES",
    "GATED",
    "NAMELESS",
    "NOTHINGS",
    "SURFACE_GATED",
    "Anomaly",
    "Budget",
    "CheckResult",
    "Fields",
    "KeyCount",
    "OpCount",
    "RunVerdict",
    "Seconds",
    "Sightings",
    "Spread",
    "Stuck",
    "Valid",
    "kinds_in",
    "kinds_of",
]


NAMELESS: Final = "violation"
"""The kind of a violation to which its checker gives no name."""

Valid = Literal[True, False, "unknown"]

GATED: Final = frozenset(
    {"safety", "durability", "idempotency", "isolation", "ordering", "membership"}
)
"""Claims that only a history of operations can falsify: `serious` ones."""

SURFACE_GATED: Final = frozenset({"boundary", "fairness"})
"""Claims that hold at each surface or for each group, or not at all."""

CATEGORIES: Final = GATED | SURFACE_GATED | {"liveness", "performance-SLO", "operational"}

FAMILIES: Final = frozenset({"log", "counter", "ledger", "session", "queue", "lease"})
"""Whose operations need fields without which a checker would be unsound."""


class Budget(msgspec.Struct, frozen=True):
    """How much a checker may use before it must answer `unknown` for what is left."""

    time_s: float = limits.CHECK_TIME_S
    memory_mb: int = limits.CHECK_MEMORY_MB


class Stuck(msgspec.Struct, frozen=True, kw_only=True):
    """The answer that fits no order: what it needs (`it needs the value 3`), of which object, and
    what that could hold at that place of the order (`1, 2`)."""

    needs: str
    noun: str = ""
    held: str = ""


class Anomaly(msgspec.Struct, frozen=True, kw_only=True):
    """One violation with its witness.

    `ops` are the op_ids that cannot be explained together, in order of invocation; dropping any
    of them from the witness removes the contradiction where `minimal` is true. `epochs` are the
    fault epochs that the witness overlaps. `explanation` is one paragraph for a newcomer.

    The rest is there where the checker knows it, and absent from JSON where not: `element` is the
    value that was lost, doubled or made up, `culprit` the op_id of the answer that gave it away,
    `overlap_ns` from when to when two held something at one time (None: to the end of the run), ns
    of run time, `stuck` why no order has a place for the culprit.
    """

    type: str
    key: Any = None
    ops: list[int | str] = msgspec.field(default_factory=list)
    witness: list[dict[str, Any]] = msgspec.field(default_factory=list)
    minimal: bool = False
    epochs: list[str] = msgspec.field(default_factory=list)
    explanation: str = ""
    element: Any | UnsetType = UNSET
    culprit: int | str | UnsetType = UNSET
    overlap_ns: tuple[int, int | None] | UnsetType = UNSET
    stuck: Stuck | UnsetType = UNSET


OVER_TIME: Final = 200
"""Parts of time in which anomalies are counted: as fine as a drawing of a run can be."""


class Sightings(msgspec.Struct, frozen=True, kw_only=True):
    """Answers, one of each of many anomalies: when the first and the last came, ns of run time, and
    how many by node and by fault epoch; `outside` counts those in none, `after` those of them that
    came after the heal of a fault, by the last one, before the load had recovered from it, where
    heals are known; where nobody measured recoveries, until the next fault or the end. `over_time`
    counts them in equal parts of the time from the first to the last; older files have none."""

    first_ns: int
    last_ns: int
    nodes: dict[str, int] = msgspec.field(default_factory=dict)
    epochs: dict[str, int] = msgspec.field(default_factory=dict)
    outside: int = 0
    after: dict[str, int] | UnsetType = UNSET
    over_time: list[int] | UnsetType = UNSET

    @staticmethod
    def parts_of(times_ns: Sequence[int]) -> list[int]:
        """What `over_time` is of answers at these times, of which there is one at least."""
        first, span = min(times_ns), max(times_ns) - min(times_ns) + 1
        parts = [0] * min(OVER_TIME, span)
        for at in times_ns:
            parts[(at - first) * len(parts) // span] += 1
        return parts


FirstOf = Literal["", "key", "any-of-key", "cycle"]
"""Of what a checker counts one each (`Spread.first_of`)."""


class Spread(msgspec.Struct, frozen=True, kw_only=True):
    """All anomalies of one kind together, those without a witness of their own as well.

    `told` are the answers that gave them away, `known` those by which what is missing later was
    known to be there, where a witness has one; None where no operation is named. `keys` are the
    keys with most of them, each with how many; `keys_total` counts all keys that have any. Where
    `first_of` says of what, `key` or `cycle`, only the first of each is counted: there may be more.
    `any-of-key`: one of each key, which need not be its first in time.
    Of reads of old values `oldest_ns` says for how long such a value had been overwritten at most.
    """

    count: int
    first_of: FirstOf = ""
    told: Sightings | None = None
    known: Sightings | None = None
    keys: list[tuple[Any, int]] = msgspec.field(default_factory=list)
    keys_total: int = 0
    oldest_ns: int | UnsetType = UNSET


class OpCount(msgspec.Struct, frozen=True, kw_only=True):
    """Operations of the history, those the verdict rests on, and the rest by reason."""

    total: int = 0
    consumed: int = 0
    excluded: dict[str, int] = msgspec.field(default_factory=dict)


class KeyCount(msgspec.Struct, frozen=True, kw_only=True):
    """Keys of the history and those that were decided; `undecided` names the others."""

    total: int = 0
    decided: int = 0
    undecided: list[Any] = msgspec.field(default_factory=list)


class Seconds(msgspec.Struct, frozen=True, kw_only=True):
    """Wall seconds spent on reading and on checking."""

    load: float = 0.0
    check: float = 0.0


class RunVerdict(msgspec.Struct, frozen=True, kw_only=True):
    """What a finished run came to whose history was asked about: its verdict, why, and the exit
    code of that verdict."""

    verdict: str
    reason: str
    exit: int


class CheckResult(msgspec.Struct, frozen=True, kw_only=True):
    """A checker's answer. `valid` is `"unknown"` where the budget ran out or nothing was checked.

    An empty history is `"unknown"`, never valid: a vacuous pass proves nothing. `stats` are numbers
    that a checker gives besides: acknowledged, lost, recovered, latencies in ms, counts per type
    and fault epoch. `spreads` are by kind of anomaly, of a checker that counts them all. `stale`
    are all reads of values that had surely been overwritten, of registers that are not
    linearizable; `spreads` count the first operation on each that no order explains. `run` is
    there where a finished run was asked about; beside one that is no pass `valid` is True only
    where one that failed was asked for a model, workload or checker by name.
    """

    checker: str
    valid: Valid
    workload: str | None = None
    model: str | None = None
    anomaly_types: list[str] = msgspec.field(default_factory=list)
    not_: list[str] = msgspec.field(name="not", default_factory=list)
    also_not: list[str] = msgspec.field(default_factory=list)
    anomalies: dict[str, list[Anomaly]] = msgspec.field(default_factory=dict)
    ops: OpCount = msgspec.field(default_factory=OpCount)
    keys: KeyCount = msgspec.field(default_factory=KeyCount)
    seconds: Seconds = msgspec.field(default_factory=Seconds)
    peak_rss_mb: float = 0.0
    reason: str | None = None
    stats: dict[str, Any] = msgspec.field(default_factory=dict)
    spreads: dict[str, Spread] | UnsetType = UNSET
    stale: Spread | UnsetType = UNSET
    run: RunVerdict | UnsetType = UNSET

    @property
    def of_a_run_without_a_pass(self) -> bool:
        """Was it asked about a finished run whose verdict is no pass?"""
        return isinstance(self.run, RunVerdict) and self.run.exit != Exit.PASS

    @property
    def kinds(self) -> set[str]:
        """Names of what a violation is: its anomalies, or NAMELESS where it names none; empty
        where there is none."""
        return _kinds(self.valid, self.anomaly_types, self.anomalies)

    @property
    def counted(self) -> dict[str, int]:
        """How many anomalies there are of each kind, those that have no witness here as well."""
        counts = self.stats.get("anomalies")
        told = counts if isinstance(counts, Mapping) else {}
        spreads = self.spreads or {}
        found = {}
        for kind in dict.fromkeys([*self.anomalies, *spreads, *told]):
            said = told.get(kind)
            count = spreads[kind].count if kind in spreads else said
            shown = len(self.anomalies.get(kind, ()))
            found[kind] = max(shown, count) if isinstance(count, int) else shown
        return {kind: count for kind, count in found.items() if count}


def kinds_in(checkers: Mapping[str, Any]) -> set[str]:
    """`CheckResult.kinds` of all results of a verdict, which has them as plain data."""
    return {kind for plain in checkers.values() for kind in kinds_of(plain)}


def kinds_of(plain: Any) -> set[str]:
    """`CheckResult.kinds` of one that is plain data; empty for what is none."""
    if not isinstance(plain, Mapping):
        return set()
    return _kinds(plain.get("valid"), plain.get("anomaly_types"), plain.get("anomalies"))


def _kinds(valid: Any, *named: Iterable[str] | None) -> set[str]:
    if valid is not False:
        return set()
    return {str(kind) for names in named for kind in names or ()} or {NAMELESS}


NOTHINGS: Final = ("null", "list", "count", "flag")
"""What an answer is that shows nothing: null; an empty list, or null; the number 0; false."""


class Fields(msgspec.Struct, frozen=True, kw_only=True):
    """What must stand in a workload's records.

    `family` is one of `FAMILIES`, whose rules hold; empty = none.
    `idempotency_field` is the field of the input that carries the business key. `ttl_option` is the
    option that holds a lease's time to live in seconds. `surfaces` maps each surface of a boundary
    claim to its operation types, of which one that is no control has to be answered;
    `negative_controls` are types that have to be refused, or, of those in `asking_controls`,
    answered with nothing: null, an empty list or the number 0, where `nothing` does not say for the
    type which of `NOTHINGS` it is. After a success of a type in `busy_after` a process is busy with
    something else until its next one.
    """

    family: str = ""
    idempotency_field: str = ""
    ttl_option: str = ""
    surfaces: Mapping[str, frozenset[str]] = {}
    negative_controls: frozenset[str] = frozenset()
    asking_controls: frozenset[str] = frozenset()
    nothing: Mapping[str, str] = {}
    busy_after: frozenset[str] = frozenset()
