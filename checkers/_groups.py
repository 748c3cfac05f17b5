"""Jepsen's notations of `long-fork` and `causal-reverse`.

    {:f :txn :value [[:w 3 1]]}              or {:f :write :value [[:w 3 1]]}
    {:f :txn :value [[:r 4 nil] [:r 3 1]]}   or {:f :read :value [[:r 4 nil] [:r 3 1]]}

are transactions of one write, or of the reads of a whole group. They become writes to members of a
group and reads of it. A group is what the reads of one transaction name, in any order; two reads
have the same one or nothing in common, else nobody could compare them (Jepsen's checker throws).
What no read names is a group by itself.

    {:f :write :value 3}
    {:f :read :value [3 1]}

are writes of members that a read shows or does not show: each is a member with itself as its value.
Source: `jepsen.tests.long-fork`, `jepsen.tests.causal-reverse`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from checkers._findings import Unreadable
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


def _name(member: Any) -> str:
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
        if len({_name(member) for _, member, _ in mops}) < len(mops):
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
        members = sorted((_name(mop[1]) for mop in mops), key=lambda name: (len(name), name))
        group = ",".join(members)
        if group not in known and any(member in found for member in members):
            raise Unreadable(op, f"it reads {group}, and another read some of these with others")
        known.add(group)
        found.update(dict.fromkeys(members, group))
    return found


def _ours(op: Op, mops: list[tuple[str, Any, Any]], groups: dict[str, str]) -> Op:
    _, member, value = mops[0]
    name = _name(member)
    group = groups.get(name, name)
    if not _reads(mops):
        return replace(op, op_type="write", key=group, input=[member, value], output=None)
    told = None if op.output is None else [[m, v] for _, m, v in _micro_ops(op, op.output)]
    if told is not None and {_name(m) for m, _ in told} != {_name(m) for _, m, _ in mops}:
        raise Unreadable(op, "it was answered for other members than it asked for")
    return replace(op, op_type="read", key=group, input=None, output=told)
