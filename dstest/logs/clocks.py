"""Clocks of nodes: what was measured of them, so that lines of several nodes stand on one clock."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from dstest.core.run_meta import RunMeta
from dstest.logs.scene import Offset

SAME_KERNEL_NS: Final = 5_000_000
"""A node whose wall clock minus its own monotonic clock is ours within this has our kernel: two
machines have not booted within five milliseconds of one another."""


class Clocks:
    """`origin_ns` is wall minus run time on the clock of all; None where there is no run, and lines
    keep the time of 1970. `offsets` are by node; a node that is not there was not measured."""

    def __init__(
        self, origin_ns: int | None, offsets: Mapping[str, Offset], *, exact: bool = False
    ) -> None:
        self.origin_ns = origin_ns
        self.offsets = dict(offsets)
        self.exact = exact

    def aligned(self, node: str, wall_ns: int) -> tuple[int, int]:
        """(time, how far off it may be) of a stamp of this node."""
        offset = self.offsets.get(node)
        time_ns = wall_ns - (self.origin_ns or 0)
        return (time_ns - offset.offset_ns, offset.doubt_ns) if offset else (time_ns, 0)

    def said(self, nodes: list[str]) -> list[str]:
        """A sentence for each node, or one for all."""
        if self.exact:
            return ["a simulation has one clock: nothing was aligned"]
        if self.origin_ns is None:
            return ["no run, no measured clocks: times are as each node had them"]
        rows: dict[str, list[str]] = {}
        for node in nodes:
            if (one := self.offsets.get(node)) is None:
                rows.setdefault("not measured, times are as they had them", []).append(node)
                continue
            by, doubt = f"{-one.offset_ns / 1e6:+.3f} ms", f"{one.doubt_ns / 1e6:.3f}"
            rows.setdefault(one.how, []).append(f"{node} {by} (give or take {doubt} ms)")
        return [f"{', '.join(told)}: {how}" for how, told in rows.items()]


def clocks_of_run(meta: RunMeta) -> Clocks:
    """Of what a run measured at its start and its end."""
    if meta.origin_ns is None or meta.clock_start_ns is None:
        return Clocks(None, {})
    found = {}
    start, end = meta.node_offsets_start_ns or {}, meta.node_offsets_end_ns or {}
    for node in {*start, *end}:
        found[node] = _measured(start.get(node), end.get(node), meta.clock_start_ns)
    own = meta.node_clocks_start_ns or {}
    for node, wall_minus_mono_ns in own.items():
        apart = wall_minus_mono_ns - meta.clock_start_ns
        if node not in found and abs(apart) <= SAME_KERNEL_NS:
            found[node] = Offset(apart, abs(apart), "the clock of this host's own kernel")
    return Clocks(meta.clock_start_ns + meta.origin_ns, found)


def _measured(start: tuple[int, int] | None, end: tuple[int, int] | None, ours_ns: int) -> Offset:
    """The middle of both looks; how far they lie apart is part of the doubt."""
    looks = [one for one in (start, end) if one is not None]
    middle = sum(ours for ours, _ in looks) // len(looks)
    drift = max(abs(ours - middle) for ours, _ in looks)
    when = "at the start and the end" if len(looks) == 2 else "once"
    return Offset(
        middle - ours_ns, max(doubt for _, doubt in looks) + drift, f"measured {when} of the run"
    )
