"""Finished run directories without a lab: any history, by way of the recorder, the seal and the
judge of a real run.

`made(path, ops, workload)` spreads the operations over half a minute of load with one partition
that has landed, writes them event by event into the segments of two workers, writes what the
control process would have written, and has `judge` do the rest.
"""

from __future__ import annotations

import os
import shutil
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
from raw_segments import append
from real_run import Event, change_events

from dstest import __version__
from dstest.core import registry
from dstest.core.evidence import LandingRecord, Signal
from dstest.core.history import FaultWindow, epochs_of
from dstest.core.op import Op, Outcome
from dstest.core.protocols import FaultPlan
from dstest.core.run_record import RunSpec
from dstest.core.verdict import Verdict
from dstest.history.generator.simulated_clients import Sim
from dstest.history.layout import RunDir
from dstest.history.segment import SegmentWriter, Writer
from dstest.judge.facts import ProcessFacts
from dstest.runner.fault_plans import SCHEDULE, Schedule
from dstest.runner.judgement import judge

S = 1_000_000_000
LOAD_S = 28
WORKERS = 2
INJECTED, HEALED = 8 * S, 12 * S
PLAN = FaultPlan(fault_id="f1", nemesis="partition", start_ns=INJECTED, duration_ns=4 * S)


def registers(seed: int = 1, count: int = 1500, processes: int = 8) -> list[Op]:
    """Reads and writes of registers, each on one of the newest keys or again on an old one."""
    sim = Sim(seed, processes, 0.005, 0.01)
    state: dict[str, Any] = {}
    fresh = iter(range(1, 10**9))

    def step(slot: int, start: int, effect: int) -> tuple[Any, ...]:
        newest = len(sim.ops) // 40
        if sim.dice.random() < 0.25:
            key = f"0-{sim.dice.randrange(newest + 1)}"
            return "read", key, None, lambda: state.get(key)
        key = f"0-{newest}"
        if sim.dice.random() < 0.4:
            return "read", key, None, lambda: state.get(key)
        value = next(fresh)
        return "write", key, value, lambda: state.update({key: value})

    sim.run(count, step)
    return sim.history().ops


def transactions(kind: str, seed: int = 1, count: int = 1500, processes: int = 8) -> list[Op]:
    """`list-append` or `rw-register`, strictly serializable."""
    sim = Sim(seed, processes, 0.004, 0.01)
    state: dict[int, Any] = {}
    fresh: Counter[int] = Counter()
    write = "append" if kind == "list-append" else "w"

    def apply(asked: list[list[Any]]) -> list[list[Any]]:
        done = []
        for f, key, value in asked:
            if f == "append":
                state[key] = [*(state.get(key) or []), value]
            elif f == "w":
                state[key] = value
            done.append([f, key, value if f != "r" else state.get(key)])
        return done

    def step(slot: int, start: int, effect: int) -> tuple[Any, ...]:
        newest = len(sim.ops) // 30
        asked: list[list[Any]] = []
        for _ in range(sim.dice.randint(1, 3)):
            if sim.dice.random() < 0.3:
                asked.append(["r", sim.dice.randrange(newest + 1), None])
            elif sim.dice.random() < 0.5:
                asked.append(["r", newest, None])
            else:
                fresh[newest] += 1
                asked.append([write, newest, fresh[newest]])
        return "txn", None, asked, lambda: apply(asked)

    sim.run(count, step)
    return sim.history().ops


def _placed(ops: Sequence[Op], nodes: int) -> tuple[list[Op], int | None]:
    """The operations over `LOAD_S` seconds, and when the load ended if others follow it."""
    ordered = sorted(ops, key=lambda op: op.invoke_ts)
    tail = len(ordered)
    while tail and ordered[tail - 1].invoke_ts > max(
        (op.complete_ts or op.invoke_ts for op in ordered[: tail - 1]), default=0
    ):
        tail -= 1
    last = max(op.complete_ts or op.invoke_ts for op in ordered[: tail or None])
    factor = (LOAD_S * S) // max(1, last)
    found = []
    for number, op in enumerate(ordered):
        end = op.complete_ts
        found.append(
            msgspec.structs.replace(
                op,
                op_id=number,
                invoke_ts=op.invoke_ts * factor,
                complete_ts=None if end is None else end * factor,
                node_seen=op.node_seen or (f"n{int(op.process_id) % nodes + 1}"),
            )
        )
    ends = None if tail == len(ordered) else found[tail].invoke_ts - 1
    return found, ends


def landed() -> LandingRecord:
    """A partition that has landed and was healed."""
    cut, whole = {"n2->n1": 40, "n1->n2": 40}, {"n2->n3": [3, 3]}
    return LandingRecord(
        fault_id="f1",
        nemesis="partition",
        targets=["n1"],
        scheduled_at=INJECTED,
        injected_at=INJECTED,
        injector=Signal(signal="packets dropped", during=cut, moved=True),
        victim=Signal(signal="datagrams", before=whole, during={"n2->n1": [0, 0]}, moved=True),
        control=Signal(signal="datagrams", before=whole, during=whole, moved=False),
        landed="yes",
        landed_at=INJECTED + S // 10,
        epoch="f1",
        heal_start=HEALED - S // 10,
        healed_at=HEALED,
        heal_verified=True,
        facts={
            "shape": "one",
            "direction": "in",
            "cuts": sorted(cut),
            "baseline_packets": cut,
            "rechecks": [{"at_ns": INJECTED + S, "present": True}] * 2,
        },
    )


def _record(run: RunDir, ops: list[Op], nodes: int, record: LandingRecord) -> None:
    """The segments as the writers of a run leave them."""
    windows = [
        FaultWindow(
            epoch=record.epoch,
            nemesis=record.nemesis,
            start_ns=record.injected_at or 0,
            landed_ns=record.landed_at,
            heal_ns=record.heal_start,
            healed_ns=record.healed_at,
        )
    ]
    end_ns = max(op.complete_ts or op.invoke_ts for op in ops)
    for number in range(WORKERS):
        writer = SegmentWriter(
            run.segments / f"worker-{number}.seg", Writer(worker=number, workers=WORKERS)
        )
        events: list[tuple[int, int, list[Any]]] = []
        for op in ops:
            if int(op.op_id) % WORKERS != number:
                continue
            at, id_, node = op.invoke_ts, op.op_id, f"n{int(op.process_id) % nodes + 1}"
            events.append(
                (at, 0, ["i", id_, op.process_id, at, op.op_type, op.key, op.input, node])
            )
            epoch = next(iter(epochs_of(op, windows, end_ns)), None)
            if op.outcome is Outcome.UNKNOWN:
                until = at + 2 * S
                events.append((until, 1, ["u", id_, until, op.error or "timeout", epoch]))
            elif op.outcome is Outcome.FAIL:
                done = op.complete_ts or 0
                events.append((done, 1, ["f", id_, done, op.error, op.node_seen, epoch]))
            else:
                done = op.complete_ts or 0
                events.append((done, 1, ["o", id_, done, op.output, op.node_seen, epoch]))
        for _, _, event in sorted(events, key=lambda e: e[:2]):
            append(writer, event)
        append(writer, ["note", end_ns, {"wire": _wire(number, nodes)}])
        writer.finish()
        writer.close()
    control = SegmentWriter(run.segments / "control.seg", Writer(control=True))
    append(control, ["note", 1, {"planned": [msgspec.to_builtins(PLAN)]}])
    append(control, ["fault", msgspec.to_builtins(record)])
    control.finish()
    control.close()


def _wire(worker: int, nodes: int) -> dict[str, Any]:
    """What the tap on a worker's first client saw."""
    node = f"n{worker % nodes + 1}"
    seen = {"calls": 90, "requests": 90, "connections": 1, "known": True}
    return {"worker": worker, "node": node, **seen}


LOG = (
    '{"level":"info","ts":"2023-11-14T22:13:20.000Z","msg":"starting an etcd server"}\n'
    + '{"level":"info","ts":"2023-11-14T22:13:25.000Z","msg":"serving"}\n' * 50
)
"""A server's log: it started once, and its stamps are of the time of the run."""


def _traffic(ops: list[Op], nodes: int) -> dict[str, dict[str, int]]:
    rows = {
        f"n{i + 1}": dict.fromkeys(("invoked", "ok", "fail", "unknown"), 0) for i in range(nodes)
    }
    for op in ops:
        row = rows[f"n{int(op.process_id) % nodes + 1}"]
        row["invoked"] += 1
        row[op.outcome.value] += 1
    return rows


def _spoken(model: str, checkers: Sequence[str]) -> str:
    """The workload's model, or the first one of checkers that do not know it."""
    known = [m for name in checkers for m in registry.load("checkers", name).models]
    return model if model in known else known[0]


def _without_samples(spec: RunSpec) -> dict[str, Any]:
    """As a version records it that took no samples: nobody has said that there should be none."""
    rows: dict[str, Any] = msgspec.to_builtins(spec)
    del rows["monitor"]
    return rows


def recorded(
    path: Path,
    ops: Sequence[Op],
    workload: str,
    *,
    model: str | None = None,
    checkers: Sequence[str] | None = None,
    options: dict[str, Any] | None = None,
    nodes: int = 3,
    processes: int = 8,
    seed: int = 7,
    given: Sequence[str] = (),
) -> RunDir:
    """A run directory that holds a whole record and was not judged yet. `given` are options as its
    command has them."""
    work = registry.load("workloads", workload)
    placed, load_end_ns = _placed(ops, nodes)
    (path / "segments").mkdir(parents=True)
    run = RunDir(path.resolve())
    record = landed()
    spec = RunSpec(
        workload=workload,
        nodes=nodes,
        time_limit_s=float(LOAD_S),
        concurrency=processes,
        seed=seed,
        options={"op_timeout_s": 2.0, **(options or {})},
    )
    _record(run, placed, nodes, record)
    run.write_json(
        SCHEDULE,
        Schedule(
            nemesis="partition", nodes=nodes, time_limit_s=float(LOAD_S), options={}, plans=[PLAN]
        ),
    )
    names = [f"n{i + 1}" for i in range(nodes)]
    for name in names:
        run.write(f"nodes/{name}/etcd.log", LOG)
    clock = {"name": "CLOCK_MONOTONIC", "resolution_ns": 1, "boot_id": "b", "host": "control"}
    run.write_json(
        "run.json",
        {
            "spec": _without_samples(spec),
            "options_given": [*given],
            "model": model or _spoken(work.model, checkers or work.checkers),
            "checkers": list(checkers or work.checkers),
            "nodes": names,
            "faults_planned": 1,
            "claims": sorted(work.claims),
            "logs": {
                "files": {f"{n}/etcd.log": {"bytes": len(LOG), "kept": len(LOG)} for n in names},
                "lost": {},
            },
            "processes": msgspec.to_builtins(
                ProcessFacts(looks=dict.fromkeys(names, 100), lives=dict.fromkeys(names, 1))
            ),
            "node_clocks_start_ns": dict.fromkeys(names, 1_700_000_000 * S),
            "node_clocks_end_ns": dict.fromkeys(names, 1_700_000_000 * S),
            "members_at": {"f1": names},
            "recoveries": [{"healed_ns": HEALED, "settled_ns": HEALED + 3 * S}],
            "replicas": dict.fromkeys(names, "5eed@1"),
            "clock": clock,
            "host": {"dstest": __version__},
            "tier_wanted": "smoke",
            "cpu_s": {"control": 1.0, "children": 1.0},
            "cleaned": {},
            "started": "20260101T000000Z",
            "pid": os.getpid(),
            "pid_start_time": 1,
            "lab": "lxc",
            "system_version": "3.4.23",
            "workers": WORKERS,
            "worker_exits": [0] * WORKERS,
            "clock_start_ns": 1_700_000_000 * S,
            "clock_end_ns": 1_700_000_000 * S,
            "origin_ns": 0,
            "settled_ns": HEALED + 3 * S,
            "load_s": float(LOAD_S),
            "load_end_ns": load_end_ns,
            "healthy": dict.fromkeys(names, True),
            "residue": {name: [] for name in names},
            "load": {"offered": len(placed)},
            "traffic": _traffic(placed, nodes),
            "ended_by": None,
        },
    )
    return run


def made(path: Path, ops: Sequence[Op], workload: str, **how: Any) -> tuple[RunDir, Verdict]:
    """A run directory as a run leaves it: judged, summed up, with its status."""
    run = recorded(path, ops, workload, **how)
    verdict, failure = judge(run)
    assert failure is None, failure
    run.write_sums()
    run.write_status(f"verdict: {verdict.verdict.value}")
    return run, verdict


_TIME_AT = {"i": 3, "o": 2, "f": 2, "u": 2, "note": 1}
"""Kind of an event -> where in it its time stands."""


def another(run: RunDir, path: Path, later_ns: int) -> tuple[RunDir, Verdict]:
    """A run of its own at `path` that went as this one did, each operation so much later: sealed,
    judged and summed up anew."""

    def later(event: Event) -> Event:
        at = _TIME_AT.get(event[0])
        if at is None:
            return event
        return [*event[:at], event[at] + later_ns, *event[at + 1 :]]

    shutil.copytree(run.path, path)
    made_anew = RunDir(path.resolve())
    change_events(made_anew, later)
    verdict, failure = judge(made_anew)
    assert failure is None, failure
    made_anew.write_sums()
    made_anew.write_status(f"verdict: {verdict.verdict.value}")
    return made_anew, verdict
