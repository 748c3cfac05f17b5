"""A store of runs that a gate has to let through, made without a lab: runs whose words, seed,
schedule, clocks and name agree, really judged; and the policy that asks for them."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
from executed_plan import stale
from made_runs import LOG, recorded, registers
from raw_segments import encode_line, read_segment
from real_run import change_facts, change_record

from checkers.slo import METRICS
from dstest import __version__
from dstest.campaign.session_check import arm_evidence
from dstest.core.op import Op
from dstest.core.run_record import RunSpec
from dstest.gate.decision import Decision, decide
from dstest.gate.policy import read_policy
from dstest.gate.soundness import require_sound
from dstest.history.layout import RunDir
from dstest.judge.session import judge_session
from dstest.report.session import write_session
from dstest.runner.fault_plans import SCHEDULE
from dstest.runner.judgement import judge
from dstest.runner.plugins import resolve, schedule_of
from dstest.runner.session_file import ArmState, SessionDir, SessionFile
from dstest.store.compare.measured import FACTORS

GIVEN = ["shape=one", "direction=in", "action=drop", "fault_s=4", "quiet_s=10"]
"""Of these words each seed plans the one fault that `made_runs` has recorded."""
BUG = "reads=serializable"
"""What a red control is given besides."""
NAME = "etcd-register-partition"
STAMP = "%Y%m%dT%H%M%SZ"
DAY = datetime.timedelta(days=1)

POLICY = """\
schema = "dstest.gate/1"
name = "etcd 3.4.23"

[evidence]
age-days-max = 14
canaries = "kept"

[[claim]]
id = "C1"
text = "a read sees the newest write, whatever a partition does"
system = "etcd"
system-version = "3.4.23"
workload = "register"
model = "register"
checkers = ["linearizable"]
nemesis = "partition"
options = ["shape=one", "direction=in", "action=drop", "fault_s=4", "quiet_s=10"]
tier = "smoke"
seeds = 3
sizes = [3]
operations = 1000

[claim.faults]
partition = 2

[[control]]
id = "K1"
expect = "red"
text = "a member that answers alone shows old values"
system = "etcd"
system-version = "3.4.23"
workload = "register"
nemesis = "partition"
options = [
  "shape=one", "direction=in", "action=drop", "fault_s=4", "quiet_s=10", "reads=serializable",
]
anomalies = ["nonlinearizable"]

[[control]]
id = "K2"
expect = "green"
text = "the same with reads that ask a majority"
system = "etcd"
system-version = "3.4.23"
workload = "register"
nemesis = "partition"
options = [
  "shape=one", "direction=in", "action=drop", "fault_s=4", "quiet_s=10", "reads=linearizable",
]
"""


def now() -> datetime.datetime:
    return datetime.datetime.now(datetime.UTC).replace(microsecond=0)


def recorded_at(
    store: Path,
    seed: int,
    *,
    at: datetime.datetime | None = None,
    ops: Sequence[Op] | None = None,
    bug: bool = False,
    given: Sequence[str] = GIVEN,
    name: str = NAME,
    count: int = 700,
    **spec_changes: Any,
) -> RunDir:
    """A run that was not judged yet."""
    at = at or now() - DAY
    found = list(ops or registers(seed=seed, count=count))
    words = [*given, *([BUG] if bug else [])]
    asked = RunSpec(workload="register", nodes=3, time_limit_s=28.0, concurrency=8, seed=seed)
    plugins = resolve(msgspec.structs.replace(asked, **spec_changes), words)
    path = store / name / f"{at.strftime(STAMP)}-{seed}"
    run = recorded(path, stale(found) if bug else found, "register", model=plugins.model)
    spec = msgspec.to_builtins(plugins.spec)
    wall_ns = int(at.timestamp()) * 1_000_000_000
    clocks = dict.fromkeys(("n1", "n2", "n3"), wall_ns)
    change_facts(
        run,
        spec=spec,
        options_given=words,
        started=at.strftime(STAMP),
        clock_start_ns=wall_ns,
        clock_end_ns=wall_ns,
        node_clocks_start_ns=clocks,
        node_clocks_end_ns=clocks,
        checkers=[checker.name for checker in plugins.checkers],
        host={"dstest": __version__, "python": "3.11.2", "kernel": "6.1.0", "cpus": 2},
    )
    schedule = schedule_of(plugins)
    run.write_json(SCHEDULE, schedule)
    planned(run, msgspec.to_builtins(schedule.plans))
    change_record(run, scheduled_at=schedule.plans[0].start_ns)
    stamped(run, at)
    return run


def planned(run: RunDir, plans: list[dict[str, Any]]) -> None:
    """The control process wrote down these plans."""
    path = run.segments / "control.seg"
    note = ["note", 1, {"planned": plans}]
    events = [note if e[0] == "note" else e for e in read_segment(path) if e[0] != "e"]
    lines = [encode_line(event) for event in events]
    path.write_bytes(b"".join(lines) + encode_line(["e", len(lines)]))


def stamped(run: RunDir, at: datetime.datetime) -> None:
    """The servers' logs are of that time."""
    for node in ("n1", "n2", "n3"):
        later = at + datetime.timedelta(seconds=5)
        text = LOG.replace("2023-11-14T22:13:20", at.strftime("%Y-%m-%dT%H:%M:%S"))
        text = text.replace("2023-11-14T22:13:25", later.strftime("%Y-%m-%dT%H:%M:%S"))
        assert len(text) == len(LOG)
        run.write(f"nodes/{node}/etcd.log", text)


def sealed(run: RunDir, key: Path | None = None) -> RunDir:
    """Judged, or judged anew: with its sums and status, as if it had been so from the beginning."""
    verdict, failure = judge(run)
    assert failure is None, failure
    run.write_sums(key)
    run.write_status(f"verdict: {verdict.verdict.value}")
    return run


def run_at(store: Path, seed: int, **how: Any) -> RunDir:
    return sealed(recorded_at(store, seed, **how))


def session_at(store: Path, seeds: Sequence[int], **how: Any) -> Path:
    """A session of these seeds at the tier smoke."""
    at = how.pop("at", None) or now() - DAY
    path = store / f"{NAME}-session" / f"{at.strftime(STAMP)}-{seeds[0]}"
    arms = []
    for seed in seeds:
        run = recorded_at(path / "arms", seed, name=f"n3-s{seed}", at=at, **how)
        change_facts(run, tier_wanted="smoke")
        sealed(run)
        where = str(run.path.relative_to(path.resolve()))
        arms.append(ArmState(id=f"n3-s{seed}", nodes=3, seed=seed, done=True, attempts=[where]))
    meta = RunDir.open(path / arms[0].attempts[0]).read_meta()
    assert meta is not None
    file = SessionFile(
        spec=msgspec.convert(meta.spec, RunSpec),
        options_given=list(meta.options_given or []),
        tier="smoke",
        attempts_max=2,
        arms=arms,
        started=at.strftime(STAMP),
    )
    resealed(SessionDir(path.resolve()), file)
    return path


def resealed(directory: SessionDir, file: SessionFile) -> None:
    """The session's verdict, reports and sums, as its arms give them."""
    found = [arm_evidence(directory, arm) for arm in file.arms]
    verdict = judge_session(found, file.tier)
    file.verdict = msgspec.to_builtins(verdict)
    directory.write(file)
    write_session(directory.path, file.spec, file.options_given, verdict)
    directory.write_sums()


def honest(store: Path) -> Path:
    """What `POLICY` asks for: three runs of the claim, a bug that was found, a control."""
    for seed in (1, 2, 3):
        run_at(store, seed)
    run_at(store, 4, bug=True)
    run_at(store, 5, given=[*GIVEN, "reads=linearizable"])
    return store


def decided(
    store: Path, policy: str = POLICY, *more: Path, baseline: tuple[Path, ...] = ()
) -> Decision:
    """What the gate says of these stores; the policy lies beside the first of them."""
    path = store.parent / "release.toml"
    path.write_text(policy)
    read = read_policy(path)
    require_sound(read, METRICS, FACTORS)
    return decide(read, [store, *more], baseline, int(now().timestamp() * 1e9))


def broken(decision: Decision) -> set[str]:
    return {finding.rule for finding in decision.findings}
