"""A register history as integer columns, grouped by key, and the C core that decides them.

    write 5 on "x" by process 1, [100, 200]   ->  kind 1, a 1, b 0, invoke 100, complete 200

Values get small integers in order of appearance; 0 is None, the value of a fresh register. Numbers
are equal as numbers (1 and 1.0), `true` is not 1, lists and objects are equal when their canonical
JSON is. Left out and counted are `fail` (provably no effect) and `unknown-read` (told nobody
anything). A key that holds anything else than register operations is blocked with a reason: leaving
out just that operation could hide the write that explains a later read.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from checkers import _core
from dstest.core.clock import monotonic_ns
from dstest.core.history import History
from dstest.core.op import Op

_FAILED, _UNKNOWN_READ, _LEFT = 250, 251, 255
READ, WRITE, CAS_TRUE, CAS_FALSE, WRITE_UNKNOWN, CAS_UNKNOWN = range(6)
NEVER = 2**63 - 1

I32 = npt.NDArray[np.int32]
I64 = npt.NDArray[np.int64]
U8 = npt.NDArray[np.uint8]

OK, ILLEGAL, TIME, MEMORY, STOPPED, STEPS = range(6)
UNDECIDED = {
    TIME: "time budget spent",
    MEMORY: "memory budget spent",
    STOPPED: "stopped",
    STEPS: "step limit reached",
}

_OPS_WORTH_A_THREAD = 5_000
"""With fewer, and a limit on steps, the call is over before anybody could press Ctrl-C."""

OPS_WORTH_TWO = 50_000
"""With fewer a second thread does not pay."""


def _plain(value: Any) -> Any:
    """`value` with whole floats as integers, all the way down."""
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, list | tuple):
        return [_plain(v) for v in value]
    if isinstance(value, dict):
        return {str(k): _plain(v) for k, v in value.items()}
    return value


def _identity(value: Any) -> Any:
    """A hashable that is equal for equal JSON values only."""
    kind = type(value)
    if kind is int or kind is str or value is None:
        return value
    if kind is float and value.is_integer():
        return int(value)
    return (kind.__name__, json.dumps(_plain(value), sort_keys=True, default=repr))


class Interner:
    """Small integers for JSON values: `values[ids(v)]` is `v` or its equal."""

    def __init__(self) -> None:
        self.ids: dict[Any, int] = {None: 0}
        self.values: list[Any] = [None]

    def id_of(self, value: Any) -> int:
        """The id of `value`, made on first sight."""
        identity = _identity(value)
        found = self.ids.get(identity)
        if found is None:
            found = self.ids[identity] = len(self.values)
            self.values.append(value)
        return found

    def ids_of_plain(self, values: Iterable[Any]) -> list[int] | None:
        """Ids of values that are all `int` or `str`; None where one was not seen before."""
        try:
            return list(map(self.ids.__getitem__, values))
        except KeyError:
            return None


@dataclass(frozen=True, slots=True)
class Columns:
    """Operations of all keys, key after key, in order of invocation within a key.

    `offsets` has one element more than `keys`; `position` points into `History.ops`. `blocked`
    maps a key's number to the reason why it cannot be decided; its operations are left out.
    """

    kind: U8
    a: I32
    b: I32
    invoke: I64
    complete: I64
    position: I64
    offsets: I64
    keys: Sequence[Any]
    values: Sequence[Any]
    excluded: dict[str, int]
    blocked: dict[int, str]

    def of_key(self, key: int) -> slice:
        """Where the operations of the key with this number are."""
        return slice(int(self.offsets[key]), int(self.offsets[key + 1]))


def _why_not(op: Op, model: str) -> str:
    """Why an operation that did not fail is no operation of a register."""
    name = f"op {op.op_id} ({op.op_type})"
    if op.op_type not in ("read", "write") and (op.op_type != "cas" or model != "cas-register"):
        return f"{name} is not an operation of model {model}"
    if op.op_type == "cas" and (not isinstance(op.input, list | tuple) or len(op.input) != 2):
        return f"{name} has no [from, to] as its input"
    unknown = op.timeout_marker or op.complete_ts is None
    if op.op_type == "cas" and not unknown and not isinstance(op.output, bool):
        return f"{name} is ok but its output is neither true nor false"
    return f"{name} has impossible times"


def encode(history: History, model: str) -> Columns:
    """Columns of a history under `register` or `cas-register`."""
    values, keys = Interner(), Interner()
    ops = history.ops if isinstance(history.ops, list) else list(history.ops)
    n = len(ops)
    kind = np.empty(n, np.uint8)
    number, a, b = np.empty(n, np.int32), np.empty(n, np.int32), np.empty(n, np.int32)
    invoke, complete = np.empty(n, np.int64), np.empty(n, np.int64)
    _core.encode_registers(
        ops, keys.ids, keys.id_of, values.ids, values.id_of, number, kind, a, b, invoke,
        complete, model == "cas-register",
    )  # fmt: skip
    excluded: dict[str, int] = {}
    blocked: dict[int, str] = {}
    seen = list(range(0 if 0 in number else 1, len(keys.values)))
    if n > 0 and kind.max() >= _FAILED:
        for code, why in ((_FAILED, "fail"), (_UNKNOWN_READ, "unknown-read")):
            if count := int((kind == code).sum()):
                excluded[why] = count
        blocked = _wrong(ops, np.flatnonzero(kind == _LEFT), number, seen, model)
    rows = np.flatnonzero(kind < _FAILED)
    if blocked:
        rows = rows[~np.isin(number[rows], list(blocked))]
    key, begun = number[rows], invoke[rows]
    ahead = key[1:] - key[:-1]
    if not ((ahead > 0) | ((ahead == 0) & (begun[1:] >= begun[:-1]))).all():
        rows = rows[np.lexsort((rows, begun, key))]
    shift = seen[0] if seen else 0
    return Columns(
        kind=kind[rows],
        a=a[rows],
        b=b[rows],
        invoke=invoke[rows],
        complete=complete[rows],
        position=rows,
        offsets=np.searchsorted(number[rows], np.arange(shift, shift + len(seen) + 1)),
        keys=[keys.values[k] for k in seen],
        values=values.values,
        excluded=excluded,
        blocked={k - shift: why for k, why in blocked.items()},
    )


def _wrong(
    ops: Sequence[Op], places: I64, number: I32, seen: list[int], model: str
) -> dict[int, str]:
    """Why the keys of these operations cannot be decided."""
    blocked: dict[int, str] = {}
    foreign: str | None = None
    for place in places.tolist():
        op, key = ops[place], int(number[place])
        why = _why_not(op, model)
        blocked.setdefault(key, why)
        if op.key is None and op.op_type not in ("read", "write", "cas"):
            foreign = why
    if foreign is not None and len(seen) > 1:
        # it names no key, so it may have touched any
        return dict.fromkeys(seen, foreign)
    return blocked


@dataclass(frozen=True, slots=True)
class Limits:
    """`time_ns` and `memory_bytes` for the whole call; `steps_max` per key, 0 = none.

    `states` is how many possible values to report per illegal key; with `exact_states` also those
    that no operation observes are named (at the price of a larger search).
    """

    time_ns: int
    memory_bytes: int
    steps_max: int = 0
    states: int = 0
    exact_states: bool = False


@dataclass(frozen=True, slots=True)
class Decision:
    """One element per key; csrc/lin/lin.h defines them. `states` has `Limits.states` columns."""

    verdict: U8
    bad: I64
    prefix: I64
    steps: I64
    states: I32


def interruptible(call: Callable[[], None], stop: I32, *, small: bool = False) -> None:
    """Runs `call` in a thread; an exception here (Ctrl-C) raises the stop flag and waits for it.
    A `small` one is over before anybody could press Ctrl-C and runs here."""
    if small:
        call()
        return
    failed: list[BaseException] = []

    def target() -> None:
        try:
            call()
        except BaseException as error:
            failed.append(error)

    thread = threading.Thread(target=target, name="checkers._core")
    thread.start()
    try:
        thread.join()
    except BaseException:
        stop[0] = 1
        thread.join()
        raise
    if failed:
        raise failed[0]


def in_halves(
    offsets: I64, memory_bytes: int, verdict: U8, part: Callable[[slice, slice, I64, int], None]
) -> None:
    """Either half of the keys in a thread of its own, or all of them in this one where that would
    not pay. `part` is told keys, operations, where each key begins among those, and how much memory
    it has. Keys for which half of the memory was too little, by their `verdict`, are looked at
    again with all of it: two threads leave no more open than one."""
    n_keys, n_ops = len(offsets) - 1, int(offsets[-1])
    middle = int(np.searchsorted(offsets, n_ops // 2))
    at = int(offsets[middle]) if 0 < middle < n_keys else 0
    if n_ops < OPS_WORTH_TWO or not n_ops // 8 <= at <= n_ops - n_ops // 8:
        part(slice(0, n_keys), slice(0, None), offsets, memory_bytes)
        return
    failed: list[BaseException] = []

    def second() -> None:
        try:
            part(slice(middle, n_keys), slice(at, n_ops), offsets[middle:] - at, memory_bytes // 2)
        except BaseException as error:
            failed.append(error)

    thread = threading.Thread(target=second, name="checkers._core")
    thread.start()
    try:
        part(slice(0, middle), slice(0, at), offsets[: middle + 1], memory_bytes // 2)
    finally:
        thread.join()
    if failed:
        raise failed[0]
    # Together first, which is dear only once; then each alone, which takes the least memory.
    for found in (_runs, _each):
        for first, last in found(verdict == MEMORY):
            rows = slice(int(offsets[first]), int(offsets[last]))
            part(slice(first, last), rows, offsets[first : last + 1] - rows.start, memory_bytes)


def _each(marked: Any) -> list[tuple[int, int]]:
    return [(at, at + 1) for at in np.flatnonzero(marked).tolist()]


def _runs(marked: Any) -> list[tuple[int, int]]:
    """Where marks begin and end that stand side by side."""
    edges = np.flatnonzero(np.diff(np.concatenate([[False], marked, [False]]).view(np.int8)))
    return list(zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True))


def check_registers(
    kind: U8,
    a: I32,
    b: I32,
    invoke: I64,
    complete: I64,
    offsets: I64,
    *,
    n_values: int,
    limits: Limits,
) -> Decision:
    """Decides every key. Raises ValueError for columns that break the rules of csrc/lin/lin.h."""
    n_keys = len(offsets) - 1
    decision = Decision(
        verdict=np.full(n_keys, STOPPED, np.uint8),
        bad=np.full(n_keys, -1, np.int64),
        prefix=np.zeros(n_keys, np.int64),
        steps=np.zeros(n_keys, np.int64),
        states=np.full(n_keys * limits.states, -1, np.int32),
    )
    stop = np.zeros(1, np.int32)
    deadline = monotonic_ns() + limits.time_ns

    def part(keys: slice, rows: slice, own: I64, memory_bytes: int) -> None:
        bad = decision.bad[keys]
        states = slice(keys.start * limits.states, keys.stop * limits.states)
        _core.check_registers(
            kind[rows], a[rows], b[rows], invoke[rows], complete[rows], own,
            decision.verdict[keys], bad, decision.prefix[keys], decision.steps[keys],
            decision.states[states], stop, n_values, 0, max(0, deadline - monotonic_ns()),
            memory_bytes, limits.steps_max, limits.exact_states,
        )  # fmt: skip
        bad[bad >= 0] += rows.start

    def call() -> None:
        in_halves(offsets, limits.memory_bytes, decision.verdict, part)

    interruptible(call, stop, small=limits.steps_max > 0 and len(kind) < _OPS_WORTH_A_THREAD)
    return decision
