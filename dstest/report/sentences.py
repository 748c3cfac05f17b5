"""What checkers once said in sentences alone, read back.

Anomalies carry it as data (`culprit`, `stuck`, `overlap_ns`); runs that were judged before they
did, and checkers of others, have the sentences.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from msgspec import UNSET

from dstest.core.check import Anomaly, Stuck
from dstest.core.op import Op

_NEXT: Final = re.compile(
    r"(?:There the (?P<object>[\w -]+) can(?: \w+)?: (?P<held>[^.]*)\. )?"
    r"Next completes (?P<what>.+?) \(op (?P<op>[^,)]+), process [^)]*\): (?P<why>it needs [^.]*)\."
)
"""How the linearizability checker says which answer cannot be, and what could have been."""

_HELD: Final = re.compile(r"\bfor (?P<ms>\d+(?:\.\d+)?) ms\b|\b(?P<on>from then on)\b")
"""How long two held something at one time."""


def stuck_of(anomaly: Anomaly) -> Stuck | None:
    """Why no order has a place for the answer that gave it away; None where nobody said so."""
    if anomaly.stuck is not UNSET:
        return anomaly.stuck
    found = _NEXT.search(anomaly.explanation)
    if found is None:
        return None
    return Stuck(needs=found["why"], noun=found["object"] or "", held=found["held"] or "")


def culprit_of(anomaly: Anomaly, ops: Sequence[Op]) -> int | str | None:
    """The one of `ops` whose answer cannot be, as far as it is named; None where it is not."""
    by_id = {str(op.op_id): op.op_id for op in ops}
    if anomaly.culprit is not UNSET:
        return by_id.get(str(anomaly.culprit))
    found = _NEXT.search(anomaly.explanation)
    if found is not None and found["op"] in by_id:
        return by_id[found["op"]]
    return None


def lasted_ns(anomaly: Anomaly) -> float | None:
    """How long two held something at one time, infinite where to the end of the run; None where
    nothing is said of that."""
    found = _HELD.search(anomaly.explanation)
    if found is None:
        return None
    return float("inf") if found["on"] else float(found["ms"]) * 1e6
