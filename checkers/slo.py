"""`slo`: service levels that were declared before the run.

The option `slo` of the run declares them, separated by commas, as in `p99_ms<=50,ok_ratio>=0.999`:

    p50_ms p90_ms p95_ms p99_ms p999_ms max_ms   latency of what was served
    ok_ratio, unknown_ratio                      shares of all operations that were asked for
    ok_per_s                                     operations served per second
    gap_s                                        longest stretch in which none was served

`slo_of` names the types of operation that count (all), `slo_in` when (`all`, `faults`: while a
fault stood, `calm`: while none did), `slo_window_s` for how long at least; a shorter one leaves the
answer unknown. An operation of unknown outcome was not served within any latency: it counts as
slower than all others, so that time-outs do not make a percentile better. A percentile is told only
where ten operations at least lie beyond it. A level that no worse service could break, or that none
could keep, is refused.

| anomaly | meaning |
|---|---|
| slo-missed | a declared level was not kept |

Latencies count from when an operation was due where the load was open (`--rate`), and an operation
counts when it was due: while a service stands, its users go on wanting it. What was due and never
sent, since the load ended first, was not served either. In a closed loop they count from the
invocation: a client that waits asks for nothing else, so that a stall is counted once for each
client. Source: Tene, "How NOT to Measure Latency" (2013), for the
omission that is coordinated with the service.
"""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from checkers._findings import ANY_TYPE, Findings, Part, PerKey, in_one
from dstest.core.history import FaultWindow, History
from dstest.core.op import Op, Outcome
from dstest.core.protocols import Option

BEYOND_MIN: Final = 10
"""Operations beyond a percentile without which it is a guess."""

_COMPARE: Final[dict[str, Callable[[float, float], bool]]] = {
    "<=": operator.le,
    ">=": operator.ge,
    "<": operator.lt,
    ">": operator.gt,
}
_QUANTILES: Final = {"p50": 0.5, "p90": 0.9, "p95": 0.95, "p99": 0.99, "p999": 0.999}
METRICS: Final = (
    *(f"{name}_ms" for name in (*_QUANTILES, "max")),
    *("ok_ratio", "unknown_ratio", "ok_per_s", "gap_s"),
)
_ONE: Final = rf"\s*({'|'.join(METRICS)})\s*(<=|>=|<|>)\s*([0-9]+(?:\.[0-9]+)?)\s*"
_LEVEL: Final = re.compile(_ONE)


class Level(NamedTuple):
    """One declared service level: `metric`, how it compares, the threshold."""

    metric: str
    compare: str
    limit: float

    @property
    def flaw(self) -> str:
        """Why it tells no good service from a bad one; empty where it does."""
        share, more_is_better = self.metric.endswith("_ratio"), self.metric.startswith("ok_")
        if more_is_better != self.compare.startswith(">"):
            worse = "less" if more_is_better else "more"
            return f"cannot be broken by a worse service: {worse} is worse"
        ends = (0.0, 1.0 if share else math.inf)
        worst, best = ends if more_is_better else ends[::-1]
        holds = _COMPARE[self.compare]
        if math.isinf(self.limit) or holds(worst, self.limit):
            return "holds of everything"
        return "" if holds(best, self.limit) else "holds of nothing"

    def __str__(self) -> str:
        return f"{self.metric}{self.compare}{self.limit:g}"


def levels_of(text: str) -> list[Level]:
    """What `slo=...` declares. ValueError for what it cannot mean."""
    levels = []
    for part in filter(str.strip, text.split(",")):
        found = _LEVEL.fullmatch(part)
        if found is None:
            raise ValueError(
                f"no service level {part.strip()!r}: a metric ({', '.join(METRICS)}), <= or >=,"
                " a number"
            )
        level = Level(found[1], found[2], float(found[3]))
        if level.flaw:
            raise ValueError(f"service level {level} {level.flaw}")
        levels.append(level)
    return levels


def _flaw_of(text: str) -> str:
    """What is wrong with the levels that `text` declares; empty where nothing is."""
    try:
        levels_of(text)
    except ValueError as error:
        return str(error)
    return ""


class _Load(NamedTuple):
    """What was asked for in the stretches that count."""

    ops: list[Op]
    spans: list[tuple[int, int]]
    unsent: int

    @property
    def seconds(self) -> float:
        return sum(end - start for start, end in self.spans) / 1e9


def _merged(spans: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    merged: list[tuple[int, int]] = []
    for start, end in sorted(spans):
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        elif start < end:
            merged.append((start, end))
    return merged


def _spans(when: str, windows: list[FaultWindow], end_ns: int) -> list[tuple[int, int]]:
    """The stretches of `[0, end_ns]` that count."""
    faults = _merged(
        (max(0, w.start_ns), min(end_ns, end_ns if w.healed_ns is None else w.healed_ns))
        for w in windows
    )
    if when == "faults":
        return faults
    if when == "all":
        return [(0, end_ns)]
    edges = [0, *(edge for span in faults for edge in span), end_ns]
    return [(a, b) for a, b in zip(edges[::2], edges[1::2], strict=True) if a < b]


def _load(ops: list[Op], history: History, *, stopped: bool = False) -> _Load:
    """The operations that count, and when they were asked for."""
    header, options = history.header, history.header.options
    limit_s = None if stopped else header.time_limit_s
    last = max((max(op.invoke_ts, op.complete_ts or 0) for op in ops), default=0)
    # A load that stopped early has served nobody since.
    end_ns = last if limit_s is None else int(limit_s * 1e9)
    spans = _spans(str(options.get("slo_in") or "all"), header.windows, end_ns)
    types = {t.strip() for t in str(options.get("slo_of") or "").split(",") if t.strip()}
    starts = np.array([start for start, _ in spans], dtype=np.int64)
    ends = np.array([end for _, end in spans], dtype=np.int64)
    due = np.array([op.due_ns for op in ops], dtype=np.int64)
    at = np.searchsorted(starts, due, side="right") - 1
    inside = (at >= 0) & (due < ends[np.maximum(at, 0)]) if len(spans) else due < 0
    counted = [
        op
        for op, within in zip(ops, inside.tolist(), strict=True)
        if within and (not types or op.op_type in types)
    ]
    return _Load(counted, spans, header.counters.get("unsent", 0))


def _unplaced(history: History) -> str:
    """Why it cannot be told which of the operations that were never sent count; empty where it can:
    nobody has drawn what they would have been."""
    options, unsent = history.header.options, history.header.counters.get("unsent", 0)
    part = options.get("slo_of") or str(options.get("slo_in") or "all") != "all"
    if not unsent or not part:
        return ""
    return f"{unsent:,} operations were due and never sent, and which of them count is not known"


def _latencies_ms(load: _Load) -> Any:
    """Ascending; infinite where the outcome is unknown or nothing was sent, without those that were
    refused."""
    times = [
        np.inf if op.complete_ts is None or op.timeout_marker else op.complete_ts - op.due_ns
        for op in load.ops
        if op.outcome is not Outcome.FAIL
    ]
    return np.sort(np.array(times + [np.inf] * load.unsent, dtype=np.float64)) / 1e6


def _gap_s(load: _Load) -> float:
    """The longest stretch in which nothing was served."""
    served = np.sort(
        np.array([op.complete_ts for op in load.ops if op.outcome is Outcome.OK], dtype=np.int64)
    )
    longest = 0
    for start, end in load.spans:
        inside = served[np.searchsorted(served, start) : np.searchsorted(served, end)]
        edges = np.concatenate(([start], inside, [end]))
        longest = max(longest, int(np.diff(edges).max()))
    return longest / 1e9


def _measured(metric: str, load: _Load, latencies_ms: Any) -> float | str:
    """The value of a metric, or why there is none."""
    asked = len(load.ops) + load.unsent
    if metric == "gap_s":
        return _gap_s(load)
    if metric == "ok_per_s":
        return sum(op.outcome is Outcome.OK for op in load.ops) / load.seconds
    if metric.endswith("_ratio"):
        wanted = Outcome.OK if metric == "ok_ratio" else Outcome.UNKNOWN
        return sum(op.outcome is wanted for op in load.ops) / asked
    if metric == "max_ms":
        return float(latencies_ms[-1]) if len(latencies_ms) else "nothing was served"
    share = _QUANTILES[metric.removesuffix("_ms")]
    beyond = len(latencies_ms) * (1 - share)
    if beyond < BEYOND_MIN:
        return f"{len(latencies_ms)} operations are too few for {metric}"
    return float(latencies_ms[int(np.ceil(len(latencies_ms) * share)) - 1])


def measure(history: History, metric: str, *, stopped: bool) -> float | str:
    """As `measured_all`, of one metric."""
    return measure_all(history, [metric], stopped=stopped)[metric]


def measure_all(
    history: History, metrics: Sequence[str], *, stopped: bool
) -> dict[str, float | str]:
    """The value of each metric over the load of a run, or why there is none. `stopped`: the load
    was ended before its time limit on purpose, as by a violation, and lasted as long as its
    operations did. ValueError for a metric that is not in `METRICS`."""
    if strange := [metric for metric in metrics if metric not in METRICS]:
        raise ValueError(f"no metric {strange[0]!r}: there are {', '.join(METRICS)}")
    if why := _unplaced(history):
        return dict.fromkeys(metrics, why)
    load = _load(history.ops, history, stopped=stopped)
    if not load.ops or not load.seconds:
        return dict.fromkeys(metrics, "nothing was asked for")
    latencies_ms = _latencies_ms(load)
    return {metric: _measured(metric, load, latencies_ms) for metric in metrics}


def _from_when(level: Level, load: _Load) -> str:
    """From when a latency counts, where that is not the invocation."""
    if not level.metric.endswith("_ms") or not any(op.due_ns != op.invoke_ts for op in load.ops):
        return ""
    unsent = f"; {load.unsent:,} more were due and never sent" if load.unsent else ""
    return f", from when each was due{unsent}"


def _worst(ops: list[Op]) -> list[Op]:
    """Operations to look at, the worst last: those of unknown outcome, then the slowest."""

    def key(op: Op) -> float:
        unknown = op.complete_ts is None or op.timeout_marker
        return float("-inf") if unknown else float(op.due_ns - (op.complete_ts or 0))

    return sorted(ops, key=key)[2::-1]


def decide(part: Part, findings: Findings) -> int:
    """Levels that were not kept; how many were measured."""
    levels = levels_of(str(findings.options.get("slo") or ""))
    ops = sorted([*part.ok, *part.unknown, *part.failed], key=lambda op: op.invoke_ts)
    if not levels or not ops:
        return 0
    if why := _unplaced(findings.history):
        findings.undecide(part.key, why)
        return 0
    load = _load(ops, findings.history)
    wanted = {t.strip() for t in str(findings.options.get("slo_of") or "").split(",")} - {""}
    if absent := sorted(wanted - {op.op_type for op in ops}):
        findings.undecide(part.key, f"slo_of: no operation is a {absent[0]}")
        return 0
    least_s = float(findings.options.get("slo_window_s") or 0)
    if not load.ops or load.seconds < least_s:
        counted = f"{len(load.ops):,} operations count, in {load.seconds:.1f} s"
        findings.undecide(part.key, f"{counted} of {least_s:g} s at least")
        return 0
    latencies_ms = _latencies_ms(load)
    tested = 0
    for level in levels:
        found = _measured(level.metric, load, latencies_ms)
        if isinstance(found, str):
            findings.undecide(part.key, f"{level}: {found}")
            continue
        tested += 1
        findings.stats[level.metric] = None if np.isinf(found) else round(found, 6)
        if not _COMPARE[level.compare](found, level.limit):
            said = "no end of it was seen" if np.isinf(found) else f"{found:.4g}"
            message = (
                f"{level} was declared; over {len(load.ops):,} operations in {load.seconds:.1f} s"
                f" it is {said}{_from_when(level, load)}"
            )
            findings.anomaly("slo-missed", part.key, _worst(load.ops), message, minimal=False)
    findings.count(operations=len(load.ops))
    return tested


CHECKER: Final = PerKey(
    "slo",
    decide,
    models=("slo",),
    types=ANY_TYPE,
    vacuous="no service level was declared: -o slo=p99_ms<=50,ok_ratio>=0.999",
    observers=frozenset(),
    options={
        "slo": Option(
            type=str,
            default=None,
            pattern=f"{_ONE}(,{_ONE})*",
            flaw=_flaw_of,
            help="slo: levels to keep, as p99_ms<=50,ok_ratio>=0.999; of " + ", ".join(METRICS),
        ),
        "slo_of": Option(
            type=str, default=None, help="slo: types of operation that count; all of them"
        ),
        "slo_in": Option(
            type=str,
            default=None,
            choices=("all", "faults", "calm"),
            help="slo: when operations count: always, while faults stand, or while none does",
        ),
        "slo_window_s": Option(
            type=float, default=None, least=0, help="slo: seconds of load that must count at least"
        ),
    },
    key_of=in_one,
    kind="metric",
    claims=frozenset({"performance-SLO"}),
)
