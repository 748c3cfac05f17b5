"""The checkers `list-append` and `rw-register` for the histories of our runs.

An operation of type `txn` holds micro-ops: `input` as they were asked, `output` with results.

    {"op_type": "txn", "input": [["append", "x", 1], ["r", "y", null]],
     "output": [["append", "x", 1], ["r", "y", [3]]], ...}

Its time stamps give the order of events. Where an invocation and a completion carry the same time
stamp, the invocation counts as the earlier one: that relates fewer transactions, so no anomaly is
made up. With other operations among them the answer is unknown: nobody knows what those did.

Histories given as Jepsen operation maps, one map per event, are read as well:

    {"index": 3, "type": "ok", "process": 1, "f": "txn",
     "value": [["r", "x", [1, 2]], ["append", "x", 3]]}

`type` is invoke, ok, fail or info; a leading colon (EDN keywords read as strings) is allowed in
`type` and in the micro-ops' `r`, `w` and `append`. The order of the list is the order of events.

What is accepted although Elle drops or rejects it: completions without an invocation, which then
have nothing before them in real time; and events that name no process. Where several invocations of
one process (or of none) are open, the completion belongs to the one that asked for the same
micro-ops; it is an error where that does not single one out.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec
import numpy as np
from msgspec.structs import replace

from checkers._findings import start_of
from checkers._spread import Spreads
from checkers.second.judges import OfTransactions
from checkers.txn._native import DETECTABLE, FINDINGS
from checkers.txn.api import check_placed
from checkers.txn.columns import (
    FAIL,
    INFO,
    KINDS,
    NIL,
    OK,
    READ,
    REGISTERS,
    WRITE,
    TxnColumns,
    start_at_null,
)
from checkers.txn.explain import Place
from checkers.txn.ingest import load
from checkers.txn.models import judged_models, proscribed, require_judged
from checkers.txn.models import weaker as weaker_models
from dstest.core.check import Anomaly, Budget, CheckResult, FirstOf, KeyCount, OpCount, Spread
from dstest.core.errors import HistoryError
from dstest.core.history import History, epochs_of
from dstest.core.op import Op, Outcome
from dstest.core.protocols import Checker

_OUTCOME_OF: Final = {"ok": OK, "fail": FAIL, "info": INFO}
_KINDS: Final = {"r": READ, "w": WRITE, "append": WRITE}

_WHOLE_MAX: Final = 2**53
"""Whole doubles below it are integers that nothing was lost of."""

_TYPES: Final = frozenset({"invoke", *_OUTCOME_OF})


class Names:
    """Dense ids of scalars; 1 and 1.0 are one name, True is another."""

    def __init__(self) -> None:
        self.names: list[Any] = []
        self._ids: dict[tuple[type, Any], int] = {}

    def id(self, name: Any) -> int:
        """The id of `name`; NIL for None. Raises ValueError where it is not a scalar."""
        if name is None:
            return NIL
        if not isinstance(name, int | str | float | bool):
            raise ValueError(f"need a scalar as key or value, got {name!r}")
        if isinstance(name, float) and name.is_integer() and abs(name) < _WHOLE_MAX:
            name = int(name)
        at = (type(name), name)
        number = self._ids.setdefault(at, len(self.names))
        if number == len(self.names):
            self.names.append(name)
        return number


@dataclass(slots=True)
class _Txn:
    """One transaction while it is being read; -1 as in `TxnColumns`."""

    outcome: int = INFO
    process: int = -1
    invoke_pos: int = -1
    complete_pos: int = -1
    op_index: int = 0
    mops: list[Any] = field(default_factory=list)
    told: bool = True
    """Do the micro-ops come from the answer? An ok transaction without one tells no results."""


class Builder:
    """Collects transactions, then makes the columns."""

    def __init__(self) -> None:
        self.txns: list[_Txn] = []
        self.skipped: dict[str, int] = {}
        self._keys = Names()
        self._values = Names()
        self._processes = Names()

    def process(self, name: Any) -> int:
        """Dense id of a process, -1 for None."""
        return self._processes.id(name)

    def add(self, **fields: Any) -> _Txn:
        """A new transaction; `fields` are those of `_Txn`."""
        self.txns.append(_Txn(**fields))
        return self.txns[-1]

    def skip(self, reason: str) -> None:
        """Counts an event that is not part of the history."""
        self.skipped[reason] = self.skipped.get(reason, 0) + 1

    def columns(self) -> TxnColumns:
        """The columns, transactions in order of invocation. Raises ValueError for a micro-op that
        is not a read, write or append of a scalar key."""
        txns = sorted(
            self.txns, key=lambda t: t.invoke_pos if t.invoke_pos >= 0 else t.complete_pos
        )
        kind: list[int] = []
        key: list[int] = []
        value: list[int] = []
        known: list[int] = []
        elem: list[int] = []
        elem_start = [0]
        mop_start = [0]
        for txn in txns:
            for mop in txn.mops:
                k, what, v, elements = self._mop(mop, txn)
                kind.append(k)
                key.append(what)
                value.append(v)
                known.append(_known(k, txn, mop))
                elem.extend(elements)
                elem_start.append(len(elem))
            mop_start.append(len(kind))
        return TxnColumns(
            outcome=np.array([t.outcome for t in txns], np.uint8),
            process=np.array([t.process for t in txns], np.int64),
            invoke_pos=np.array([t.invoke_pos for t in txns], np.int64),
            complete_pos=np.array([t.complete_pos for t in txns], np.int64),
            op_index=np.array([t.op_index for t in txns], np.int64),
            mop_start=np.array(mop_start, np.int64),
            mop_kind=np.array(kind, np.uint8),
            mop_key=np.array(key, np.int32),
            mop_value=np.array(value, np.int32),
            mop_known=np.array(known, np.uint8),
            elem_start=np.array(elem_start, np.int64),
            elem=np.array(elem, np.int32),
            key_names=self._keys.names,
            value_names=self._values.names,
            skipped=self.skipped,
        )

    def _mop(self, mop: Any, txn: _Txn) -> tuple[int, int, int, list[int]]:
        if not isinstance(mop, list | tuple) or len(mop) not in (2, 3):
            raise ValueError(f"operation {txn.op_index}: not a micro-op: {mop!r}")
        kind = _KINDS.get(_bare(mop[0]))
        if kind is None:
            raise ValueError(f"operation {txn.op_index}: unknown micro-op {mop[0]!r}")
        if mop[1] is None:
            raise ValueError(f"operation {txn.op_index}: a micro-op without a key: {mop!r}")
        key = self._keys.id(mop[1])
        value = mop[2] if len(mop) == 3 else None
        if kind == WRITE:
            return kind, key, self._values.id(value), []
        if txn.outcome != OK or not txn.told:
            return kind, key, NIL, []
        if isinstance(value, list | tuple):
            if None in value:
                raise ValueError(f"operation {txn.op_index}: an element of a list is null: {mop!r}")
            return kind, key, NIL, [self._values.id(v) for v in value]
        return kind, key, self._values.id(value), []


def _bare(word: Any) -> str:
    return word.lstrip(":") if isinstance(word, str) else ""


def from_op_maps(events: Iterable[Mapping[str, Any]]) -> TxnColumns:
    """Columns of a Jepsen history. Raises ValueError where events contradict one another.

    Events of processes that are not integers (the nemesis) are left out and counted.
    """
    build = Builder()
    open_: dict[int | None, list[_Txn]] = {}
    for position, event in enumerate(events):
        kind = _bare(event.get("type"))
        process = event.get("process")
        if kind not in _TYPES:
            raise ValueError(f"event {position}: unknown type {event.get('type')!r}")
        if process is not None and (isinstance(process, bool) or not isinstance(process, int)):
            build.skip("process-not-an-integer")
            continue
        value = event.get("value")
        if value is not None and not isinstance(value, list | tuple):
            raise ValueError(f"event {position}: not a list of micro-ops: {value!r}")
        index = event.get("index")
        index = position if index is None else int(index)
        if kind == "invoke":
            txn = build.add(
                process=build.process(process),
                invoke_pos=position,
                op_index=index,
                mops=list(value or []),
            )
            open_.setdefault(process, []).append(txn)
            continue
        txn = _opened(open_.get(process, []), value, position) or build.add(
            process=build.process(process)
        )
        txn.outcome, txn.complete_pos, txn.op_index = _OUTCOME_OF[kind], position, index
        txn.told = value is not None
        if value is not None:
            if txn.mops and (why := contradiction(txn.mops, value)):
                raise ValueError(f"event {position}: {why}")
            txn.mops = list(value)
    return build.columns()


def _known(kind: int, txn: _Txn, mop: Any) -> int:
    """As `mop_known`: 2 for a read that returned null."""
    if kind == WRITE:
        return 1
    if txn.outcome != OK or not txn.told:
        return 0
    return 2 if len(mop) < 3 or mop[2] is None else 1


def _asked(mops: Any) -> list[Any]:
    """What an invocation and its completion have in common: all but the results of reads."""
    return [
        [_bare(m[0]), m[1], None if _bare(m[0]) == "r" else list(m[2:])]
        if isinstance(m, list | tuple) and len(m) > 1
        else m
        for m in mops
    ]


def contradiction(asked: Any, answered: Any) -> str | None:
    """Why this cannot be the answer to what was asked; None where it can."""
    lists = isinstance(asked, list | tuple) and isinstance(answered, list | tuple)
    if lists and _asked(asked) == _asked(answered):
        return None
    return f"the answer is to other micro-ops than were asked for: {asked!r}, {answered!r}"


def _opened(open_: list[_Txn], value: Any, position: int) -> _Txn | None:
    """Takes the transaction that a completion belongs to; None where nothing is open. Where a
    process has several open, the micro-ops must tell which one is meant."""
    if len(open_) < 2:
        return open_.pop() if open_ else None
    meant = [t for t in open_ if value is not None and _asked(t.mops) == _asked(value)]
    if len(meant) != 1:
        raise ValueError(
            f"event {position}: its process has {len(open_)} open operations and "
            f"{len(meant)} of them fit; every completion needs one invocation"
        )
    open_.remove(meant[0])
    return meant[0]


_OUTCOMES: Final = {Outcome.OK: OK, Outcome.FAIL: FAIL, Outcome.UNKNOWN: INFO}

_NUMBERS_END: Final = 1 << 63
"""Numbers of operations fit into columns."""


def _numbers(history: History) -> Sequence[int]:
    """What operations are called in sentences, by their place in `history.ops`: their op_ids, or
    that place where ids are no numbers, or one has several operations."""
    ids = [op.op_id for op in history.ops]
    numbers = [id for id in ids if isinstance(id, int) and 0 <= id < _NUMBERS_END]
    return numbers if len(set(numbers)) == len(ids) else range(len(ids))


def from_history(history: History) -> TxnColumns:
    """Columns of a run's transactions; `op_index` is what `_numbers` gives. Raises ValueError for a
    transaction that holds something else than micro-ops, or an answer to others than were asked
    for."""
    numbers = _numbers(history)
    found = _read_in_c(history.ops, numbers)
    return _read_here(history.ops, numbers) if found is None else found


_HEADER: Final = b'{"schema": "dstest.history/1"}\n'


def _read_in_c(ops: Sequence[Op], numbers: Sequence[int]) -> TxnColumns | None:
    """The columns by way of their text, which is faster; None where they cannot be read so, or
    would not be what the operations say."""
    if any(op.op_type != "txn" for op in ops):
        return None
    rows: Iterable[Op] = ops
    if isinstance(numbers, range):
        rows = (replace(op, op_id=at) for at, op in zip(numbers, ops, strict=True))
    try:
        # What JSON has no word for would be written as another value: NaN, bytes, sets, dates.
        json.dumps([(op.process_id, op.input, op.output) for op in ops], allow_nan=False)
        found = load(_HEADER + msgspec.json.Encoder().encode_lines(rows), "dstest")
    except (ValueError, TypeError, RecursionError, HistoryError):
        return None
    return dataclasses.replace(found, weak={}, writes="", unread={})


def _read_here(ops: Sequence[Op], numbers: Sequence[int]) -> TxnColumns:
    events: list[tuple[int, int, int]] = []
    for at, op in enumerate(ops):
        events.append((op.invoke_ts, 0, at))
        if op.complete_ts is not None:
            events.append((op.complete_ts, 1, at))
    invoked: dict[int, int] = {}
    completed: dict[int, int] = {}
    for position, (_, end, at) in enumerate(sorted(events)):
        (completed if end else invoked)[at] = position
    build = Builder()
    for at, op in enumerate(ops):
        if op.op_type != "txn":
            build.skip(f"{op.op_type}: not a transaction")
            continue
        told = op.outcome is Outcome.OK and op.output is not None
        mops = op.output if told else op.input
        if told and op.input is not None and (why := contradiction(op.input, op.output)):
            raise ValueError(f"operation {op.op_id}: {why}")
        if not isinstance(mops, list | tuple):
            raise ValueError(f"operation {op.op_id}: not a list of micro-ops: {mops!r}")
        build.add(
            outcome=_OUTCOMES[op.outcome],
            process=build.process(op.process_id),
            invoke_pos=invoked[at],
            complete_pos=completed.get(at, -1),
            op_index=numbers[at],
            mops=list(mops),
            told=told,
        )
    return build.columns()


def _named(anomaly: Anomaly, by_number: Mapping[int, Op], history: History, end_ns: int) -> Anomaly:
    """The anomaly with the run's own records, names and fault epochs."""
    ops = [by_number[int(number)] for number in anomaly.ops]
    witness: list[dict[str, Any]] = []
    epochs: list[str] = []
    for row in anomaly.witness:
        op = by_number[row["op_id"]]
        record: dict[str, Any] = msgspec.to_builtins(op)
        if "edge" in row:
            record["edge"] = {**row["edge"], "to": by_number[row["edge"]["to"]].op_id}
        witness.append(record)
    for op in ops:
        stamped = [] if op.fault_epoch is None else [op.fault_epoch]
        for epoch in epochs_of(op, history.header.windows, end_ns) or stamped:
            if epoch not in epochs:
                epochs.append(epoch)
    return replace(anomaly, ops=[o.op_id for o in ops], witness=witness, epochs=epochs)


def _spreads(
    places: Iterable[Place], by_number: Mapping[int, Op], history: History
) -> dict[str, Spread] | msgspec.UnsetType:
    """When, where and on which keys all of them came."""
    spreads = Spreads(history.header.windows)
    for place in places:
        ops = [by_number[number] for number in place.ops]
        spreads.add(place.type, place.key, ops, None if place.by is None else by_number[place.by])
    return spreads.by_kind(_first_of)


def _first_of(kind: str) -> FirstOf:
    """Of keys whose lists contradict each other one pair is found, of whatever time, and of
    transactions that depend on one another a cycle; all else that is found needs none, and is found
    each time."""
    if kind == "incompatible-order":
        return "any-of-key"
    return "" if kind in FINDINGS else "cycle"


class TxnChecker(Checker):
    """Isolation of the transactions of a run."""

    kind = "history"
    mutants = "transactions"
    prefix_closed = True
    models: tuple[str, ...] = judged_models(DETECTABLE)
    op_types = dict.fromkeys(models, frozenset({"txn"}))

    def __init__(self, name: str) -> None:
        self.name = name
        self.second = OfTransactions(name)
        starts = KINDS[name].starts
        self.initial = dict.fromkeys(self.models, starts) if starts else {}

    def forbids(self, model: str) -> frozenset[str]:
        """The anomalies that a history under `model` must not hold."""
        return proscribed(model)

    def forbidden_by(self, kind: str) -> int:
        """How many of the models forbid this anomaly."""
        return sum(kind in proscribed(model) for model in self.models)

    def weaker(self, model: str) -> tuple[str, ...]:
        """The models next below `model` that forbid less."""
        return weaker_models(model)

    def check(self, history: History, model: str, budget: Budget) -> CheckResult:
        """The verdict, with a witness per anomaly; unknown for what cannot be read. Raises
        ValueError for a model that is not one of `models`."""
        require_judged(model, DETECTABLE)
        try:
            columns = from_history(history)
            start = start_of(history)
            if start is not None:
                columns = start_at_null(columns, self.name, start)
            result, places = check_placed(columns, self.name, [model], None, budget)
        except (ValueError, HistoryError) as error:
            return CheckResult(
                checker=self.name,
                valid="unknown",
                workload=history.header.workload or self.name,
                model=model,
                ops=OpCount(total=len(history.ops)),
                keys=KeyCount(total=1, decided=0, undecided=["*"]),
                reason=str(error),
            )
        by_number = dict(zip(_numbers(history), history.ops, strict=True))
        end_ns = max((max(o.invoke_ts, o.complete_ts or 0) for o in history.ops), default=0)
        excluded = dict(columns.skipped)
        total = columns.txns + sum(excluded.values())
        if excluded:
            # Nobody knows what they did to the keys: neither answer can stand.
            message = "; ".join(f"{n} {why}" for why, n in sorted(excluded.items()))
            result = replace(
                result, valid="unknown", reason="; ".join(filter(None, (message, result.reason)))
            )
        return replace(
            result,
            workload=history.header.workload or self.name,
            anomalies={
                kind: [_named(a, by_number, history, end_ns) for a in group]
                for kind, group in result.anomalies.items()
            },
            spreads=_spreads(places, by_number, history),
            ops=OpCount(total=total, consumed=columns.txns, excluded=excluded),
        )


LIST_APPEND: Final = TxnChecker("list-append")
RW_REGISTER: Final = TxnChecker(REGISTERS)
