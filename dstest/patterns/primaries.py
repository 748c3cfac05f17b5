"""Two primaries of one group at a time, by what servers' logs say of themselves."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from dstest.core.log_names import kept_name
from dstest.core.op import Op, Outcome
from dstest.logs.scene import Line
from dstest.patterns.history import SECOND_NS, of_ops
from dstest.patterns.model import Found, Row, row
from dstest.patterns.reigns import Reign
from dstest.patterns.scene import Scene, writes

ASKS_NS: Final = 5 * SECOND_NS
"""So long after a server has become a replica its primary tells what that one has beyond it."""

OPS_SHOWN: Final = 2


def two_primaries(scene: Scene) -> Iterator[Found]:
    """One server took over while the one that became its replica later was a primary still. That
    alone is what a group does that is cut in two; where the old one took writes meanwhile, or had
    taken some behind the cut of which its successor knows nothing, both were written to."""
    reigns = scene.noted.reigns.all
    for old in reigns:
        for new in reigns:
            if new.taken is None or new.node != old.successor or _ends(old) is None:
                continue
            if not _whole(scene, old.log):
                continue  # what was not kept of it may have ended the reign
            begin, end = new.taken.time_ns, _ends(old)
            if begin is None or end is None or old.first.time_ns is None:
                continue
            doubt = new.taken.doubt_ns + old.first.doubt_ns
            if old.first.time_ns + doubt < begin < end - doubt:
                yield _found(scene, old, new, begin, end)


def _whole(scene: Scene, log: str) -> bool:
    one = scene.meta.logs and scene.meta.logs.files.get(kept_name(log.removeprefix("nodes/")))
    return not one or one.kept >= one.bytes


def _ends(reign: Reign) -> int | None:
    return None if reign.until is None else reign.until.time_ns


def _found(scene: Scene, old: Reign, new: Reign, begin: int, end: int) -> Found:
    a, b = old.node, new.node
    odds = _at_odds(scene, new, end)
    took = _took(scene, old, begin, end)
    if not took and odds:
        took = _took(scene, old, _cut(scene, old, begin), begin)
    said = f"{a} and {b} were both primary of one group for {(end - begin) / 1e9:.1f} s"
    if took:
        said += f"; {a} acknowledged {len(took)} writes by itself"
    assert new.taken is not None and old.until is not None
    rows: list[Row] = [_row(new.taken, b), _row(old.until, a), *(_row(one, b) for one in odds[:1])]
    rows += of_ops(scene, took[:OPS_SHOWN], "").rows if took else []
    return Found(
        said=said,
        rows=rows,
        count=max(1, len(took)),
        nodes=sorted({a, b}),
        at_ns=begin,
        strength="strong" if took else "indicated",
        severity="critical" if took else "medium",
    )


def _row(line: Line, node: str) -> Row:
    return row("log", line.place, line.record.message, line.time_ns, node)


def _at_odds(scene: Scene, new: Reign, end: int) -> list[Line]:
    """Lines of the new one that tell of writes at odds, when the old one has come to it."""
    return [
        line
        for line in scene.noted.conflicts
        if line.time_ns is not None
        and line.place.rpartition(":")[0] == new.log
        and end <= line.time_ns + line.doubt_ns
        and line.time_ns <= end + ASKS_NS
    ]


def _cut(scene: Scene, old: Reign, begin: int) -> int:
    """A second after the fault was asked for that stood about the old one when another took over,
    and has landed; that moment itself where there is none."""
    stood = [
        window.start_ns
        for window in scene.windows.around(begin, 0)
        if window.landed and window.start_ns is not None and old.node in window.nodes
    ]
    return min(begin, min(stood, default=begin) + SECOND_NS)


def _took(scene: Scene, old: Reign, begin: int, end: int) -> list[Op]:
    """Writes that the old one acknowledged in a stretch; nobody knows which of a node's servers
    did, where more than one was a primary then."""
    for other in scene.noted.reigns.all:
        if other.node == old.node and other.log != old.log and _overlap(other, begin, end):
            return []
    return [
        op
        for op in scene.between(begin, end)
        if op.node_seen == old.node
        and op.outcome is Outcome.OK
        and writes(op)
        and (op.complete_ts or end) < end
    ]


def _overlap(reign: Reign, begin: int, end: int) -> bool:
    first, last = reign.first.time_ns, _ends(reign)
    return (first is None or first < end) and (last is None or last > begin)
