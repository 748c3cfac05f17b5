"""What a run has asked its nodes for, as the judge is told it: clocks, logs, processes, members,
states of replicas. Of nodes that were simulated nothing of that was to be asked."""

from __future__ import annotations

from typing import Any

import msgspec

from dstest.core.implements import implements
from dstest.core.protocols import Membership, Processes, Replicas, SystemTraits
from dstest.core.run_meta import RunMeta
from dstest.judge.facts import ClockFact
from dstest.judge.process_facts import ProcessFacts
from dstest.runner.logscan import LogFacts, log_names, scan_logs
from dstest.runner.requirements import deployment_of
from dstest.store.layout import RunDir
from dstest.store.seal import Folded


class OfNodes(msgspec.Struct, frozen=True, kw_only=True):
    """Fields of `RunFacts`, as they are where nobody has nodes to ask."""

    clocks: list[ClockFact] = msgspec.field(default_factory=list)
    logs: LogFacts = msgspec.field(default_factory=LogFacts)
    processes: ProcessFacts | None = None
    members_at: dict[str, list[str]] | None = None
    replicas: dict[str, str | None] | None = None


def of_nodes(run: RunDir, system: Any, meta: RunMeta, folded: Folded) -> OfNodes:
    """By run.json, the journal, and the files that were fetched. What the system offers, and the
    run did not come to record, is there and empty: it counts against the run."""
    kind = deployment_of(system)
    seen = meta.processes
    processes = None if seen is None else msgspec.convert(seen, ProcessFacts)
    if processes is not None and not processes.offered and implements(kind, Processes):
        processes = None
    # A run that died did not come to write run.json again.
    journaled = {k: v for note in folded.notes for k, v in note.get("members_at", {}).items()}
    members_at = journaled if implements(kind, Membership) else None
    replicas: dict[str, str | None] | None = {} if implements(kind, Replicas) else None
    return OfNodes(
        clocks=_clocks(meta),
        logs=scan_logs(run, system, _logs_of(system, meta), meta, processes),
        processes=processes,
        members_at=members_at if meta.members_at is None else meta.members_at,
        replicas=replicas if meta.replicas is None else meta.replicas,
    )


def _clocks(meta: RunMeta) -> list[ClockFact]:
    """Wall against monotonic clock of this host and of every node, where both ends were taken."""
    own = (meta.clock.host, meta.clock_start_ns, meta.clock_end_ns)
    start, end = meta.node_clocks_start_ns or {}, meta.node_clocks_end_ns or {}
    return [
        ClockFact(host=host, wall_minus_mono_start_ns=before, wall_minus_mono_end_ns=after)
        for host, before, after in (own, *((n, start[n], end.get(n)) for n in start))
        if before is not None and after is not None
    ]


def _logs_of(system: Any, meta: RunMeta) -> dict[str, list[str]]:
    """The logs of each member, without what it writes down of its effects, its protocol and its
    spans, which are no logs."""
    traits = SystemTraits.of(system)
    effects = "" if traits.effects is None else traits.effects.file
    beside = {traits.span_file, effects, *traits.records}
    every = log_names(system, meta)
    return {m: [name for name in names if name not in beside] for m, names in every.items()}
