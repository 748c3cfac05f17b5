"""The check of a transactional history: columns in, a `CheckResult` out.

    check(columns, "list-append", ["serializable"])

Which anomalies count depends on the models asked: only those that a model proscribes are reported
and make the answer false. Once anything is reported, `not` and `also_not` say what all anomalies
that were found rule out, reported or not. The answer is `"unknown"` where there was nothing to
judge (no transaction read what another one wrote), where the budget ran out before anything was
found, and under a model whose characteristic anomalies nobody looks for (`models.UNTESTED`).

Registers may be written the same value more than once (`apart.py`): what is decided is whether some
way to say who read whose write satisfies the model.

The models of `exact.MODELS` are decided: the history satisfies them or it does not. Of rw-register
whatever the order of versions was; of list-append where the lists agree on it, and serializability
by executing the transactions in the order of their graph. `stats["method"]` says how an answer came
about: `decided`, or `inferred` from the versions whose order is known.

Options, spelled as in Elle:

    "anomalies"            ["G1", ..]   also report these and what is a case of them
    "wfr-keys?"            rw-register: a transaction's write follows the version it read
    "sequential-keys?"     rw-register: each session sees each key's versions in order
    "linearizable-keys?"   rw-register: each key's versions follow real time
    "transaction-order"    rw-register: {index of the completion: rank}, the order of all writes
    "session-order?"       count the order of each session: each model in its strong-session form
    "decide?"              false leaves it at what Elle infers
"""

from __future__ import annotations

import resource
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cache, partial
from typing import Any, Final, NamedTuple

import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from checkers.txn import _native, models
from checkers.txn.apart import told_apart
from checkers.txn.columns import (
    I64,
    INFO,
    KINDS,
    NIL,
    OK,
    READ,
    VACUOUS,
    WORKLOADS,
    WRITE,
    RepeatedError,
    TxnColumns,
    UnfitError,
    pairs_of,
    reads_test,
)
from checkers.txn.exact import SAME, Exact, look, look_at_lists, open_sessions
from checkers.txn.explain import Place, anomalies_of, places_of, with_candidates
from checkers.txn.models import with_sessions
from checkers.txn.order_replay import refutation
from checkers.txn.violations import last_met_of, violations
from dstest.core.check import Anomaly, Budget, CheckResult, KeyCount, OpCount, Seconds, Valid
from dstest.core.clock import monotonic_ns

__all__ = [
    "DEFAULT_MODELS",
    "OPTIONS",
    "WORKLOADS",
    "check",
    "require_kind",
]

U32 = NDArray[np.uint32]

_MASK: Final = 0xFFFFFFFF

DEFAULT_MODELS: Final = (models.STRONGEST,)
MORE: Final = ("anomalies", *_native.SOURCES)
"""Options that ask for more than the models do."""

OPTIONS: Final = (*MORE, "session-order?", "decide?")

EXPLAIN_S: Final = 1.0
"""Seconds that an explanation may take where deciding has left none,"""

EXPLAIN_MAX_S: Final = 10.0
"""and where there are many left."""

TWO_AT_ONCE: Final = (
    "a process began something before what it had begun earlier was over: its session has no order"
)

EMPTY: Final = "empty-transaction-graph"

PROVED: Final = ("serializable", "strong-session-serializable", "strong-serializable")
"""By `between`: what an order shows in which all transactions of lists can be executed."""


def silent(c: TxnColumns) -> I64:
    """Transactions that took effect, and of which the history has no invocation: acknowledged, or
    of unknown end where a read shows what they wrote."""
    begun = c.invoke_pos >= 0
    acknowledged = np.flatnonzero(~begun & (c.outcome == OK))
    unknown = np.flatnonzero(~begun & (c.outcome == INFO))
    if not len(unknown):
        return acknowledged
    candidates = np.searchsorted(c.mop_start, c.open.write, side="right") - 1
    read = np.union1d(_witnessed(c, unknown), np.intersect1d(unknown, candidates))
    return np.sort(np.concatenate([acknowledged, read]))


def _witnessed(c: TxnColumns, txns: I64) -> I64:
    """Those of which an acknowledged transaction read a value."""
    txn_of = np.repeat(np.arange(c.txns), np.diff(c.mop_start))
    writes = np.flatnonzero((c.mop_kind == WRITE) & np.isin(txn_of, txns))
    reads = np.flatnonzero((c.mop_kind == READ) & (c.outcome[txn_of] == OK))
    sizes = c.elem_start[reads + 1] - c.elem_start[reads]
    at = np.repeat(c.elem_start[reads] - np.append(0, np.cumsum(sizes)[:-1]), sizes)
    at += np.arange(len(at))
    seen = np.concatenate(
        [
            pairs_of(c.mop_key[reads], c.mop_value[reads]),
            pairs_of(np.repeat(c.mop_key[reads], sizes), c.elem[at]),
        ]
    )
    there = np.isin(pairs_of(c.mop_key[writes], c.mop_value[writes]), seen)
    return np.unique(txn_of[writes[there]])


def _rotate(x: int, by: int) -> int:
    return (x << by | x >> (32 - by)) & _MASK


def _round(state: int, word: int) -> int:
    mixed = _rotate(word * 0xCC9E2D51 & _MASK, 15) * 0x1B873593 & _MASK
    return (_rotate(state ^ mixed, 13) * 5 + 0xE6546B64) & _MASK


def _finish(state: int, length_bytes: int) -> int:
    state ^= length_bytes
    state = (state ^ state >> 16) * 0x85EBCA6B & _MASK
    state = (state ^ state >> 13) * 0xC2B2AE35 & _MASK
    return state ^ state >> 16


def _of_long(value: int) -> int:
    if value == 0:
        return 0
    return _finish(_round(_round(0, value & _MASK), value >> 32 & _MASK), 8)


def _of_string(text: str) -> int:
    java = 0
    raw = text.encode("utf-16-le", "surrogatepass")
    for low, high in zip(raw[::2], raw[1::2], strict=True):
        java = (java * 31 + (high << 8 | low)) & _MASK
    return _finish(_round(0, java), 4) if java else 0


def _of(value: Any) -> int:
    if isinstance(value, bool):
        return 1231 if value else 1237
    if isinstance(value, int):
        return _of_long(value)
    return _of_string(value) if isinstance(value, str) else 0


def value_hashes(values: Sequence[Any]) -> U32:
    """u32[len(values)].

    Hashes as Clojure computes them, for ties that Elle decides by them (txn_tie.c). Integers are
    Java longs, strings are hashed by UTF-16 unit (`java.lang.String.hashCode`) and both then go
    through Murmur3 as `clojure.lang.Util.hasheq` does. Other scalars get 0: their ties are decided,
    the same way each time, but not as Elle would.
    """
    return np.array([_of(value) for value in values], np.uint32)


@cache
def reportable(asked: tuple[str, ...], anomalies: tuple[str, ...]) -> frozenset[str]:
    """The anomalies that count when these models are asked."""
    wanted = set(anomalies).union(*(models.proscribed(m) for m in asked))
    return frozenset(a for a in models.ANOMALIES if models.anomalies_implied(a) & wanted)


def _by_self(asked: Sequence[str]) -> set[str]:
    """What a transaction that does not see its own writes is besides, where a model is asked that
    is serializability by itself: no serial order has it. Elle's models do not say so."""
    if any(models.canonical(model) in SAME for model in asked):
        return {"internal", "no-serial-order"}
    return set()


def _between(wanted: frozenset[str]) -> int:
    """The order that the wanted anomalies need: 2 = realtime, 1 = process, 0 = none."""
    for i in (2, 1):
        if any(a.endswith(_native.BETWEEN[i]) for a in wanted):
            return i
    return 0


def _relates(c: TxnColumns, between: int) -> bool:
    """Does the process or realtime order relate any two transactions?"""
    ok = c.outcome == OK
    if between == 2 and ok.any():
        return int(c.complete_pos[ok].min()) < int(c.invoke_pos.max())
    if between == 1:
        sessions = c.process[ok & (c.process >= 0)]
        return bool((np.bincount(sessions) > 1).any())
    return False


def _overlap(c: TxnColumns) -> bool:
    """Did any process begin something before what it had begun earlier was over?"""
    done = np.flatnonzero((c.outcome == OK) & (c.process >= 0) & (c.invoke_pos >= 0))
    order = done[np.lexsort((c.complete_pos[done], c.process[done]))]
    same = c.process[order][1:] == c.process[order][:-1]
    return bool((same & (c.invoke_pos[order][1:] < c.complete_pos[order][:-1])).any())


def _types_of(analysis: _native.Analysis | None) -> set[str]:
    """The types of what was found of versions whose order is known."""
    if analysis is None:
        return set()
    return {t for t, n in analysis.counts.items() if n} | {y.type for y in analysis.cycles}


def _ranks_of(c: TxnColumns, ranks: Mapping[Any, int] | None) -> I64:
    if ranks is None:
        return np.empty(0, np.int64)
    by_name = {int(k): int(v) for k, v in ranks.items()}
    return np.array([by_name.get(int(i), -1) for i in c.op_index], np.int64)


@cache
def _require(asked: tuple[str, ...], anomalies: tuple[str, ...]) -> None:
    """Raises ValueError for a question that no history could fail."""
    for model in asked:
        models.require_judged(model, _native.DETECTABLE)
    for name in anomalies:
        if name not in models.ANOMALIES:
            raise ValueError(f"unknown anomaly {name!r}; `dstest models` names them")
    if not reportable(asked, anomalies) & _native.DETECTABLE:
        said = f"none of {', '.join(anomalies)} can be found" if anomalies else "no model is asked"
        raise ValueError(f"{said}: no history could fail; for example {models.STRONGEST}")


def require_kind(c: TxnColumns, workload: str) -> None:
    """Raises UnfitError for the other kind of object: its reads would be taken for empty."""
    lists = KINDS[workload].lists
    other = next(name for name, kind in KINDS.items() if kind.lists != lists)
    if c.writes not in ("", KINDS[workload].write):
        raise UnfitError(f"it has {c.writes}: this is no {workload} history, but {other}")
    if not lists and len(c.elem):
        raise UnfitError(f"reads return lists: this is no {workload} history, but {other}")
    if lists and bool(((c.mop_kind == READ) & (c.mop_value != NIL)).any()):
        raise UnfitError(f"reads return single values: this is no {workload} history, but {other}")


def _rest_of(budget: Budget, since_ns: int) -> Budget:
    """Of what may be used for explanations: what decisions have left, and a moment in any case."""
    left_s = budget.time_s - (monotonic_ns() - since_ns) / 1e9
    some_s = min(max(EXPLAIN_S, left_s), EXPLAIN_MAX_S)
    return replace(budget, time_s=some_s if budget.time_s > 0 else 0.0)


class _Outcome(NamedTuple):
    """All that was found of a history."""

    exact: Exact | None
    analysis: _native.Analysis | None
    between: int

    @property
    def status(self) -> int:
        return 0 if self.analysis is None else self.analysis.status

    def holds(self, model: str) -> bool | None:
        """What is decided of a model, None where that is nothing."""
        return None if self.exact is None else self.exact.holds(model)


def _gaps(asked: Sequence[str], exact: Exact | None) -> list[str]:
    """Why a clean history does not show that it satisfies these models."""
    why = []
    for model in asked:
        missing = models.UNTESTED.get(models.canonical(model))
        if exact is not None and exact.holds(model) is not None:
            continue
        if exact is not None and (reason := exact.why_open(model)):
            why.append(f"{model} is not decided: {reason}")
        elif exact is not None and exact.registers is None and exact.orders:
            why.append(
                f"{model} is not decided: no stronger model is known to hold, and only versions "
                "whose order is known were looked at"
            )
        elif missing:
            why.append(
                f"{model} is not decided yet: {missing} are not looked for; a stronger model is, "
                "for example snapshot-isolation or serializable"
            )
    return why


def _doubts(
    c: TxnColumns, asked: Sequence[str], seen: _Outcome, opts: Mapping[str, Any]
) -> list[str]:
    """Why a history in which nothing was found is not valid for that."""
    why = []
    if seen.status:
        why.append(f"{_native.STATUS[seen.status]}; not everything was looked at")
    if not reads_test(c):
        why.append(VACUOUS)
    if seen.between and (unplaced := len(silent(c))):
        why.append(
            f"{unplaced} transactions have no invocation: what real time and sessions relate is "
            "not known"
        )
    beyond = [name for name in MORE if opts.get(name)]
    beyond += [model for model in asked if seen.holds(model) is None]
    if c.open and (beyond or not asked):
        why.append(
            f"{len(c.open.read)} reads returned what several transactions wrote: they were left "
            f"out where {', '.join(beyond)} was looked for"
        )
    why += [f"{n} {what}" for what, n in c.weak.items()]
    return [*why, *_gaps(asked, seen.exact)]


def check(
    columns: TxnColumns,
    workload: str,
    models: Sequence[str] = DEFAULT_MODELS,
    opts: Mapping[str, Any] | None = None,
    budget: Budget | None = None,
) -> CheckResult:
    """Judges a history. Raises ValueError for unknown names, for models that rule out nothing that
    can be detected; UnfitError, one of them, for columns that break the rules of `TxnColumns` or
    append one value twice to a key."""
    return check_placed(columns, workload, models, opts, budget)[0]


def check_placed(
    columns: TxnColumns,
    workload: str,
    models: Sequence[str] = DEFAULT_MODELS,
    opts: Mapping[str, Any] | None = None,
    budget: Budget | None = None,
) -> tuple[CheckResult, Sequence[Place]]:
    """As `check`, with the places of all anomalies, those without a witness as well."""
    given = dict(opts or {})
    if given.pop("session-order?", False):
        models = [with_sessions(model) for model in models]
    try:
        return _check(columns, workload, models, given, budget or Budget())
    except RepeatedError:
        apart = None if KINDS[workload].lists else told_apart(columns)
        if apart is None:
            raise
    return _check_apart(columns, apart, models, given, budget or Budget())


def _check_apart(
    columns: TxnColumns,
    apart: TxnColumns,
    asked: Sequence[str],
    opts: dict[str, Any],
    budget: Budget,
) -> tuple[CheckResult, Sequence[Place]]:
    """Of registers whose values are written more than once; `columns` are as they were read."""
    result, places = _check(apart, "rw-register", asked, opts, budget, columns)
    told = {
        kind: [with_candidates(apart, anomaly) for anomaly in found]
        for kind, found in result.anomalies.items()
    }
    stats = {**result.stats, "open_reads": len(apart.open.read)}
    return replace(result, anomalies=told, stats=stats), places


def _replayed(c: TxnColumns, exact: Exact) -> Exact:
    """What an order proves is believed if its transactions, executed one by one, read what they
    say; else it is open."""
    for found in exact.orders:
        model = found.order_model
        if model is None or (why := refutation(c, False, model, found.order)) is None:
            continue
        for name in [m for m, said in found.decisions.items() if said == "valid"]:
            exact.decisions.pop(name, None)
            found.decisions[name] = "open"
            said = f"the order that was found proves nothing: {why}"
            exact.open |= dict.fromkeys(models.implied_models(name), said)
    return exact


def _agree(analysis: _native.Analysis) -> bool:
    """Do the lists agree on the order of their elements, each of which somebody appended? A
    transaction that does not see what it did itself says nothing against that."""
    found = {kind for kind, n in analysis.counts.items() if n}
    return not analysis.status and found <= {"lost-update", "internal"}


def _look(
    c: TxnColumns,
    workload: str,
    asked: Sequence[str],
    opts: dict[str, Any],
    budget: Budget,
    whole: TxnColumns | None,
) -> _Outcome:
    """Decides what can be decided; infers versions where that leaves anything to be asked or to be
    explained. `whole` is the history where `c` is it told apart."""
    started = monotonic_ns()
    between = _between(reportable(tuple(asked), tuple(opts.get("anomalies") or ())))
    seen = _Outcome(None, None, between)
    if not KINDS[workload].lists and asked and opts.get("decide?", True):
        exact = look(c, asked, budget)
        seen = seen._replace(exact=exact if whole is None else _replayed(whole, exact))
        require_kind(c, workload)
    plain = not any(opts.get(name) for name in MORE)
    if plain and asked and all(seen.holds(model) for model in asked) and reads_test(c):
        return seen
    left_s = max(0.0, budget.time_s - (monotonic_ns() - started) / 1e9)
    sources = _native.BEYOND_ELLE if opts.get("decide?", True) else 0
    sources += sum(bit for name, bit in _native.SOURCES.items() if opts.get(name))
    analyse = partial(
        _native.analyse,
        c,
        workload,
        between=between,
        sources=sources,
        order=_ranks_of(c, opts.get("transaction-order")),
        budget=replace(budget, time_s=left_s),
    )
    analysis = analyse()  # it also validates the columns
    require_kind(c, workload)
    if analysis.counts["incompatible-order"] and analysis.status == 0:
        # Longest reads may contradict each other; only then does the choice among them matter.
        analysis = analyse(value_hash=value_hashes(c.value_names))
    seen = seen._replace(analysis=analysis)
    if KINDS[workload].lists and opts.get("decide?", True):
        left_s = max(0.0, budget.time_s - (monotonic_ns() - started) / 1e9)
        seen = seen._replace(exact=_lists(c, asked, seen, replace(budget, time_s=left_s)))
    return seen


def _lists(c: TxnColumns, asked: Sequence[str], seen: _Outcome, budget: Budget) -> Exact:
    """What is decided of a list-append history; where the lists contradict one another, what
    inference leaves open. What was found already of a model is not decided again."""
    found, inferred = Exact(), _types_of(seen.analysis)
    if seen.analysis is not None and seen.analysis.proved:
        found.decisions[PROVED[seen.between]] = "valid"
    elif seen.analysis is None or not _agree(seen.analysis):
        found.open |= open_sessions(c, asked)
        return found
    left = [m for m in asked if found.holds(m) is None and not reportable((m,), ()) & inferred]
    if left:
        more = look_at_lists(c, left, budget)
        more.decisions |= found.decisions
        found = more
    return found


def _check(
    c: TxnColumns,
    workload: str,
    asked: Sequence[str],
    opts: dict[str, Any],
    budget: Budget,
    whole: TxnColumns | None = None,
) -> tuple[CheckResult, Sequence[Place]]:
    started = monotonic_ns()
    if workload not in WORKLOADS:
        raise ValueError(f"workload {workload!r}: known are {', '.join(WORKLOADS)}")
    question = tuple(asked), tuple(opts.get("anomalies") or ())
    _require(*question)
    wanted = reportable(*question)
    seen = _look(c, workload, asked, opts, budget, whole)
    if seen.exact is not None and seen.exact.orders:
        wanted |= reportable(tuple(SAME.get(m, m) for m in map(models.canonical, asked)), ())
    analysis, status = seen.analysis, seen.status
    empty = (
        analysis is not None
        and analysis.edges == 0
        and not c.open
        and not _relates(c, seen.between)
        and status == 0
    )
    exact = seen.exact
    more = [] if exact is None else violations(c, exact, asked, _rest_of(budget, started))
    all_types = {anomaly.type for anomaly in more} | _types_of(analysis)
    confused = seen.between == 1 and _overlap(c)
    if confused:
        all_types = {t for t in all_types if not t.endswith("-process")}
    itself = _by_self(asked) if "internal" in all_types and opts.get("decide?", True) else set()
    types = sorted(all_types & (wanted | itself))
    violated = [model for model in asked if seen.holds(model) is False]
    if violated and not types and exact is not None:
        last = last_met_of(c, workload, exact, violated)
        more += last
        types = sorted({anomaly.type for anomaly in last})
        all_types |= {*types}
    boundary = models.boundary(all_types | itself if types or empty else ())
    doubts = [] if types else [*_doubts(c, asked, seen, opts), *([TWO_AT_ONCE] if confused else [])]
    if types and status:
        doubts = [f"{_native.STATUS[status]}; not everything was looked at"]
    if violated and not types:
        doubts.append(f"{', '.join(violated)}: violated, and nothing was found to explain it")
    if empty and not types and not doubts:
        doubts = ["nothing relates any two transactions"]
    valid: Valid = False if types or violated else "unknown" if empty or doubts else True
    anomalies, places = _told(c, workload, analysis, types, opts)
    for anomaly in more:
        if not anomalies.get(anomaly.type):
            anomalies[anomaly.type] = [anomaly]
    exactly = all(seen.holds(model) is not None for model in asked)
    result = CheckResult(
        checker=workload,
        valid=valid,
        workload=workload,
        model=",".join(asked) or None,
        anomaly_types=sorted([*types, EMPTY]) if empty else types,
        not_=boundary.not_,
        also_not=boundary.also_not,
        anomalies=anomalies,
        ops=OpCount(total=c.txns, consumed=c.txns, excluded=dict(c.skipped)),
        keys=KeyCount(total=len(c.key_names), decided=len(c.key_names)),
        seconds=Seconds(check=(monotonic_ns() - started) / 1e9),
        peak_rss_mb=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        reason="; ".join(doubts) or None,
        stats={"method": "decided" if exactly and asked else "inferred", **_counts(places)},
    )
    return result, places


def _told(
    c: TxnColumns,
    workload: str,
    analysis: _native.Analysis | None,
    types: list[str],
    opts: dict[str, Any],
) -> tuple[dict[str, list[Anomaly]], list[Place]]:
    """Anomalies of these types among versions whose order is known, and their places."""
    if analysis is None or not types:
        return {}, []
    sources = sum(bit for name, bit in _native.SOURCES.items() if opts.get(name))
    order = _ranks_of(c, opts.get("transaction-order"))
    anomalies = anomalies_of(c, workload, analysis, types, sources, order)
    return anomalies, list(places_of(c, workload, analysis, types, sources, order))


def _counts(places: Sequence[Place]) -> dict[str, Any]:
    """How many there are by kind, where any are; of cycles those that are reported, of which there
    may be more."""
    counts = Counter(place.type for place in places)
    return {"anomalies": dict(counts)} if counts else {}
