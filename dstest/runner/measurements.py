"""What was measured of a run, from its directory: of one that has ended, or that goes on."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import msgspec

from dstest.core import registry
from dstest.core.errors import ConfigError, EvidenceError
from dstest.core.op import Op
from dstest.core.protocols import PINNED_KINDS
from dstest.core.run_record import RunMeta, RunSpec
from dstest.debug.monitor.analysis import Inputs, RunAnalysis, analyse
from dstest.debug.monitor.client import (
    BASELINE,
    CLIENT,
    NODES,
    Clients,
    Load,
    client_rows,
    encode_rows,
    read_rows,
    series_of,
)
from dstest.debug.monitor.scale import lacking_of, value_of
from dstest.debug.monitor.settings import Settings, faults_of, unwell_ns_of
from dstest.debug.monitor.silence import limit_ns_of
from dstest.history.layout import RunDir
from dstest.history.segment import Folded, fold
from dstest.history.sums import SUMS
from dstest.judge.facts import MeasuredBaseline
from dstest.runner.samplers import every_s
from dstest.runner.session_file import SessionDir, is_session, runs_of


def monitored(path: Path, settings: Settings | None = None) -> tuple[RunAnalysis, RunMeta, Load]:
    """One look at a run directory. Raises ConfigError, EvidenceError where there is none."""
    run = RunDir.open(path)
    meta = run.read_meta()
    if meta is None:
        raise ConfigError(
            f"{run.path} has no run.json", remedy="wait until its nodes are up, or give another"
        )
    given = inputs_of(run, meta, fold(run.segments), settings or Settings())
    return analyse(given), meta, given.load


def _spec_of(meta: RunMeta) -> RunSpec:
    try:
        return msgspec.convert(meta.spec, RunSpec)
    except msgspec.ValidationError as error:
        raise EvidenceError(
            f"the spec of run.json cannot be read: {error}",
            remedy="it was cut off or changed; take the file from where the run was made",
        ) from None


def is_sampled(meta: RunMeta) -> bool:
    """Were its nodes to be sampled? Versions that took no samples say nothing of it."""
    return meta.spec.get("monitor") is True


def load_of(meta: RunMeta, ops: list[Op], folded: Folded) -> Load:
    """The operations of a run as its load."""
    spec = _spec_of(meta)
    timeout_s = spec.options.get("op_timeout_s")
    if not isinstance(timeout_s, int | float):
        raise EvidenceError(
            "run.json does not say when clients gave up (spec.options.op_timeout_s)",
            remedy="take the file from where the run was made",
        )
    # Clients that go where the system sends them: a loss says nothing of the node they came by.
    led = {one.node for one in meta.endpoints or () if one.kind not in PINNED_KINDS}
    return Load(
        ops=ops,
        end_ns=meta.load_end_ns if isinstance(meta.load_end_ns, int) else None,
        races=registry.known("systems", spec.system).conflict_errors,
        node_of={of: node for of, node in folded.process_nodes.items() if node not in led},
        timeout_ns=int(timeout_s * 1e9),
    )


def inputs_of(run: RunDir, meta: RunMeta, folded: Folded, settings: Settings) -> Inputs:
    """What a look takes."""
    load = load_of(meta, folded.ops, folded)
    return Inputs(
        nodes=list(meta.members or meta.nodes),
        rows=read_rows(run.path / NODES),
        load=load,
        faults=faults_of(folded.records, meta, settings.after_heal_s, load.timeout_ns),
        unwell_ns=unwell_ns_of(folded.records, meta),
        every_s=every_s(_spec_of(meta).time_limit_s) if is_sampled(meta) else None,
        settings=settings,
    )


def write_monitored(run: RunDir, meta: RunMeta, folded: Folded) -> RunAnalysis | None:
    """What follows from the samples of a run, into its `metrics/`, by the usual thresholds. None,
    and no file, of a run that was not sampled: it is judged as one of a version without samples.
    One whose sampler has told how it went was, wherever its samples are."""
    if not (run.path / NODES).is_file() and not (is_sampled(meta) and meta.monitor is not None):
        return None
    (run.path / NODES).parent.mkdir(exist_ok=True)
    given = inputs_of(run, meta, folded, Settings())
    found = analyse(given)
    run.write(CLIENT, encode_rows(client_rows(given.load)))
    run.write_json(BASELINE, found.plain)
    return found


def measured_of(found: RunAnalysis | None) -> MeasuredBaseline | None:
    """For the judge: the baseline, where one could be measured. One that is short is told, and
    nothing is held against it."""
    if found is None or found.baseline.status == "none":
        return None
    base = found.baseline
    return MeasuredBaseline(
        accepted=base.status == "accepted" and base.whole,
        ok_per_s=base.throughput,
        p99_ms=base.p99_ms,
        said=f"{base.status}: {base.said}",
    )


def points_of(paths: Iterable[Path], metric: str) -> tuple[list[tuple[int, float]], str, list[str]]:
    """(nodes, value) of each run, those of a session among them, the unit of the values, and as
    sentences which nodes have no samples. Raises ConfigError for a run that does not have it."""
    found: list[tuple[int, float]] = []
    unit, unfair = "1", []
    for path in whole_runs_of(paths):
        run = RunDir.open(path)
        meta = run.read_meta()
        if meta is None:
            raise ConfigError(f"{run.path} has no run.json", remedy="leave it out")
        given = inputs_of(run, meta, fold(run.segments), Settings())
        rows = list(given.rows)
        clients = Clients(given.load)
        first_ns = given.faults.first_ns
        end_ns = clients.end_ns if first_ns is None else min(clients.end_ns, first_ns)
        units, series = {row.name: row.unit for row in rows}, series_of(rows)
        try:
            value, unit = value_of(metric, clients, series, units, end_ns)
        except ConfigError as error:
            raise ConfigError(f"{path}: {error.message}", remedy=error.remedy) from None
        found.append((len(given.nodes), value))
        limit_ns = limit_ns_of(given.settings.samples_missing_s, given.every_s or 0.0)
        lacking = lacking_of(metric, given.nodes, clients, series, end_ns, limit_ns)
        if lacking:
            verb = "has" if len(lacking) == 1 else "have"
            unfair.append(f"{', '.join(lacking)} of {path} {verb} no samples of {metric}")
    return found, unit, unfair


def whole_runs_of(paths: Iterable[Path]) -> list[Path]:
    """Those of sessions as well. Raises EvidenceError where one is not as it was summed up."""
    found = []
    for path in paths:
        if is_session(path) and (path / SUMS).is_file():
            SessionDir.open(path).intact()
        found += runs_of(path)
    return found
