"""The text of a `history.jsonl` into an `OpTable`, in C (csrc/ops/).

This reader takes what our own writer writes and nothing unusual. It refuses without a message what
the other reader (dstest/store/jsonl.py) may read still, or will say what is wrong with.
"""

from __future__ import annotations

from mmap import mmap
from typing import Final

import numpy as np

from checkers import _core
from checkers.ops.table import OpTable
from checkers.ops.values import Values

_SHARED_BYTES_MIN: Final = 1 << 20
_COLUMNS: Final = {
    "op_id": "i8",
    "invoke": "i8",
    "complete": "i8",
    "offset": "i8",
    "process": "i4",
    "op_type": "i4",
    "key": "i4",
    "input": "i4",
    "output": "i4",
    "outcome": "u1",
}


def _twice(ids: np.ndarray[tuple[int], np.dtype[np.int64]]) -> bool:
    if len(ids) < 2 or bool((ids[1:] > ids[:-1]).all()):
        return False
    ordered = np.sort(ids)
    return bool((ordered[1:] == ordered[:-1]).any())


def table_of(text: bytes | mmap, memory_mb: int, threads: int | None = None) -> OpTable | None:
    """The operations of a history of ours; None where this reader leaves it to the other one."""
    usual = 2 if len(text) >= _SHARED_BYTES_MIN else 1
    try:
        parts = _core.read_operations(text, usual if threads is None else threads, memory_mb << 20)
    except ValueError:
        return None
    columns = {
        name: np.frombuffer(part, dtype)
        for part, (name, dtype) in zip(parts, _COLUMNS.items(), strict=False)
    }
    if _twice(columns["op_id"]):
        return None
    names = [Values(parts[at], parts[at + 1]) for at in range(len(_COLUMNS), len(parts), 2)]
    return OpTable(
        text=text,
        **columns,
        values=names[0],
        types=names[1][1:],
        processes=names[2],
    )
