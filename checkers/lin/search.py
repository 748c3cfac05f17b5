"""The search of csrc/aut/: a history as integer columns under a model, the keys decided, and the
checker's answer made of what any engine says of them.

Columns have one class per distinct call; states are numbered, and each step is remembered. Left out
and counted are `fail` (no effect) and `unknown-<op_type>` (told nobody anything and changed
nothing). A key with an operation that is not the model's is blocked with a reason: leaving out just
that operation could hide what explains a later result.
"""

from __future__ import annotations

import resource
from collections import Counter
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

import msgspec
import numpy as np
from msgspec import UNSET, UnsetType

from checkers import _core
from checkers._spread import Spreads, epochs_met
from checkers._witness import phrase
from checkers.columns import I32, I64, MEMORY, NEVER, STEPS, STOPPED, U8, Limits, interruptible
from checkers.lin.model import Affine, Call, Columns, Model, freeze, whole
from checkers.ops.table import FAIL, OpTable
from dstest.core.check import (
    Anomaly,
    CheckResult,
    KeyCount,
    OpCount,
    Seconds,
    Spread,
    Stuck,
    Valid,
)
from dstest.core.history import History
from dstest.core.limits import WITNESS_OPS_MAX
from dstest.core.op import Op, Outcome
from dstest.core.words import if_late, quoted

STATES_MAX = 64
_STATE_BYTES = 200
"""What a numbered state costs; states may use half of the memory budget."""

_NAMED_MAX: Final = 3

UNTESTED: Final = "nothing was tested: no completed read or cas in the history"


@dataclass(frozen=True, slots=True)
class Coded:
    """Operations of all keys, key after key, in order of invocation within a key.

    `classes` indexes `calls`; `position` points into the history's operations; `offsets` has one
    element more than `keys`. `blocked` maps a key's number to the reason; its operations are left
    out.
    """

    model: Model
    classes: I32
    invoke: I64
    complete: I64
    position: I64
    offsets: I64
    keys: list[Any]
    calls: Sequence[Call]
    pure: U8
    excluded: dict[str, int]
    blocked: dict[int, str]
    told: Columns | None = None
    """Per operation what a model read in a table (`Model.tabled`), by name."""
    tells: bool | None = None
    """Does some result put the object to the test? None: look at the calls."""

    def of_key(self, key: int) -> slice:
        """Where the operations of the key with this number are."""
        return slice(int(self.offsets[key]), int(self.offsets[key + 1]))


def only(coded: Coded, rows: I64, key: int = 0) -> Coded:
    """These operations of one key, as columns of their own."""
    return replace(
        coded,
        classes=coded.classes[rows],
        invoke=coded.invoke[rows],
        complete=coded.complete[rows],
        position=coded.position[rows],
        offsets=np.array([0, len(rows)], np.int64),
        keys=[coded.keys[key]],
        blocked={},
        told=None if coded.told is None else {k: v[rows] for k, v in coded.told.items()},
    )


def compact(coded: Coded) -> Coded:
    """The same with no call that no operation makes."""
    used, classes = np.unique(coded.classes, return_inverse=True)
    return replace(
        coded,
        classes=classes.astype(np.int32),
        calls=[coded.calls[c] for c in used.tolist()],
        pure=coded.pure[used],
    )


class _Reader:
    """Calls to numbers; remembers malformed ones by key."""

    def __init__(self, model: Model) -> None:
        self.model = model
        self.calls: list[Call] = []
        self._ids: dict[Call, int] = {}

    def class_of(self, op: Op, known: bool, gone: bool) -> int | str:
        """The number of an operation's call, or why it is none of the model's. `gone`: its process
        does nothing afterwards, and nothing else of it is unknown."""
        name = f"op {op.op_id} ({op.op_type})"
        if op.op_type not in self.model.op_types:
            return f"{name} is not an operation of model {self.model.name}"
        call = self.model.read(whole(op), known)
        if isinstance(call, str):
            return f"{name}: {call}"
        if gone and not known and self.model.anonymous(call):
            call = call._replace(process=None)
        number = self._ids.get(call)
        if number is None:
            number = self._ids[call] = len(self.calls)
            self.calls.append(call)
        return number


def encode(model: Model, ops: Sequence[Op], keys_of: Sequence[Any] | None = None) -> Coded:
    """Columns of `ops`. `keys_of` gives each operation's object where that is not its key."""
    reader = _Reader(model)
    numbers: dict[Any, int] = {}
    keys: list[Any] = []
    excluded: Counter[str] = Counter()
    blocked: dict[int, str] = {}
    rows: list[tuple[int, int, int, int, int]] = []
    foreign: str | None = None
    gone = _lost_owners(ops) if model.owned else set()
    for position, op in enumerate(ops):
        key = op.key if keys_of is None else keys_of[position]
        frozen = freeze(key)
        number = numbers.setdefault(frozen, len(keys))
        if number == len(keys):
            keys.append(key)
        known = not op.timeout_marker and op.complete_ts is not None
        if known and op.error is not None and op.op_type in model.op_types:
            excluded["fail"] += 1
            continue
        class_ = reader.class_of(op, known, op.process_id in gone)
        end = op.complete_ts if known and op.complete_ts is not None else NEVER
        if isinstance(class_, str):
            blocked.setdefault(number, class_)
            if key is None and op.op_type not in model.op_types:
                foreign = class_
        elif not -(2**62) <= op.invoke_ts <= end or (known and end >= 2**62):
            blocked.setdefault(number, f"op {op.op_id} ({op.op_type}) has impossible times")
        elif not known and model.pure(reader.calls[class_]):
            excluded[f"unknown-{op.op_type}"] += 1
        else:
            rows.append((number, op.invoke_ts, position, class_, end))
    if foreign is not None and len(keys) > 1:
        blocked = dict.fromkeys(range(len(keys)), foreign)  # it names no key: it may touch any
    return _arrange(model, rows, keys, reader.calls, dict(excluded), blocked)


def _lost_owners(ops: Sequence[Op]) -> set[int | str]:
    """Processes of which one operation alone is of unknown outcome, invoked after all others had
    completed."""
    unknown: dict[int | str, int | None] = {}
    ended: dict[int | str, int] = {}
    for op in ops:
        process = op.process_id
        if op.timeout_marker or op.complete_ts is None:
            unknown[process] = None if process in unknown else op.invoke_ts
        else:
            ended[process] = max(op.complete_ts, ended.get(process, op.complete_ts))
    return {p for p, at in unknown.items() if at is not None and ended.get(p, at - 1) < at}


def _arrange(
    model: Model,
    rows: list[tuple[int, int, int, int, int]],
    keys: list[Any],
    calls: list[Call],
    excluded: dict[str, int],
    blocked: dict[int, str],
) -> Coded:
    table = np.array(rows, np.int64).reshape(-1, 5)
    if blocked:
        table = table[~np.isin(table[:, 0], list(blocked))]
    table = table[np.lexsort((table[:, 2], table[:, 1], table[:, 0]))]
    return Coded(
        model=model.among(calls),
        classes=table[:, 3].astype(np.int32),
        invoke=np.ascontiguousarray(table[:, 1]),
        complete=np.ascontiguousarray(table[:, 4]),
        position=np.ascontiguousarray(table[:, 2]),
        offsets=np.searchsorted(table[:, 0], np.arange(len(keys) + 1)).astype(np.int64),
        keys=keys,
        calls=calls,
        pure=np.array([model.pure(call) for call in calls], np.uint8),
        excluded=excluded,
        blocked=blocked,
    )


@dataclass(frozen=True, slots=True)
class SearchResult:
    """One element per key; csrc/aut/aut.h defines them. `states` are the model's own: of an illegal
    key those possible where it ends, of another all those possible at its end; None where too many
    are."""

    verdict: U8
    bad: I64
    prefix: I64
    steps: I64
    states: list[list[Any] | None]


class _Full(Exception):
    """The states outgrew the memory budget."""


class Steps:
    """A model's states as numbers, in order of discovery; they may use `bytes_max`."""

    def __init__(self, model: Model, calls: Sequence[Call], bytes_max: int) -> None:
        self.model = model
        self.calls = calls
        self.states: list[Hashable] = []
        self._ids: dict[Hashable, int] = {}
        self._left = bytes_max

    def id_of(self, state: Hashable) -> int:
        """The number of a state, made on first sight."""
        found = self._ids.get(state)
        if found is None:
            self._left -= _STATE_BYTES + 8 * _size(state)
            if self._left < 0:
                raise _Full
            found = self._ids[state] = len(self.states)
            self.states.append(state)
        return found

    def __call__(self, state: int, class_: int) -> tuple[int, ...]:
        after = self.model.step(self.states[state], self.calls[class_])
        return tuple(dict.fromkeys(map(self.id_of, after)))


def _affine(coded: Coded) -> list[Affine] | None:
    rows = [coded.model.affine(call) for call in coded.calls]
    found = [row for row in rows if row is not None]
    return found if found and len(found) == len(rows) else None


def _columns(rows: list[Affine] | None) -> list[I64]:
    table = np.array(rows or [], np.int64).reshape(-1, 3)
    return [np.ascontiguousarray(table[:, i]) for i in range(3)]


def _size(state: Any) -> int:
    return len(state) if isinstance(state, tuple | frozenset | str) else 1


def search(coded: Coded, limits: Limits, begin: list[Any] | None = None) -> SearchResult:
    """Decides every key, from one of the states `begin` (default: the model's first). Raises
    ValueError for columns that break the rules of csrc/aut/aut.h, and whatever the model's `step`
    raises."""
    n_keys = len(coded.offsets) - 1
    if len(coded.calls) > len(coded.classes):
        coded = compact(coded)
    result = SearchResult(
        verdict=np.full(n_keys, STOPPED, np.uint8),
        bad=np.full(n_keys, -1, np.int64),
        prefix=np.zeros(n_keys, np.int64),
        steps=np.zeros(n_keys, np.int64),
        states=[],
    )
    rows = _affine(coded)
    steps = Steps(coded.model, coded.calls, limits.memory_bytes // 2)
    first = [coded.model.initial] if begin is None else begin
    states = np.zeros(n_keys * STATES_MAX, np.int64)
    counts = np.zeros(n_keys, np.int64)
    stop = np.zeros(1, np.int32)
    low, high, delta = _columns(rows)

    def call() -> None:
        _core.check_automaton(
            coded.classes, coded.invoke, coded.complete, coded.offsets, coded.pure,
            low, high, delta, result.verdict, result.bad, result.prefix, result.steps,
            states, counts, stop, initial, None if rows else steps, limits.time_ns,
            limits.memory_bytes, limits.steps_max,
        )  # fmt: skip

    try:
        initial = np.array([s if rows else steps.id_of(s) for s in first], np.int64)
        interruptible(call, stop, small=limits.steps_max > 0 and len(coded.classes) < 5_000)
    except _Full:
        result.verdict[result.verdict == STOPPED] = MEMORY
        result.verdict[result.verdict > STEPS] = MEMORY
    for key in range(n_keys):
        ids = states[key * STATES_MAX : key * STATES_MAX + max(0, counts[key])].tolist()
        known = ids if rows else [steps.states[i] for i in ids]
        result.states.append(known if counts[key] >= 0 else None)
    return result


def _failures(history: History) -> Iterator[Op]:
    ops = history.ops
    if isinstance(ops, OpTable):
        yield from (ops[int(at)] for at in np.flatnonzero(ops.outcome == FAIL))
    else:
        yield from (op for op in ops if op.outcome is Outcome.FAIL)


def _stores(op: Op) -> Any:
    """What an operation would have put there."""
    pair = op.op_type == "cas" and isinstance(op.input, list) and len(op.input) == 2
    return freeze(op.input[1] if pair else op.input)


def _needs(op: dict[str, Any]) -> set[Any]:
    """What has to be there for an operation of a witness to end as it did."""
    if op["op_type"] == "cas":
        return {freeze(op["input"][0])} if op["output"] is True else set()
    found = op["output"]
    elements = {freeze(one) for one in found} if isinstance(found, list) else set()
    return {freeze(found), *elements} - {None, freeze(True), freeze(False)}


def name_failed(anomalies: list[Anomaly], history: History) -> list[Anomaly]:
    """The anomalies; where what gave one away needs what failed operations alone would have stored,
    these are named.

    A failed operation must have had no effect; recorders are often wrong about that: what timed out
    may have had effect, and is of unknown outcome.
    """
    failed: dict[Any, list[Op]] = {}
    for op in _failures(history):
        if op.input is not None:
            failed.setdefault((freeze(op.key), _stores(op)), []).append(op)
    seen = [_suspects(anomaly, failed) for anomaly in anomalies]
    if not any(seen):
        return anomalies
    others = {(freeze(op.key), _stores(op)) for op in history.ops if op.outcome is not Outcome.FAIL}
    told = []
    for anomaly, ops in zip(anomalies, seen, strict=True):
        alone = [op for op in ops if (freeze(op.key), _stores(op)) not in others]
        said = "".join(f" {_sentence(op)}" for op in alone[-_NAMED_MAX:])
        told.append(msgspec.structs.replace(anomaly, explanation=anomaly.explanation + said))
    return told


def _suspects(anomaly: Anomaly, failed: dict[Any, list[Op]]) -> list[Op]:
    """Failed operations that would have stored what the last operation of a witness needs."""
    last = next((op for op in anomaly.witness if op["op_id"] == anomaly.culprit), None)
    if last is None:
        return []
    key, end = freeze(anomaly.key), last["complete_ts"] or NEVER
    ops = [op for value in _needs(last) for op in failed.get((key, value), ())]
    return sorted((op for op in ops if op.invoke_ts <= end), key=lambda op: op.invoke_ts)


def _sentence(op: Op) -> str:
    error = op.error or "fail"
    return f"{phrase(op)} failed ({error}) and must not have had effect{if_late(error)}."


@dataclass(slots=True)
class Judgement:
    """`undecided` maps a key's place in `keys` to the reason; `illegal` counts keys, of which some
    have an anomaly each. `breaks` has each of them with the operation that cannot be placed: its
    completion is the first that no order explains; None where that is not known. `stale` has each
    read of a value that had surely been overwritten on these keys, and for how long it had been.
    `tested`: did any recorded result put the object to the test?"""

    keys: Sequence[Any] = field(default_factory=list)
    undecided: dict[int, str] = field(default_factory=dict)
    illegal: int = 0
    breaks: list[tuple[Any, Op | None]] = field(default_factory=list)
    stale: list[tuple[Any, Op, int]] = field(default_factory=list)
    anomalies: list[Anomaly] = field(default_factory=list)
    consumed: int = 0
    excluded: dict[str, int] = field(default_factory=dict)
    tested: bool = False


def merge(parts: list[Judgement]) -> Judgement:
    """Several parts of one history as one."""
    whole = Judgement()
    for part in parts:
        shift = len(whole.keys)
        whole.keys = [*whole.keys, *part.keys]
        whole.undecided |= {shift + k: why for k, why in part.undecided.items()}
        whole.illegal += part.illegal
        whole.breaks += part.breaks
        whole.stale += part.stale
        whole.anomalies += part.anomalies
        whole.consumed += part.consumed
        whole.tested |= part.tested
        for why, n in part.excluded.items():
            whole.excluded[why] = whole.excluded.get(why, 0) + n
    return whole


def _end_ns(ops: Sequence[Op]) -> int:
    if isinstance(ops, OpTable):
        return ops.end_ns
    return max(max(o.invoke_ts, o.complete_ts or 0) for o in ops)


def anomaly_of(
    key: Any,
    ops: list[Op],
    history: History,
    minimal: bool,
    explanation: str,
    culprit: int | str | UnsetType = UNSET,
    stuck: Stuck | UnsetType = UNSET,
) -> Anomaly:
    """The anomaly of one key; a witness too long to show keeps its last operations."""
    end_ns = _end_ns(history.ops)
    shown = ops[-WITNESS_OPS_MAX:]
    if len(shown) < len(ops):
        explanation += f" The last {len(shown)} of its operations are shown."
    return Anomaly(
        type="nonlinearizable",
        key=key,
        ops=[op.op_id for op in ops],
        witness=[msgspec.to_builtins(op) for op in shown],
        minimal=minimal,
        epochs=epochs_met(ops, history.header.windows, end_ns),
        explanation=explanation,
        culprit=culprit,
        stuck=stuck,
    )


def _reason(judged: Judgement) -> tuple[Valid, str | None]:
    """The verdict, and why it is not simply true."""
    undecided = judged.undecided
    why = [f"key {quoted(judged.keys[k])}: {text}" for k, text in list(undecided.items())[:3]]
    if len(undecided) > 3:
        why.append(f"{len(undecided) - 3} more keys undecided")
    if judged.illegal:
        more = [f"{judged.illegal} of {len(judged.keys)} keys are not linearizable"]
        return False, "; ".join(more + why)
    if undecided:
        return "unknown", "; ".join(why)
    if not judged.tested:
        return "unknown", UNTESTED
    return True, None


def result_of(
    checker: str, model: str, history: History, judged: Judgement, ns: int
) -> CheckResult:
    """The answer; `ns` is what the check took."""
    valid, reason = _reason(judged)
    if judged.excluded.get("fail"):
        judged.anomalies = name_failed(judged.anomalies, history)
    spreads = Spreads(history.header.windows)
    for key, op in judged.breaks:
        spreads.add("nonlinearizable", key, (), op)
    return CheckResult(
        checker=checker,
        valid=valid,
        workload=history.header.workload,
        model=model,
        anomaly_types=["nonlinearizable"] if judged.illegal else [],
        not_=["linearizable"] if judged.illegal else [],
        anomalies={"nonlinearizable": judged.anomalies} if judged.anomalies else {},
        ops=OpCount(total=len(history.ops), consumed=judged.consumed, excluded=judged.excluded),
        keys=KeyCount(
            total=len(judged.keys),
            decided=len(judged.keys) - len(judged.undecided),
            undecided=[judged.keys[k] for k in sorted(judged.undecided)],
        ),
        seconds=Seconds(check=ns / 1e9),
        peak_rss_mb=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        reason=reason,
        spreads=spreads.by_kind(lambda _: "key"),
        stale=_stale(judged, history),
    )


def _stale(judged: Judgement, history: History) -> Spread | UnsetType:
    """All stale reads together; UNSET where there is none."""
    spreads = Spreads(history.header.windows)
    for key, op, _ in judged.stale:
        spreads.add("stale", key, (), op)
    found = spreads.by_kind()
    if found is UNSET:
        return UNSET
    oldest_ns = max(age_ns for _, _, age_ns in judged.stale)
    return msgspec.structs.replace(found["stale"], oldest_ns=oldest_ns)
