"""Jepsen's notation of `long-fork`: transactions of one write, or of the reads of a whole group.

    {:f :txn :value [[:w 3 1]]}
    {:f :txn :value [[:r 4 nil] [:r 3 1]]}

They become writes to members of a group and reads of it. A group is what the reads of one
transaction name, in any order; two reads have the same one or nothing in common, else nobody could
compare them (Jepsen's checker throws). What no read names is a group by itself.
Source: `jepsen.tests.long-fork`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from checkers._findings import Unreadable
from dstest.core.history import History
from dstest.core.op import Op

__all__ = ["TXN", "as_groups"]

TXN: Final = "txn"


def as_groups(history: History) -> History:
    """The history in our notation; one without transactions as it is. Raises Unreadable where a
    transaction is neither one write nor the reads of a group."""
    if not any(op.op_type == TXN for op in history.ops):
        return history
    read = {op.op_id: _micro_ops(op, op.input) for op in history.ops if op.op_type == TXN}
    groups = _groups(op for op in history.ops if op.op_type == TXN and _reads(read[op.op_id]))
    ops = [_ours(op, read[op.op_id], groups) if op.op_type == TXN else op for op in history.ops]
    return replace(history, ops=ops)


def _name(member: Any) -> str:
    """Of a member, by which 1 and "1" are two."""
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


def _groups(reads: Iterable[Op]) -> dict[str, str]:
    """The name of its group by that of each member. Raises Unreadable where groups overlap."""
    found: dict[str, str] = {}
    known: set[str] = set()
    for op in reads:
        members = sorted((_name(mop[1]) for mop in op.input), key=lambda name: (len(name), name))
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
