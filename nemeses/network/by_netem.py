"""The faults of a queue, done by the kernel's netem: what stands, and what its counters show.

The kernel says what passed through a queue and how that queue is set, not what became of a single
packet (but for those that left it twice); the victim signal shows the rest, as it always does.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

from dstest.core.evidence import LandingRecord, Signal
from dstest.core.node import Node
from dstest.core.protocols import NemesisContext
from nemeses.base.path_evidence import path_of, used_paths
from nemeses.tools import netem
from nemeses.tools.netem import NetemSnapshot
from nemeses.tools.netqueue import Sender


async def snapshots(ctx: NemesisContext, record: LandingRecord) -> dict[str, NetemSnapshot]:
    """Of each affected node."""
    names = record.facts["affected"]
    found = await asyncio.gather(*(netem.take_snapshot(ctx.node(n)) for n in names))
    return dict(zip(names, found, strict=True))


def _rows(
    ctx: NemesisContext, path: str, seen: Mapping[str, NetemSnapshot]
) -> list[tuple[Sender, Mapping[str, Any]]]:
    source, destination = path_of(path)
    info, snapshot = ctx.node(source).info, seen[destination]
    addresses = [a for a in (info.address, info.address6) if a]
    return [(snapshot.senders.get(a, Sender()), snapshot.words.get(a, {})) for a in addresses]


def by_path(
    ctx: NemesisContext, record: LandingRecord, seen: Mapping[str, NetemSnapshot]
) -> dict[str, Sender]:
    """What was done per path that is hit, both families together."""
    found = {}
    for path in record.facts["cuts"]:
        total = Sender()
        for row, _ in _rows(ctx, path, seen):
            total = total.plus(row)
        found[path] = total
    return found


def vanished(record: LandingRecord, seen: Mapping[str, NetemSnapshot]) -> dict[str, str]:
    """Nodes on which less stands than was laid."""
    found = {}
    for name, snapshot in seen.items():
        if not snapshot.filters:
            found[name] = "filters"
        elif not all(snapshot.words.values()):
            found[name] = "a queue"
    return found


async def left_on(node: Node) -> list[str]:
    """What is left of such a fault on a node."""
    found = await node.run(["sh", "-c", netem.RESIDUE.look], timeout_s=5.0, check=False)
    return [line.removeprefix("ours ") for line in found.stdout.splitlines()]


def injector(
    ctx: NemesisContext,
    record: LandingRecord,
    seen: Mapping[str, NetemSnapshot],
    wanted: Mapping[str, Any],
    doubts: Sequence[str],
) -> Signal:
    """Packets of the system that left the queue of each path; it is set as it was asked for."""
    done = by_path(ctx, record, seen)
    counts = {path: row.delayed for path, row in done.items()}
    used = used_paths(record)
    problems = [f"{n}: {what} missing" for n, what in vanished(record, seen).items()]
    silent = [path for path in used if not counts.get(path)]
    if silent:
        problems.append(f"no packet through netem yet on {', '.join(silent)}")
    for path in record.facts["cuts"]:
        for _, words in _rows(ctx, path, seen):
            if odd := _differ(words, wanted):
                problems.append(f"{path}: netem is set to {odd}")
    problems += doubts
    return Signal(
        signal="packets per path that left the kernel's netem queue",
        before=dict.fromkeys(counts, 0),
        during=counts,
        moved=bool(used) and not problems,
        detail="; ".join(problems) or f"{sum(counts.values()):,} packets through netem",
    )


def _differ(words: Mapping[str, Any], wanted: Mapping[str, Any]) -> str:
    """How what is set differs from what was asked for; the kernel keeps shares in 32 bits."""
    for name, value in wanted.items():
        node: Any = words
        for part in name.split("."):
            node = node.get(part, {}) if isinstance(node, Mapping) else {}
        if not isinstance(node, int | float) or abs(node - value) > max(1e-3 * value, 1e-6):
            return f"{name}={node or 'nothing'}, not {value:g}"
    return ""
