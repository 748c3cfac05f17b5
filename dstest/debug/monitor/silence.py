"""Nodes that were to be sampled and of which there are no samples: never, or not for a while.

What counts are series that a sampler takes each time, whatever servers do (`client.STEADY`). A node
samples on its own, cut off or with a server that is dead, so only a fault that ends the node itself
(`Nemesis.restarts_nodes`) explains that there are none.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Final, NamedTuple

from dstest.debug.monitor.alerts import Alert
from dstest.debug.monitor.client import STEADY, Series
from dstest.debug.monitor.settings import Faults, quantile

SAMPLES_MISSING: Final = "samples_missing"

EVERY_MOST: Final = 3
"""Samples that may be late, or missed, one after the other, where they are far apart."""

STEP_NS: Final = 1_000_000_000
"""So long is a check of what a fault explains."""

NEVER: Final = "no sample of it at all"


class _Silence(NamedTuple):
    """From `begin_ns` to `end_ns`; so much of it, `excused_ns`, may be left unexplained by faults,
    as a node that was ended needs a moment to come back."""

    node: str
    begin_ns: int
    end_ns: int
    excused_ns: int
    said: str


def limit_ns_of(limit_s: float, every_s: float) -> int:
    """How long there may be no sample where one is due each `every_s`."""
    return int(max(limit_s, EVERY_MOST * every_s) * 1e9)


def spacing_ns(points: Series) -> float:
    """What mostly lies between two samples; 0 where there are less than two."""
    apart = sorted(then - now for (now, _), (then, _) in pairwise(points))
    return quantile(apart, 0.5) if apart else 0.0


def silent_for_ns(points: Series, start_ns: int, end_ns: int) -> int:
    """The longest stretch between two moments that has no sample."""
    edges = [start_ns, *(at for at, _ in points if start_ns < at < end_ns), end_ns]
    return max(end - begin for begin, end in pairwise(edges))


def missing_samples(
    nodes: Sequence[str],
    series: Mapping[tuple[str, str], Series],
    start_ns: int,
    end_ns: int,
    *,
    over: bool,
    limit_s: float,
    every_s: float,
    faults: Faults,
) -> Iterator[Alert]:
    """An alert for each stretch of the load, from `start_ns` up to `end_ns`, in which a node of
    `nodes` has no sample for longer than `limit_s`; for a node without any, however short the load
    of a run that is `over` was; and for series that stopped for good while others of the node, or
    the same of another one, went on. `series` are by (node, name), each in order."""
    limit_ns = limit_ns_of(limit_s, every_s)
    names = sorted({name for node, name in series if node and name in STEADY})
    for node in nodes:
        times = {name: [at for at, _ in series.get((node, name), ())] for name in names}
        for one in _silences(node, times, start_ns, end_ns, over, limit_ns, every_s):
            yield _alert(one, end_ns, limit_ns, faults)


def _silences(
    node: str,
    times: Mapping[str, Sequence[int]],
    start_ns: int,
    end_ns: int,
    over: bool,
    limit_ns: int,
    every_s: float,
) -> Iterator[_Silence]:
    every = sorted({at for row in times.values() for at in row})
    within = [at for at in every if start_ns < at < end_ns]
    # A load that is shorter than a few samples may lie between two of them.
    long_enough = not every or end_ns - start_ns > EVERY_MOST * every_s * 1e9
    if over and not within and end_ns > start_ns and long_enough:
        yield _Silence(node, start_ns, end_ns, 0, NEVER)
        return
    for begin, end in pairwise([start_ns, *within, end_ns]):
        if end - begin > limit_ns:
            said = f"no sample of it for {(end - begin) / 1e9:.0f} s"
            yield _Silence(node, begin, end, limit_ns, said)
    lasts = {
        name: max((at for at in row if start_ns < at < end_ns), default=start_ns)
        for name, row in times.items()
    }
    last_ns = max(lasts.values(), default=start_ns)
    stopped = {name: at for name, at in lasts.items() if last_ns - at > limit_ns}
    if stopped:
        first_ns = min(stopped.values())
        lasted_s = (end_ns - first_ns) / 1e9
        said = f"no sample of {', '.join(stopped)} of it in the last {lasted_s:.0f} s or less"
        yield _Silence(node, first_ns, end_ns, limit_ns, f"{said}, while others went on")


def _alert(one: _Silence, last_ns: int, limit_ns: int, faults: Faults) -> Alert:
    """What faults leave of it unexplained is summed, and counts where that is longer than it may
    be: faults that follow each other closely hide no sampler that died in the first of them."""
    begin, end = one.begin_ns, one.end_ns
    ended = faults.ended(one.node, begin, end)
    odd_ns = end - begin - _covered_ns([(start, until) for _, start, until in ended])
    proven = list(dict.fromkeys(fault_id for fault_id, _, _ in ended))
    stood = faults.stood(one.node, begin, end)
    odd = -(-odd_ns // STEP_NS) if odd_ns > one.excused_ns or not proven else 0
    return Alert(
        rule=SAMPLES_MISSING,
        node=one.node,
        severity="high",
        begin_ns=begin,
        raised_ns=min(begin + one.excused_ns, end),
        end_ns=None if end >= last_ns else end,
        value=round((end - begin) / 1e9, 6),
        limit=round(limit_ns / 1e9, 6),
        unit="s",
        said=one.said,
        warranted_by=proven,
        unproven=[fault.fault_id for fault in stood if not fault.proven],
        others=[f.fault_id for f in stood if f.proven and f.fault_id not in proven],
        checks=-(-(end - begin) // STEP_NS),
        unexplained=odd,
        unexplained_severity="high" if odd else "",
    )


def _covered_ns(stretches: Sequence[tuple[int, int]]) -> int:
    """How long at least one of them lasts."""
    covered = reached = 0
    for start, until in sorted(stretches):
        covered += max(0, until - max(start, reached))
        reached = max(reached, until)
    return covered
