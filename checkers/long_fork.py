"""`long-fork` and `causal-reverse`: do all readers see writes in one order, and in real time's?

Writes go to single members of a group, each member once; a read returns the whole group.

    {"op_type": "write", "key": "g1", "input": ["a", 1], "output": null}
    {"op_type": "read",  "key": "g1", "output": [["a", 1], ["b", null]]}

| anomaly | meaning |
|---|---|
| long-fork | one read saw a and not b, another b and not a (snapshot isolation forbids it) |
| causal-reverse | a read saw b and not a, though a had ended before b began |
| lost, stale | acknowledged or read before a read began that does not see it |
| phantom, future-read, failed-but-applied, duplicated | as in `set-full` |

`causal-reverse`, `lost` and `stale` are forbidden by strict serializability; under
`snapshot-isolation` only forks count, and the checker `causal-reverse` looks for reversed pairs
alone, which its answer says. A member that was written twice leaves its group undecided.
A fork takes two reads that could each have missed a write: one that had begun and that the read did
not see, or that nobody had seen and that was not acknowledged before the read began. With fewer of
them, or fewer than two writes that had begun by their ends, nothing was tested.
Jepsen's histories have transactions of one write or of a group's reads: `checkers/_groups.py`.
Source: Jepsen's `tests.long-fork` and `tests.causal-reverse`; Cerone, Bernardi and Gotsman (2015).
"""

from __future__ import annotations

import json
from typing import Any, Final

import numpy as np

from checkers._findings import Decide, Findings, Part, PerKey, Unreadable, end_of, listed
from checkers._groups import TXN, as_groups
from checkers._visibility import Visibility, report_forks, report_missing, report_strangers
from dstest.core.check import Budget, CheckResult, OpCount
from dstest.core.history import History
from dstest.core.op import Op


def _pair(op: Op, value: Any) -> str:
    if not isinstance(value, list | tuple) or len(value) != 2 or isinstance(value[0], list | dict):
        raise Unreadable(op, f"{value!r} is not a [member, value] pair")
    return f"{_name(value[0])}={_name(value[1])}"


def _name(value: Any) -> str:
    """Equal for equal values only: 1 is not "1", and 1.0 is 1."""
    whole = int(value) if isinstance(value, float) and value.is_integer() else value
    return json.dumps(whole, sort_keys=True, default=repr)


def _seen(op: Op) -> list[str]:
    pairs = [(_pair(op, p), p[1]) for p in listed(op)]
    return [pair for pair, value in pairs if value is not None]


def _visibility(part: Part, findings: Findings) -> Visibility:
    writes = part.maybe("write")
    members = [_name(op.input[0]) for op in writes if _pair(op, op.input)]
    if len(set(members)) < len(members):
        findings.undecide(part.key, "a member of the group was written twice")
    return Visibility.of(
        [(op, _pair(op, op.input)) for op in writes],
        [(op, _pair(op, op.input)) for op in part.refused("write")],
        [(op, _seen(op)) for op in part.of("read")],
        findings,
    )


def _could_fork(v: Visibility, real: Any) -> bool:
    """Are there two reads that could have missed a write, and two writes for them to see?"""
    began, known = np.sort(v.invoke_ns[real]), np.sort(v.known_ns[real])
    to_see = []
    for read in v.reads:
        begun = int(np.searchsorted(began, end_of(read.op), side="right"))
        sure = int(np.searchsorted(known, read.op.invoke_ts))
        seen = int(np.count_nonzero(real[read.row]))
        if begun > min(sure, seen):
            to_see.append(begun)
    return len(to_see) > 1 and max(to_see) > 1


def decide(part: Part, findings: Findings) -> int:
    """Forks of one group; how many pairs of neighbouring reads were compared."""
    v = _visibility(part, findings)
    if part.key in findings.undecided:
        return 0
    real = report_strangers(v, part.key, findings)
    compared = report_forks(v, part.key, findings, ~real)
    if findings.model == "strict-serializable":
        report_missing(v, part.key, findings, real)
    findings.count(reads=len(v.reads), writes=len(v.attempt))
    return compared if _could_fork(v, real) else 0


def _reversed(v: Visibility, part: Part, findings: Findings, real: Any) -> Any:
    """Elements missing from a read that saw one which began after they had ended."""
    told = np.zeros(len(v.known_ns), np.bool_)
    for read in v.reads:
        findings.tick()
        row = read.row[real[read.row]]
        if not len(row):
            continue
        newest = int(row[np.argmax(v.invoke_ns[row])])
        absent = (v.acked_ns < v.invoke_ns[newest]) & real & ~told
        absent[read.row] = False
        for at in np.flatnonzero(absent).tolist():
            told[at] = True
            message = (
                f"write (op {v.acked[at].op_id}) had ended before write "
                f"(op {v.attempt[newest].op_id}) began, yet read (op {read.op.op_id}) saw only "
                "the younger one"
            )
            ops = [v.acked[at], v.attempt[newest], read.op]
            findings.anomaly("causal-reverse", part.key, ops, message)
    return told


def decide_reverse(part: Part, findings: Findings) -> int:
    """Reversed pairs alone; how many reads saw anything."""
    v = _visibility(part, findings)
    if part.key in findings.undecided:
        return 0
    real = report_strangers(v, part.key, findings)
    _reversed(v, part, findings, real)
    findings.note("reversed pairs alone were looked for: a lost or a stale write is none")
    findings.count(reads=len(v.reads), writes=len(v.attempt))
    return sum(1 for read in v.reads if len(read.row)) if len(v.acked) > 1 else 0


_TYPES: Final = frozenset({"write", "read"})


class _OfGroups(PerKey):
    """Takes Jepsen's notation as well."""

    def __init__(self, name: str, decide: Decide, *, models: tuple[str, ...], vacuous: str) -> None:
        super().__init__(
            name, decide, models=models, types=_TYPES, prefix_closed=True, vacuous=vacuous
        )
        self.op_types = dict.fromkeys(models, _TYPES | {TXN})

    def check(self, history: History, model: str, budget: Budget) -> CheckResult:
        """As `PerKey.check`; unknown where a transaction is none of groups."""
        try:
            return super().check(as_groups(history), model, budget)
        except Unreadable as error:
            why = f"{error}; --workload rw-register judges any transactions of registers"
            ops = OpCount(total=len(history.ops))
            return CheckResult(checker=self.name, valid="unknown", model=model, ops=ops, reason=why)


CHECKER: Final = _OfGroups(
    "long-fork",
    decide,
    models=("strict-serializable", "snapshot-isolation"),
    vacuous="no group had two writes, and two reads that could have missed one",
)
REVERSE: Final = _OfGroups(
    "causal-reverse",
    decide_reverse,
    models=("strict-serializable", "strong-snapshot-isolation"),
    vacuous="no read saw any of two acknowledged writes",
)
