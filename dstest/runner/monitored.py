"""What was measured of a run, from its directory: of one that has ended, or that goes on."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import msgspec

from dstest.core import registry
from dstest.core.errors import ConfigError
from dstest.core.evidence import LandingRecord
from dstest.core.op import Op
from dstest.core.protocols import SystemTraits
from dstest.core.run_meta import Recovery, RunMeta
from dstest.core.spec import RunSpec
from dstest.judge.facts import Measured
from dstest.monitor.client import Load, client_rows
from dstest.monitor.look import Inputs, Monitored, look
from dstest.monitor.rows import BASELINE, CLIENT, NODES, encoded, read_rows
from dstest.monitor.settings import Settings
from dstest.store.layout import RunDir
from dstest.store.seal import Folded, fold

__all__ = ["inputs_of", "load_of", "measured_of", "monitored", "write_monitored"]


def monitored(path: Path, settings: Settings | None = None) -> tuple[Monitored, RunMeta, Load]:
    """One look at a run directory. Raises ConfigError, EvidenceError where there is none."""
    run = RunDir.open(path)
    meta = run.read_meta()
    if meta is None:
        raise ConfigError(
            f"{run.path} has no run.json", remedy="wait until its nodes are up, or give another"
        )
    given = inputs_of(run, meta, fold(run.segments), settings or Settings())
    return look(given), meta, given.load


def load_of(meta: RunMeta, ops: list[Op], folded: Folded) -> Load:
    """The operations of a run as its load."""
    spec = msgspec.convert(meta.spec, RunSpec)
    try:
        races = SystemTraits.of(registry.load("systems", spec.system)).conflict_errors
    except ConfigError:
        races = frozenset()
    return Load(
        ops=ops,
        end_ns=meta.load_end_ns if isinstance(meta.load_end_ns, int) else None,
        races=races,
        node_of=folded.process_nodes,
        timeout_ns=int(float(spec.options.get("op_timeout_s", 2.0)) * 1e9),
    )


def inputs_of(run: RunDir, meta: RunMeta, folded: Folded, settings: Settings) -> Inputs:
    """What a look takes."""
    records: list[LandingRecord] = folded.records
    recoveries: Iterable[Recovery] = meta.recoveries or []
    return Inputs(
        nodes=list(meta.members or meta.nodes),
        rows=read_rows(run.path / NODES),
        load=load_of(meta, folded.ops, folded),
        records=records,
        recoveries=list(recoveries),
        settings=settings,
    )


def write_monitored(run: RunDir, meta: RunMeta, folded: Folded) -> Monitored | None:
    """What follows from the samples of a run, into its `metrics/`, by the usual thresholds. None,
    and no file, of a run that was not sampled: it is judged as one of a version without samples."""
    if meta.monitor is None or not (run.path / NODES).is_file():
        return None
    given = inputs_of(run, meta, folded, Settings())
    found = look(given)
    run.write(CLIENT, encoded(client_rows(given.load)))
    run.write_json(BASELINE, found.plain)
    return found


def measured_of(found: Monitored | None) -> Measured | None:
    """For the judge: the baseline, where one could be measured."""
    if found is None or found.baseline.status == "none":
        return None
    base = found.baseline
    return Measured(
        accepted=base.status == "accepted",
        ok_per_s=base.throughput,
        p99_ms=base.p99_ms,
        said=f"{base.status}: {base.said}",
    )
