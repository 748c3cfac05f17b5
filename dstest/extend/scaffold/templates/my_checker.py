"""`my-checker`: nobody reads a value before a write of it has begun.

What to change: `TYPES` and `decide`, the operations that it knows and what it looks for among those
of one key. A checker is a pure function of the history. Invalid is only what no promise of the
system allows; where it cannot tell, or nothing could have been refuted, it says "unknown". What
failed had no effect; what is of unknown outcome may have one at any time after it began, or never.
"""

from __future__ import annotations

import msgspec
from dstest.core.check import Anomaly, Budget, CheckResult, KeyCount, OpCount, Valid
from dstest.core.history import History
from dstest.core.op import Key, Op, Outcome
from dstest.core.protocols import Checker

TYPES = frozenset({"read", "write"})


def decide(ops: list[Op]) -> tuple[int, list[Op]]:
    """How many reads of one key were tested, and the bad ones. `ops` are in order of invocation."""
    writes = [op for op in ops if op.op_type == "write" and op.outcome is not Outcome.FAIL]
    begun = {repr(op.input): op.invoke_ts for op in reversed(writes)}
    reads = [op for op in ops if op.op_type == "read" and op.outcome is Outcome.OK]
    seen = [(op, begun.get(repr(op.output))) for op in reads if op.output is not None]
    return len(seen), [op for op, at in seen if at is None or at > (op.complete_ts or 0)]


def anomaly(op: Op) -> Anomaly:
    said = f"op {op.op_id} read {op.output!r}, which nobody had begun to write by then"
    witness = [msgspec.to_builtins(op)]
    return Anomaly(type="early-read", key=op.key, ops=[op.op_id], witness=witness, explanation=said)


class MyChecker(Checker):
    name, kind, models = "my-checker", "history", ("written-values",)

    def check(self, history: History, model: str, budget: Budget) -> CheckResult:
        by_key: dict[Key, list[Op]] = {}
        for op in history.ops:
            by_key.setdefault(op.key, []).append(op)
        known = {k: ops for k, ops in by_key.items() if {op.op_type for op in ops} <= TYPES}
        decided = [decide(ops) for ops in known.values()]
        found = [anomaly(op) for _, bad in decided for op in bad]
        undecided = [key for key in by_key if key not in known]
        tested = sum(count for count, _ in decided)
        valid: Valid = False if found else True if tested and not undecided else "unknown"
        return CheckResult(
            checker=self.name,
            valid=valid,
            model=model,
            anomaly_types=["early-read"] if found else [],
            anomalies={"early-read": found} if found else {},
            ops=OpCount(total=len(history.ops), consumed=sum(map(len, known.values()))),
            keys=KeyCount(total=len(by_key), decided=len(known), undecided=undecided),
            reason=None if valid is True else f"{tested} reads tested, {len(found)} bad",
        )


CHECKER = MyChecker()
