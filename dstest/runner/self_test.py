"""The judge on broken copies of the run that it is judging; see `dstest.judge.canary_audit`.

The functions that judge are handed in: what is tested is what judges. Here are the copies that are
made of the record itself: segments with a flipped bit or a doubled answer, counts that differ.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from dstest.core.run_meta import RunMeta
from dstest.judge.canary_audit import row
from dstest.runner.reconcile import Beside, Reconciled
from dstest.store.seal import Folded
from dstest.store.segment import text_of

Fold = Callable[[Path], Folded]
Reconcile = Callable[[Folded, RunMeta, Beside], Reconciled]

LINES_MAX: Final = 200
"""Lines of a segment that are copied, broken and read again."""


def _refold(lines: list[bytes], name: str, fold: Fold) -> dict[str, int]:
    with tempfile.TemporaryDirectory(prefix="dstest-canary-") as directory:
        (Path(directory) / name).write_bytes(b"".join(lines))
        return fold(Path(directory)).counters


def _segments(segments: Path, fold: Fold) -> list[dict[str, Any]]:
    """A flipped bit and a doubled answer in the beginning of a worker's segment."""
    files = sorted(segments.glob("worker-*.seg"))
    if not files:
        return []
    with files[0].open("rb") as file:
        lines = [line for line in file.readlines(1 << 20) if text_of(line[:-1]) is not None]
    lines = lines[:LINES_MAX]
    # Nothing may follow the line that ends a segment.
    lines = [line for line in lines if line[9:13] != b'["e"']
    answers = [line for line in lines if line[9:13] in (b'["o"', b'["f"')]
    if len(lines) < 2 or not answers:
        return []
    name = files[0].name
    flipped = bytearray(lines[1])
    flipped[len(flipped) // 2] ^= 4
    damaged = _refold([lines[0], bytes(flipped), *lines[2:]], name, fold)["damaged_lines"]
    doubled = _refold([*lines, answers[0]], name, fold)["duplicate_completions"]
    return [
        row("fold", "bit", f"a bit of {name} is flipped", damaged > 0, ["damaged_lines"]),
        row("fold", "twice", f"{name} answers twice", doubled > 0, ["duplicate_completions"]),
    ]


def record_canaries(
    segments: Path,
    folded: Folded,
    meta: RunMeta,
    beside: Beside,
    fold: Fold,
    reconcile: Reconcile,
) -> list[dict[str, Any]]:
    """Broken copies of the record, each of which the reconciliation must notice; none of a record
    that does not reconcile as it is."""
    if reconcile(folded, meta, beside).wrong:
        return []
    damaged = {**folded.counters, "damaged_lines": folded.counters["damaged_lines"] + 1}
    broken = {"damaged-line": ("a line cannot be read", folded._replace(counters=damaged))}
    # A run that died has no board to compare its answers with.
    board = meta.traffic or {}
    for node in [n for n in folded.by_node if board.get(n, {}).get("ok")][:1]:
        fewer = {**folded.by_node[node], "ok": board[node]["ok"] - 1}
        changed = folded._replace(by_node={**folded.by_node, node: fewer})
        broken["one-answer-less"] = (f"an answer of {node} is missing", changed)
    for record in folded.records[:1] if meta.records is not None else ():
        changed = folded._replace(records=folded.records[1:])
        broken["no-record"] = (f"the record of {record.fault_id} is missing", changed)
    rows = _segments(segments, fold)
    for kind, (said, copy) in broken.items():
        mismatches = set(reconcile(copy, meta, beside).wrong)
        rows.append(row("reconcile", kind, said, bool(mismatches), sorted(mismatches)[:1]))
    return rows
