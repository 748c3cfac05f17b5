"""Operations as columns, in order of invocation; as a sequence, the operations themselves. Equal
JSON values have one number, and 0 is null.

The reader (in C, csrc/ops/) takes the text of a `history.jsonl` as our own writer writes it, and
nothing unusual: it refuses without a message what the other reader (dstest/history/jsonl.py) may
read still, or will say what is wrong with.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from mmap import mmap
from typing import Any, Final, overload

import msgspec
import numpy as np
import numpy.typing as npt

from checkers import _core
from checkers.columns import NEVER
from dstest.core.op import Op

__all__ = [
    "FAIL",
    "NEVER",
    "OK",
    "UNKNOWN",
    "OpTable",
]

NAME: Final = np.dtype([("bits", "<i8"), ("size", "<i4"), ("tag", "u1"), ("pad", "V3")])
"""`struct ing_name` of csrc/ingest/ingest.h."""

_INT, _FLOAT, _BOOL, _STRING, _KEYWORD, _BIGINT, _PLAIN = range(7)

OK, FAIL, UNKNOWN = range(3)

I32 = npt.NDArray[np.int32]
I64 = npt.NDArray[np.int64]
U8 = npt.NDArray[np.uint8]

_DECODER: Final = msgspec.json.Decoder(Op)

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


class Values(Sequence[Any]):
    """What was read from a text, decoded when it is asked for. A whole float is an integer."""

    def __init__(self, rows: bytes, text: bytes) -> None:
        self._rows = np.frombuffer(rows, NAME)
        self._text = text
        self._ids: dict[Any, int] | None = None

    def __len__(self) -> int:
        return len(self._rows) + 1

    @overload
    def __getitem__(self, index: int) -> Any: ...
    @overload
    def __getitem__(self, index: slice) -> list[Any]: ...
    def __getitem__(self, index: int | slice) -> Any:
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        if index < 0:
            index += len(self)
        if not 0 <= index < len(self):
            raise IndexError(index)
        return None if index == 0 else self._decoded(index - 1)

    def __iter__(self) -> Iterator[Any]:
        return (self[i] for i in range(len(self)))

    def _decoded(self, row: int) -> Any:
        bits, size, tag, _ = self._rows[row].item()
        if tag == _INT:
            return bits
        if tag == _FLOAT:
            return float(self._rows["bits"][row : row + 1].view(np.float64)[0])
        if tag == _BOOL:
            return bool(bits)
        text = self._text[bits : bits + size]
        return text.decode() if tag == _STRING else msgspec.json.decode(text)

    def id_of(self, value: Any) -> int:
        """The number of a scalar; -1 where it was not read."""
        if value is None:
            return 0
        if isinstance(value, bool):
            found = np.flatnonzero((self._rows["tag"] == _BOOL) & (self._rows["bits"] == value))
            return int(found[0]) + 1 if len(found) else -1
        if self._ids is None:
            self._ids = self._numbered()
        return self._ids.get(
            int(value) if isinstance(value, float) and value.is_integer() else value, -1
        )

    def _numbered(self) -> dict[Any, int]:
        """Numbers and strings."""
        tags = self._rows["tag"]
        ints = np.flatnonzero(tags == _INT)
        ids = dict(zip(self._rows["bits"][ints].tolist(), (ints + 1).tolist(), strict=True))
        for row in np.flatnonzero((tags == _FLOAT) | (tags == _STRING)).tolist():
            ids[self._decoded(row)] = row + 1
        return ids

    def integers(self, ids: npt.NDArray[np.int32]) -> npt.NDArray[np.int64] | None:
        """These values where all of them are integers, else None."""
        if not len(ids):
            return np.zeros(0, np.int64)
        if ids.min() < 1 or not bool((self._rows["tag"][ids - 1] == _INT).all()):
            return None
        found: npt.NDArray[np.int64] = self._rows["bits"][ids - 1]
        return found


@dataclass(frozen=True, eq=False)
class OpTable(Sequence[Op]):
    """One element per operation. Times are nanoseconds, `complete` is NEVER for an unknown one.
    `key`, `input` and `output` are numbers of `values`, `op_type` of `types`. `offset` is where its
    line begins in `text`: an operation is made of it whenever it is asked for.

    An operation that is `FAIL` has no output, nor has one that is UNKNOWN.
    """

    text: bytes | bytearray | mmap
    op_id: I64
    invoke: I64
    complete: I64
    offset: I64
    process: I32
    op_type: I32
    key: I32
    input: I32
    output: I32
    outcome: U8
    values: Values
    types: list[str]
    processes: Values

    def __len__(self) -> int:
        return len(self.op_id)

    @overload
    def __getitem__(self, index: int) -> Op: ...
    @overload
    def __getitem__(self, index: slice) -> list[Op]: ...
    def __getitem__(self, index: int | slice) -> Any:
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        start = int(self.offset[index])
        end = self.text.find(b"\n", start)
        return _DECODER.decode(self.text[start:end])

    def __iter__(self) -> Iterator[Op]:
        return (self[i] for i in range(len(self)))

    @property
    def end_ns(self) -> int:
        """The last time stamp."""
        known = self.complete[self.complete != NEVER]
        return int(max(self.invoke.max(initial=0), known.max(initial=0)))

    def is_type(self, *names: str) -> npt.NDArray[np.bool_]:
        """Which operations are of one of these types?"""
        wanted = np.array([name in names for name in self.types] or [False])
        found: npt.NDArray[np.bool_] = wanted[self.op_type]
        return found


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
