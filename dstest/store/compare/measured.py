"""What runs measured of how they served, by the metrics of the checker of service levels, and
whether they may be compared: only where everything but one declared thing is the same (RF9).
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec

from checkers.slo import measure
from dstest.core.builds import build_of
from dstest.core.errors import ConfigError
from dstest.core.history import History
from dstest.core.run_record import Host, RunMeta
from dstest.core.verdict import Verdict
from dstest.core.words import shell_word
from dstest.history.jsonl import read_history
from dstest.history.layout import RunDir
from dstest.report.summarize import FIGURES
from dstest.runner.integrity import is_finished, verify_run
from dstest.runner.session_file import runs_of
from dstest.store.compare.intervals import Difference, compare

FACTORS: Final = (
    *("dstest", "python", "kernel", "cpus", "lab", "nodes", "system", "system_version", "builds"),
    *("workload", "model", "checkers", "nemesis", "options", "concurrency", "rate"),
    *("time_limit_s", "plugin_files"),
)
"""What must be the same in all runs, but for what is compared on purpose."""


PER_NODE: Final = ("concurrency", "rate")
"""What may also be the same for each node, where sizes are compared."""

_NAMED_MAX: Final = 6

METRICS: Final = FIGURES
"""Those that are compared where nobody names others."""

MORE_IS_BETTER: Final = frozenset({"ok_per_s", "ok_ratio"})


class RunResult(msgspec.Struct, frozen=True, kw_only=True):
    """The conditions that a run was made under, and what it came to. `digest` is of its history."""

    path: Path
    meta: RunMeta
    verdict: Verdict
    digest: str


class RunOnSide(RunResult, frozen=True, kw_only=True):
    """A run of a side: what it recorded, and its verdict as its evidence gives it."""

    history: History


class Side(msgspec.Struct, frozen=True, kw_only=True):
    """The runs of one side."""

    name: str
    runs: tuple[RunOnSide, ...]


def side_of(
    name: str, paths: Sequence[Path], tell: Callable[[str], None] = lambda what: None
) -> Side:
    """The runs of these directories; of a session all of its arms. Raises EvidenceError where one
    is not what it left, ConfigError where it was never judged."""
    runs: list[RunOnSide] = []
    for path in paths:
        for run in runs_of(path):
            tell(f"{name}: run {len(runs) + 1}, {run}")
            runs.append(_one(run))
    return Side(name=name, runs=tuple(runs))


def _one(path: Path) -> RunOnSide:
    run = RunDir.open(path)
    meta = run.read_meta()
    if meta is None or not is_finished(run):
        raise ConfigError(
            f"{path} was not judged", remedy=f"`dstest recover {shell_word(path)}` judges it"
        )
    verdict = verify_run(run).verdict
    return RunOnSide(
        path=run.path,
        meta=meta,
        history=read_history(run.history),
        verdict=verdict,
        digest=hashlib.sha256(run.history.read_bytes()).hexdigest(),
    )


def differences(sides: Sequence[Side], meant: Collection[str]) -> list[str]:
    """What differs between runs though it is not `meant` to, and within a side in any case: one
    sentence each; empty where the comparison is fair."""
    return unfair([(side.name, side.runs) for side in sides], meant)


def unfair(sides: Sequence[tuple[str, Sequence[RunResult]]], meant: Collection[str]) -> list[str]:
    """As `differences`, of (name of the side, its runs)."""
    found = conditions_apart([(name, [run.meta for run in runs]) for name, runs in sides], meant)
    if len(sides) > 1 and {r.digest for r in sides[0][1]} & {r.digest for r in sides[1][1]}:
        found.append("a run stands on both sides")
    found += [
        f"{run.path} is {run.verdict.verdict.value}, no pass"
        for _, runs in sides
        for run in runs
        if not run.verdict.verdict.passed
    ]
    for name, runs in sides:
        if len({run.digest for run in runs}) < len(runs):
            found.append(f"a run of {name} is counted twice")
        found += _early((run.path, run.meta) for run in runs)
    return found


def _early(runs: Iterable[tuple[Path, RunMeta]]) -> list[str]:
    return [f"{path} ended early: {meta.ended_by}" for path, meta in runs if meta.ended_by]


def conditions_apart(
    sides: Sequence[tuple[str, Sequence[RunMeta]]], meant: Collection[str]
) -> list[str]:
    """Of (name of the side, what its runs recorded) those of `FACTORS` that differ, as sentences:
    between sides where that is not `meant`, and within a side in any case."""
    found = []
    for factor in FACTORS:
        values = {name: [_fact(meta, factor) for meta in metas] for name, metas in sides}
        for name, mine in values.items():
            if any(value != mine[0] for value in mine):
                found.append(f"{factor} differs between runs of {name}")
        first = [mine[0] for mine in values.values() if mine]
        if factor not in meant and any(value != first[0] for value in first):
            found.append(f"{factor}: {_values_text(first)}")
    return found


def sizes_apart(runs: Sequence[tuple[Path, RunMeta]]) -> list[str]:
    """What differs between runs of several sizes beside their number of nodes, and which ended
    early. As many clients and as high a rate in all of them are fair, and so is as much for each
    node."""
    by_size: dict[int, list[RunMeta]] = {}
    for _, meta in runs:
        by_size.setdefault(int(meta.spec.get("nodes") or len(meta.nodes)), []).append(meta)
    meant = {"nodes"} | {name for name in PER_NODE if _for_each_node(by_size, name)}
    sides = [(f"{size} nodes", metas) for size, metas in sorted(by_size.items())]
    found = conditions_apart(sides, meant)
    paths = [path.resolve() for path, _ in runs]
    twice = sorted({path.name for path in paths if paths.count(path) > 1})
    found += [f"{name} is counted twice" for name in twice]
    found += _early(runs)
    return found + [
        f"{path} ended early: its load has no end"
        for path, meta in runs
        if not meta.ended_by and not isinstance(meta.load_end_ns, int)
    ]


def _for_each_node(by_size: Mapping[int, Sequence[RunMeta]], name: str) -> bool:
    given = [(size, meta.spec.get(name)) for size, metas in by_size.items() for meta in metas]
    each = {value / size for size, value in given if isinstance(value, int | float)}
    return len(each) == 1 and all(value is not None for _, value in given)


def same_in(sides: Sequence[Side], factors: Sequence[str]) -> list[str]:
    """Those of these factors that have one value in the first runs of all sides."""
    first = [side.runs[0] for side in sides if side.runs]
    return [
        f for f in factors if all(_fact(run.meta, f) == _fact(first[0].meta, f) for run in first)
    ]


def _fact(meta: RunMeta, factor: str) -> Any:
    host = meta.host or Host()
    if factor in ("dstest", "python", "kernel", "cpus"):
        return getattr(host, factor)
    if factor == "plugin_files":
        return sorted((meta.plugin_files or {}).values())
    if factor in ("system_version", "model"):
        return getattr(meta, factor)
    if factor == "builds":
        return hashes_of(meta.spec.get("builds") or ())
    if factor == "checkers":
        return sorted(meta.checkers)
    if factor == "nemesis":
        return sorted({part.strip() for part in str(meta.spec.get("nemesis")).split(",")})
    return meta.spec.get(factor)


def hashes_of(builds: Sequence[str]) -> list[str]:
    """What is in these builds, wherever they lay; a name without a hash stands for itself."""
    return sorted(build.sha256 if (build := build_of(name)) else name for name in builds)


def _values_text(values: Sequence[Any]) -> str:
    if not all(isinstance(value, dict) for value in values):
        return " and ".join(_word(value)[:80] for value in values)
    names = sorted({name for value in values for name in value})
    found = [[value.get(name) for value in values] for name in names]
    apart = {n: v for n, v in zip(names, found, strict=True) if any(one != v[0] for one in v)}
    shown = [
        f"{name} {' and '.join(map(_word, v))}" for name, v in list(apart.items())[:_NAMED_MAX]
    ]
    return "; ".join(shown) + (f"; {len(apart) - _NAMED_MAX} more" * (len(apart) > _NAMED_MAX))


def _word(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(map(str, value)) or "none"
    return "none" if value is None else str(value)


_WORDS: Final = {
    "max_ms": "longest latency, ms",
    "ok_ratio": "share of operations that were served",
    "unknown_ratio": "share of operations whose outcome is unknown",
    "ok_per_s": "operations served per second",
    "gap_s": "longest stretch in which none was served, s",
    "p50_ms": "median latency, ms",
}


def differences_of(
    baseline: Side,
    candidate: Side,
    metrics: Sequence[str],
    *,
    tolerance: float,
    confidence: float,
    comparisons: int | None = None,
) -> list[Difference]:
    """Each metric over the load of all runs. `comparisons` are those of the decision, by itself as
    many as there are metrics. ValueError for a metric that there is not."""
    rows = []
    for metric in metrics:
        found = [
            [measure(run.history, metric, stopped=bool(run.meta.stopped_by)) for run in side.runs]
            for side in (baseline, candidate)
        ]
        row = compare(
            metric,
            [_value(one) for one in found[0]],
            [_value(one) for one in found[1]],
            more_is_better=metric in MORE_IS_BETTER,
            tolerance=tolerance,
            confidence=confidence,
            comparisons=comparisons or len(metrics),
        )
        lacking = dict.fromkeys(one for side in found for one in side if isinstance(one, str))
        rows.append(msgspec.structs.replace(row, why="; ".join(filter(None, [row.why, *lacking]))))
    return rows


def metric_words(metric: str) -> str:
    """What a metric is: `99th percentile of latency, ms`."""
    per = metric.removeprefix("p").removesuffix("_ms")
    shown = f"{per[:2]}.{per[2:]}".rstrip(".")
    return _WORDS.get(metric) or f"{shown}th percentile of latency, ms"


def _value(found: float | str) -> float:
    """Not a number where there is no value."""
    return float("nan") if isinstance(found, str) else found
