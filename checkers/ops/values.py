"""JSON values by number: equal values have one number, 0 is null."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final, overload

import msgspec
import numpy as np
import numpy.typing as npt

NAME: Final = np.dtype([("bits", "<i8"), ("size", "<i4"), ("tag", "u1"), ("pad", "V3")])
"""`struct ing_name` of csrc/ingest/ingest.h."""

_INT, _FLOAT, _BOOL, _STRING, _KEYWORD, _BIGINT, _PLAIN = range(7)


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
