"""Promises that servers wrote down and did not keep. Source: Ongaro and Ousterhout, "In Search of
an Understandable Consensus Algorithm" (2014), section 5.4."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from dstest.patterns.journal import Replica, Step, replicas
from dstest.patterns.model import Found, Row
from dstest.patterns.scene import Scene


def _differs(mine: Replica, first: int, rows: list[Any], upto: int) -> int:
    """The first index up to `upto` at which other entries, or none, stand from now on; 0: none."""
    for index in range(first, upto + 1):
        at = index - first
        new = rows[at] if at < len(rows) else None
        old = mine.at(index)
        if old is not None and (new is None or (new[0], new[1]) != old):
            return index
    return 0


def promises_broken(scene: Scene) -> Iterator[Found]:
    """Where a server starts again without entries that it had acknowledged."""
    found: dict[str, list[tuple[Step, int, int]]] = {}
    for step, mine, _ in replicas(scene.told):
        if step.kind != "start" or not mine.acked:
            continue
        first, rows = int(step.fields.get("first") or 1), step.fields.get("rows") or []
        index = _differs(mine, first, rows, mine.acked)
        if index:
            found.setdefault(step.node, []).append((step, index, mine.acked))
    for node, cases in found.items():
        rows_: list[Row] = [
            step.row(f"{node} starts without entry {index}, and had acknowledged up to {acked}")
            for step, index, acked in cases[:6]
        ]
        lost = sum(acked - index + 1 for _, index, acked in cases)
        yield Found(
            said=f"{node} lost {lost} entries that it had acknowledged",
            rows=rows_,
            count=len(cases),
            nodes=[node],
            at_ns=cases[0][0].time_ns,
        )


def commits_undone(scene: Scene) -> Iterator[Found]:
    """Where a server that knew an entry to be committed takes another one in its place."""
    found: dict[str, list[Row]] = {}
    first_ns: dict[str, int | None] = {}
    for step, mine, _ in replicas(scene.told):
        if step.kind != "accept" or not mine.commit:
            continue
        first, rows = int(step.fields.get("first") or 1), step.fields.get("rows") or []
        index = _differs(mine, first, rows, min(mine.commit, first + len(rows) - 1))
        if index:
            said = f"{step.node} takes another entry {index}, and had committed up to {mine.commit}"
            found.setdefault(step.node, []).append(step.row(said))
            first_ns.setdefault(step.node, step.time_ns)
    for node, rows_ in found.items():
        yield Found(
            said=f"{node} replaced entries that it knew to be committed",
            rows=rows_[:6],
            count=len(rows_),
            nodes=[node],
            at_ns=first_ns[node],
        )
