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
alone, which its answer says. A member that was written twice leaves its group undecided. A fork
takes two reads that could each have missed a write: one that had begun and that the read did not
see, or that nobody had seen and that was not acknowledged before the read began. With fewer of
them, or fewer than two writes that had begun by their ends, nothing was tested.

Jepsen's notations are read as well:

    {:f :txn :value [[:w 3 1]]}              or {:f :write :value [[:w 3 1]]}
    {:f :txn :value [[:r 4 nil] [:r 3 1]]}   or {:f :read :value [[:r 4 nil] [:r 3 1]]}

are transactions of one write, or of the reads of a whole group. They become writes to members of a
group and reads of it. A group is what the reads of one transaction name, in any order; two reads
have the same one or nothing in common, else nobody could compare them (Jepsen's checker throws).
What no read names is a group by itself.

    {:f :write :value 3}
    {:f :read :value [3 1]}

are writes of members that a read shows or does not show: each is a member with itself as its value.

Source: Jepsen's `tests.long-fork` and `tests.causal-reverse`; Cerone, Bernardi and Gotsman (2015).
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any, Final

import msgspec
import numpy as np
from msgspec.structs import replace

from checkers._findings import Decide, Findings, Part, PerKey, Unreadable, end_of, list_of
from checkers._visibility import Visibility, report_forks, report_missing, report_strangers
from dstest.core.check import Budget, CheckResult, OpCount
from dstest.core.history import History
from dstest.core.op import Op

TXN: Final = "txn"


def as_groups(history: History) -> History:
    """The history in our notation; one that is in it as it is. Raises Unreadable where a
    transaction is neither one write nor the reads of a group."""
    if not isinstance(history.ops, list):
        return history
    if _plain(history.ops):
        return replace(history, ops=list(map(_member, history.ops)))
    micro = [_asked(op) if _is_micro(op) else None for op in history.ops]
    if not any(micro):
        return history
    told = list(zip(history.ops, micro, strict=True))
    groups = _groups((op, mops) for op, mops in told if mops and _reads(mops))
    ops = [_ours(op, mops, groups) if mops else op for op, mops in told]
    return replace(history, ops=ops)


def _scalar(value: Any) -> bool:
    return not isinstance(value, list | tuple | dict)


def _plain(ops: list[Op]) -> bool:
    """Are members written by themselves, and read as they are?"""
    writes = [op.input for op in ops if op.op_type == "write"]
    reads = [op.output for op in ops if op.op_type == "read" and op.output is not None]
    return (
        bool(writes)
        and {op.op_type for op in ops} <= {"write", "read"}
        and all(_scalar(value) and value is not None for value in writes)
        and all(isinstance(found, list) and all(map(_scalar, found)) for found in reads)
    )


def _member(op: Op) -> Op:
    if op.op_type == "write":
        return replace(op, input=[op.input, True], output=None)
    return replace(op, output=op.output and [[member, True] for member in op.output])


def _is_micro(op: Op) -> bool:
    """Is it a transaction, by its name or by what it holds?"""
    if op.op_type == TXN:
        return True
    found = op.output if op.input is None else op.input
    return (
        op.op_type in ("read", "write")
        and bool(found)
        and isinstance(found, list)
        and all(
            isinstance(mop, list) and len(mop) == 3 and mop[0] in ("r", "w", ":r", ":w")
            for mop in found
        )
    )


def _asked(op: Op) -> list[tuple[str, Any, Any]]:
    """The micro-operations of a transaction, those of its answer where it was invoked without."""
    return _micro_ops(op, op.output if op.input is None else op.input)


def _member_name(member: Any) -> str:
    """Of a member, by which 1 and "1" are two, and 1 and 1.0 one."""
    if isinstance(member, float) and member.is_integer():
        member = int(member)
    return msgspec.json.encode(member).decode()


def _micro_ops(op: Op, value: Any) -> list[tuple[str, Any, Any]]:
    """A transaction's value. Raises Unreadable where that is nothing of these."""
    found = value if isinstance(value, list | tuple) else ()
    mops = [
        (str(mop[0]).removeprefix(":"), mop[1], mop[2])
        for mop in found
        if isinstance(mop, list | tuple) and len(mop) == 3 and not isinstance(mop[1], list | dict)
    ]
    if not mops or len(mops) < len(found):
        raise Unreadable(op, f"{value!r} is no list of [function, key, value]")
    if {f for f, _, _ in mops} == {"r"}:
        if len({_member_name(member) for _, member, _ in mops}) < len(mops):
            raise Unreadable(op, "it reads a member twice")
        return mops
    if len(mops) > 1 or mops[0][0] != "w":
        raise Unreadable(op, "it is neither one write nor reads alone")
    if mops[0][2] is None:
        raise Unreadable(op, "it writes nothing")
    return mops


def _reads(mops: list[tuple[str, Any, Any]]) -> bool:
    return mops[0][0] == "r"


def _groups(reads: Iterable[tuple[Op, list[tuple[str, Any, Any]]]]) -> dict[str, str]:
    """The name of its group by that of each member. Raises Unreadable where groups overlap."""
    found: dict[str, str] = {}
    known: set[str] = set()
    for op, mops in reads:
        members = sorted((_member_name(mop[1]) for mop in mops), key=lambda name: (len(name), name))
        group = ",".join(members)
        if group not in known and any(member in found for member in members):
            raise Unreadable(op, f"it reads {group}, and another read some of these with others")
        known.add(group)
        found.update(dict.fromkeys(members, group))
    return found


def _ours(op: Op, mops: list[tuple[str, Any, Any]], groups: dict[str, str]) -> Op:
    _, member, value = mops[0]
    name = _member_name(member)
    group = groups.get(name, name)
    if not _reads(mops):
        return replace(op, op_type="write", key=group, input=[member, value], output=None)
    told = None if op.output is None else [[m, v] for _, m, v in _micro_ops(op, op.output)]
    asked = {_member_name(m) for _, m, _ in mops}
    if told is not None and {_member_name(m) for m, _ in told} != asked:
        raise Unreadable(op, "it was answered for other members than it asked for")
    return replace(op, op_type="read", key=group, input=None, output=told)


def _pair(op: Op, value: Any) -> str:
    if not isinstance(value, list | tuple) or len(value) != 2 or isinstance(value[0], list | dict):
        raise Unreadable(op, f"{value!r} is not a [member, value] pair")
    return f"{_name(value[0])}={_name(value[1])}"


def _name(value: Any) -> str:
    """Equal for equal values only: 1 is not "1", and 1.0 is 1."""
    whole = int(value) if isinstance(value, float) and value.is_integer() else value
    return json.dumps(whole, sort_keys=True, default=repr)


def _seen(op: Op) -> list[str]:
    pairs = [(_pair(op, p), p[1]) for p in list_of(op)]
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
