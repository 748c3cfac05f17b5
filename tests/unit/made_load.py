"""Loads whose rate and latencies are known: an operation each `1 / rate` seconds."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from dstest.core.evidence import LandingRecord
from dstest.core.history import ClockSource, Recovery
from dstest.core.op import Op
from dstest.core.run_record import RunMeta
from dstest.debug.monitor.analysis import Inputs
from dstest.debug.monitor.client import Load, Sample
from dstest.debug.monitor.settings import Settings, faults_of, unwell_ns_of

SECOND = 1_000_000_000
NODES = ("n1", "n2", "n3")


def op(number: int, at_s: float, took_ms: float, error: str | None = None, **more: object) -> Op:
    at_ns = int(at_s * SECOND)
    unknown = error is not None and error.startswith("unknown")
    return Op(
        op_id=number,
        process_id=number % 6,
        invoke_ts=at_ns,
        complete_ts=None if unknown else at_ns + int(took_ms * 1e6),
        op_type="read" if number % 2 else "write",
        key="k",
        error=error,
        timeout_marker=unknown,
        node_seen=None if unknown else NODES[number % len(NODES)],
        **more,  # type: ignore[arg-type]
    )


def steady(
    seconds: float = 180.0,
    rate: float = 100.0,
    took_ms: Callable[[float], float] = lambda s: 10.0,
    error: Callable[[int, float], str | None] = lambda number, s: None,
    served: Callable[[float], bool] = lambda s: True,
) -> Load:
    """`served`: is anything asked for at all then?"""
    ops = [
        op(number, number / rate, took_ms(number / rate), error(number, number / rate))
        for number in range(int(seconds * rate))
        if served(number / rate)
    ]
    return Load(
        ops=ops,
        end_ns=int(seconds * SECOND),
        races=frozenset({"compare-failed"}),
        node_of={process: NODES[process % len(NODES)] for process in range(6)},
    )


def fault(
    name: str = "f1", start_s: float = 100.0, end_s: float | None = 106.0, landed: str = "yes"
) -> LandingRecord:
    return LandingRecord(
        fault_id=name,
        nemesis="latency",
        targets=["n1"],
        scheduled_at=int(start_s * SECOND),
        injected_at=int(start_s * SECOND),
        landed=landed,  # type: ignore[arg-type]
        epoch=name,
        healed_at=None if end_s is None else int(end_s * SECOND),
        heal_verified=end_s is not None,
    )


def settled(healed_s: float, settled_s: float | None) -> Recovery:
    ns = None if settled_s is None else int(settled_s * SECOND)
    return Recovery(healed_ns=int(healed_s * SECOND), settled_ns=ns)


def sampled(
    values: Mapping[str, Callable[[str, float], float | None]], seconds: int = 180
) -> list[Sample]:
    """A row per second, node and name; None where nothing was sampled."""
    return [
        Sample(time_ns=at * SECOND, node=node, name=name, value=found, unit="1")
        for at in range(seconds)
        for node in NODES
        for name, value in values.items()
        if (found := value(node, at)) is not None
    ]


def inputs(
    load: Load,
    *records: LandingRecord,
    recoveries: Sequence[Recovery] | None = (),
    settings: Settings | None = None,
    **more: object,
) -> Inputs:
    """`recoveries` are None of a run that goes on."""
    settings = settings or Settings()
    meta = RunMeta(
        spec={},
        model="register",
        checkers=[],
        nodes=list(NODES),
        faults_planned=len(records),
        clock=ClockSource(),
        load_end_ns=load.end_ns,
        recoveries=None if recoveries is None else list(recoveries),
    )
    faults = faults_of(records, meta, settings.after_heal_s, load.timeout_ns)
    given = {"nodes": NODES, "rows": [], "settings": settings, "faults": faults, **more}
    given["unwell_ns"] = unwell_ns_of(records, meta)
    return Inputs(load=load, **given)  # type: ignore[arg-type]
