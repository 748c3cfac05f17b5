"""The checkers `list-append` and `rw-register` for the histories of our runs.

An operation of type `txn` holds micro-ops: `input` as they were asked, `output` with results.

    {"op_type": "txn", "input": [["append", "x", 1], ["r", "y", null]],
     "output": [["append", "x", 1], ["r", "y", [3]]], ...}

Its time stamps give the order of events. Where an invocation and a completion carry the same time
stamp, the invocation counts as the earlier one: that relates fewer transactions, so no anomaly is
made up. With other operations among them the answer is unknown: nobody knows what those did.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from checkers._start import start_of
from checkers.second.judges import OfTransactions
from checkers.txn._native import DETECTABLE
from checkers.txn.api import check
from checkers.txn.begun import begun
from checkers.txn.columns import FAIL, INFO, OK, TxnColumns
from checkers.txn.models import judged_models, proscribed, require_judged
from checkers.txn.models import weaker as weaker_models
from checkers.txn.opmaps import Builder, contradiction
from checkers.txn.workloads import KINDS
from dstest.core.check import Anomaly, Budget, CheckResult, KeyCount, OpCount
from dstest.core.errors import HistoryError
from dstest.core.history import History, epochs_of
from dstest.core.op import Op, Outcome

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
    events: list[tuple[int, int, int]] = []
    for at, op in enumerate(history.ops):
        events.append((op.invoke_ts, 0, at))
        if op.complete_ts is not None:
            events.append((op.complete_ts, 1, at))
    invoked: dict[int, int] = {}
    completed: dict[int, int] = {}
    for position, (_, end, at) in enumerate(sorted(events)):
        (completed if end else invoked)[at] = position
    build = Builder()
    for at, op in enumerate(history.ops):
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


class TxnChecker:
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
                columns = begun(columns, self.name, start)
            result = check(columns, self.name, [model], None, budget)
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
            ops=OpCount(total=total, consumed=columns.txns, excluded=excluded),
        )


LIST_APPEND: Final = TxnChecker("list-append")
RW_REGISTER: Final = TxnChecker("rw-register")
