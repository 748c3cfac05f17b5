"""A store for `dstest serve`: real runs, made without a lab, and what becomes of them."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import msgspec
from failing_runs import failing, inconclusive, passing

from dstest.core import clock
from dstest.core.live import LIVE, Counter, FaultNow, Live, NodeNow, Ops
from dstest.history.layout import RunDir
from dstest.history.sums import sums_of
from dstest.runner.session import process_start_time
from dstest.store.index import Cache, Index

__all__ = [
    "FAILING",
    "INCONCLUSIVE",
    "PASSING",
    "copy_of",
    "indexed",
    "made_store",
    "moved",
    "sealed",
    "still_running",
    "telling",
]

NAME = "etcd-register-partition"
PASSING = f"{NAME}/20260101T000000Z-7"
FAILING = f"{NAME}/20260102T000000Z-7"
INCONCLUSIVE = f"{NAME}/20260103T000000Z-7"


def made_store(store: Path) -> Path:
    """Three runs: one that passes, one that fails, one that proved nothing."""
    passing(store / PASSING)
    failing(store / FAILING)
    inconclusive(store / INCONCLUSIVE)
    for ref in (PASSING, FAILING, INCONCLUSIVE):
        at = Path(ref).name.partition("-")[0]
        moved(store / ref, int(at[6:8]))
        sealed(store / ref, started=at)
    return store.resolve()


def moved(run: Path, by_ns: int) -> None:
    """Its operations later: two runs never take the same nanoseconds."""
    head, *lines = (run / "history.jsonl").read_bytes().splitlines()
    written = [head]
    for line in lines:
        op = msgspec.json.decode(line)
        times = {name: op[name] for name in ("invoke_ts", "complete_ts")}
        later = {name: at if at is None else at + by_ns for name, at in times.items()}
        written.append(msgspec.json.encode({**op, **later}))
    (run / "history.jsonl").write_bytes(b"\n".join([*written, b""]))


def sealed(run: Path, **facts: Any) -> Path:
    """Other facts in run.json, summed up again."""
    if facts:
        plain = msgspec.json.decode((run / "run.json").read_bytes())
        (run / "run.json").write_bytes(msgspec.json.encode({**plain, **facts}))
    (run / "sha256sums").write_text(sums_of(run))
    return run


def copy_of(store: Path, ref: str, to: str, **facts: Any) -> Path:
    """A run as another one, a little later, with other facts; what it wrote down of itself is of
    that name."""
    shutil.copytree(store / ref, store / to)
    moved(store / to, 10)
    history = store / to / "history.jsonl"
    head, _, rest = history.read_bytes().partition(b"\n")
    renamed = {**msgspec.json.decode(head), "run": Path(to).name}
    history.write_bytes(msgspec.json.encode(renamed) + b"\n" + rest)
    return sealed(store / to, **facts)


def still_running(store: Path, to: str) -> RunDir:
    """A run whose process is this one, in the middle of its load."""
    made = RunDir(store / to)
    made.segments.mkdir(parents=True)
    made.write_status("running")
    facts = msgspec.json.decode((store / PASSING / "run.json").read_bytes())
    kept = ("spec", "options_given", "model", "checkers", "nodes", "faults_planned", "clock")
    pid = os.getpid()
    plain = {name: facts[name] for name in kept}
    own = {"pid": pid, "pid_start_time": process_start_time(pid), "started": "20260201T000000Z"}
    made.write_json("run.json", plain | own)
    (made.path / "run.log").write_text("20260201T000001Z    1.0s  [load] register for 30 s\n")
    return made


def telling(
    run: RunDir,
    *,
    age_s: float = 0.0,
    title: str = "",
    phase: str = "load",
    rate_per_s: float = 98.6,
) -> None:
    """live.json, as a run writes it."""
    counter = Counter(name="packets dropped", before=0, now=107, age_s=0.5)
    live = Live(
        pid=os.getpid(),
        phase=phase,
        at_ns=clock.wall_ns() - int(age_s * 1e9),
        elapsed_s=12.5,
        left_s=17.5,
        ops=Ops(invoked=1200, ok=1180, fail=15, unknown=5),
        rate_per_s=rate_per_s,
        nodes=[NodeNow(name="n1", ok=600, fail=7, unknown=2, state="answering")],
        faults=[
            FaultNow(
                id="f1", nemesis="partition", on=["n1"], state="landed", since_s=2.5,
                counter=counter,
            )
        ],
        title=title,
    )  # fmt: skip
    (run.path / LIVE).write_bytes(msgspec.json.encode(live))


def indexed(store: Path) -> Index:
    """Looked at once, nothing kept."""
    index = Index(store, Cache(None))
    index.refresh()
    return index
