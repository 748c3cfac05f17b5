"""Second judges of what `linearizable` and the checkers of transactions find.

Each looks at what the found violation is about: the whole object, or all transactions on the keys
of its witness. A part of a right history is right, so that what is wrong there is wrong in the
whole. Only where nothing is found there, brute force has a look as well; and only where that, too,
finds all in order is the answer that there is no violation. All bounds are counts, so that the
answer is the same on any host.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import msgspec

from checkers.second import brute
from checkers.second.brute_txn import ORDERS, executable, in_an_order
from checkers.second.objects import MODELS
from checkers.second.porcupine import linearizable
from dstest.core.check import Anomaly
from dstest.core.history import INITIAL, History
from dstest.core.op import Op, Outcome
from dstest.core.protocols import SecondAnswer

STRICT: Final = "strict-serializable"
"""What is asked where nobody names a model."""

TXNS_MAX: Final = 300
"""Real time is compared pair by pair."""

BRUTE_TXNS_MAX: Final = 8


def _unknown(why: str) -> SecondAnswer:
    return SecondAnswer(valid="unknown", said=why)


def _agrees(how: str) -> SecondAnswer:
    return SecondAnswer(valid=False, said=f"{how} finds it, too")


def _by_key(ops: Sequence[Op], key: Any) -> list[Op]:
    named = repr(key)
    return [op for op in ops if repr(op.key) == named]


def _same(ops: Sequence[Op], ids: Sequence[int | str]) -> list[Op]:
    wanted = set(ids)
    return [op for op in ops if op.op_id in wanted]


class OfObjects:
    """Porcupine's algorithm on the object, brute force on the witness."""

    name = "Porcupine's algorithm"

    def look(self, history: History, model: str, anomaly: Anomaly, steps_max: int) -> SecondAnswer:
        """`steps_max` counts steps of the object."""
        options = history.header.options
        if model not in MODELS:
            return _unknown(f"{self.name} has no object {model}")
        if INITIAL in options:
            return _unknown("the objects do not start as usual")
        permits = int(options.get("permits") or 0)
        key = _key_of(anomaly, history.ops)
        ops = _by_key(history.ops, key)
        if not ops:
            return _unknown("it is not known which object it is about")
        how = f"{self.name} on {len(ops):,} operations of key {key}"
        found = linearizable(model, ops, permits=permits, steps_max=steps_max)
        if found is None:
            return _unknown(f"{how}: not decided within {steps_max:,} steps")
        if not found:
            return _agrees(how)
        tried = brute.explains(model, ops, permits=permits, steps_max=steps_max)
        if tried:
            return SecondAnswer(valid=True, said=f"{how} finds an order, and so does brute force")
        what = "does not" if tried is False else "comes to no end"
        return _unknown(f"{how} finds an order, and brute force {what}")


def _key_of(anomaly: Anomaly, ops: Sequence[Op]) -> Any:
    """The key that it names, or else the one that its operations are all on."""
    keys = {repr(op.key): op.key for op in _same(ops, anomaly.ops)}
    return anomaly.key if len(keys) != 1 else next(iter(keys.values()))


class OfTransactions:
    """Elle's inference on the transactions of the witness' keys, brute force on the witness."""

    name = "Elle's inference"

    def __init__(self, workload: str) -> None:
        self._workload = workload

    def look(self, history: History, model: str, anomaly: Anomaly, steps_max: int) -> SecondAnswer:
        """`steps_max` bounds the pairs of transactions that are compared."""
        if INITIAL in history.header.options:
            return _unknown("the keys do not start as usual")
        witness = [op for op in _same(history.ops, anomaly.ops) if op.op_type == "txn"]
        keys = {repr(mop[1]) for op in witness for mop in _mops(op)}
        if not keys:
            return _unknown("the witness names no transaction")
        ops = [op for op in history.ops if any(repr(m[1]) in keys for m in _mops(op))]
        most = min(TXNS_MAX, int(steps_max**0.5))
        if len(ops) > most:
            return _unknown(f"{len(ops):,} transactions are on its keys, and {most} is the limit")
        how = f"{self.name} on {len(ops)} transactions of its keys"
        from checkers.second import elle  # dear, and only for what was found

        asked = None if model == STRICT else [model]
        try:
            answer = elle.check(_events(ops, keys), self._workload, asked)
        except KeyError:
            return _unknown(f"{self.name} has no model {model}")
        if answer["valid"] is False:
            return _agrees(f"{how} ({', '.join(answer['anomaly_types'])})")
        return self._by_force(witness, keys, model, how)

    def finds(self, history: History, model: str) -> bool:
        """Does Elle's inference find something in a small history that the model forbids? KeyError
        for a model that it does not know."""
        from checkers.second import elle

        keys = {repr(mop[1]) for op in history.ops for mop in _mops(op)}
        asked = None if model == STRICT else [model]
        return elle.check(_events(history.ops, keys), self._workload, asked)["valid"] is False

    def _by_force(self, witness: list[Op], keys: set[str], model: str, how: str) -> SecondAnswer:
        order = "strong-serializable" if model == STRICT else model
        if order not in ORDERS:
            return _unknown(f"{how} finds nothing, and brute force has no {model}")
        if len(witness) > BRUTE_TXNS_MAX:
            return _unknown(f"{how} finds nothing; {len(witness)} are too many for brute force")
        lists = any(mop[0] == "append" for op in witness for mop in _mops(op))
        run = in_an_order if lists else executable
        if run(_events(witness, keys, () if lists else None), order):
            said = f"{how} finds nothing, and brute force executes its witness"
            return SecondAnswer(valid=True, said=said)
        return _agrees(f"brute force on {len(witness)} transactions")


def _mops(op: Op) -> list[Any]:
    known = op.output if op.outcome is Outcome.OK and op.output is not None else op.input
    return [m for m in known or () if isinstance(m, list | tuple) and len(m) >= 2]


_TYPES: Final = {Outcome.OK: "ok", Outcome.FAIL: "fail", Outcome.UNKNOWN: "info"}


def _events(ops: Sequence[Op], keys: set[str], nil: Any = None) -> list[dict[str, Any]]:
    """Jepsen's op maps of what the transactions did to these keys, in order of time; at one
    instant, who begins does so before others end. `nil` is what a read of nothing returned."""
    processes: dict[Any, int] = {}
    rows: list[tuple[int, int, int, dict[str, Any]]] = []
    for at, op in enumerate(ops):
        process = processes.setdefault(op.process_id, len(processes))
        known = op.outcome is Outcome.OK and op.output is not None
        asked = [[f, k, None if f == "r" else v] for f, k, v in _three(op, keys)]
        told = [[f, k, nil if v is None else v] for f, k, v in _three(op, keys)] if known else asked
        base = {"process": process, "f": "txn"}
        rows.append((op.invoke_ts, 0, at, {**base, "type": "invoke", "value": asked}))
        if op.complete_ts is not None and not op.timeout_marker:
            kind = _TYPES[op.outcome]
            rows.append((op.complete_ts, 1, at, {**base, "type": kind, "value": told}))
    ordered = [row for *_, row in sorted(rows, key=lambda row: row[:3])]
    return [{**event, "index": n, "time": n} for n, event in enumerate(ordered)]


def _three(op: Op, keys: set[str]) -> list[tuple[Any, Any, Any]]:
    rows = [(*mop, None)[:3] for mop in _mops(op)]
    return [(f, _plain(k), _plain(v)) for f, k, v in rows if repr(k) in keys]


def _plain(value: Any) -> Any:
    """As something that can be looked up; the elements of a list stay in their order."""
    if isinstance(value, list):
        return tuple(_plain(one) for one in value)
    return msgspec.json.encode(value).decode() if isinstance(value, dict) else value


OBJECTS: Final = OfObjects()
