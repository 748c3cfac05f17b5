"""Objects that are registers in other words, operation by operation.

    set             a register per element: add v = write true, or cas [null, true] where it told
                    that it changed the set; contains = read. Not with reads of the whole set
    kv-map          a register per key: get = read, put = write, delete = write null. Not append
    multi-register  a register per key. Not with txn

An add that changed nothing found the element there, and so on: nothing is lost either way. A
history with an operation that is no register's is left to the search of csrc/aut/.
"""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from checkers._witness import REGISTER, Words
from dstest.core.history import History
from dstest.core.op import Op

WORDS = {
    "set": Words("the set", "", "not hold the element", "hold the element"),
    "kv-map": Words("the key", "hold"),
    "multi-register": REGISTER,
}


def _swap(op: Op, old: Any, new: Any) -> Op:
    """A cas; what was not told succeeded."""
    known = not op.timeout_marker and op.complete_ts is not None and op.error is None
    output = True if known and op.output is None else op.output
    return replace(op, op_type="cas", input=[old, new], output=output)


def _element(op: Op) -> Op | None:
    key = [op.key, op.input]
    known = not op.timeout_marker and op.complete_ts is not None and op.error is None
    told = op.output if known else None
    if op.input is None or not (told is None or isinstance(told, bool)):
        return None
    if op.op_type == "contains":
        if known and told is None:
            return None
        return replace(op, op_type="read", key=key, input=None, output=True if told else None)
    if op.op_type not in ("add", "remove"):
        return None
    old, new = (None, True) if op.op_type == "add" else (True, None)
    if told is None:
        return replace(op, op_type="write", key=key, input=new, output=None)
    if told:
        return replace(_swap(op, old, new), key=key)
    return replace(op, op_type="read", key=key, input=None, output=new)


def _kv(op: Op) -> Op | None:
    if op.op_type == "get":
        return replace(op, op_type="read", input=None)
    if op.op_type in ("put", "delete"):
        value = op.input if op.op_type == "put" else None
        return replace(op, op_type="write", input=value, output=None)
    return op if op.op_type == "cas" else None


def _same(op: Op) -> Op | None:
    return op if op.op_type in ("read", "write", "cas") else None


_READERS = {"set": _element, "kv-map": _kv, "multi-register": _same}


def to_register(model: str, history: History) -> History | None:
    """The same history of registers, one operation for each; None where some operation is none of
    a register's, or malformed."""
    reader = _READERS.get(model)
    if reader is None:
        return None
    ops = [reader(op) for op in history.ops]
    return replace(history, ops=ops) if all(op is not None for op in ops) else None
