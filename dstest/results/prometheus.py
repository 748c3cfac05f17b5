"""Results in the text format of Prometheus, as node_exporter's textfile collector reads it."""

from __future__ import annotations

import datetime
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

from dstest.ci.paths import shown_path
from dstest.core.printable import escaped
from dstest.core.verdict import State
from dstest.results.model import ENDED_EARLY, NOT_BELIEVED, Result, RunFacts

if TYPE_CHECKING:
    from prometheus_client.core import GaugeMetricFamily

_WORDS: Final = (*(state.value for state in State), ENDED_EARLY, NOT_BELIEVED)
_STAMP: Final = "%Y%m%dT%H%M%SZ"


class _Families:
    """The metrics by name, each with its help and its labels."""

    def __init__(self) -> None:
        self.made: dict[str, GaugeMetricFamily] = {}

    def add(self, name: str, help_: str, labels: dict[str, str], value: float) -> None:
        from prometheus_client.core import GaugeMetricFamily

        if name not in self.made:
            self.made[name] = GaugeMetricFamily(name, help_, labels=list(labels))
        self.made[name].add_metric([escaped(text) for text in labels.values()], value)

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """As a collector of prometheus_client."""
        yield from self.made.values()


def _verdict(out: _Families, result: Result, about: dict[str, str]) -> None:
    for word in _WORDS:
        labels = {**about, "state": word}
        help_ = "1 for what the verdict is, 0 for what it is not."
        out.add("dstest_verdict", help_, labels, float(word == result.word))
    out.add("dstest_passed", "1 for a pass of what was asked for.", about, float(result.green))
    help_ = "What dstest report exits with: 0 pass, 1 violation, 3 not proven."
    out.add("dstest_exit_code", help_, about, float(result.exit))


def timestamp_s(started: str) -> float | None:
    """Seconds since 1970 of a stamp such as `20261121T215100Z`; None where it is none."""
    try:
        found = datetime.datetime.strptime(started, _STAMP).replace(tzinfo=datetime.UTC)
    except ValueError:
        return None
    return found.timestamp()


def _run(out: _Families, run: RunFacts, about: dict[str, str]) -> None:
    told = {
        **about,
        "system": run.system,
        "system_version": run.system_version,
        "workload": run.workload,
        "nemesis": run.nemesis,
        "model": run.model,
        "seed": str(run.seed),
        "nodes": str(run.nodes),
        "tier": run.tier_met,
        "rule": run.rule,
        "dstest": run.dstest,
    }
    out.add("dstest_run_info", "What the run was; always 1.", told, 1.0)
    if (started := timestamp_s(run.started)) is not None:
        out.add("dstest_run_start_timestamp_seconds", "When it began.", about, started)
    help_ = (
        "First invocation to the end of the load, final reads not included; to the last invocation "
        "where that end is not known."
    )
    out.add("dstest_run_load_seconds", help_, about, run.load_s)
    planned, landed = float(run.faults_planned), float(run.faults_landed)
    out.add("dstest_run_faults_planned", "Faults that were planned.", about, planned)
    out.add("dstest_run_faults_landed", "Faults proven to have landed.", about, landed)
    for row in run.types:
        for outcome, count in (("ok", row.ok), ("fail", row.fail), ("unknown", row.unknown)):
            labels = {**about, "op_type": row.op_type, "outcome": outcome}
            out.add("dstest_run_operations", "Operations by outcome.", labels, float(count))
        for quantile, ms in (("0.5", row.p50_ms), ("0.99", row.p99_ms), ("1", row.max_ms)):
            if ms is not None:
                labels = {**about, "op_type": row.op_type, "quantile": quantile}
                help_ = "Latency of operations that succeeded."
                out.add("dstest_run_latency_seconds", help_, labels, ms / 1e3)
    help_ = "Anomalies that were counted, with a witness or without, each once."
    out.add("dstest_run_anomalies", help_, about, float(run.anomalies))
    for checker, kind, count in run.counted:
        labels = {**about, "checker": checker, "anomaly": kind}
        help_ = "Anomalies that a checker counted, by kind."
        out.add("dstest_run_anomalies_by_kind", help_, labels, float(count))


def render_prometheus(results: Sequence[Result], now_ns: int) -> str:
    """The exposition; the label `path` tells results apart. `now_ns` is since 1970."""
    from prometheus_client import CollectorRegistry, generate_latest

    out = _Families()
    for result in results:
        about = {"path": shown_path(result.path), "kind": result.kind}
        _verdict(out, result, about)
        if result.run is not None:
            _run(out, result.run, about)
    help_ = "When these metrics were written."
    out.add("dstest_report_timestamp_seconds", help_, {}, now_ns / 1e9)
    registry = CollectorRegistry(auto_describe=False)
    registry.register(out)
    return generate_latest(registry).decode()
