"""Do the parts of a run's record agree with each other?

Workers count what they issue and what is answered on the board, and write the events themselves
into their segments; the control process keeps each landing record in its segment and in run.json.
What one of them says and another does not is lost, doubled or edited, and no checker's answer about
the rest counts then (discipline 1.8, lint H14). The only gap that is forgiven is what a writer that
died leaves behind: its last line may be torn, and its last event uncounted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from dstest.core.run_meta import RunMeta
from dstest.core.spec import said_in
from dstest.store.seal import Folded, Segment

CONTROL = "control.seg"


class Beside(NamedTuple):
    """What a run's other files say of its plan, decoded: None where a file is not there, empty
    where it is broken.

    `schedule` is schedule.json, `spec` is spec.toml.
    """

    schedule: Mapping[str, Any] | None = None
    spec: Mapping[str, Any] | None = None


class Reconciled(NamedTuple):
    """`wrong` voids the run, a sentence each; `forgiven` is said and changes nothing."""

    wrong: list[str]
    forgiven: list[str]


def reconcile(folded: Folded, meta: RunMeta, beside: Beside) -> Reconciled:
    """Compare the segments with each other, with `meta`, the content of run.json, and with the
    files beside it."""
    wrong: list[str] = []
    forgiven: list[str] = []
    workers = _workers(folded, meta)
    dead = _dead(meta, workers)
    _exits(meta, workers, wrong)
    _counters(folded.counters, wrong)
    _files(folded, meta, workers, dead, wrong, forgiven)
    _traffic(folded, meta, dead, wrong, forgiven)
    if beside.schedule == {}:
        wrong.append("schedule.json is no fault schedule")
        beside = beside._replace(schedule=None)
    _faults(folded, meta, beside.schedule, wrong)
    _spec(meta, beside, wrong)
    _whole(meta, wrong, forgiven)
    _late(folded, forgiven)
    return Reconciled(wrong, forgiven)


def _whole(meta: RunMeta, wrong: list[str], forgiven: list[str]) -> None:
    """Is all there that a run which ended by itself writes down, and about the same nodes?"""
    if meta.ended_by is msgspec.UNSET:
        wrong.append("run.json does not say how the run ended")
    if meta.ended_by:
        return
    wanted = RunMeta.AT_THE_END
    if meta.transport != "network" and meta.failures is not None:
        wanted = wanted - RunMeta.OF_NODES | RunMeta.SIMULATED
    absent = wanted - meta.plain.keys()
    if meta.stopped_by:
        # A violation was proven in mid-run: nobody waited for the cluster to be whole again.
        absent -= {"load_end_ns", "healthy"}
    if absent:
        wrong.append(f"run.json lacks {', '.join(sorted(absent))}")
    nodes = meta.nodes
    if len({*nodes}) != len(nodes) or len(nodes) != meta.spec.get("nodes"):
        wrong.append("run.json names other nodes than were asked for")
    _recoveries(meta, wrong)
    forgiven += [
        f"worker {number} did not end by itself ({status})"
        for number, status in enumerate(meta.worker_exits or [])
        if status != 0
    ]


def _recoveries(meta: RunMeta, wrong: list[str]) -> None:
    """Is there a recovery for the heals, each after the first of them and within the run?"""
    healed = [row["healed_at"] for row in meta.records or () if row.get("healed_at") is not None]
    if healed and not meta.recoveries and not meta.stopped_by:
        wrong.append("run.json does not say what followed the heals of its faults")
    for one in meta.recoveries or ():
        last_ns = max(one.healed_ns, one.settled_ns or 0)
        beyond = meta.load_s is not None and last_ns > (meta.load_s + 1) * 1e9
        if one.healed_ns < min(healed, default=0) or beyond:
            wrong.append(
                f"run.json has a recovery at {last_ns / 1e9:.1f} s, which fits no heal of a load "
                f"of {meta.load_s or 0:g} s"
            )


def _late(folded: Folded, forgiven: list[str]) -> None:
    """Did the control process stand still as a window began or ended?"""
    if folded.late:
        worst_ms = max(said.told_ns - said.edge_ns for said in folded.late) / 1e6
        forgiven.append(
            f"workers were told late of {len(folded.late)} beginnings and ends of faults, by up to"
            f" {worst_ms:,.0f} ms: what ended meanwhile is assigned to faults by its times"
        )


def issued(meta: RunMeta) -> dict[str, int]:
    """What the workers counted on the board, for the history's header; empty where they died.

    An operation that was issued and neither answered nor given up is of unknown outcome.
    """
    if meta.traffic is None:
        return {}
    rows = list(meta.traffic.values())
    sums = {kind: sum(row[kind] for row in rows) for kind in ("invoked", "ok", "fail")}
    invoked, ok, fail = sums["invoked"], sums["ok"], sums["fail"]
    return {"issued": invoked, "ok": ok, "fail": fail, "unknown": invoked - ok - fail}


def _workers(folded: Folded, meta: RunMeta) -> int:
    """How many workers there were; a run that died did not come to say so, its segments do."""
    if meta.workers is not None or not meta.ended_by:
        return meta.workers or 0
    return max((h.workers or 0 for h in folded.headers), default=0)


def _dead(meta: RunMeta, workers: int) -> set[str]:
    """Names of the segments whose writer did not end by itself."""
    names = [f"worker-{i}.seg" for i in range(workers)]
    exits = meta.worker_exits
    if exits is None:
        # Only a control process that died could not say how its workers ended; they die with it.
        return {CONTROL, *names} if meta.ended_by else set()
    return {name for name, status in zip(names, exits, strict=False) if status != 0}


def _exits(meta: RunMeta, workers: int, wrong: list[str]) -> None:
    """Is there an exit status of each worker? Of a load that never began some may not exist."""
    exits = meta.worker_exits
    if exits is None or (meta.ended_by and meta.clock_start_ns is None):
        return
    if len(exits) != workers or None in exits:
        known = sum(status is not None for status in exits)
        wrong.append(f"run.json has exit statuses of {known} workers, there were {workers}")


def _counters(counters: Mapping[str, int], wrong: list[str]) -> None:
    said = {
        "damaged_lines": "lines of the segments cannot be read: their checksums do not match",
        "malformed_events": "events in the segments are of no known shape, or at a wrong place",
        "duplicate_completions": "operations were completed twice",
        "orphan_completions": "completions belong to no operation",
    }
    wrong += [f"{counters[name]:,} {what}" for name, what in said.items() if counters.get(name)]


def _files(
    folded: Folded,
    meta: RunMeta,
    workers: int,
    dead: set[str],
    wrong: list[str],
    forgiven: list[str],
) -> None:
    """Is each writer's file there, once, whole, and its own?"""
    there = {segment.name: segment for segment in folded.segments}
    expected = {f"worker-{i}.seg": i for i in range(workers)}
    began = meta.clock_start_ns is not None or bool(folded.ops)
    wanted = {*expected, CONTROL} if began else set()
    wrong += [f"{name} is missing" for name in sorted(wanted - there.keys() - dead)]
    wrong += [
        f"{name} is of no worker of this run"
        for name in sorted(there.keys() - {*expected, CONTROL})
    ]
    for name, segment in there.items():
        if segment.header is None:
            if segment.lines or name not in dead:
                wrong.append(f"{name} does not begin with its header")
            continue
        of = segment.header
        if (of.worker, of.control) != (expected.get(name), name == CONTROL):
            whose = "the control process" if of.control else f"worker {of.worker}"
            wrong.append(f"{name} is the segment of {whose}")
        elif name in expected and of.workers != workers:
            wrong.append(f"{name} is of one of {of.workers} workers, and there were {workers}")
        _end(segment, name in dead, began, wrong, forgiven)


def _end(segment: Segment, dead: bool, began: bool, wrong: list[str], forgiven: list[str]) -> None:
    name = segment.name
    if segment.torn_tail:
        message = f"the last line of {name} is torn"
        if dead:
            forgiven.append(f"{message}: its writer died")
        else:
            wrong.append(f"{message}, and its writer did not die")
    if segment.end is not None:
        if segment.end != segment.lines - 1:
            wrong.append(
                f"{name} holds {segment.lines - 1:,} lines, its writer wrote {segment.end:,}"
            )
        if dead and began:
            wrong.append(f"{name} has its last line, and run.json says that its writer died")
    elif began:
        if dead:
            forgiven.append(f"{name} has no last line: its writer died")
        else:
            wrong.append(f"{name} has no last line: its end is missing")


def _traffic(
    folded: Folded,
    meta: RunMeta,
    dead: set[str],
    wrong: list[str],
    forgiven: list[str],
) -> None:
    """Board against segments, node by node."""
    if meta.traffic is None:
        if not meta.ended_by:
            wrong.append("run.json does not say how many operations the workers issued")
        elif folded.ops:
            forgiven.append("how many operations were issued is not known: the run died")
        return
    # A worker that is killed between its write and its count is one event ahead of the board.
    slack = sum(1 for name in dead if name != CONTROL)
    for node in sorted({*meta.traffic, *folded.by_node}):
        board = meta.traffic.get(node, {})
        for kind in ("invoked", "ok", "fail", "unknown"):
            counted = int(board.get(kind, 0))
            held = folded.by_node.get(node, {}).get(kind, 0)
            if held == counted:
                continue
            message = f"{node}: the workers counted {counted:,} {kind}, the segments hold {held:,}"
            if counted < held <= counted + slack:
                forgiven.append(f"{message}: a worker was killed")
            else:
                wrong.append(message)
    offered = (meta.load or {}).get("offered")
    total = sum(int(row.get("invoked", 0)) for row in meta.traffic.values())
    if offered != total:
        wrong.append(f"the workers offered {offered} operations and counted {total} per node")


def _faults(
    folded: Folded,
    meta: RunMeta,
    schedule: Mapping[str, Any] | None,
    wrong: list[str],
) -> None:
    """Landing records: those of the journal against those of run.json, and against the plan."""
    plans = [("schedule.json", schedule["plans"])] if schedule is not None else []
    plans += [(CONTROL, note["planned"]) for note in folded.notes if "planned" in note]
    wanted = meta.faults_planned
    wrong += [
        f"run.json plans {wanted} faults, {where} {len(plan)}"
        for where, plan in plans
        if len(plan) != wanted
    ]
    if any(plan != plans[0][1] for _, plan in plans):
        wrong.append(f"schedule.json plans other faults than {CONTROL}")
    for where, plan in plans:
        _against(where, plan, folded, wrong)
    if meta.records is None:
        return
    kept = {row["fault_id"]: row for row in meta.records}
    held = {record.fault_id: msgspec.to_builtins(record) for record in folded.records}
    wrong += [
        f"the record of {name} in run.json is not the one in {CONTROL}"
        for name in sorted(kept.keys() | held.keys())
        if kept.get(name) != held.get(name)
    ]


def _against(
    where: str, plan: Sequence[Mapping[str, Any]], folded: Folded, wrong: list[str]
) -> None:
    """Is each record that of a fault as it was planned?"""
    wanted = {row.get("fault_id"): (row.get("nemesis"), row.get("start_ns", 0)) for row in plan}
    for record in folded.records:
        nemesis, start_ns = wanted.get(record.fault_id, (None, 0))
        if (record.nemesis, record.scheduled_at) != (nemesis, start_ns):
            planned = f"plans it as {nemesis} at {start_ns / 1e9:g} s" if nemesis else "has none"
            wrong.append(
                f"the record of {record.fault_id} is of {record.nemesis} at "
                f"{record.scheduled_at / 1e9:g} s, {where} {planned}"
            )


def _spec(meta: RunMeta, beside: Beside, wrong: list[str]) -> None:
    """Were the run, its spec.toml and its schedule made for the same test?"""
    spec = said_in(meta.spec)
    options = spec["options"]
    if beside.spec is not None and {**beside.spec} != spec:
        wrong.append("spec.toml asks for something else than run.json")
    schedule = beside.schedule
    if schedule is None:
        return
    asked = {key: spec.get(key) for key in ("nodes", "time_limit_s")}
    asked["options"] = {key: options.get(key) for key in schedule["options"]}
    wrong += [
        f"schedule.json was made for {key} = {schedule[key]}, run.json says {value}"
        for key, value in asked.items()
        if schedule[key] != value
    ]
