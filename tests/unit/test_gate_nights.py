"""What nights and bad days leave in a store decides nothing that it should not: runs that never
began, attempts that died, known bugs that come in most runs; and nothing hides in what lies beside
a run."""

from __future__ import annotations

import datetime
import shutil
from pathlib import Path

import msgspec
import pytest
from executed_plan import stale
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
from never_began import never_began, never_judged
from real_run import change_facts
from test_gate_left_out import BASELINE, GREEN, of_before, risk

from dstest.core.errors import ConfigError, Exit
from dstest.core.verdict import State
from dstest.gate.claims import _judged_by_all
from dstest.gate.decision import Decision
from dstest.gate.page import render_html, render_page, why
from dstest.gate.policy import Claim, read_policy
from dstest.history.layout import RunDir
from dstest.runner.session_file import SessionDir

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("judged_once")]


@pytest.fixture
def store(honest_store: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(honest_store, tmp_path / "store", symlinks=True))


def found(decision: Decision) -> list[tuple[str, str]]:
    return [(finding.rule, finding.of) for finding in decision.findings]


OTHER = [*GIVEN, "write_ratio=0.4"]


def test_a_run_that_never_began_is_a_risk_of_its_claim_and_no_more(store: Path) -> None:
    """Its servers did not start: no clock was read, and no operation is there."""
    sealed(never_began(store, 6, GIVEN))
    decision = decided(store)
    assert found(decision) == [("G24", "C1")], decision.findings
    assert decided(store, POLICY + risk("G24")).exit == Exit.PASS


def test_a_run_that_never_began_of_a_test_nobody_asks_for_is_nothing(store: Path) -> None:
    sealed(never_began(store, 6, OTHER))
    assert decided(store).findings == ()


def test_a_first_attempt_that_never_began_does_not_throw_its_session_out(store: Path) -> None:
    path = session_at(store, (11, 12, 13))
    how = {"name": "n3-s11", "tier_wanted": "smoke", "at": now() - DAY - DAY / 24}
    first = sealed(never_began(path / "arms", 11, GIVEN, **how))
    attempted(path, first)
    decision = decided(store)
    assert decision.findings == ()
    assert "6 runs passed" in decision.rows[0].said


def attempted(session: Path, first: RunDir) -> None:
    """This was the first attempt of the session's first arm."""
    directory = SessionDir.open(session)
    file = directory.read()
    file.arms[0].attempts.insert(0, str(first.path.relative_to(session.resolve())))
    resealed(directory, file)


@pytest.mark.parametrize("status", ["error: the image cannot be built", "interrupted", ""])
def test_a_run_that_was_never_judged_and_asked_for_nothing(status: str, store: Path) -> None:
    run = never_judged(store, 6, GIVEN, status)
    decision = decided(store)
    assert found(decision) == [("G24", "C1")], decision.findings
    assert decision.findings[0].where == str(run.path)
    assert decided(store, POLICY + risk("G24")).exit == Exit.PASS
    shutil.rmtree(run.path)
    never_judged(store, 6, OTHER, status)
    decision = decided(store)
    assert decision.findings == ()
    assert any("never began" in note for note in decision.notes)


def test_a_control_that_never_began_says_nothing(store: Path) -> None:
    never_judged(store, 6, GREEN, "interrupted")
    never_judged(store, 7, [*GIVEN, "reads=serializable"], "interrupted")
    assert decided(store).findings == ()


def test_what_never_began_and_does_not_say_what_it_is(store: Path) -> None:
    run = never_judged(store, 6, GIVEN, "error: no lab")
    (run.path / "run.json").unlink()
    assert decided(store).findings == ()


def test_a_session_that_never_began_is_nothing_but_a_risk(store: Path) -> None:
    path = session_at(store, (11, 12, 13))
    directory = SessionDir.open(path)
    file = directory.read()
    for arm in file.arms:
        shutil.rmtree(path / arm.attempts[0])
        arm.attempts, arm.done = [], False
    file.verdict = None
    directory.write(file)
    (path / "sha256sums").unlink()
    assert found(decided(store)) == [("G24", "C1")]


def test_an_unfinished_run_that_asked_for_something_is_not_left_out(store: Path) -> None:
    recorded_at(store, 6, given=OTHER).write_status("interrupted")
    assert broken(decided(store)) == {"G03"}


def test_a_verdict_is_not_thrown_away_with_the_operations(store: Path) -> None:
    run = run_at(store, 6, bug=True, given=GIVEN)
    for name in ("sha256sums", "history.jsonl"):
        (run.path / name).unlink()
    for path in run.segments.glob("worker-*"):
        path.unlink()
    run.write_status("interrupted")
    assert broken(decided(store)) == {"G03"}


def test_a_green_control_s_session_may_have_an_attempt_that_died(store: Path) -> None:
    for run in [*(store / NAME).glob("*-5")]:
        shutil.rmtree(run)
    path = session_at(store, (11, 12), given=GREEN)
    early = now() - DAY - datetime.timedelta(hours=1)
    dead = recorded_at(path / "arms", 11, name="n3-s11", at=early, given=GREEN, count=650)
    (dead.path / "status").unlink(missing_ok=True)
    attempted(path, dead)
    assert decided(store).findings == ()


SHARES = [
    ("", 1, False),
    ("found-share = 0.5", 1, True),
    ("found-share = 0.5", 2, False),
    ("found-share = 0.3", 2, True),
    ("found-share = 0.5\nseeds = 2", 1, False),
]


@pytest.mark.parametrize(("more", "missed", "let"), SHARES, ids=[f"{s[0]} {s[1]}" for s in SHARES])
def test_a_known_bug_need_not_come_in_every_run(
    more: str, missed: int, let: bool, store: Path
) -> None:
    for seed in range(14, 14 + missed):
        run_at(store, seed, given=[*GIVEN, "reads=serializable"])
    decision = decided(store, POLICY.replace('expect = "red"', f'expect = "red"\n{more}'))
    assert broken(decision) == (set() if let else {"G30"}), decision.findings
    row = next(row for row in decision.rows if row.id == "K1")
    assert f"1 of {1 + missed}" in row.said and "%" in row.said
    if let:
        assert any(f"missed in {missed} of {1 + missed}" in note for note in decision.notes)
        assert "95 %" in render_page(decision)


def test_a_share_is_one_of_red_controls(store: Path) -> None:
    for value in ("0", "1.1", "-1"):
        with pytest.raises(ConfigError):
            red = f'expect = "red"\nfound-share = {value}'
            decided(store, POLICY.replace('expect = "red"', red))
    with pytest.raises(ConfigError, match="green"):
        decided(store, POLICY.replace('expect = "green"', 'expect = "green"\nfound-share = 0.5'))


def beside(store: Path, seed: int, suffix: str) -> Path:
    """The folder of attempts beside that run."""
    (run,) = (store / NAME).glob(f"*-{seed}")
    runs = run.with_name(run.name + suffix) / "runs"
    runs.mkdir(parents=True)
    return runs


@pytest.mark.parametrize("suffix", [".shrink", ".blame"])
def test_a_violation_is_one_wherever_it_lies(suffix: str, store: Path) -> None:
    bad = sealed(recorded_at(store, 9, ops=stale(registers(seed=9, count=700))))
    assert broken(decided(store)) == {"G22"}
    place = beside(store, 1, suffix) / bad.path.name
    shutil.move(bad.path, place)
    decision = decided(store)
    assert broken(decision) == {"G05", "G22"} and decision.exit == Exit.FAIL
    assert str(place) in {f.where for f in decision.findings if f.rule == "G22"}
    runs = place.parents[1]
    runs.rename(runs.with_name(next((store / NAME).glob("*-4")).name + suffix))
    assert broken(decided(store)) == {"G22"}, "a red control is no claim's run"


def test_an_attempt_that_shows_the_same_is_nothing_new(store: Path) -> None:
    sealed(recorded_at(store, 9, ops=stale(registers(seed=9, count=700))))
    sealed(recorded_at(beside(store, 9, ".shrink"), 10, ops=stale(registers(seed=10, count=700))))
    assert found(decided(store)) == [("G22", "C1")]


def test_attempts_of_a_known_bug_speak_against_nothing(store: Path) -> None:
    runs = beside(store, 4, ".shrink")
    run_at(runs, 10, bug=True)
    run_at(runs, 11)
    recorded_at(runs, 12, bug=True).write_status("interrupted")
    assert decided(store).findings == ()


def test_a_baseline_that_was_judged_otherwise_is_no_end_of_the_gate(
    store: Path, tmp_path: Path
) -> None:
    before = tmp_path / "before"
    for seed in (11, 12, 13):
        run_at(before, seed, at=now() - 2 * DAY)
    of_before(before)
    for path in before.rglob("run.json"):
        run = RunDir(path.parent)
        change_facts(run, host={**run.read_json("run.json")["host"], "dstest": "0.0.1"})
        sealed(run)
        verdict = {**run.read_json("verdict.json"), "verdict": State.PASS_HARDENING.value}
        run.write_json("verdict.json", verdict)
        run.write_sums()
    table = BASELINE + 'differing = ["system_version", "dstest"]\n'
    decision = decided(store, POLICY + table, baseline=(before,))
    assert found(decision) == [("G34", "baseline")]
    assert "cannot be compared" in decision.findings[0].what


def test_no_checker_of_a_claim_has_judged_nothing(store: Path) -> None:
    path = store.parent / "policy.toml"
    path.write_text(POLICY)
    claim: Claim = read_policy(path).policy.claim[0]
    other = {"by_checker": {"slo": {"eligible": 5, "consumed": 5}}}
    from dstest.core.evidence import CheckerEvidence

    assert _judged_by_all(claim.checkers, msgspec.convert(other, CheckerEvidence)) == 0


def test_why_nothing_fits_is_told_once_for_each_claim(store: Path) -> None:
    policy = POLICY.replace('system-version = "3.4.23"', 'system-version = "3.4.24"')
    decision = decided(store, policy)
    lines = why(decision)
    assert len(lines) == 3
    assert lines[0] == "G13 C1: no run fits; 3 runs are of etcd 3.4.23, asked for is etcd 3.4.24"
    assert "1 run is of etcd 3.4.23" in lines[1]
    page = render_page(decision)
    assert page.count("| C1 | G13 | it is of etcd 3.4.23") == 3


def test_what_is_missing_is_asked_for_by_a_command(store: Path) -> None:
    decision = decided(store, POLICY.replace('tier = "smoke"', 'tier = "hardening"'))
    (row, *others) = decision.rows
    assert row.command.startswith("dstest run --system etcd --workload register")
    assert "--tier hardening" in row.command and "-o shape=one" in row.command
    assert not any(other.command for other in others)
    assert row.command in render_page(decision)
    assert row.command in render_html(decision).replace("&#39;", "'")


def test_what_was_asked_for_is_on_the_page(store: Path) -> None:
    decision = decided(store, POLICY.replace("seeds = 3", "seeds = 4"))
    counts = {one.name: (one.asked, one.there) for one in decision.rows[0].counts}
    assert counts["seeds"] == ("4", "3") and counts["sizes"] == ("3", "3")
    assert counts["tier"][0] == "smoke" and counts["faults: partition"] == ("2", "3")
    page, html = render_page(decision), render_html(decision)
    assert "| C1 | seeds | 4 | 3 |" in page
    assert "3 of 4 seeds" in html and "<script" not in html and "src=" not in html
