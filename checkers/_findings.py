"""What the checkers of whole histories share: outcomes, keys, budgets, anomalies, the result, and
the values that objects start with (`initial` in a history's header).

A checker is one function `decide(part, findings) -> int` over the operations of one key. It reports
anomalies to `findings` and returns how many observations it tested; `PerKey` makes a `Checker` of
it. What happens to an operation before `decide` sees it:

    ok                    in `part.ok`
    fail                  in `part.failed`, excluded as `fail`: it had no effect
    unknown observer      excluded as `unknown-read`: it told nobody anything
    unknown, otherwise    in `part.unknown`: it may have taken effect at any later time, or never
    another op_type       excluded by name; its key stays undecided, since nobody knows what it did

The answer is `"unknown"` where a key could not be decided (time, memory, an operation that cannot
be read) and where no observation was tested: a check with nothing to refute proves nothing.
`set-full` and `order` under `prefix` decide linearizability exactly; the others are sound: what
they report is a violation, and their docstrings say what they cannot see.
"""

from __future__ import annotations

import json
import resource
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final, NamedTuple

import msgspec

from checkers._spread import Spreads, epochs_met
from checkers.columns import NEVER, Interner
from dstest.core.check import Anomaly, Budget, CheckResult, KeyCount, OpCount, Seconds, Valid
from dstest.core.clock import monotonic_ns
from dstest.core.errors import ConfigError
from dstest.core.history import INITIAL, History
from dstest.core.limits import WITNESS_OPS_MAX
from dstest.core.op import Op, Outcome
from dstest.core.protocols import Checker, Option
from dstest.core.words import if_late, quoted

BREAKS: Final[Mapping[str, str]] = {
    **dict.fromkeys(("lost", "lost-transfer"), "durability"),
    **dict.fromkeys(("duplicate", "duplicated"), "idempotency"),
    **dict.fromkeys(("incompatible-order", "nonmonotonic", "nonmonotonic-send"), "ordering"),
    **dict.fromkeys(("reordered", "skipped"), "ordering"),
    "starved-group": "fairness",
}
"""Type of anomaly -> claim, whatever else its workload claims. Others break what that claims."""

ANOMALIES_MAX: Final = 16
"""Anomalies of one type with a witness of their own; the others are counted in `stats`."""


class OutOfTime(Exception):
    """The time budget is used up."""


class Unreadable(Exception):
    """An operation does not have the shape that the checker needs; its key stays undecided."""

    def __init__(self, op: Op, why: str) -> None:
        super().__init__(f"op {op.op_id} ({op.op_type}): {why}")


@dataclass(slots=True)
class Part:
    """The operations of one key, each list in order of invocation."""

    key: Any
    ok: list[Op] = field(default_factory=list)
    unknown: list[Op] = field(default_factory=list)
    failed: list[Op] = field(default_factory=list)

    def of(self, *types: str) -> list[Op]:
        """The ok operations of these types."""
        return [op for op in self.ok if op.op_type in types]

    def maybe(self, *types: str) -> list[Op]:
        """The ok and unknown operations of these types, by invocation."""
        found = [op for op in (*self.ok, *self.unknown) if op.op_type in types]
        return sorted(found, key=lambda op: op.invoke_ts)

    def refused(self, *types: str) -> list[Op]:
        """The definitely failed operations of these types."""
        return [op for op in self.failed if op.op_type in types]


def end_of(op: Op) -> int:
    """When the operation had surely ended, ns; `NEVER` where its outcome is unknown."""
    return NEVER if op.timeout_marker or op.complete_ts is None else op.complete_ts


def regressions(ops: Iterable[Op], value: Callable[[Op], Any]) -> Iterator[tuple[Op, Op]]:
    """Each of `ops`, in order of invocation, whose value is below the highest of those that had
    ended before it began: (that one, it)."""
    ops = list(ops)
    ended = sorted(ops, key=end_of)
    at, top = 0, None
    for op in ops:
        while at < len(ended) and end_of(ended[at]) < op.invoke_ts:
            if top is None or value(ended[at]) > value(top):
                top = ended[at]
            at += 1
        if top is not None and value(op) < value(top):
            yield top, op


def list_of(op: Op) -> list[Any]:
    """The list that an observer returned; null counts as empty. Raises Unreadable."""
    if op.output is None:
        return []
    if not isinstance(op.output, list | tuple):
        raise Unreadable(op, "its output is not a list")
    return list(op.output)


_PLAIN: Final = frozenset({int, str})


def ids_of(values: Interner, items: Sequence[Any]) -> list[int]:
    """Small integers for `items`, fast where they are plain integers and strings."""
    if _PLAIN.issuperset(map(type, items)):
        found = values.ids_of_plain(items)
        if found is not None:
            return found
    return [values.id_of(item) for item in items]


class Findings:
    """What a checker has found so far. `options` are those of the run."""

    def __init__(self, history: History, model: str, budget: Budget) -> None:
        self.model = model
        self.history = history
        self.options = history.header.options
        self.anomalies: dict[str, list[Anomaly]] = {}
        self.spreads = Spreads(history.header.windows)
        self.counts = self.spreads.counts
        self.stats: dict[str, Any] = {}
        self.undecided: dict[Any, str] = {}
        self.keys: list[Any] = []
        self.notes: list[str] = []
        self.doubts: Counter[str] = Counter()
        self._time_s = budget.time_s
        self._memory_mb = budget.memory_mb
        self._deadline_ns = monotonic_ns() + int(budget.time_s * 1e9)
        self._end_ns: int | None = None

    def tick(self) -> None:
        """Raise OutOfTime where the budget is used up; call it in long loops."""
        if monotonic_ns() > self._deadline_ns:
            raise OutOfTime

    def count(self, **numbers: int) -> None:
        """Add to the statistics of the result."""
        for name, n in numbers.items():
            self.stats[name] = self.stats.get(name, 0) + n

    def undecide(self, key: Any, why: str) -> None:
        """The key has no verdict, for this reason."""
        self.undecided.setdefault(key, why)

    def note(self, what: str) -> None:
        """Said beside the answer, once."""
        if what not in self.notes:
            self.notes.append(what)

    def doubt(self, what: str, n: int) -> None:
        """There are so many of these, over all keys, and the verdict stands beside them."""
        self.doubts[what] += n

    def anomaly(
        self, kind: str, key: Any, ops: Iterable[Op], message: str, *, minimal: bool = True,
        **about: Any,
    ) -> None:  # fmt: skip
        """A violation with its witness; the last of `ops` is the one that gave it away. `about` are
        further fields of the anomaly (`element`, `overlap_ns`)."""
        given = list(ops)
        witness = list({id(op): op for op in given}.values())
        self.spreads.add(kind, key, witness, given[-1] if given else None)
        shown = self.anomalies.setdefault(kind, [])
        if len(shown) >= ANOMALIES_MAX:
            return
        witness.sort(key=lambda op: op.invoke_ts)
        late = (if_late(op.error) for op in witness if op.outcome is Outcome.FAIL)
        message += next(filter(None, late), "")
        shown.append(
            Anomaly(
                type=kind,
                key=key,
                ops=[op.op_id for op in witness],
                witness=[msgspec.to_builtins(op) for op in witness[:WITNESS_OPS_MAX]],
                minimal=minimal,
                epochs=epochs_met(witness, self.history.header.windows, self._end()),
                explanation=message,
                culprit=given[-1].op_id if given else msgspec.UNSET,
                **about,
            )
        )

    def full(self, kind: str) -> bool:
        """Are there enough witnesses of this type? Then the ops of another one matter little."""
        return len(self.anomalies.get(kind, ())) >= ANOMALIES_MAX

    def _end(self) -> int:
        if self._end_ns is None:
            ops = self.history.ops
            self._end_ns = max((max(op.invoke_ts, op.complete_ts or 0) for op in ops), default=0)
        return self._end_ns

    def over_time(self) -> str:
        return f"time budget of {self._time_s:g} s used up"

    def over_memory(self) -> str:
        return f"memory budget of {self._memory_mb} MB used up"

    def verdict(self, tested: int, vacuous: str) -> tuple[Valid, str | None]:
        """The verdict, and why it is not simply true."""
        why = [f"key {quoted(key)}: {text}" for key, text in list(self.undecided.items())[:3]]
        notes = [*self.notes, *(f"{n:,} {what}" for what, n in self.doubts.items() if n)]
        if len(self.undecided) > 3:
            why.append(f"{len(self.undecided) - 3} more keys undecided")
        if self.counts:
            message = ", ".join(f"{n} {kind}" for kind, n in sorted(self.counts.items()))
            return False, "; ".join([message, *why, *notes])
        if self.undecided:
            return "unknown", "; ".join([*why, *notes])
        if tested == 0:
            return "unknown", "; ".join([f"nothing was tested: {vacuous}", *notes])
        return True, "; ".join(notes) or None


class _AnyType(frozenset[str]):
    def __contains__(self, item: object) -> bool:
        return True


ANY_TYPE: Final[frozenset[str]] = _AnyType()
"""For checkers that know every type of operation."""


def _by_key(op: Op) -> Any:
    return op.key


def in_one(op: Op) -> None:
    """All operations belong together, whatever their keys."""


Decide = Callable[[Part, Findings], int]


class PerKey(Checker):
    """A checker that decides each key alone.

    What it says of itself is `dstest.core.protocols.Checker`. `types` are the operations it
    knows, `observers` those of them that change nothing, `passes` others that change nothing either
    and are left to other checkers; `vacuous` says what a history must hold to be judged. `op_types`
    are the operations by model, for those who ask before there is a history; `options` what `dstest
    check -o` may tell of a history that does not say it, `initial` what the initial state is given
    as, by model. `owed` are types of operation whose
    acknowledgement must be looked for: a key that has one, and of which nothing was tested, is not
    decided by what was tested of others. One that is not `keyed` looks at other keys beside.
    """

    kind = "history"
    breaks = BREAKS

    def __init__(
        self,
        name: str,
        decide: Decide,
        *,
        models: tuple[str, ...],
        types: frozenset[str],
        vacuous: str,
        observers: frozenset[str] = frozenset({"read"}),
        passes: frozenset[str] = frozenset(),
        key_of: Callable[[Op], Any] = _by_key,
        kind: str = "history",
        prefix_closed: bool = False,
        options: Mapping[str, Option] = MappingProxyType({}),
        initial: Mapping[str, str] = MappingProxyType({}),
        owed: frozenset[str] = frozenset(),
        keyed: bool = True,
        claims: frozenset[str] = frozenset(),
        means: Mapping[str, str] = MappingProxyType({}),
        did: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        self.name = self.mutants = name
        self.means = means
        self.did = did
        self.models = models
        self.kind = kind
        self.prefix_closed = prefix_closed
        self.options = options
        self.initial = initial
        self.claims = claims
        self._owed = owed
        self._decide = decide
        self._types = types
        self._observers = observers
        self._passes = passes
        self.op_types = {} if types is ANY_TYPE else dict.fromkeys(models, types | passes)
        self._vacuous = vacuous
        self._key_of = key_of
        self._split = key_of is _by_key
        self.keyed = keyed and self._split

    def _parts(self, history: History, excluded: Counter[str], findings: Findings) -> list[Part]:
        keys = Interner()
        foreign: dict[int, tuple[Any, str]] = {}
        parts: dict[int, Part] = {}
        known, observers, key_of = self._types, self._observers, self._key_of
        for op in history.ops:
            if op.op_type not in known:
                message = f"{op.op_type}: not an operation of {self.name}"
                excluded[message] += 1
                if op.op_type not in self._passes:
                    number = keys.id_of(op.key) if self._split else -1
                    foreign.setdefault(number, (op.key, message))
                continue
            key = key_of(op)
            number = keys.id_of(key)
            part = parts.get(number)
            if part is None:
                part = parts[number] = Part(key)
            outcome = op.outcome
            if outcome is Outcome.OK:
                part.ok.append(op)
            elif outcome is Outcome.FAIL:
                part.failed.append(op)
                excluded["fail"] += 1
            elif op.op_type in observers:
                excluded["unknown-read"] += 1
            else:
                part.unknown.append(op)
        for number, (key, message) in foreign.items():
            if self._split or not parts:
                parts.setdefault(number, Part(key))
                findings.undecide(key, message)
            for part in () if self._split else parts.values():
                findings.undecide(part.key, message)
        return list(parts.values())

    def check(self, history: History, model: str, budget: Budget) -> CheckResult:
        """The verdict with witnesses. Raises ValueError for a model that is not in `models`."""
        if model not in self.models:
            raise ValueError(f"model {model!r}: {self.name} knows {', '.join(self.models)}")
        started = monotonic_ns()
        findings = Findings(history, model, budget)
        excluded: Counter[str] = Counter()
        parts = self._parts(history, excluded, findings)
        consumed = tested = 0
        untested: list[Part] = []
        for part in parts:
            findings.keys.append(part.key)
            if part.key in findings.undecided:
                continue
            try:
                findings.tick()
                observed = self._decide(part, findings)
                tested += observed
                if not observed and part.of(*self._owed):
                    untested.append(part)
            except OutOfTime:
                findings.undecide(part.key, findings.over_time())
            except MemoryError:
                findings.undecide(part.key, findings.over_memory())
            except Unreadable as error:
                findings.undecide(part.key, str(error))
            except (TypeError, ValueError, LookupError, AttributeError, ArithmeticError) as error:
                # What a server answers may have any shape; it must not end the judgement.
                message = f"an operation cannot be read: {type(error).__name__}: {error}"
                findings.undecide(part.key, message)
            if part.key not in findings.undecided:
                consumed += len(part.ok) + len(part.unknown)
        for part in untested if tested else ():
            if part.key not in findings.undecided:
                findings.undecide(part.key, f"nothing was tested: {self._vacuous}")
                consumed -= len(part.ok) + len(part.unknown)
        valid, reason = findings.verdict(tested, self._vacuous)
        return CheckResult(
            checker=self.name,
            valid=valid,
            workload=history.header.workload,
            model=model,
            anomaly_types=sorted(findings.counts),
            not_=[model] if findings.counts else [],
            anomalies={kind: findings.anomalies[kind] for kind in sorted(findings.anomalies)},
            ops=OpCount(total=len(history.ops), consumed=consumed, excluded=dict(excluded)),
            keys=KeyCount(
                total=len(parts),
                decided=len(parts) - len(findings.undecided),
                undecided=list(findings.undecided),
            ),
            seconds=Seconds(check=(monotonic_ns() - started) / 1e9),
            peak_rss_mb=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
            reason=reason,
            stats={"tested": tested, **findings.stats, **findings.spreads.stats},
            spreads=findings.spreads.by_kind(),
        )


USUAL: Final = object()
"""Stands for the value of a key that is not named."""


class Start(NamedTuple):
    """`every` is the value of all keys; where `by_key` is not None it says so of each."""

    every: Any
    by_key: Mapping[str, Any] | None

    def of(self, key: Any) -> Any:
        """The value of a key; USUAL where nobody says."""
        return self.every if self.by_key is None else self.by_key.get(name_of(key), USUAL)

    def require_named(self, keys: Iterable[Any]) -> None:
        """Raises ConfigError where a name that does not occur may be meant for a key without."""
        if self.by_key is None:
            return
        there = {name_of(key) for key in keys}
        strange, silent = sorted(self.by_key.keys() - there), sorted(there - self.by_key.keys())
        if strange and silent:
            raise ConfigError(
                f"the initial state names {strange[0]!r}, which does not occur, and not "
                f"{silent[0]!r}, which does",
                remedy="name the keys as the history does; a value that is no JSON object is that "
                "of every key",
            )


def start_of(history: History) -> Start | None:
    """What the header says; None where it says nothing."""
    if INITIAL not in history.header.options:
        return None
    value = history.header.options[INITIAL]
    return Start(None, value) if isinstance(value, dict) else Start(value, None)


def name_of(key: Any) -> str:
    """What a key is called where only strings can be: in JSON's objects, and in maps of EDN."""
    return key if isinstance(key, str) else json.dumps(key, default=repr)
