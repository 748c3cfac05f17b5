"""Are two runs one? A copy under another name and seed would make one run two that agree.

Two runs never take the same nanoseconds: of operations with the same number, hardly any has the
same duration in both. In a copy nearly all have, also where its times were shifted, its seed was
changed, or a part of it was cut away.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec

from dstest.gate.judged import JudgedRun
from dstest.gate.rules import Finding

__all__ = ["doubles"]

_LOOKED_AT: Final = 2_000
"""Operations from the beginning of each run."""
_SHARE: Final = 0.5


class _Line(msgspec.Struct, frozen=True):
    op_id: Any
    invoke_ts: int
    complete_ts: int | None = None


def _durations(run: Path) -> dict[Any, int]:
    """By operation how long it took, of the first that completed."""
    found: dict[Any, int] = {}
    decoder = msgspec.json.Decoder(_Line)
    with (run / "history.jsonl").open("rb") as file:
        file.readline()
        for line in file:
            try:
                op = decoder.decode(line)
            except msgspec.MsgspecError:
                continue  # what cannot be read was found before
            if op.complete_ts is not None:
                found[op.op_id] = op.complete_ts - op.invoke_ts
            if len(found) == _LOOKED_AT:
                break
    return found


def doubles(runs: Sequence[JudgedRun]) -> Iterator[Finding]:
    """Each run that is another one, under the one that was found first."""
    seen: list[tuple[JudgedRun, int]] = []
    of: dict[tuple[Any, int], list[int]] = {}
    """By number and duration of an operation the runs, by their places in `seen`, that have it."""
    for run in runs:
        mine = _durations(run.path)
        same = Counter(at for took in mine.items() for at in of.get(took, ()))
        at = next((at for at, n in sorted(same.items()) if _alike(n, len(mine), seen[at][1])), None)
        if at is not None:
            other = seen[at][0].path
            what = f"it is {other} once more: its operations took the same nanoseconds"
            yield Finding(rule="G06", what=what, where=str(run.path))
            continue
        for took in mine.items():
            of.setdefault(took, []).append(len(seen))
        seen.append((run, len(mine)))


def _alike(same: int, one: int, other: int) -> bool:
    return same > _SHARE * min(one, other)
