"""What an engine found out about the keys it was given, and the checker's answer made of it."""

from __future__ import annotations

import resource
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec
from msgspec import UNSET, UnsetType

from checkers._spread import epochs_met
from checkers.lin.failed import told_of_failed
from checkers.ops.table import OpTable
from dstest.core.check import Anomaly, CheckResult, KeyCount, OpCount, Seconds, Spread, Stuck, Valid
from dstest.core.history import History
from dstest.core.limits import WITNESS_OPS_MAX
from dstest.core.op import Op
from dstest.core.words import quoted

UNTESTED: Final = "nothing was tested: no completed read or cas in the history"


@dataclass(slots=True)
class Judged:
    """`undecided` maps a key's place in `keys` to the reason; `illegal` counts keys, of which the
    first have an anomaly each. `tested`: did any recorded result put the object to the test?"""

    keys: Sequence[Any] = field(default_factory=list)
    undecided: dict[int, str] = field(default_factory=dict)
    illegal: int = 0
    anomalies: list[Anomaly] = field(default_factory=list)
    consumed: int = 0
    excluded: dict[str, int] = field(default_factory=dict)
    tested: bool = False


def merge(parts: list[Judged]) -> Judged:
    """Several parts of one history as one."""
    whole = Judged()
    for part in parts:
        shift = len(whole.keys)
        whole.keys = [*whole.keys, *part.keys]
        whole.undecided |= {shift + k: why for k, why in part.undecided.items()}
        whole.illegal += part.illegal
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


def _reason(judged: Judged) -> tuple[Valid, str | None]:
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


def result_of(checker: str, model: str, history: History, judged: Judged, ns: int) -> CheckResult:
    """The answer; `ns` is what the check took."""
    valid, reason = _reason(judged)
    if judged.excluded.get("fail"):
        judged.anomalies = told_of_failed(judged.anomalies, history)
    spread = Spread(count=judged.illegal, keys_total=judged.illegal)
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
        spreads={"nonlinearizable": spread} if judged.illegal else UNSET,
    )
