"""Nodes that were to be sampled and of which there are no samples: never, or not for a while."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Final

from dstest.monitor.alerts import Alert
from dstest.monitor.windows import Faults

__all__ = ["missing_samples"]

EVERY_MOST: Final = 3
"""Samples that may be late, or missed, one after the other, where they are far apart."""


STEP_NS: Final = 1_000_000_000
"""So long is a check of what a fault explains."""


def missing_samples(
    nodes: Sequence[str],
    times: Mapping[str, Sequence[int]],
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
    of a run that is `over` was. `times` are those of samples by node, in order."""
    limit_ns = int(max(limit_s, EVERY_MOST * every_s) * 1e9)
    for node in nodes:
        own = times.get(node, ())
        edges = [start_ns, *(at for at in own if start_ns < at < end_ns), end_ns]
        for begin, end in pairwise(edges):
            never = over and not own and end > begin
            if end - begin > limit_ns or never:
                least_ns = limit_ns if own else 0
                said = f"no sample of it for {(end - begin) / 1e9:.0f} s" if own else ""
                yield _alert(node, begin, end, end_ns, least_ns, faults, said)


def _alert(
    node: str,
    begin: int,
    end: int,
    last_ns: int,
    limit_ns: int,
    faults: Faults,
    said: str,
) -> Alert:
    """What faults leave of it unexplained counts where that by itself is longer than the limit: a
    node that was ended needs a moment to come back. Of one that never sampled all of it counts."""
    proven: dict[str, None] = {}
    others: dict[str, None] = {}
    unproven: dict[str, None] = {}
    odd = longest_ns = row_ns = checks = 0
    for at in range(begin, end, STEP_NS):
        until = min(at + STEP_NS, end)
        stood = faults.stood(node, at, until)
        mine = [one.fault_id for one in stood if one.explains]
        proven.update(dict.fromkeys(mine))
        unproven.update(dict.fromkeys(one.fault_id for one in stood if not one.proven))
        others.update(dict.fromkeys(o.fault_id for o in stood if o.proven and not o.explains))
        checks += 1
        odd += not mine
        row_ns = 0 if mine else row_ns + until - at
        longest_ns = max(longest_ns, row_ns)
    if proven and longest_ns <= limit_ns:
        odd = 0
    return Alert(
        rule="samples_missing",
        node=node,
        severity="high",
        begin_ns=begin,
        raised_ns=min(begin + limit_ns, end),
        end_ns=None if end >= last_ns else end,
        value=round((end - begin) / 1e9, 6),
        limit=round(limit_ns / 1e9, 6),
        unit="s",
        said=said or "no sample of it at all",
        warranted_by=list(proven),
        unproven=list(unproven),
        others=list(others),
        checks=checks,
        unexplained=odd,
        unexplained_severity="high" if odd else "",
    )
