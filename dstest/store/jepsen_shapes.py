"""Jepsen's words for operations that have other names here, told by what the history holds.

| Jepsen | here |
|---|---|
| counter: `add` of numbers, `read` of one number | `inc`, `read` |
| Maelstrom's broadcast: `broadcast` of values, `read` of all of them | `add`, `read` |
| bank, sets, queues, transactions | the same words |

An `add` whose reads return collections is a set's and stays one; that it repeats what was added
says nothing of the set. Nor do `inc` and `dec` say anything of the counter where each of them
repeats by how much: Jepsen's clients complete an operation as it was called.
"""

from __future__ import annotations

from typing import Final

from msgspec.structs import replace

from dstest.core.op import Op, Outcome

_MOVES: Final = frozenset({"inc", "dec"})


def _is_number(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_counter(ops: list[Op]) -> bool:
    """Only adds and reads; every number that was added is one, and so is every value read."""
    if {op.op_type for op in ops} != {"add", "read"}:
        return False
    reads = [op for op in ops if op.op_type == "read" and op.outcome is Outcome.OK]
    adds = [op for op in ops if op.op_type == "add"]
    return (
        bool(reads)
        and all(_is_number(op.output) for op in reads)
        and all(_is_number(op.input) for op in adds)
    )


def _repeats(ops: list[Op]) -> bool:
    """Do all increments and decrements complete with what they were called with?"""
    done = [op for op in ops if op.op_type in _MOVES and op.outcome is Outcome.OK]
    return all(op.output == op.input for op in done)


def as_ours(ops: list[Op]) -> list[Op]:
    """The operations with the names and outputs that our checkers know."""
    if {op.op_type for op in ops} == {"broadcast", "read"}:
        ops = [replace(op, op_type="add") if op.op_type == "broadcast" else op for op in ops]
    if _is_counter(ops):
        # Jepsen completes an add with what was added, which is not the value afterwards.
        return [
            replace(op, op_type="inc", output=None) if op.op_type == "add" else op for op in ops
        ]
    repeating = {"add"} | (_MOVES if _repeats(ops) else set())
    return [
        replace(op, output=None) if op.op_type in repeating and op.output == op.input else op
        for op in ops
    ]
