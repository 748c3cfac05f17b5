"""The gate lets an honest store through, and refuses each dishonest one for its own reason."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest
from dishonest import TRICKS, Trick, a_violation, a_word_of_a_verdict, gone, run_of
from gate_store import DAY, NAME, POLICY, broken, decided, now, run_at, sealed
from judged_once import judging_once
from real_run import change_facts, change_record

from dstest.core.errors import ConfigError, Exit
from dstest.core.verdict import Verdict
from dstest.gate import gather
from dstest.gate.decision import Decision
from dstest.gate.page import render_page, why
from dstest.gate.table import RULES
from dstest.history.layout import RunDir
from dstest.runner.integrity import Again, RunStatement, read_statement

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("judged_once")]


@pytest.fixture
def store(honest_store: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(honest_store, tmp_path / "store", symlinks=True))


def named(decision: Decision) -> set[str]:
    """The rules that are broken; where something is short because a run does not count, the rule
    by which that run does not."""
    reasons = {
        match
        for finding in decision.findings
        for match in re.findall(r"(?:not counted:|;) (G\d\d) ", finding.what)
    }
    short = {"G26", "G28", "G29"} if reasons else set()
    return broken(decision) - short | reasons


def test_an_honest_store_is_let_through(store: Path) -> None:
    decision = decided(store)
    assert decision.findings == ()
    assert (decision.outcome, decision.exit) == ("let through", Exit.PASS)
    assert len(decision.evidence) == 5
    assert all(row.kept for row in decision.rows)


def test_it_is_let_through_with_every_self_test_done_again(store: Path) -> None:
    decision = decided(store, POLICY.replace('canaries = "kept"\n', ""))
    assert decision.findings == ()


def test_what_is_believed_is_not_judged_again(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """But held to its sums."""
    policy = POLICY.replace('canaries = "kept"\n', 'verdicts = "believed"\n')

    def never(*args: object) -> None:
        raise AssertionError("a run was judged again")

    monkeypatch.setattr(gather, "judged_again", never)
    assert decided(store, policy).findings == ()
    a_word_of_a_verdict(store)
    assert "G01" in broken(decided(store, policy))


def test_a_run_is_judged_again_unless_it_is_the_same_to_the_byte(store: Path) -> None:
    """Of the fixture `judged_once`, by which these tests take half of the time."""
    asked: list[str] = []

    def judge(run: RunDir, kept: RunStatement, again: Again) -> Verdict:
        asked.append(run.path.name)
        return kept.verdict

    judged, run = judging_once(judge), run_of(store, 1)
    kept = read_statement(run)
    for _ in range(2):
        assert judged(run, kept, "checkers") is kept.verdict
    assert len(asked) == 1
    judged(run, kept, "all")
    with (run.segments / "worker-0.seg").open("ab") as file:
        file.write(b"\n")
    judged(run, kept, "checkers")
    run.path.rename(run.path.with_name("another"))
    judged(RunDir(run.path.with_name("another")), kept, "checkers")
    assert len(asked) == 4


def _name(trick: object) -> str:
    return getattr(trick, "__name__", "")


@pytest.mark.parametrize(("trick", "rule"), TRICKS, ids=[f"{r}-{_name(t)}" for t, r in TRICKS])
def test_a_dishonest_store_is_refused_for_its_own_reason(
    trick: Trick, rule: str, store: Path
) -> None:
    trick(store)
    decision = decided(store)
    assert named(decision) == {rule}, decision.findings
    assert decision.exit == RULES[rule].exit
    assert decision.outcome != "let through"


ASKED = [
    ('checkers = ["linearizable"]', 'checkers = ["linearizable", "slo"]', "G20"),
    ('tier = "smoke"', 'tier = "hardening"', "G25"),
    ("seeds = 3", "seeds = 4", "G26"),
    ("sizes = [3]", "sizes = [3, 5]", "G27"),
    ("partition = 2", "partition = 4", "G28"),
    ("operations = 1000", "operations = 100_000", "G29"),
    ('anomalies = ["nonlinearizable"]', 'anomalies = ["lost"]', "G30"),
    (
        'anomalies = ["nonlinearizable"]',
        'anomalies = ["lost"]\nbeside = ["nonlinearizable"]',
        "G30",
    ),
    ("[[claim]]", '[evidence.host]\nkernel = "6.9.0"\n\n[[claim]]', "G14"),
    ('nemesis = "partition"\n', 'nemesis = "partition"\nlab = "vm"\n', "G14"),
    ('system-version = "3.4.23"', 'system-version = "3.4.24"', "G13"),
    ('nemesis = "partition"\n', 'nemesis = "partition"\nbuilds = ["mine"]\n', "G13"),
    ("age-days-max = 14", "age-days-max = 0.5", "G16"),
]
"""What a policy asks for instead, and the rule that an honest store does not keep then."""


@pytest.mark.parametrize(("old", "new", "rule"), ASKED, ids=[f"{r} {n[:40]}" for _, n, r in ASKED])
def test_what_is_short_is_named(old: str, new: str, rule: str, store: Path) -> None:
    changed = POLICY.replace(old, new, 1)
    assert changed != POLICY
    decision = decided(store, changed)
    assert broken(decision) == {rule}, decision.findings
    assert decision.exit == Exit.NOT_PROVEN


@pytest.mark.parametrize(
    ("beside", "said"),
    [
        ("", "it failed by nonlinearizable, which is not known of its bug"),
        (
            'beside = ["nonlinearizable"]',
            "it failed by nonlinearizable, and its bug shows as lost",
        ),
    ],
)
def test_what_else_a_known_bug_may_show_is_named(beside: str, said: str, store: Path) -> None:
    asked = POLICY.replace('anomalies = ["nonlinearizable"]', f'anomalies = ["lost"]\n{beside}')
    assert {finding.what for finding in decided(store, asked).findings} == {said}


def test_every_rule_is_broken_by_some_test() -> None:
    tried = {rule for _, rule in TRICKS} | {rule for *_, rule in ASKED}
    elsewhere = {
        *("G08", "G09", "G33"),  # test_gate_sessions
        *("G11", "G31", "G34", "G35", "G36"),  # below
        "G37",  # test_gate_left_out
    }
    assert tried | elsewhere == {*RULES}
    assert not tried & elsewhere


def test_a_control_that_proved_nothing_has_not_passed(store: Path) -> None:
    run = run_of(store, 5)
    change_facts(run, ended_by="the disk was full")
    sealed(run)
    assert broken(decided(store)) == {"G31"}


def test_a_store_and_its_copy_are_not_two(store: Path) -> None:
    copy = Path(shutil.copytree(store, store.parent / "copy"))
    assert broken(decided(store, POLICY, copy)) == {"G06"}


def test_a_store_is_given_once(store: Path) -> None:
    link = store.parent / "link"
    link.symlink_to(store)
    for more in (store, store / NAME, store.parent, link):
        with pytest.raises(ConfigError, match="twice"):
            decided(store, POLICY, more)
    with pytest.raises(ConfigError, match="no directory"):
        decided(store, POLICY, store.parent / "nothing")


def test_a_violation_outweighs_what_is_missing(store: Path) -> None:
    a_violation(store)
    gone(store, 5)
    decision = decided(store)
    assert broken(decision) == {"G22", "G32"}
    assert decision.exit == Exit.FAIL
    assert "G22" in why(decision)[0]


RISK = """
[[risk]]
id = "R1"
of = "C1"
rule = "{rule}"
text = "no machine with five nodes before the release"
owner = "somebody@example"
expires = {expires}
"""


def _risk(rule: str, days: int) -> str:
    return RISK.format(rule=rule, expires=(now() + days * DAY).date())


def test_a_risk_is_accepted_by_name_until_its_day(store: Path) -> None:
    short = POLICY.replace("sizes = [3]", "sizes = [3, 5]")
    decision = decided(store, short + _risk("G27", 0))
    assert (decision.exit, decision.findings) == (Exit.PASS, ())
    assert [one.risk.id for one in decision.accepted] == ["R1"]
    assert any("somebody@example" in line for line in why(decision))
    assert "no run with 5 nodes" in render_page(decision)
    late = decided(store, short + _risk("G27", -1))
    assert broken(late) == {"G27", "G36"}
    other = decided(store, short + _risk("G26", 1))
    assert broken(other) == {"G27"}
    assert any(
        "nothing needs: R1" in note for note in decided(store, POLICY + _risk("G27", 9)).notes
    )


def test_an_accepted_risk_covers_no_violation_and_no_edit(store: Path) -> None:
    for rule in ("G01", "G22", "G30", "G21", "G99"):
        with pytest.raises(ConfigError, match="nothing that anybody"):
            decided(store, POLICY + _risk(rule, 9))
    with pytest.raises(ConfigError, match="too far away"):
        decided(store, POLICY + _risk("G27", 400))
    assert not any(RULES[rule].acceptable for rule in ("G01", "G02", "G21", "G22", "G23"))


def test_a_risk_covers_what_it_names_and_not_what_follows(store: Path) -> None:
    """Whoever accepts that a run came to no pass has not accepted that there is none that did."""
    for seed in (1, 2, 3):
        run = run_of(store, seed)
        change_record(run, landed="no")
        sealed(run)
    assert broken(decided(store)) == {"G24"}
    decision = decided(store, POLICY + _risk("G24", 9))
    assert broken(decision) == {"G21"} and decision.exit == Exit.NOT_PROVEN
    assert not next(row for row in decision.rows if row.id == "C1").kept


def test_a_lower_tier_is_no_lower_number_of_seeds(store: Path) -> None:
    policy = POLICY.replace('tier = "smoke"', 'tier = "hardening"') + _risk("G25", 9)
    assert decided(store, policy).findings == ()
    fewer = decided(store, policy.replace("seeds = 3", "seeds = 4"))
    assert broken(fewer) == {"G26"}


def test_a_violation_of_another_version_is_told(store: Path) -> None:
    a_violation(store)
    run = run_of(store, 9)
    change_facts(run, system_version="3.4.22")
    sealed(run)
    decision = decided(store)
    assert decision.findings == ()
    assert any("not released: etcd 3.4.22" in note for note in decision.notes)


def test_signers_that_are_not_there_are_no_policy(store: Path) -> None:
    with pytest.raises(ConfigError, match="is no file"):
        decided(store, POLICY.replace("[evidence]", '[evidence]\nsigners = "nobody"'))


BASELINE = """
[baseline]
claims = ["C1"]
metrics = ["ok_per_s", "p50_ms"]
tolerance = {tolerance}
"""


@pytest.fixture
def before(tmp_path: Path) -> Path:
    """Three runs of the version before."""
    store = tmp_path / "before"
    for seed in (11, 12, 13):
        run = run_at(store, seed, at=now() - 100 * DAY).path
        change_facts(RunDir(run), system_version="3.4.22")
        sealed(RunDir(run))
    return store


def test_a_baseline_is_compared_with_intervals(store: Path, before: Path) -> None:
    policy = POLICY + BASELINE.format(tolerance=0.5)
    decision = decided(store, policy, baseline=(before,))
    assert decision.findings == ()
    said = next(row.said for row in decision.rows if row.id == "baseline")
    assert "ok_per_s" in said and "ratio" in said and " to " in said


def test_a_baseline_that_is_better_stops_the_release(store: Path, before: Path) -> None:
    shutil.rmtree(before)
    for seed in (11, 12, 13):
        run = run_at(before, seed, count=1400)
        change_facts(run, system_version="3.4.22")
        sealed(run)
    policy = POLICY + BASELINE.format(tolerance=0.05).replace(', "p50_ms"', "")
    decision = decided(store, policy, baseline=(before,))
    assert broken(decision) == {"G35"}, decision.findings
    assert decision.exit == Exit.FAIL


def test_a_baseline_that_is_not_fair_tells_nothing(store: Path, before: Path) -> None:
    policy = POLICY + BASELINE.format(tolerance=0.5)
    for run in (before / NAME).iterdir():
        plain = RunDir(run).read_json("run.json")["host"]
        change_facts(RunDir(run), host={**plain, "cpus": 64})
        sealed(RunDir(run))
    decision = decided(store, policy, baseline=(before,))
    assert broken(decision) == {"G34"}
    assert "cpus" in decision.findings[0].what
    shutil.rmtree(next((before / NAME).iterdir()))
    assert "2 runs of before" in decided(store, policy, baseline=(before,)).findings[0].what


def test_a_baseline_is_as_honest_as_the_rest(store: Path, before: Path) -> None:
    policy = POLICY + BASELINE.format(tolerance=0.5)
    edited = next((before / NAME).iterdir())
    (edited / "run.log").write_text("all is well\n")
    assert "G01" in broken(decided(store, policy, baseline=(before,)))


def test_a_baseline_is_given_where_it_is_asked_for(store: Path, before: Path) -> None:
    with pytest.raises(ConfigError, match="asks for no baseline"):
        decided(store, baseline=(before,))
    with pytest.raises(ConfigError, match="asks for a baseline"):
        decided(store, POLICY + BASELINE.format(tolerance=0.5))
    with pytest.raises(ConfigError, match="twice"):
        decided(store, POLICY + BASELINE.format(tolerance=0.5), baseline=(store,))


def test_where_signers_are_named_each_run_has_to_be_signed_by_one(store: Path, keys: Path) -> None:
    policy = POLICY.replace("[evidence]", f'[evidence]\nsigners = "{keys / "allowed"}"')
    decision = decided(store, policy)
    assert broken(decision) == {"G11"} and len(decision.findings) == 5
    for seed in (1, 2, 3, 4, 5):
        run_of(store, seed).write_sums(keys / "ours")
    assert decided(store, policy).findings == ()
    run_of(store, 2).write_sums(keys / "theirs")
    decision = decided(store, policy)
    assert [f.rule for f in decision.findings] == ["G11"]
    assert "not a signature" in decision.findings[0].what
