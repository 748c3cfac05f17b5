"""Operations as columns, in order of invocation; as a sequence, the operations themselves."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from mmap import mmap
from typing import Any, Final, overload

import msgspec
import numpy as np
import numpy.typing as npt

from checkers._columns import NEVER
from checkers.ops.values import Values
from dstest.core.op import Op

__all__ = ["FAIL", "NEVER", "OK", "UNKNOWN", "OpTable"]

OK, FAIL, UNKNOWN = range(3)

I32 = npt.NDArray[np.int32]
I64 = npt.NDArray[np.int64]
U8 = npt.NDArray[np.uint8]

_DECODER: Final = msgspec.json.Decoder(Op)


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
