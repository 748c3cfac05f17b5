"""The history made small, without a run (discipline 3.3, R1).

A part of it is taken only where the checker finds the same violation in that part alone. Parts are
those that can resolve nothing by what they lack: the witness that the checker has made small by its
own rules, the operations on its key, those that had begun before its last one ended.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import msgspec

from dstest.core.check import Anomaly, Budget, CheckResult
from dstest.core.fingerprint import parts_of
from dstest.core.history import History
from dstest.core.op import Op, Outcome
from dstest.core.protocols import CheckerTraits
from dstest.judge.checker_answers import asked
from dstest.judge.fingerprint import fingerprints_of


def smallest_history(
    history: History, checker: Any, model: str, result: CheckResult, fingerprint: str
) -> History | None:
    """The smallest of these parts that shows the violation, None where none of them does.

    `result` is the checker's answer about the whole.
    """
    kind = parts_of(fingerprint).kind
    shown = next(iter(result.anomalies.get(kind, [])), None)
    if shown is None:
        return None
    for ops in _parts(history.ops, shown, keyed=CheckerTraits.of(checker).keyed):
        part = msgspec.structs.replace(history, ops=ops)
        if shows_alone(part, checker, model, fingerprint):
            return _counted(part)
    return None


def _counted(part: History) -> History:
    """With counters of its own: those of the recorder are of the whole, and a part that is held to
    them would have lost operations."""
    outcomes = Counter(op.outcome.value for op in part.ops)
    counters = {outcome.value: outcomes[outcome.value] for outcome in Outcome}
    counters |= {"issued": len(part.ops), "invokes": len(part.ops)}
    return msgspec.structs.replace(
        part, header=msgspec.structs.replace(part.header, counters=counters)
    )


def shows_alone(part: History, checker: Any, model: str, fingerprint: str) -> bool:
    """Does the checker find the violation in this part of a history?"""
    return fingerprint in fingerprints_of(asked(checker, part, model, Budget()))


def _parts(every: list[Op], shown: Anomaly, *, keyed: bool) -> Iterator[list[Op]]:
    """Smallest first."""
    held = {*shown.ops}
    witness = [op for op in every if op.op_id in held]
    if not witness:
        return
    yield witness
    end_ns = max(_last_ns(op) for op in witness)
    begun = [op for op in every if op.invoke_ts <= end_ns]
    keys = {repr(op.key) for op in witness}
    if keyed:
        yield [op for op in begun if repr(op.key) in keys]
        yield [op for op in every if repr(op.key) in keys]
    yield begun


def _last_ns(op: Op) -> int:
    return op.invoke_ts if op.complete_ts is None else op.complete_ts
