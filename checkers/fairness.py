"""`fairness`: is any group of clients served much worse than all of them together?

The groups are by `fairness_by`: `node`, `process`, `key`, `op_type`, or `group` (the input's field
of that name). All four thresholds must be declared in the options of the run, before it:

    fairness_p99_ratio     worst group's p99 latency / p99 of all, at most
    fairness_ok_per_s      good operations per second of each group, at least
    fairness_error_rate    share of operations that did not end well, of each group, at most
    fairness_spread        (most - fewest good operations) / most, over the thirds of the run,
                           worst group, at most

| anomaly | meaning |
|---|---|
| unfair-latency, starved-group, failing-group, unsteady-group | a threshold is crossed |

Percentiles need numbers: a group with fewer than 30 operations leaves the answer unknown.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from checkers._findings import ANY_TYPE, Findings, Part, PerKey, Unreadable, end_of, in_one
from dstest.core.op import Op, Outcome
from dstest.core.protocols import Option

THRESHOLDS: Final = (
    "fairness_p99_ratio",
    "fairness_ok_per_s",
    "fairness_error_rate",
    "fairness_spread",
)
GROUP_OPS_MIN: Final = 30


def _group(op: Op, by: str) -> Any:
    if by == "node":
        return op.node_seen
    if by == "process":
        return op.process_id
    if by == "group":
        return op.input.get("group") if isinstance(op.input, dict) else None
    if by in ("key", "op_type"):
        return getattr(op, by)
    raise Unreadable(op, f"fairness_by={by}: node, process, key, op_type or group")


def _p99_ms(ops: list[Op]) -> float:
    times = [end_of(op) - op.invoke_ts for op in ops if op.outcome is Outcome.OK]
    return float(np.percentile(np.array(times), 99)) / 1e6 if times else float("inf")


def _spread(ops: list[Op], start: int, end: int) -> float:
    """Difference between the thirds of the run, as a share of the best of them."""
    edges = np.linspace(start, end + 1, 4)
    counts, _ = np.histogram([op.invoke_ts for op in ops if op.outcome is Outcome.OK], edges)
    best = int(counts.max())
    return float(best - counts.min()) / best if best else 1.0


def _slowest(ops: list[Op]) -> list[Op]:
    """The three slowest, the slowest last."""
    done = [op for op in ops if op.outcome is Outcome.OK]
    return sorted(done, key=lambda op: op.invoke_ts - end_of(op))[2::-1] or ops[:3]


def decide(part: Part, findings: Findings) -> int:
    """Thresholds that a group crosses; how many comparisons were made."""
    limits: dict[str, Any] = {name: findings.options.get(name) for name in THRESHOLDS}
    absent = [name for name, limit in limits.items() if limit is None]
    if absent:
        findings.undecide(part.key, f"thresholds not declared: {', '.join(absent)}")
        return 0
    by = str(findings.options.get("fairness_by", "node"))
    everything = [*part.ok, *part.unknown, *part.failed]
    groups: dict[Any, list[Op]] = {}
    for op in everything:
        name = _group(op, by)
        if name is not None:
            groups.setdefault(name, []).append(op)
    if len(groups) < 2:
        return 0
    if small := [str(name) for name, ops in groups.items() if len(ops) < GROUP_OPS_MIN]:
        findings.undecide(part.key, f"too few operations in group {', '.join(sorted(small)[:3])}")
        return 0
    start = min(op.invoke_ts for op in everything)
    end = max(op.invoke_ts for op in everything)
    seconds = max(1, end - start) / 1e9
    overall = _p99_ms(everything)
    for name, ops in sorted(groups.items(), key=lambda g: str(g[0])):
        good = sum(1 for op in ops if op.outcome is Outcome.OK)
        rows = (
            ("unfair-latency", _p99_ms(ops) / overall, limits["fairness_p99_ratio"], "p99 ratio"),
            ("failing-group", 1 - good / len(ops), limits["fairness_error_rate"], "error rate"),
            ("unsteady-group", _spread(ops, start, end), limits["fairness_spread"], "spread"),
        )
        for kind, got, limit, what in rows:
            if not got <= float(limit):
                message = f"group {name}: {what} {got:.3f}, at most {limit} allowed"
                findings.anomaly(kind, part.key, _slowest(ops), message, minimal=False)
        if good / seconds < float(limits["fairness_ok_per_s"]):
            message = f"group {name}: {good / seconds:.1f} good operations per second, too few"
            findings.anomaly("starved-group", part.key, _slowest(ops), message, minimal=False)
    findings.count(groups=len(groups))
    return 4 * len(groups)


CHECKER: Final = PerKey(
    "fairness",
    decide,
    models=("fair",),
    types=ANY_TYPE,
    vacuous="there are fewer than two groups",
    observers=frozenset(),
    options={
        "fairness_by": Option(
            type=str,
            default=None,
            help="fairness: what makes a group",
            choices=("node", "process", "key", "op_type", "group"),
        ),
        **{
            name: Option(type=float, default=None, help="fairness: a threshold, see the checker")
            for name in THRESHOLDS
        },
    },
    key_of=in_one,
    claims=frozenset({"fairness"}),
)
