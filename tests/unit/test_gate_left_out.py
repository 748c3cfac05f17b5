"""What a gate must not leave out: runs that never started, anomalies of runs that came to no
verdict, the age of a plan's runs, and what is short where an old run lies beside."""

from __future__ import annotations

import datetime
import hashlib
import shutil
from pathlib import Path

import executed_plan
import msgspec
import pytest
from executed_plan import executed, stale
from gate_store import (
    DAY,
    GIVEN,
    NAME,
    POLICY,
    broken,
    decided,
    now,
    recorded_at,
    resealed,
    run_at,
    sealed,
    session_at,
)
from made_runs import registers
from never_began import never_began
from real_run import change_facts
from red_plan import CANARY
from test_gate_sessions import PLAN

from dstest.core.errors import Exit
from dstest.core.op import Op, Outcome
from dstest.core.verdict import State, Verdict
from dstest.gate.claims import claim_answer
from dstest.gate.gather import Unit, gather
from dstest.gate.policy import read_policy
from dstest.history.layout import RunDir
from dstest.plans.review.gather import write_report
from dstest.runner.session_file import SessionDir

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("judged_once")]

GREEN = [*GIVEN, "reads=linearizable"]
RISK = """
[[risk]]
id = "R1"
of = "{of}"
rule = "{rule}"
text = "it is known"
owner = "somebody@example"
expires = {expires}
"""


def risk(rule: str, of: str = "C1") -> str:
    return RISK.format(of=of, rule=rule, expires=(now() + 9 * DAY).date())


@pytest.fixture
def store(honest_store: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(honest_store, tmp_path / "store", symlinks=True))


def not_started(store: Path, given: list[str]) -> RunDir:
    """A server did not start, so nobody asked it for its version."""
    return sealed(never_began(store, 6, given))


@pytest.mark.parametrize(("given", "rule"), [(GIVEN, "G24"), (GREEN, "G31")])
def test_a_run_that_did_not_start_is_not_left_out(given: list[str], rule: str, store: Path) -> None:
    run = not_started(store, given)
    decision = decided(store)
    assert broken(decision) == {rule}, decision.findings
    assert decision.findings[0].where == str(run.path)
    told = decision.findings[0].what
    assert "did not start" in told or "never attempted" in told


def test_a_run_that_did_not_start_is_a_risk_that_somebody_may_accept(store: Path) -> None:
    not_started(store, GIVEN)
    decision = decided(store, POLICY + risk("G24"))
    assert decision.findings == () and len(decision.accepted) == 1


def test_an_old_run_that_did_not_start_is_of_another_time(store: Path) -> None:
    sealed(never_began(store, 6, at=now() - 40 * DAY))
    assert decided(store).findings == ()


def test_a_run_without_its_checker_is_not_left_out(store: Path) -> None:
    """A checker that gave no result has not judged it, and nothing says that it need not."""
    path = store.parent / "release.toml"
    path.write_text(POLICY)
    policy, now_ns = read_policy(path).policy, int(now().timestamp() * 1e9)
    run = recorded_at(store, 6)
    change_facts(run, ended_by="the disk was full")
    sealed(run)
    found = gather([store], "checkers")

    def unjudged(unit: Unit) -> Unit:
        (one,) = unit.runs
        checker = msgspec.structs.replace(one.evidence.checker, ran=[], result="not-run")
        evidence = msgspec.structs.replace(one.evidence, checker=checker)
        one = msgspec.structs.replace(one, evidence=evidence)
        return msgspec.structs.replace(unit, runs=(one,))

    units = tuple(unjudged(u) if u.path == run.path else u for u in found.units)
    assert units != found.units
    changed = msgspec.structs.replace(found, units=units)
    answer = claim_answer(changed, policy.claim[0], policy, now_ns)
    assert {(f.rule, f.where) for f in answer.findings} == {("G24", str(run.path))}


def test_a_violation_without_a_version_is_not_left_out(store: Path) -> None:
    """Taking the version out of run.json takes nothing away."""
    run = recorded_at(store, 6, ops=stale(registers(seed=6, count=700)))
    change_facts(run, system_version=None)
    sealed(run)
    assert broken(decided(store)) == {"G24", "G37"}


def unsure(seed: int) -> list[Op]:
    """A read of an old value, and later a record with a gap: the checker finds an anomaly, and the
    verdict is none."""
    ops = stale(registers(seed=seed, count=700))
    at = next(
        n
        for n, op in enumerate(ops)
        if n > 300 and op.op_type == "read" and op.outcome is Outcome.OK
    )
    ops[at] = msgspec.structs.replace(
        ops[at], timeout_marker=True, complete_ts=None, output=None, error="timeout"
    )
    return ops


@pytest.mark.parametrize(
    ("given", "of", "rule"),
    [(GIVEN, "C1", "G24"), (GREEN, "K2", "G31"), ([*GIVEN, "write_ratio=0.4"], "", "")],
)
def test_an_anomaly_without_a_verdict_is_accepted_by_nobody(
    given: list[str], of: str, rule: str, store: Path
) -> None:
    run = sealed(recorded_at(store, 6, ops=unsure(6), given=given))
    verdict = msgspec.convert(run.read_json("verdict.json"), Verdict)
    assert verdict.verdict is State.INCONCLUSIVE_ORACLE
    assert verdict.checkers["linearizable"]["valid"] is False
    assert broken(decided(store)) == {"G37", rule} - {""}
    decision = decided(store, POLICY + (risk("G24") if of == "C1" else ""))
    (found,) = [f for f in decision.findings if f.rule == "G37"]
    assert (found.of, found.where) == (of, str(run.path))
    assert "nonlinearizable" in found.what
    assert decision.exit == Exit.NOT_PROVEN


def test_a_red_control_may_show_its_anomaly_and_no_verdict(store: Path) -> None:
    sealed(recorded_at(store, 6, ops=unsure(6), given=[*GIVEN, "reads=serializable"]))
    assert broken(decided(store)) == {"G30"}


def test_what_is_short_is_accepted_with_an_old_run_beside(store: Path) -> None:
    policy = POLICY.replace("seeds = 3", "seeds = 4")
    run_at(store, 9, at=now() - 40 * DAY)
    decision = decided(store, policy)
    (found,) = decision.findings
    assert found.rule == "G26"
    assert "3 of 4 seeds" in found.what and "G16 1 run is 40." in found.what
    decision = decided(store, policy + risk("G26"))
    assert decision.findings == () and decision.exit == Exit.PASS


def test_a_control_that_is_short_names_what_lies_beside(store: Path) -> None:
    policy = POLICY.replace('anomalies = ["non', 'seeds = 2\nanomalies = ["non')
    run_at(store, 9, bug=True, at=now() - 40 * DAY)
    (found,) = decided(store, policy).findings
    assert found.rule == "G32"
    assert "1 of 2 seeds" in found.what and "G16 1 run is 40." in found.what


FAR = """

[[arms]]
name = "far"
surface = "clients of a proxy"
expected = "NOT-RUN"
reason = "there is no proxy\""""
BARE = 'nemesis = "partition"\nconcurrency = 8'
OPTIONS = '{shape="one",direction="in",action="drop",fault_s=4,quiet_s=10}'
ONE_ARM = (
    (FAR, ""),
    ("near; far (NOT-RUN: there is no proxy)", "near"),
    ("near; far", "near"),
    ("| H3 | liveness | nobody closes this one | C2 | pitfall 14 | elections |\n", ""),
    (BARE, f"{BARE}\noptions = {OPTIONS}\n{CANARY}"),
)
"""Changes of the small plan by which all of it has run, was red first, and nothing is left open."""


def planned(
    store: Path, monkeypatch: pytest.MonkeyPatch, at: datetime.datetime, **facts: object
) -> str:
    """An execution that is done, and whose runs are named and dated as real ones are."""
    text = executed_plan.PLAN
    for old, new in ONE_ARM:
        assert old in text, old
        text = text.replace(old, new)
    seeds = iter(range(20, 30))

    def real(path: Path, ops: object, workload: str) -> tuple[RunDir, Verdict]:
        seed = next(seeds)
        run = recorded_at(path.parent.parent, seed, at=at + seed * datetime.timedelta(hours=-1))
        change_facts(run, **facts)
        sealed(run)
        return run, msgspec.convert(run.read_json("verdict.json"), Verdict)

    monkeypatch.setattr(executed_plan, "PLAN", text)
    monkeypatch.setattr(executed_plan, "made", real)
    directory = executed(store / "of-a-plan")
    write_report(directory)
    execution = directory.read()
    execution.outcome = "DONE"
    directory.save(execution)
    return hashlib.sha256(directory.plan.read_bytes()).hexdigest()


HOST = {"python": "3.11.2", "kernel": "6.1.0", "cpus": 2}
PLANS = [
    ({}, 1, set()),
    ({}, 300, {"G16"}),
    ({"system_version": "3.4.22"}, 1, {"G13"}),
    ({"host": {**HOST, "dstest": "0.0.1"}}, 1, {"G12"}),
]


@pytest.mark.parametrize(("facts", "days", "rules"), PLANS, ids=[str(p[:2])[:50] for p in PLANS])
def test_the_runs_of_a_plan_are_evidence_as_others_are(
    facts: dict[str, object],
    days: int,
    rules: set[str],
    store: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (store / "of-a-plan").mkdir()
    sha256 = planned(store, monkeypatch, now() - days * DAY, **facts)
    decision = decided(store, POLICY + PLAN.format(sha256=sha256))
    assert broken(decision) == rules, decision.findings
    assert all(finding.of == "P1" for finding in decision.findings)


def test_a_plan_is_of_the_host_that_is_named(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (store / "of-a-plan").mkdir()
    sha256 = planned(store, monkeypatch, now() - DAY)
    for run in (store / NAME).iterdir():
        plain = RunDir(run).read_json("run.json")["host"]
        change_facts(RunDir(run), host={**plain, "kernel": "6.9.0"})
        sealed(RunDir(run))
    named = POLICY.replace("[[claim]]", '[evidence.host]\nkernel = "6.9.0"\n\n[[claim]]')
    assert broken(decided(store, named)) == set()
    decision = decided(store, named + PLAN.format(sha256=sha256))
    assert {(f.rule, f.of) for f in decision.findings} == {("G14", "P1")}


BASELINE = """
[baseline]
claims = ["C1"]
metrics = ["ok_per_s"]
tolerance = 0.5
"""


def of_before(path: Path, version: str = "3.4.22") -> None:
    """The runs of this store are of that version."""
    for run in path.rglob("run.json"):
        change_facts(RunDir(run.parent), system_version=version)
        sealed(RunDir(run.parent))


def test_a_baseline_may_have_an_attempt_that_died(store: Path, tmp_path: Path) -> None:
    before = tmp_path / "before"
    path = session_at(before, (11, 12, 13))
    of_before(before)
    dead = recorded_at(
        path / "arms", 11, name="n3-s11", at=now() - DAY - datetime.timedelta(hours=1)
    )
    (dead.path / "status").unlink(missing_ok=True)
    directory = SessionDir.open(path)
    file = directory.read()
    file.arms[0].attempts.insert(0, str(dead.path.relative_to(path.resolve())))
    resealed(directory, file)
    decision = decided(store, POLICY + BASELINE, baseline=(before,))
    assert decision.findings == ()
    said = next(row.said for row in decision.rows if row.id == "baseline")
    assert "ok_per_s" in said


def test_a_baseline_of_what_is_released_compares_nothing(store: Path, tmp_path: Path) -> None:
    before = tmp_path / "before"
    for seed in (11, 12, 13):
        run_at(before, seed, at=now() - 2 * DAY)
    decision = decided(store, POLICY + BASELINE, baseline=(before,))
    assert broken(decision) == {"G34"}
    assert "system_version" in decision.findings[0].what
    same = BASELINE + "differing = []\n"
    assert decided(store, POLICY + same, baseline=(before,)).findings == ()
