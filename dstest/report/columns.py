"""The operations of a run as columns that a page can hold: numbers in planes of bytes, deflated, as
base64. `static/timeline-data.js` reads them.

A column is written byte plane by byte plane, lowest first, as many as its largest number needs;
times and ids are differences. What was asked and answered is text: a line per operation, its
fields apart by tabs, as JSON that is cut where it is long.

Where all of a run would be more than the page has room for, what is nearest to anomalies and to
the edges of fault windows is kept, and `Packed` says how much that is.
"""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from dstest.core.op import FINAL_IDS, Op, Outcome, who
from dstest.core.words import printable, printable_line

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Numbers = NDArray[np.int64]

TEXT_MAX: Final = 160
"""Characters of an input or output on the page."""

_DENSITY_BINS: Final = 400
_OUTCOMES: Final = {Outcome.OK: 0, Outcome.FAIL: 1, Outcome.UNKNOWN: 2}
_TIMEOUT, _COMPLETE, _KEY_WITHIN = 4, 8, 16
"""Bits of a flag beside the outcome; the last: the key is that of a transaction's first step."""

_WHOLE_MAX: Final = 250_000
"""Of more operations the page never holds all that was asked and answered."""

_BARE_MAX: Final = 700_000
"""Of more operations it never holds all."""
_TRIES: Final = 6


class Packed(NamedTuple):
    """`head` is plain data for JSON, `numbers` and `texts` base64. `kept` of all operations are
    there, `told` of them with what was asked and answered; times are whole `unit_ns`. `places` are
    where the kept ones stand in the history. `finals` of the head are what final readers are
    called, by their process."""

    head: dict[str, Any]
    numbers: str
    texts: str
    kept: int
    told: int
    unit_ns: int
    places: Sequence[int]

    @property
    def size(self) -> int:
        return len(self.numbers) + len(self.texts) + len(json.dumps(self.head))


class _Column(NamedTuple):
    """`planes` are the numbers of a column, `width` bytes each, lowest bytes first."""

    name: str
    width: int
    planes: bytes


class _Names:
    """Values in order of first use, and the number of each."""

    def __init__(self, first: Sequence[Any] = ()) -> None:
        self.values: list[Any] = list(first)
        self._at = {(type(value), value): n for n, value in enumerate(self.values)}

    def of(self, value: Any) -> int:
        """Of a key, a process, a node: `1`, `1.0` and `True` are three."""
        found = self._at.setdefault((type(value), value), len(self.values))
        if found == len(self.values):
            self.values.append(value)
        return found


def _show(value: Any) -> str:
    """A value in one short line; empty for null."""
    if value is None:
        return ""
    if type(value) is int:
        return str(value)
    text = json.dumps(value, ensure_ascii=False, default=repr)
    if not text.isprintable():
        text = printable_line(text)
    return text if len(text) <= TEXT_MAX else text[: TEXT_MAX - 1] + "…"


def _line(op: Op) -> str:
    return f"{_show(op.input)}\t{_show(op.output)}\t{_show(op.error)}"


def _planes(values: Numbers) -> tuple[int, bytes]:
    """(how many bytes a number has, the planes)."""
    import numpy as np

    top = int(values.max()) if len(values) else 0
    width = max(1, (top.bit_length() + 7) // 8)
    raw = np.ascontiguousarray(values.astype("<u8")).view(np.uint8).reshape(-1, 8)
    return width, raw[:, :width].T.tobytes()


def _column(name: str, values: Numbers) -> _Column:
    return _Column(name, *_planes(values))


def _deflated(data: bytes) -> str:
    return base64.b64encode(zlib.compress(data, 6)).decode()


def _steps(values: Numbers) -> Numbers:
    """Differences, folded so that none is negative."""
    import numpy as np

    steps = np.diff(values, prepend=np.int64(0))
    found: Numbers = (steps << 1) ^ (steps >> 63)
    return found


def _ids(ops: Sequence[Op]) -> tuple[Numbers | None, list[str]]:
    """Ids as numbers, or as texts where one is none."""
    import numpy as np

    if all(type(op.op_id) is int for op in ops):
        return _steps(np.array([op.op_id for op in ops], dtype=np.int64)), []
    return None, [str(op.op_id) for op in ops]


def _key_within(op: Op) -> Any:
    """The key of a transaction's first step, which its row goes by; None where there is none."""
    first = op.input[0] if isinstance(op.input, list | tuple) and op.input else None
    if op.key is not None or not isinstance(first, list | tuple) or len(first) != 3:
        return None
    return first[1] if isinstance(first[1], str | int) else None


def _flag(op: Op) -> int:
    found = _OUTCOMES[op.outcome] | (_TIMEOUT if op.timeout_marker else 0)
    found |= _KEY_WITHIN if _key_within(op) is not None else 0
    return found | (_COMPLETE if op.complete_ts is not None else 0)


def _row_of(op: Op, field: str) -> Any:
    value = getattr(op, field)
    return _key_within(op) if field == "key" and value is None else value


def _times(ops: Sequence[Op], unit_ns: int) -> list[_Column]:
    import numpy as np

    start = np.array([op.invoke_ts // unit_ns for op in ops], dtype=np.int64)
    lasted = [max(0, (op.complete_ts or op.invoke_ts) - op.invoke_ts) // unit_ns for op in ops]
    return [
        _column("invoke_ts", _steps(start)),
        _column("lasted", np.array(lasted, dtype=np.int64)),
    ]


def _timeless(ops: Sequence[Op]) -> tuple[dict[str, Any], list[_Column]]:
    """Tables of names for the head, and the columns that no unit of time changes."""
    import numpy as np

    names = {
        **{name: _Names() for name in ("op_type", "process_id", "key")},
        **{name: _Names([None]) for name in ("node_seen", "fault_epoch")},
    }
    rows = [_column("flags", np.array([_flag(op) for op in ops], dtype=np.int64))]
    for field, table in names.items():
        numbers = [table.of(_row_of(op, field)) for op in ops]
        rows.append(_column(field, np.array(numbers, dtype=np.int64)))
    ids, texts = _ids(ops)
    if ids is not None:
        rows.append(_column("op_id", ids))
    head: dict[str, Any] = {field: table.values for field, table in names.items()}
    head["key"] = [_key(value) for value in head["key"]]
    finals = {str(p): who(p) for p in head["process_id"] if type(p) is int and p >= FINAL_IDS}
    return {**head, "ids": texts, "finals": finals}, rows


def _key(value: Any) -> Any:
    return printable(value)[:TEXT_MAX] if isinstance(value, str) else value


def _bare(
    ops: Sequence[Op],
    places: Sequence[int],
    unit_ns: int,
    timeless: tuple[dict[str, Any], list[_Column]],
) -> Packed:
    """These operations of a run, none with its texts."""
    head, rows = timeless
    columns = [*_times(ops, unit_ns), *rows]
    layout = [[column.name, column.width] for column in columns]
    return Packed(
        head={**head, "n": len(ops), "unit_ns": unit_ns, "columns": layout},
        numbers=_deflated(b"".join(column.planes for column in columns)),
        texts=_texts([""] * len(ops)),
        kept=len(ops),
        told=0,
        unit_ns=unit_ns,
        places=places,
    )


def _texts(lines: Sequence[str]) -> str:
    return _deflated("\n".join(lines).encode(errors="replace"))


def _nearest(ops: Sequence[Op], wanted: Sequence[int], instants: Sequence[int]) -> list[int]:
    """Places of all operations, what matters most first: `wanted` ones, then by how near their
    call or answer is to one of the instants."""
    import numpy as np

    start = np.array([op.invoke_ts for op in ops], dtype=np.int64)
    far = np.full(len(ops), np.iinfo(np.int64).max, dtype=np.int64)
    points = np.unique(np.array(instants, dtype=np.int64))
    if len(points):
        at = np.searchsorted(points, start)
        below = points[np.clip(at - 1, 0, len(points) - 1)]
        above = points[np.clip(at, 0, len(points) - 1)]
        far = np.minimum(np.abs(start - below), np.abs(start - above))
    far[np.array(wanted, dtype=np.int64)] = -1
    found: list[int] = np.argsort(far, kind="stable").tolist()
    return found


def density(ops: Sequence[Op], start_ns: int, end_ns: int) -> dict[str, Any]:
    """How many of all operations began in each part of the run, by outcome."""
    bin_ns = max(1, -(-(end_ns - start_ns) // _DENSITY_BINS))
    counts = [[0] * _DENSITY_BINS for _ in Outcome]
    for op in ops:
        at = min(_DENSITY_BINS - 1, max(0, (op.invoke_ts - start_ns) // bin_ns))
        counts[_OUTCOMES[op.outcome]][at] += 1
    return {"bin_ns": bin_ns, "counts": counts}


def packed(
    ops: Sequence[Op], room: int, *, wanted: Sequence[int] = (), instants: Sequence[int] = ()
) -> Packed:
    """As much of the operations as fits into `room` bytes of the page.

    First times are rounded to microseconds, then texts go, then operations, each time those that
    are farthest from the `instants`; `wanted` are places of operations that stay to the last.
    """
    every = range(len(ops))
    timeless = _timeless(ops) if len(ops) <= _BARE_MAX else None
    if timeless is not None and len(ops) <= _WHOLE_MAX:
        exact = _bare(ops, every, 1, timeless)
        if exact.size <= room:
            whole = exact._replace(texts=_texts([_line(op) for op in ops]), told=len(ops))
            if whole.size <= room:
                return whole
    order = _nearest(ops, wanted, instants)
    if timeless is not None:
        bare = _bare(ops, every, 1000, timeless)
        if bare.size <= room:
            return _with_texts(ops, order, room, bare)
    keep = min(len(ops), max(1, room // 5))
    for _ in range(_TRIES):
        # Operations that are not there leave room for the texts of the others.
        places = sorted(order[:keep])
        some = [ops[p] for p in places]
        found = _bare(some, places, 1000, _timeless(some))
        if found.size <= room * 6 // 10:
            break
        keep = max(1, int(keep * 0.5 * room / max(1, found.size)))
    kept = {p: n for n, p in enumerate(places)}
    nearest = [kept[p] for p in order[: len(places)]]
    return _with_texts(some, nearest, room, found)


def _with_texts(ops: Sequence[Op], order: Sequence[int], room: int, bare: Packed) -> Packed:
    """`bare` with the texts of as many operations as there is room for."""
    count = min(len(ops), max(1, (room - bare.size) // 12))
    near = list(order[:count])
    lines = [""] * len(ops)
    for n in near:
        lines[n] = _line(ops[n])
    for _ in range(_TRIES):
        tried = bare._replace(texts=_texts(lines), told=len(near))
        if tried.size <= room:
            return tried
        grown = max(1, tried.size - bare.size)
        count = int(count * 0.9 * max(0, room - bare.size) / grown)
        if count < 1:
            break
        for n in near[count:]:
            lines[n] = ""
        del near[count:]
    return bare
