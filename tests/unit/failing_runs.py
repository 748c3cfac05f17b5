"""Finished run directories of every kind of verdict, made without a lab: what passes, what breaks a
claim of each family of checkers, what proved nothing, and what died."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import msgspec
import real_run
from made_runs import made, recorded
from passing_runs import RUNS
from raw_segments import read_segment

from dstest.core import registry
from dstest.core.history import Header, History
from dstest.core.op import Op
from dstest.history.layout import RunDir
from dstest.judge.mutants.families import family_of
from dstest.runner.judgement import judge

__all__ = ["FAMILIES", "crashed", "failing", "inconclusive", "passing", "stale_etcd"]

FAMILIES: Final = {
    "register": "stale-read",
    "list-append": "write-skew",
    "rw-register": "lost-update",
    "set-full": "stale",
    "no-lost-ack": "lost",
    "total-queue": "lost",
    "counter": "stale",
    "lock": "overlap",
    "bank": "skewed",
    "session": "own-write-missed",
    "kafka": "lost",
    "unique-ids": "duplicate",
    "causal": "stale",
    "g2": "duplicate",
}
"""Kind of run (`passing_runs`) -> what is broken in a failing one, as its canaries call it."""


def _asked(kind: str) -> dict[str, Any]:
    asked = dict(RUNS[kind]())
    asked.setdefault("workload", kind)
    return asked


def passing(path: Path, kind: str = "register") -> RunDir:
    """A run that passes."""
    run, _ = made(path, **_asked(kind))
    return run


def broken_ops(kind: str, asked: dict[str, Any], mutant: str = "") -> list[Op]:
    """The operations of a run with one thing wrong that its checker rejects."""
    work = registry.load("workloads", asked["workload"])
    name = (asked.get("checkers") or work.checkers)[0]
    checker = registry.load("checkers", name)
    model = asked.get("model") or (work.model if work.model in checker.models else None)
    model = model or checker.models[0]
    header = Header(options=asked.get("options") or {}, model=model)
    history = History(header=header, ops=list(asked["ops"]))
    wanted = mutant or FAMILIES[kind]
    every = family_of(checker, model, history).make(history, 3, 8)
    broken = next(made for made in every if made.kind == wanted).history.ops
    if len(broken) >= len(history.ops) // 2:
        return list(broken)
    # A copy that holds one key alone: the others are as they were.
    keys = {repr(op.key) for op in broken}
    rest = [op for op in history.ops if repr(op.key) not in keys]
    return sorted([*rest, *broken], key=lambda op: op.invoke_ts)


def failing(path: Path, kind: str = "register") -> RunDir:
    """A run that breaks what its workload demands."""
    asked = _asked(kind)
    asked["ops"] = broken_ops(kind, asked)
    run, verdict = made(path, **asked)
    assert verdict.verdict.failed, (kind, verdict.reason)
    return run


def contradictory(path: Path) -> RunDir:
    """A run with a stale read whose history also contradicts itself, so that no answer counts."""
    asked = _asked("register")
    run = recorded(path, **(asked | {"ops": broken_ops("register", asked)}))
    real_run.change_facts(
        run, clock={"name": "CLOCK_REALTIME", "resolution_ns": 1, "boot_id": "b", "host": ""}
    )
    verdict, failure = judge(run)
    assert failure is None and not verdict.verdict.failed, verdict
    run.write_sums()
    run.write_status(f"verdict: {verdict.verdict.value}")
    return run


def stale_etcd(path: Path) -> RunDir:
    """The recorded run of five etcd members, in which one read is answered with an old value."""
    run = real_run.unpack(path)
    written: dict[Any, list[Any]] = {}
    key_of: dict[Any, Any] = {}
    for event in _events(run):
        if event[0] == "i" and event[4] == "write":
            written.setdefault(event[5], []).append(event[6])
        if event[0] == "i" and event[4] == "read":
            key_of[event[1]] = event[5]
    done = [False]

    def change(event: list[Any]) -> list[Any]:
        if event[0] != "o" or done[0]:
            return event
        old = written.get(key_of.get(event[1]), [])
        if event[2] > 17_000_000_000 and event[3] in old[12:]:
            done[0] = True
            return [*event[:3], old[old.index(event[3]) - 9], *event[4:]]
        return event

    real_run.change_events(run, change)
    return _judged(run)


def _events(run: RunDir) -> list[list[Any]]:
    files = sorted(run.segments.glob("worker-*.seg"))
    return [event for path in files for event in read_segment(path)]


def inconclusive(path: Path) -> RunDir:
    """A run whose fault is not proven to have landed."""
    run = recorded(path, **_asked("register"))
    real_run.change_record(run, landed="no", landed_at=None, injector=None, victim=None)
    return _judged(run)


def crashed(path: Path) -> RunDir:
    """A run that died in the middle of its load: nothing but what its writers had written."""
    run = recorded(path, **_asked("register"))
    plain = run.read_json("run.json")
    kept = {key: plain[key] for key in plain if key not in _LATE}
    run.write_json("run.json", {**kept, "ended_by": "the control process was killed"})
    return _judged(run)


_LATE: Final = frozenset(
    {"worker_exits", "clock_end_ns", "node_clocks_end_ns", "settled_ns", "load_s", "healthy"}
    | {"residue", "load", "traffic", "processes", "logs", "recoveries", "replicas"}
)


def _judged(run: RunDir) -> RunDir:
    verdict, failure = judge(run)
    assert failure is None, failure
    assert not verdict.verdict.passed, msgspec.to_builtins(verdict.reason)
    run.write_sums()
    run.write_status(f"verdict: {verdict.verdict.value}")
    return run
