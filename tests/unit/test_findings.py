"""The catalogue of published bugs: each command can be planned, and what is counted is the right
thing found, not any failure."""

from __future__ import annotations

import itertools
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest
from typer.testing import CliRunner

from dstest.campaign.known_bugs import measure as child
from dstest.campaign.known_bugs import measure as measuring
from dstest.campaign.known_bugs.entries.entry import Finding, pair
from dstest.campaign.known_bugs.measure import (
    CommandResult,
    Measurements,
    Trial,
    as_expected,
    by_command,
    measure,
    never_ran,
    read,
    with_trial,
)
from dstest.campaign.known_bugs.trials import CATALOGUE, by_id, markdown
from dstest.cli.app import app
from dstest.core import registry
from dstest.core.errors import ConfigError, DstestError, Exit
from dstest.core.rates import interval
from dstest.core.run_record import RunSpec
from dstest.judge.facts import budgets, gaps
from dstest.runner.plugins import resolve

pytestmark = pytest.mark.slow

LOST = Finding(
    id="L", claim="c", source="s", expect=Exit.FAIL,
    command=("run", "--system", "etcd", "--nemesis", "kill"),
    anomalies=("lost",),
)  # fmt: skip


def flags(words: Sequence[str]) -> dict[str, str]:
    pairs = itertools.pairwise(words)
    return {flag.removeprefix("--"): value for flag, value in pairs if flag.startswith("--")}


@pytest.mark.parametrize("finding", CATALOGUE, ids=lambda finding: finding.id)
def test_each_command_can_be_planned(finding: Finding) -> None:
    given = flags(finding.command)
    options = [v for k, v in itertools.pairwise(finding.command) if k == "-o"]
    spec = RunSpec(
        system=given["system"], workload=given["workload"], nemesis=given["nemesis"],
        model=given.get("model"), time_limit_s=float(given.get("time-limit", 60)),
    )  # fmt: skip
    plugins = resolve(spec, options)
    known = {m for c in plugins.checkers for m in registry.load("checkers", c.name).models}
    assert plugins.model in known


def differences(finding: Finding, control: Finding) -> set[str]:
    """What is not the same in both commands; a nemesis's options count with their nemesis."""
    rows = []
    for entry in (finding, control):
        given = flags(entry.command)
        pairs = [
            word.split("=", 1) for flag, word in itertools.pairwise(entry.command) if flag == "-o"
        ]
        rows.append({**given, **{f"-o {key}": value for key, value in pairs}})
    here, there = rows
    found = {key for key in here.keys() | there.keys() if here.get(key) != there.get(key)}
    if "nemesis" in found:
        own = registry.load("nemeses", here["nemesis"]).options
        found -= {f"-o {key}" for key in own}
    return found


@pytest.mark.parametrize("finding", CATALOGUE, ids=lambda finding: finding.id)
def test_a_control_is_the_same_run_but_for_one_thing(finding: Finding) -> None:
    if finding.expect == Exit.FAIL:
        assert finding.anomalies, "any failure would count"
        control = by_id(finding.control)
        assert control is not None
        assert control.expect == (Exit.NOT_PROVEN if control.short_of else Exit.PASS)
        changed = differences(finding, control)
        assert len(changed) == 1, changed
        assert not changed & {"workload", "model"}
    else:
        assert not finding.anomalies
        assert finding.expect == (Exit.NOT_PROVEN if finding.short_of else Exit.PASS)


def test_ids_are_unique() -> None:
    assert len({finding.id for finding in CATALOGUE}) == len(CATALOGUE)


@pytest.mark.parametrize(
    ("code", "verdict", "anomalies", "good"),
    [
        (1, "FAIL", ["lost"], True),
        (1, "FAIL", ["stale"], False),
        (1, "FAIL", [], False),
        (1, "none", ["lost"], False),
        (0, "PASS-smoke", ["lost"], False),
        (3, "PARTIAL", [], False),
    ],
)
def test_a_failure_of_another_kind_is_none(
    code: int, verdict: str, anomalies: list[str], good: bool
) -> None:
    trial = Trial(seed=1, exit=code, verdict=verdict, anomalies=anomalies, landed=1)
    assert as_expected(LOST, trial) is good


@pytest.mark.parametrize(
    ("nemesis", "by_fault", "landed", "good"),
    [
        ("kill", True, 1, True),
        ("kill", True, 0, False),
        ("kill", False, 0, True),
        ("none", True, 0, True),
    ],
)
def test_what_came_before_any_fault_is_not_its_doing(
    nemesis: str, by_fault: bool, landed: int, good: bool
) -> None:
    command = ("run", "--system", "etcd", "--nemesis", nemesis)
    finding = msgspec.structs.replace(LOST, command=command, by_fault=by_fault)
    trial = Trial(seed=1, exit=1, verdict="FAIL", anomalies=["lost"], landed=landed)
    assert as_expected(finding, trial) is good


def test_what_does_not_follow_from_the_weakness_is_no_finding_again() -> None:
    """REPEATABLE READ of PostgreSQL is snapshot isolation: what that forbids is another bug."""
    finding = by_id("P2")
    assert finding is not None
    skew = Trial(seed=1, exit=1, verdict="FAIL", anomalies=["G2-item"])
    assert as_expected(finding, skew)
    for strange in ("G-single-item", "G1a", "G-nonadjacent-item", "lost-update"):
        both = msgspec.structs.replace(skew, anomalies=["G2-item", strange])
        assert not as_expected(finding, both)
    followed = msgspec.structs.replace(finding, beside=("G1a",))
    assert as_expected(followed, msgspec.structs.replace(skew, anomalies=["G1a", "G2-item"]))
    assert not as_expected(followed, msgspec.structs.replace(skew, anomalies=["G1a"]))


def test_trials_of_another_version_do_not_count() -> None:
    one = Trial(seed=1, exit=1, verdict="FAIL", anomalies=["lost"], version="1.2")
    died = Trial(seed=2, exit=4, verdict="none", anomalies=[])
    newer = msgspec.structs.replace(one, seed=3, version="1.3")
    known = with_trial(with_trial([], LOST, one), LOST, died)
    assert [trial.seed for trial in known[0].trials] == [1, 2]
    (row,) = with_trial(known, LOST, newer)
    assert [trial.seed for trial in row.trials] == [2, 3]


@pytest.mark.parametrize(
    "words",
    [("R1", "--json", "--seeds", "2"), ("--seeds", "2"), ("--results", "r.json"), ("--store", "s"),
     ("--markdown", "--results", "r.json", "--seeds", "2")],
)  # fmt: skip
def test_options_of_runs_are_refused_where_nothing_is_run(words: tuple[str, ...]) -> None:
    done = CliRunner().invoke(app, ["findings", *words])
    assert isinstance(done.exception, ConfigError)
    assert "nothing is run here" in str(done.exception)


@pytest.mark.parametrize(
    ("code", "verdict", "good"),
    [(0, "PASS-smoke", True), (0, "none", False), (0, "FAIL", False), (3, "PASS-smoke", False)],
)
def test_a_control_needs_a_verdict(code: int, verdict: str, good: bool) -> None:
    control = msgspec.structs.replace(LOST, expect=Exit.PASS, anomalies=())
    assert as_expected(control, Trial(seed=1, exit=code, verdict=verdict, anomalies=[])) is good


@pytest.mark.parametrize(
    ("verdict", "why", "anomalies", "good"),
    [
        ("PARTIAL-model", "one member", [], True),
        ("PARTIAL-model", "too few operations", [], False),
        ("PARTIAL-model", "one member", ["lost"], False),
        ("INCONCLUSIVE-fault-not-proven", "one member", [], False),
    ],
)
def test_what_is_too_small_for_a_pass_is_short_of_that_alone(
    verdict: str, why: str, anomalies: list[str], good: bool
) -> None:
    control = msgspec.structs.replace(
        LOST, expect=Exit.NOT_PROVEN, anomalies=(), short_of="one member"
    )
    trial = Trial(seed=1, exit=3, verdict=verdict, why=why, anomalies=anomalies)
    assert as_expected(control, trial) is good


def test_what_a_control_is_short_of_is_said_by_the_judge() -> None:
    enough: dict[str, float] = {"duration_s": 40, "nodes": 1, "faults": 3, "seeds": 1, "ops": 9000}
    control = by_id("C-4")
    assert control is not None
    assert gaps(budgets(enough, nemesis=True), "smoke") == [control.short_of]


@pytest.mark.parametrize("code", [0, 1])
def test_a_program_that_says_nothing_gives_no_verdict(code: int) -> None:
    text = f"import sys; print('no disk', file=sys.stderr); sys.exit({code})"
    done = by_command([], [sys.executable, "-c", text])
    assert done == (code, {}, {}, "no disk")


@pytest.mark.parametrize(("code", "why"), [(4, "no disk"), (3, ""), (1, "")])
def test_a_run_that_broke_off_says_why(tmp_path: Path, code: int, why: str) -> None:
    """Its verdict says only that it was never attempted."""
    (tmp_path / "run.json").write_text("{}")
    said = {"run": str(tmp_path), "verdict": {"verdict": "NOT-RUN"}}
    text = f"import sys; print({str(said)!r}.replace(chr(39), chr(34)));"
    text += f" print('no disk', file=sys.stderr); sys.exit({code})"
    assert by_command([], [sys.executable, "-c", text]).why == why


def test_a_module_in_the_current_directory_is_none_of_ours(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "typer.py").write_text("raise SystemExit(0)")
    monkeypatch.chdir(tmp_path)
    assert by_command(["run", "--nodes", "0"]).exit == Exit.USAGE


HEALS = """
import pathlib, signal, sys, time
folder = pathlib.Path(sys.argv[1])
def heal(*_):
    time.sleep(1); (folder / "healed").touch(); sys.exit(130)
signal.signal(signal.SIGTERM, heal)
(folder / "ready").touch()
time.sleep(60)
"""


def test_who_is_ended_waits_until_its_run_has_healed(tmp_path: Path) -> None:
    ours = (
        "import sys; from dstest.campaign.known_bugs.measure import by_command;"
        f" by_command([], [sys.executable, '-c', {HEALS!r}, {str(tmp_path)!r}])"
    )
    process = subprocess.Popen([sys.executable, "-c", ours], stderr=subprocess.DEVNULL)
    end = time.monotonic() + 60
    while not (tmp_path / "ready").exists():
        assert time.monotonic() < end
        time.sleep(0.05)
    process.terminate()
    process.wait(60)
    assert (tmp_path / "healed").exists()


def test_what_counts_twice_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "results.json"
    (row,) = measured(LOST, (1, 2))
    path.write_bytes(msgspec.json.encode([row, row]))
    with pytest.raises(ConfigError, match="counts L twice"):
        read(path)
    double = msgspec.structs.replace(row, trials=[*row.trials, row.trials[0]])
    path.write_bytes(msgspec.json.encode([double]))
    with pytest.raises(ConfigError, match="counts L seed 1 twice"):
        read(path)


def test_an_interval_holds_its_share() -> None:
    assert interval(0, 0) == (0, 0, 0.0, 1.0)
    for total in (1, 10, 20):
        for hits in range(total + 1):
            rate = interval(hits, total)
            assert 0 <= rate.low <= hits / total <= rate.high <= 1
    ten = interval(10, 10)
    assert (round(ten.low, 3), ten.high) == (0.722, 1.0)


def ended(words: Sequence[str]) -> CommandResult:
    """Seed 2 finds nothing, seed 3 dies."""
    seed = int(flags(words)["seed"])
    if seed == 3:
        return CommandResult(-11, {}, {})
    found: list[str] = ["lost"] if seed == 1 else []
    said: dict[str, Any] = {
        "verdict": {
            "verdict": "FAIL-nondeterministic" if found else "PASS-smoke",
            "checkers": {"set": {"valid": not found, "anomaly_types": found}},
            "evidence": {"faults": [{"landed": "yes"}, {"landed": "no"}]},
        }
    }
    return CommandResult(1 if found else 0, said, {"load_s": 7.5, "system_version": "1.2"})


@pytest.fixture
def lost() -> Finding:
    entry = by_id("R1")
    assert entry is not None
    return entry


def measured(entry: Finding, seeds: Sequence[int]) -> list[Measurements]:
    known: list[Measurements] = []
    for trial in measure(entry, seeds, Path("store"), None, ended):
        known = with_trial(known, entry, trial)
    return known


def test_a_page_is_made_of_measurements(lost: Finding) -> None:
    known = measured(lost, (1, 2, 3))
    assert [trial.exit for trial in known[0].trials] == [1, 0, -11]
    page = markdown(msgspec.json.decode(msgspec.json.encode(known), type=list[Measurements]))
    rows = page.partition("\n## ")[0].splitlines()
    (line,) = [line for line in rows if line.startswith("| R1 |")]
    assert "1 of 3 (6% to 79%)" in line
    assert "| lost | 8 s |" in line
    assert "\n| redis-sentinel | 1.2 |\n" in page
    assert page.count("not measured") == len(CATALOGUE) - 1
    told = "1 of 32 findings, 0 of them as expected with each seed"
    assert f"\nMeasured: {told}; 0 of 38 controls, 0 of them as expected" in page
    _, _, misses = page.partition("## Not as expected\n")
    assert [row.split(" | ")[:2] for row in misses.splitlines()[-2:]] == [
        ["| R1", "2"],
        ["| R1", "3"],
    ]


def test_trials_of_another_command_do_not_count(lost: Finding) -> None:
    older = msgspec.structs.replace(lost, command=(*lost.command, "-o", "rate=10"))
    assert markdown(measured(older, (1, 2))).count("not measured") == len(CATALOGUE)


def test_a_seed_counts_once(lost: Finding) -> None:
    (row,) = measured(lost, (3, 1, 2, 1))
    assert [trial.seed for trial in row.trials] == [1, 2, 3]


def test_what_is_measured_is_kept_and_not_run_again(
    lost: Finding, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[int] = []

    def run(words: Sequence[str]) -> CommandResult:
        asked.append(int(flags(words)["seed"]))
        if asked[-1] == 3 and asked.count(3) == 1:
            raise KeyboardInterrupt
        return ended(words)

    monkeypatch.setattr(measuring.measure, "__defaults__", (run,))
    results = tmp_path / "results.json"
    words = ["findings", "R1", "--seeds", "3", "--results", str(results)]
    CliRunner().invoke(app, words)
    assert asked == [1, 2, 3]
    done = CliRunner().invoke(app, words)
    assert asked == [1, 2, 3, 3]
    assert done.exit_code == Exit.NOT_PROVEN, "seeds 2 and 3 did not fail"
    (row,) = msgspec.json.decode(results.read_bytes(), type=list[Measurements])
    assert [trial.seed for trial in row.trials] == [1, 2, 3]


def test_a_run_without_end_is_no_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(child, "RUN_S_MAX", 0.5)
    done = by_command([], [sys.executable, "-c", "import time; time.sleep(60)"])
    assert done.exit == Exit.INTERRUPTED
    assert "still running" in done.why
    (trial,) = measure(LOST, [1], Path("store"), None, lambda _: done)
    assert not never_ran(trial), "a run that hangs is a miss"


def test_the_array_for_programs() -> None:
    done = CliRunner().invoke(app, ["findings", "--json"])
    rows = msgspec.json.decode(done.stdout)
    assert [row["id"] for row in rows] == [finding.id for finding in CATALOGUE]
    assert {"id", "command", "expect", "anomalies"} <= rows[0].keys()


def test_the_array_has_what_was_measured(lost: Finding, tmp_path: Path) -> None:
    results = tmp_path / "results.json"
    results.write_bytes(msgspec.json.encode(measured(lost, (1, 2, 3))))
    done = CliRunner().invoke(app, ["findings", "--json", "--results", str(results)])
    rows = {row["id"]: row for row in msgspec.json.decode(done.stdout)}
    told = rows[lost.id]["measured"]
    assert {key: told[key] for key in ("trials", "as_expected", "after_s", "missed")} == {
        "trials": 3,
        "as_expected": 1,
        "after_s": 7.5,
        "missed": [2, 3],
    }
    assert (round(told["rate_low"], 2), round(told["rate_high"], 2)) == (0.06, 0.79)
    assert (told["versions"], told["anomalies"]) == (["1.2"], ["lost"])
    assert [id_ for id_, row in rows.items() if row["measured"] is not None] == [lost.id]
    assert "measured" not in CliRunner().invoke(app, ["findings", "--json"]).stdout
    missing = CliRunner().invoke(app, ["findings", "--json", "--results", str(tmp_path / "none")])
    assert isinstance(missing.exception, ConfigError)


def test_a_wrong_name_is_refused() -> None:
    done = CliRunner().invoke(app, ["findings", "X9"])
    assert done.exception is not None
    assert "no finding is called 'X9'" in str(done.exception)


def test_a_control_differs_in_one_word_that_is_there() -> None:
    finding = CATALOGUE[0]
    (word,) = [w for w in finding.command if w.startswith("isolation=")]
    _, control = pair(finding, word, "isolation=other", claim="c", source="s", id="x")
    assert [w for w in control.command if w not in finding.command] == ["isolation=other"]
    assert (control.expect, control.anomalies, control.id) == (Exit.PASS, (), "x")
    for wrong in ("isolation=none-of-it", "-o"):
        with pytest.raises(ValueError, match="is not one word of"):
            pair(finding, wrong, "y", claim="c", source="s")


def _trial_of(finding: Finding, **changes: Any) -> dict[str, Any]:
    good = {
        "seed": 1,
        "exit": 1,
        "verdict": "FAIL-nondeterministic",
        "anomalies": [finding.anomalies[0]],
        "version": "1",
    }
    return good | changes


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"seed": 0}, "int"),
        ({"seed": -1}, "int"),
        ({"verdict": "FAILURE"}, "FAILURE, which is no verdict"),
        ({"verdict": "PASS-maybe"}, "PASS-maybe, which is no verdict"),
        ({"seed": 2, "version": "2"}, "mixes versions 1, 2"),
    ],
)
def test_a_file_of_what_no_run_can_have_said_is_refused(
    tmp_path: Path, changes: dict[str, Any], said: str
) -> None:
    finding, path = CATALOGUE[0], tmp_path / "results.json"
    trials = [_trial_of(finding, **changes)]
    if trials[0]["seed"] != 1:
        trials.append(_trial_of(finding))
    row = {"id": finding.id, "command": finding.command, "trials": trials}
    path.write_bytes(msgspec.json.encode([row]))
    done = CliRunner().invoke(app, ["findings", finding.id, "--results", str(path)])
    assert isinstance(done.exception, DstestError)
    assert done.exception.exit_code == Exit.USAGE
    assert said in str(done.exception)


def test_the_page_is_what_its_measurements_make() -> None:
    docs = Path(__file__).parents[2] / "docs"
    known = measuring.read(docs / "findings.json")
    assert (docs / "findings.md").read_text() == markdown(known)


def test_seeds_that_another_version_had_are_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One trial of the new version drops those of the old one: that is no green of two."""
    finding, path = CATALOGUE[0], tmp_path / "results.json"
    old, new = (
        Trial(
            seed=n,
            exit=1,
            verdict="FAIL-nondeterministic",
            anomalies=[finding.anomalies[0]],
            version=str(n),
        )
        for n in (1, 2)
    )
    path.write_bytes(
        msgspec.json.encode([Measurements(id=finding.id, command=finding.command, trials=[old])])
    )
    monkeypatch.setattr(measuring, "measure", lambda *_: iter([new]))
    words = ["findings", finding.id, "--seeds", "2", "--results", str(path)]
    done = CliRunner().invoke(app, words)
    assert done.exit_code == Exit.NOT_PROVEN
    assert "1 of 2 seeds were not tried with this version" in done.stdout


@pytest.mark.parametrize("code", [2, 4])
def test_a_command_that_began_no_run_is_no_miss(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, code: int
) -> None:
    """Another run in its lab says nothing of an entry; the next seeds would fare no better."""
    asked: list[Sequence[str]] = []

    def run(words: Sequence[str]) -> CommandResult:
        asked.append(words)
        return ended(words) if len(asked) == 1 else CommandResult(code, {}, {}, "the lab is in use")

    monkeypatch.setattr(measure, "__defaults__", (run,))
    results = tmp_path / "r.json"
    done = CliRunner().invoke(app, ["findings", "R1", "--seeds", "4", "--results", str(results)])
    assert isinstance(done.exception, DstestError)
    assert done.exception.exit_code == Exit.HARNESS
    assert "R1 seed 2: no run began: the lab is in use" in str(done.exception)
    (row,) = read(results)
    assert [trial.seed for trial in row.trials] == [1]
    assert len(asked) == 2


@pytest.mark.parametrize(("kind", "told"), [([], True), (["--lab", "sim"], False)])
def test_a_trial_is_told_a_lab_where_its_nodes_are_of_one(kind: list[str], told: bool) -> None:
    asked: list[Sequence[str]] = []
    entry = msgspec.structs.replace(LOST, command=(*LOST.command, *kind))

    def ended(argv: Sequence[str]) -> CommandResult:
        asked.append(argv)
        return CommandResult(exit=Exit.PASS, said={}, meta={})

    [*measure(entry, [1], Path("store"), "mine", ended)]
    assert ["--lab-id" in argv for argv in asked] == [told]
