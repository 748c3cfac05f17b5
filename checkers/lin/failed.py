"""Failed operations whose effect was seen: a witness without them does not say where it came from.

A failed operation must have had no effect. Recorders are often wrong about that: what timed out may
have had effect, and is of unknown outcome.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import numpy as np
from msgspec.structs import replace

from checkers._columns import NEVER
from checkers._witness import phrase
from checkers.lin.model import freeze
from checkers.ops.table import FAIL, OpTable
from dstest.core.check import Anomaly
from dstest.core.history import History
from dstest.core.op import Op, Outcome
from dstest.core.words import if_late

_NAMED_MAX: Final = 3


def _failed(history: History) -> Iterator[Op]:
    ops = history.ops
    if isinstance(ops, OpTable):
        yield from (ops[int(at)] for at in np.flatnonzero(ops.outcome == FAIL))
    else:
        yield from (op for op in ops if op.outcome is Outcome.FAIL)


def _stored(op: Op) -> Any:
    """What an operation would have put there."""
    pair = op.op_type == "cas" and isinstance(op.input, list) and len(op.input) == 2
    return freeze(op.input[1] if pair else op.input)


def _needed(op: dict[str, Any]) -> set[Any]:
    """What has to be there for an operation of a witness to end as it did."""
    if op["op_type"] == "cas":
        return {freeze(op["input"][0])} if op["output"] is True else set()
    found = op["output"]
    elements = {freeze(one) for one in found} if isinstance(found, list) else set()
    return {freeze(found), *elements} - {None, freeze(True), freeze(False)}


def told_of_failed(anomalies: list[Anomaly], history: History) -> list[Anomaly]:
    """The anomalies; where what gave one away needs what failed operations alone would have stored,
    these are named."""
    failed: dict[Any, list[Op]] = {}
    for op in _failed(history):
        if op.input is not None:
            failed.setdefault((freeze(op.key), _stored(op)), []).append(op)
    seen = [_seen(anomaly, failed) for anomaly in anomalies]
    if not any(seen):
        return anomalies
    others = {(freeze(op.key), _stored(op)) for op in history.ops if op.outcome is not Outcome.FAIL}
    told = []
    for anomaly, ops in zip(anomalies, seen, strict=True):
        alone = [op for op in ops if (freeze(op.key), _stored(op)) not in others]
        said = "".join(f" {_sentence(op)}" for op in alone[-_NAMED_MAX:])
        told.append(replace(anomaly, explanation=anomaly.explanation + said))
    return told


def _seen(anomaly: Anomaly, failed: dict[Any, list[Op]]) -> list[Op]:
    """Failed operations that would have stored what the last operation of a witness needs."""
    last = next((op for op in anomaly.witness if op["op_id"] == anomaly.culprit), None)
    if last is None:
        return []
    key, end = freeze(anomaly.key), last["complete_ts"] or NEVER
    ops = [op for value in _needed(last) for op in failed.get((key, value), ())]
    return sorted((op for op in ops if op.invoke_ts <= end), key=lambda op: op.invoke_ts)


def _sentence(op: Op) -> str:
    error = op.error or "fail"
    return f"{phrase(op)} failed ({error}) and must not have had effect{if_late(error)}."
