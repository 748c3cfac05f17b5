"""Operations of a Jepsen history that were invoked and never completed, not even as unknown.

An export of ours completes each operation, so that these tell of a file that was cut.
"""

from __future__ import annotations

from itertools import count

from msgspec.structs import replace

from dstest.core.op import Op

UNFINISHED = "unfinished"


def own_ids(ops: list[Op]) -> list[Op]:
    """Completions alone tell their ids: operations without one get such as no other has."""
    known = [op.op_id for op in ops if not unfinished(op)]
    fresh = count(max((i for i in known if isinstance(i, int)), default=-1) + 1)
    return [replace(op, op_id=next(fresh)) if unfinished(op) else op for op in ops]


def cut_off(open_: int) -> str:
    """What is said of an export of ours in which so many operations have no end."""
    some = f"{open_:,} open operation{'s' if open_ > 1 else ''}"
    return f"it ends with {some}, though an export completes each: the file is cut"


def unfinished(op: Op) -> bool:
    """Was an operation of a Jepsen history invoked and never completed, not even as unknown?"""
    return op.timeout_marker and op.complete_ts is None and op.error == UNFINISHED
