"""`dstest run --lab sim`: a whole run directory, judged as any other, and never more than smoke."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import msgspec
import pytest

from clusters.systems.toykv.simulated import SimulatedToykv
from dstest.campaign.session import ArmsPlan, begin
from dstest.core.clock import sleep_s, wall_ns
from dstest.core.errors import ConfigError, DstestError, EvidenceError, Exit
from dstest.core.op import FIELDS
from dstest.core.run_record import RunSpec
from dstest.core.verdict import State, Verdict
from dstest.gate.decision import decide
from dstest.gate.policy import read_policy
from dstest.history.layout import EVENTS, RunDir
from dstest.history.sums import SUMS
from dstest.judge.session import ArmEvidence, judge_session
from dstest.runner.integrity import verify_run
from dstest.runner.judgement import assess
from dstest.runner.plugins import Plugins, resolve
from dstest.runner.replay import replay
from dstest.runner.screen import Progress
from dstest.runner.session import Finished, recover, run_session
from dstest.runner.simulated_run import SimulatedLoad
from dstest.sim.files import SimFiles
from dstest.sim.world import World
from nemeses.base.simulated import SimulatedCut, SimulatedKill

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[3]
SHORT = ["fault_s=4"]


def planned(*pairs: str, **changes: Any) -> Plugins:
    spec = RunSpec(
        system="toykv", lab="sim", nodes=3, concurrency=6, time_limit_s=24.0, seed=1, rate=65.0
    )
    return resolve(msgspec.structs.replace(spec, **changes), [*pairs])


def ran(store: Path, *pairs: str, **changes: Any) -> Finished:
    return run_session(planned(*pairs, **changes), store=store, ui=Progress(io.StringIO()))


def why(done: Finished) -> str:
    verdict: Verdict = done.verdict
    return f"{verdict.verdict.value} {verdict.rule}: {verdict.reason} {verdict.why_not_better}"


@pytest.fixture(scope="module")
def clean(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One that passed."""
    done = ran(tmp_path_factory.mktemp("clean"), *SHORT)
    assert done.exit_code == Exit.PASS, why(done)
    return done.path


@pytest.mark.parametrize(
    "nemesis", ["none", "partition", "kill", "partition,kill", "pause", "power"]
)
@pytest.mark.sampled(2)
def test_a_sound_system_is_smoke_and_no_more(nemesis: str, tmp_path: Path) -> None:
    given = [] if nemesis == "none" else SHORT
    done = ran(tmp_path, *given, nemesis=nemesis, rate=100.0)
    assert (done.verdict.verdict, done.exit_code) == (State.PASS_SMOKE, Exit.PASS), why(done)
    faults = done.verdict.evidence.faults
    assert bool(faults) == (nemesis != "none")
    assert done.verdict.reason.endswith("; all in one process, which is smoke at most.")
    for fault in faults:
        assert fault.landed == "yes" and fault.heal_verified
        for side in (fault.injector, fault.victim):
            assert side["during"] != side["before"] and side["after"]


def test_a_run_directory_has_all_that_any_has(clean: Path) -> None:
    names = {path.name for path in clean.iterdir()}
    assert names >= {"run.json", "schedule.json", "segments", "history.jsonl"}
    assert names >= {"faults.jsonl", "verdict.json", "junit.xml"}
    assert not names & {"spec.toml", "evidence.json", "canary.json"}, "a fact is in one file"
    assert names >= {"report.html", "findings.md", "sha256sums", "status", "run.log", EVENTS}
    meta = json.loads((clean / "run.json").read_bytes())
    assert (meta["lab"], meta["transport"], meta["failures"]) == ("sim", "in-process", [])
    assert meta["events"] > 1000 and len(meta["digest"]) == 64
    assert not {"processes", "logs", "node_clocks_start_ns", "cleaned"} & meta.keys()
    header, *ops = map(json.loads, (clean / "history.jsonl").read_bytes().splitlines())
    assert header["clock"]["name"] == "SIMULATED_MONOTONIC" and ops[0].keys() >= {*FIELDS}
    assert len(ops) > 1000


def test_what_has_no_nodes_is_not_applicable(clean: Path) -> None:
    evidence = json.loads((clean / "verdict.json").read_bytes())["evidence"]
    assert evidence["transport"] == "in-process"
    rows = {**evidence["redflags"], **evidence["weak_audit"]}
    assert rows["RF5"]["status"] == "n/a" and "simulation" in rows["RF5"]["evidence"]
    assert rows["RF7"]["status"] == "ok" and "logs of nodes do not apply" in rows["RF7"]["evidence"]
    short = {name for name, row in rows.items() if row["status"] == "short"}
    assert short <= {"RF10", "WO6", "WO7", "WO10", "WO11"}
    page = (clean / "report.html").read_text()
    assert "all in one process, which is smoke at most" in page


def test_judged_again_it_is_the_same(clean: Path) -> None:
    assert verify_run(RunDir(clean), "all").verdict.verdict is State.PASS_SMOKE
    assert recover(clean).exit_code == Exit.PASS


def test_a_planted_bug_is_a_violation_that_comes_again(tmp_path: Path) -> None:
    done = ran(
        tmp_path, *SHORT, "bug=stale-follower-read", time_limit_s=20.0, nodes=5, seed=3, rate=30.0
    )
    assert done.exit_code == Exit.FAIL, why(done)
    assert done.verdict.verdict is State.FAIL_NONDETERMINISTIC
    (result,) = done.verdict.checkers.values()
    assert result["valid"] is False and result["anomalies"]["nonlinearizable"]
    page = (done.path / "report.html").read_text()
    assert "stale read" in page and "The nodes&#39; logs" not in page
    assert "none were kept of the nodes" not in page and "The nodes' logs" not in page
    assert f'<a href="{EVENTS}">{EVENTS}</a> beside this page has it' in page
    again, original = replay(done.path, 1, store=tmp_path / "again", ui=Progress(io.StringIO()))
    assert (again.exit_code, original.exit_code) == (Exit.FAIL, Exit.FAIL)
    assert original.verdict.verdict is State.FAIL_REPRODUCIBLE
    assert original.verdict.evidence.rerun.identical == 1
    assert "a re-run was the same simulation, byte for byte" in original.verdict.reason
    assert "1 of 1" not in original.verdict.reason
    for name in ("worker-0.seg", "control.seg"):
        both = {(run.path / "segments" / name).read_bytes() for run in (done, again)}
        assert len(both) == 1


PROGRAM = """
import io, sys
from pathlib import Path
from dstest.core.run_record import RunSpec
from dstest.report import write
from dstest.runner.plugins import resolve
from dstest.runner.screen import Progress
from dstest.runner.session import run_session
write.pictures = lambda report: {}
spec = RunSpec(system="toykv", lab="sim", nodes=3, concurrency=6, time_limit_s=24.0, seed=7,
               nemesis="partition,power", workload=sys.argv[2], rate=65.0)
done = run_session(resolve(spec, ["fault_s=4"]), store=Path(sys.argv[1]), name="it",
                   ui=Progress(io.StringIO()))
print(done.path)
"""


@pytest.mark.parametrize("workload", ["register", pytest.param("bank", marks=pytest.mark.long)])
def test_a_seed_is_a_run_byte_for_byte_in_any_process(workload: str, tmp_path: Path) -> None:
    paths = []
    for number, hashed in enumerate(("0", "4242")):
        env = {**os.environ, "PYTHONHASHSEED": hashed, "PYTHONPATH": str(ROOT)}
        command = [sys.executable, "-c", PROGRAM, str(tmp_path / str(number)), workload]
        done = subprocess.run(
            command, capture_output=True, text=True, env=env, timeout=240, check=True
        )
        paths.append(Path(done.stdout.strip()))
    for name in ("segments/worker-0.seg", "segments/control.seg", EVENTS, "faults.jsonl"):
        assert len({(path / name).read_bytes() for path in paths}) == 1, name
    digests = {json.loads((path / "run.json").read_bytes())["digest"] for path in paths}
    assert len(digests) == 1
    histories = [_history(path) for path in paths]
    assert histories[0] == histories[1]


def _history(path: Path) -> tuple[dict[str, Any], bytes]:
    """Its header but for the name of the run, and its operations."""
    head, _, ops = (path / "history.jsonl").read_bytes().partition(b"\n")
    return {**json.loads(head), "run": None}, ops


def _nothing(self: Any, *_: Any) -> None:
    """Does not do it."""


@pytest.mark.parametrize(
    ("nemesis", "of", "step"),
    [("partition", SimulatedCut, "cut"), ("kill", SimulatedKill, "kill")],
)
def test_a_fault_that_does_nothing_proves_nothing(
    nemesis: str, of: Any, step: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(of, step, _nothing)
    done = ran(tmp_path, *SHORT, nemesis=nemesis)
    assert done.verdict.verdict is State.INCONCLUSIVE_FAULT, why(done)
    assert done.exit_code == Exit.NOT_PROVEN
    assert all(fault.landed == "no" for fault in done.verdict.evidence.faults)


def _kept(self: SimFiles, least: int = 0) -> None:
    """All that was written turns out to be on the disk."""
    self.stall(lambda: False)
    for file in self._files.values():
        file.synced = bytes(file.data)


def _half(self: SimFiles, least: int = 0) -> None:
    """Half of what is on the disk goes as well."""
    self.stall(lambda: False)
    for file in self._files.values():
        file.data = bytearray(file.synced[: len(file.synced) // 2])
        file.synced = bytes(file.data)


@pytest.mark.parametrize(
    ("damage", "told"),
    [(_kept, "nothing was lost"), (_half, "what was synced does not stand")],
    ids=["kept", "half"],
)
def test_a_power_cut_is_seen_by_what_stands_in_the_files(
    damage: Any, told: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(SimFiles, "lose_power", damage)
    done = ran(tmp_path, *SHORT, "scope=one", nemesis="power")
    assert not done.verdict.verdict.passed and done.exit_code != Exit.PASS, why(done)
    faults = done.verdict.evidence.faults
    assert faults and all(fault.landed != "yes" for fault in faults)
    assert told in why(done)


def test_a_power_cut_that_hits_others_as_well_proves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Their processes go on, and a file of theirs has changed behind their backs."""
    lose_power = World.lose_power

    def wide(self: World, name: str, least: int = 0) -> None:
        for other in self.hosts.values():
            other.files.replace("beside", b"%d" % self.loop.time_ns)
        lose_power(self, name, least)

    monkeypatch.setattr(World, "lose_power", wide)
    done = ran(tmp_path, *SHORT, "scope=one", nemesis="power")
    assert done.verdict.verdict is State.INCONCLUSIVE_FAULT, why(done)
    assert "files changed as well" in why(done)


def test_a_link_that_is_not_mended_is_no_pass(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(World, "mend", _nothing)
    done = ran(tmp_path, *SHORT)
    assert done.exit_code == Exit.NOT_PROVEN, why(done)
    assert not any(fault.heal_verified for fault in done.verdict.evidence.faults)
    assert "is cut" in done.verdict.evidence.redflags["RF8"].evidence


def test_no_traffic_is_no_pass(tmp_path: Path) -> None:
    done = ran(tmp_path, *SHORT, rate=0.5)
    assert not done.verdict.verdict.passed and done.exit_code == Exit.NOT_PROVEN, why(done)


class _Dying(SimulatedToykv):
    """One server ends itself in the middle of the load."""

    def main(self, world: Any, host: Any, options: Mapping[str, Any]) -> Any:
        process = host.process

        def die() -> None:
            world.die(process, "a planted end")

        if host.name == "n2" and host.starts == 1:
            world.loop.call_at(3.0, die)
        return super().main(world, host, options)


def test_a_server_that_ends_itself_is_no_pass(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from clusters.systems.toykv.system import Toykv

    monkeypatch.setattr(Toykv, "simulable", _Dying())
    done = ran(tmp_path, *SHORT, "scope=all", nemesis="kill", time_limit_s=34.0)
    assert done.exit_code == Exit.NOT_PROVEN and not done.verdict.verdict.passed, why(done)
    row = done.verdict.evidence.redflags["RF7"]
    assert row.status == "short" and "a planted end" in row.evidence


def test_who_does_not_serve_at_the_end_is_told_and_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(World, "resume", _nothing)
    done = ran(
        tmp_path, *SHORT, "scope=one", nemesis="pause", nodes=5, time_limit_s=20.0, rate=20.0
    )
    assert not done.verdict.verdict.passed, why(done)
    healthy = json.loads((done.path / "run.json").read_bytes())["healthy"]
    stands = [name for name, serves in healthy.items() if not serves]
    assert len(healthy) == 5 and len(stands) == 1, healthy
    told = done.verdict.evidence.redflags["RF8"].evidence
    assert f"not serving after the settle phase: {stands[0]}; left behind" in told


class _Silent(SimulatedToykv):
    async def serves(self, world: Any) -> bool:
        return False


def test_a_cluster_that_never_serves_shows_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from clusters.systems.toykv.system import Toykv

    monkeypatch.setattr(Toykv, "simulable", _Silent())
    done = ran(tmp_path, *SHORT)
    assert done.exit_code == Exit.NOT_PROVEN and not done.verdict.verdict.passed
    assert "did not serve within 30 s" in done.failure.message


def test_an_error_of_ours_ends_the_run_and_is_judged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks = iter(range(12))

    def check(self: SimulatedLoad, now_ns: int | None = None) -> None:
        if next(looks, None) is None:
            raise ZeroDivisionError("planted")

    monkeypatch.setattr(SimulatedLoad, "check", check)
    done = ran(tmp_path, *SHORT)
    assert done.exit_code == Exit.HARNESS and "planted" in done.failure.message
    assert not done.verdict.verdict.passed and (done.path / SUMS).is_file()


REFUSED: list[tuple[dict[str, Any], list[str], str, str]] = [
    ({"system": "etcd"}, [], "etcd cannot be simulated", "toykv"),
    ({"nemesis": "latency"}, [], "latency cannot be simulated", "partition, pause, power"),
    ({"nemesis": "partition,clock"}, [], "clock cannot be simulated", "kill"),
    ({"stop_on_violation": True}, [], "--stop-on-violation", "leave it out"),
    ({"builds": ("a.deb-1",)}, [], "--system-version", "leave it out"),
    ({}, ["action=drop"], "-o action has no meaning", "leave it out"),
    ({}, ["workers=2"], "-o workers has no meaning", "leave it out"),
    ({}, ["client=raw"], "-o client has no meaning", "leave it out"),
    ({}, ["audit=yes"], "-o audit has no meaning", "leave it out"),
    ({"nemesis": "membership"}, ["way=signal"], "-o way: no such option", "fault_s"),
    ({"nemesis": "pause,kill"}, ["way=signal"], "-o way has no meaning", "leave it out"),
    ({"nemesis": "power"}, ["torn=true"], "-o torn has no meaning", "leave it out"),
]


@pytest.mark.parametrize(("changes", "pairs", "said", "remedy"), REFUSED)
def test_what_has_no_meaning_is_refused(
    changes: dict[str, Any], pairs: list[str], said: str, remedy: str
) -> None:
    with pytest.raises(ConfigError) as refused:
        planned(*pairs, **changes)
    assert said in refused.value.message
    assert remedy in str(refused.value.remedy)


def test_a_nemesis_does_not_take_its_simulation_from_another(tmp_path: Path) -> None:
    from nemeses.process.kill import Kill

    class Harder(Kill):
        name = "harder"

    with pytest.raises(ConfigError, match="--nemesis harder cannot be simulated"):
        resolve(RunSpec(system="toykv", lab="sim"), [], nemesis=Harder())


@pytest.mark.parametrize("more", [{"tier": "hardening"}, {"lab_id": "mine"}, {"keep_lab": True}])
def test_a_higher_tier_and_a_lab_that_stays_are_refused(
    more: dict[str, Any], tmp_path: Path
) -> None:
    with pytest.raises(ConfigError):
        run_session(planned(), store=tmp_path, ui=Progress(io.StringIO()), **more)
    arms = ArmsPlan(arms=[(3, 1), (3, 2)], tier="hardening", time_limit_s=24.0, attempts_max=1)
    with pytest.raises(ConfigError, match="smoke at most"):
        begin(planned().spec, [], arms, store=tmp_path, ui=Progress(io.StringIO()))
    assert not any(tmp_path.iterdir())


def test_seeds_make_a_session_that_is_smoke(tmp_path: Path) -> None:
    arms = ArmsPlan(arms=[(3, 1), (3, 2)], tier="smoke", time_limit_s=24.0, attempts_max=1)
    done = begin(planned().spec, SHORT, arms, store=tmp_path, ui=Progress(io.StringIO()))
    assert done.exit_code == Exit.PASS and done.verdict is not None
    assert done.verdict.state is State.PASS_SMOKE


def test_among_any_arms_it_is_smoke(
    clean: Path, record_property: Callable[[str, object], None]
) -> None:
    """As if all that it lacks besides the path were there."""
    verdict = msgspec.json.decode((clean / "verdict.json").read_bytes(), type=Verdict)
    evidence = verdict.evidence
    much = dict.fromkeys(evidence.budget.measured, 1000000000.0)
    rows = {name: msgspec.structs.replace(row, status="ok") for name, row in _rows(evidence)}
    evidence = msgspec.structs.replace(
        evidence,
        weak_audit={**evidence.weak_audit, **rows},
        budget=msgspec.structs.replace(evidence.budget, measured=much),
    )
    same = {"dstest": "1", "python": "3", "kernel": "6", "cpus": 2, "system_version": "1"}
    arms = [
        ArmEvidence(
            id=f"n{nodes}-s{seed}",
            seed=seed,
            nodes=nodes,
            alone=State.PASS_SMOKE,
            evidence=evidence,
            conditions={**same, "options": [], "plugin_files": {}},
        )
        for nodes, seed in ((5, 1), (5, 2), (5, 3), (3, 1))
    ]
    network = msgspec.structs.replace(evidence, transport="network")
    real = [msgspec.structs.replace(arm, evidence=network) for arm in arms]
    assert judge_session(real, "hardening").state is State.PASS_HARDENING
    simulated = judge_session(arms, "hardening")
    assert simulated.state is State.PASS_SMOKE and simulated.outcome == "DONE_WITH_CONCERNS"
    (path,) = {arm.evidence.transport for arm in arms if arm.evidence is not None}
    alike = "four arms that lack nothing else for hardening"
    record_property("shown", f"{alike}: {path} {simulated.state.value}, network PASS-hardening")


def _rows(evidence: Any) -> Any:
    return [(name, evidence.weak_audit[name]) for name in ("WO6", "WO7", "WO10", "WO11")]


def test_the_declared_path_cannot_be_edited_away(clean: Path, tmp_path: Path) -> None:
    """run.json alone is held against the journal and against what the lab declares."""
    for number, lab in enumerate(("sim", "lxc")):
        run = _copied(clean, tmp_path / str(number))
        meta = json.loads((run.path / "run.json").read_bytes())
        meta = {**meta, "transport": "network", "spec": {**meta["spec"], "lab": lab}}
        (run.path / "run.json").write_text(json.dumps(meta))
        with pytest.raises(EvidenceError):
            verify_run(run)
        judged = assess(run)
        assert judged.verdict.verdict is State.INCONCLUSIVE_ORACLE, judged.verdict.reason
        assert judged.verdict.evidence.transport == "in-process"


def test_one_that_is_killed_is_judged_by_what_it_left(tmp_path: Path) -> None:
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    program = PROGRAM.replace("30.0", "3000.0")
    command = [sys.executable, "-c", program, str(tmp_path), "register"]
    with subprocess.Popen(command, env=env, stdout=subprocess.DEVNULL) as process:
        for _ in range(600):
            found = list(tmp_path.glob("it/*/segments/worker-0.seg"))
            if found and found[0].read_bytes().count(b"\n") > 500:
                break
            sleep_s(0.1)
        process.kill()
    (path,) = tmp_path.glob("it/*")
    done = recover(path)
    assert not done.verdict.verdict.passed and done.exit_code == Exit.NOT_PROVEN
    evidence = done.verdict.evidence
    assert evidence.transport == "in-process" and not evidence.history_lint.corrupt
    assert "not recorded" in evidence.redflags["RF7"].evidence


POLICY = """\
schema = "dstest.gate/1"
name = "toykv"

[evidence]
age-days-max = 14
canaries = "kept"

[[claim]]
id = "C1"
text = "a read sees the newest write, whatever a partition does"
system = "toykv"
system-version = "VERSION"
workload = "register"
model = "register"
checkers = ["linearizable"]
nemesis = "partition"
options = ["fault_s=4"]
tier = "smoke"
seeds = 1
sizes = [3]
operations = 500
"""


def test_a_gate_counts_it_as_smoke_where_its_lab_is_named(
    clean: Path, tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    run = _copied(clean, tmp_path / "store" / "it")
    version = json.loads((run.path / "run.json").read_bytes())["system_version"]
    policy = POLICY.replace("VERSION", version)

    def broken(text: str) -> str:
        path = tmp_path / "release.toml"
        path.write_text(text)
        decision = decide(read_policy(path), [tmp_path / "store"], (), wall_ns())
        return " ".join(f"{found.rule} {found.what}" for found in decision.findings)

    named = policy.replace('tier = "', 'lab = "sim"\ntier = "')
    assert broken(named) == ""
    assert "counts where the policy names it" in broken(policy)
    hardening = broken(named.replace('"smoke"', '"hardening"'))
    assert "G25" in hardening
    record_property("shown", f"asked for hardening the gate says: {hardening}")


def test_edited_evidence_is_refused(clean: Path, tmp_path: Path) -> None:
    for number, (name, old, new) in enumerate(
        [
            ("verdict.json", '"in-process"', '"network"'),
            ("verdict.json", "PASS-smoke", "PASS-hardening"),
            ("history.jsonl", '"ok"', '"OK"'),
        ]
    ):
        run = _copied(clean, tmp_path / str(number))
        path = run.path / name
        path.write_text(path.read_text().replace(old, new, 1) + " ")
        with pytest.raises(DstestError):
            verify_run(run)


def _copied(path: Path, to: Path) -> RunDir:
    import shutil

    return RunDir(Path(shutil.copytree(path, to / path.name)))
