"""Nights in simulation and the gate: the example of docs/gate.md is executed; a simulation that was
made again is one sample, and whoever passes a copy off as another one gains nothing."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from gate_store import sealed
from msgspec.structs import replace as one_more
from real_run import change_facts
from touched_runs import dstest

from checkers.slo import METRICS
from dstest.campaign.nightly.seeds import digest_of
from dstest.campaign.nightly.state import Night
from dstest.core import clock
from dstest.core.errors import Exit
from dstest.core.run_record import RunMeta
from dstest.core.verdict import State
from dstest.gate.claims import Answer, claim_answer
from dstest.gate.controls import control_answer
from dstest.gate.decision import Decision, decide
from dstest.gate.gather import JudgedRun, StoreEvidence, Unit, gather, unit_of
from dstest.gate.page import render_junit
from dstest.gate.policy import Policy, read_policy
from dstest.gate.provenance import doubles
from dstest.gate.soundness import require_sound
from dstest.history.layout import RunDir
from dstest.store.compare.measured import FACTORS
from dstest.store.verify import made_again

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "gate.md").read_text()
SECTION = PAGE.partition("\n## A simulated night\n")[2].partition("\n## ")[0]
NIGHT, POLICY = re.findall(r"^```toml\n(.*?)^```", SECTION, re.DOTALL | re.MULTILINE)
WORDS = ("--lab", "sim", "--system", "toykv", "--workload", "register", "--nemesis", "partition")


def runs_in(store: Path) -> list[RunDir]:
    found = [RunDir(path.parent.resolve()) for path in sorted(store.rglob("run.json"))]
    return [run for run in found if not run.path.parent.is_symlink()]


def claimed(store: Path) -> RunDir:
    """The run of the claim's cell."""
    (run,) = [run for run in runs_in(store) if not run.read_json("run.json")["options_given"]]
    return run


def seed_of(run: RunDir) -> int:
    return int(run.read_json("run.json")["spec"]["seed"])


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the commands of the page leave, but for the gate's."""
    home = tmp_path_factory.mktemp("simulated")
    (home / "night.toml").write_text(NIGHT)
    words = ["nightly", "run", "night.toml"]  # by a process of its own, which is gone then
    done = subprocess.run([sys.executable, "-m", "dstest", *words], cwd=home, check=False)
    assert done.returncode == Exit.PASS
    return home


@pytest.fixture(scope="module")
def again(made: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """And the run of the claim was made again."""
    home = tmp_path_factory.mktemp("again")
    shutil.copytree(made, home, symlinks=True, dirs_exist_ok=True)
    seed = seed_of(claimed(home / "store"))
    words = (*WORDS, "--seed", seed, "--time-limit", 20, "--store", home / "store" / "more")
    code, said = dstest("run", *words)
    assert code == Exit.PASS, said
    return home


@pytest.fixture
def store(again: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(again / "store", tmp_path / "store", symlinks=True))


def policy_for(store: Path) -> str:
    """That of the page, of the version that is simulated here."""
    metas = (run.read_json("run.json") for run in runs_in(store))
    version = next(meta["system_version"] for meta in metas if "system_version" in meta)
    return re.sub("simulated-[0-9a-f]+", version, POLICY)


def decided(store: Path, *changes: tuple[str, str]) -> Decision:
    text = policy_for(store)
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    path = store.parent / "simulated.toml"
    path.write_text(text)
    read = read_policy(path)
    require_sound(read, METRICS, FACTORS)
    return decide(read, [store], [], clock.wall_ns())


def rules(decision: Decision) -> set[str]:
    return {finding.rule for finding in decision.findings}


def test_the_night_of_the_page_lets_a_release_through(made: Path, tmp_path: Path) -> None:
    out, path = tmp_path / "decision", tmp_path / "simulated.toml"
    path.write_text(policy_for(made / "store"))
    code, said = dstest("gate", "--policy", path, made / "store", "--out", out)
    assert code == Exit.PASS, said
    assert "Release gate: let through" in (out / "decision.md").read_text()
    commands = [line for line in SECTION.splitlines() if line.startswith("$ ")]
    assert commands == [
        "$ dstest nightly night.toml",
        "$ dstest gate --policy simulated.toml store --out decision",
    ]


def numbers(decision: Decision) -> dict[str, str]:
    return {one.name: one.there for row in decision.rows for one in row.counts if row.id == "C1"}


def test_a_simulation_that_was_made_again_counts_once(made: Path, store: Path) -> None:
    decision = decided(store)
    assert decision.findings == () and decision.exit == Exit.PASS
    assert numbers(decision) == numbers(decided(made / "store"))
    assert any("made again" in note for note in decision.notes)
    assert len(decision.evidence) == 2
    total = int(numbers(decision)["operations"].replace(",", ""))
    twice = ("operations = 1000", f"operations = {2 * total}")
    assert rules(decided(store, twice)) == {"G29"}
    assert rules(decided(store, ("partition = 1", "partition = 2"))) == {"G28"}
    assert rules(decided(store, ("seeds = 1", "seeds = 2"))) == {"G26"}


LACKS: dict[str, tuple[tuple[str, str], set[str], list[str]]] = {
    "seeds and sizes": (
        ("seeds = 1\nsizes = [5]", "seeds = 3\nsizes = [5, 3, 7]"),
        {"G26", "G27"},
        ["--nodes 3 --time-limit 20 --seeds 2", "--nodes 7 --time-limit 20"],
    ),
    "operations": (("operations = 1000", "operations = 4000"), {"G29"}, ["--nodes 5"]),
    "faults": (("partition = 1\n", "partition = 2\n"), {"G28"}, ["--nodes 5"]),
    "control": (('expect = "red"', 'expect = "red"\nseeds = 2'), {"G32"}, ["--time-limit 20"]),
}


@pytest.mark.parametrize("name", LACKS)
def test_the_command_supplies_what_is_missing(name: str, made: Path, tmp_path: Path) -> None:
    store = Path(shutil.copytree(made / "store", tmp_path / "store", symlinks=True))
    change, lacks, words = LACKS[name]
    decision = decided(store, change)
    assert rules(decision) == lacks, decision.findings
    (row,) = [row for row in decision.rows if not row.kept]
    commands = row.command.split("; ")
    assert len(commands) == len(words)
    for command, said in zip(commands, words, strict=True):
        assert (said in command and "-o bug" in command) or name != "control"
        assert ("--seeds" in command) == ("--seeds" in said or name in ("operations", "faults"))
    cell = "stale-follower-read" if name == "control" else "toykv-register-partition"
    assert row.in_night.startswith("in the nightly: ") and cell in row.in_night
    assert ("a cell like" in row.in_night) == (name == "seeds and sizes")
    for number, command in enumerate(commands):
        code, said = dstest(*shlex.split(command)[1:], "--store", store / f"more-{number}")
        assert code == (Exit.FAIL if name == "control" else Exit.PASS), said
    assert decided(store, change).findings == ()


def test_a_bug_that_all_runs_have_to_find_is_supplied_by_no_command(store: Path) -> None:
    shutil.rmtree(store / "more")
    decision = decided(store, ('anomalies = ["nonlinearizable"]', 'anomalies = ["lost"]'))
    (row,) = [row for row in decision.rows if not row.kept]
    assert rules(decision) == {"G30"} and row.command == row.in_night == ""


def test_what_the_gate_says_is_whole(made: Path, tmp_path: Path) -> None:
    store = Path(shutil.copytree(made / "store", tmp_path / "store", symlinks=True))
    assert "1 run passed, 1 seed, on 5 nodes" in decided(store).rows[0].said
    shutil.rmtree(claimed(store).path.parents[2])
    (night,) = store.rglob("night.json")
    facts = json.loads(night.read_text())
    facts["items"] = [one for one in facts["items"] if one["expected"]["control"] == "red"]
    night.write_text(json.dumps(facts))
    assert "()" not in render_junit(decided(store))


def test_a_draft_of_the_store_lets_it_through(made: Path, tmp_path: Path) -> None:
    """What passed is a claim, what the night had to find is a red control, and both are there."""
    code, said = dstest("gate", "draft", made / "store")
    assert code == Exit.PASS, said
    policy = tmp_path / "drafted.toml"
    policy.write_text(said.partition("dstest: ")[0])
    read = read_policy(policy)
    assert [claim.workload for claim in read.policy.claim] == ["register"]
    assert read.policy.name == "simulated", "as its nights, and not as its directory"
    (control,) = read.policy.control
    assert control.expect == "red" and control.anomalies == ("nonlinearizable",)
    code, said = dstest("gate", "--policy", policy, made / "store")
    assert code == Exit.PASS and "let through" in said, said


def test_a_store_called_draft_is_no_order(
    made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else a gate whose policy was forgotten would end with 0."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "draft").mkdir()
    code, said = dstest("gate", "draft", made / "store")
    assert code == Exit.USAGE and "./draft" in said, said


def test_a_draft_says_what_it_left_out(made: Path, tmp_path: Path) -> None:
    """A failure that no night had to find is nothing that may be asked for."""
    (red,) = [run for run in runs_in(made / "store") if run.read_json("run.json")["options_given"]]
    alone = tmp_path / "store" / red.path.parent.name
    shutil.copytree(red.path, alone / red.path.name, symlinks=True)
    code, said = dstest("gate", "draft", tmp_path / "store")
    assert code == Exit.PASS and "it FAILED by nonlinearizable" in said
    assert "\n[[c" not in said and "needs a [[control]]" in said
    code, said = dstest("gate", made / "store")
    assert code == Exit.USAGE and "dstest gate draft STORE" in said


def test_a_report_of_the_store_agrees(store: Path) -> None:
    code, said = dstest("report", store)
    assert code == Exit.PASS, "a red control that found its bug is no failure"
    assert "red control stale-follower-read." in said and ": found: " in said
    assert "copy" not in said and "not-believed" not in said
    assert "2 of 2 passed, 1 by finding a known bug; 1 more is a simulation made again" in said
    code, said = dstest("report", claimed_again(store).path, claimed_first(store).path)
    assert code == Exit.PASS and "1 of 1 passed; 1 more is" in said


def test_a_red_control_is_held_to_its_bug(store: Path) -> None:
    """By what its run shows now, whatever the night says of it; and a night that is not what it
    was begun with has none."""
    (file,) = store.rglob("night.json")
    facts = json.loads(file.read_text())
    (item,) = [one for one in facts["items"] if one["expected"]["control"] == "red"]
    item["expected"]["anomalies"] = ["lost"]
    file.write_text(json.dumps(facts))
    code, said = dstest("report", store)
    assert code == Exit.FAIL and "red control" not in said
    _begun_with(facts, file)
    code, said = dstest("report", store)
    assert code == Exit.FAIL and "which is not known of it" in said
    assert "1 of 2 passed" in said
    item["expected"]["beside"] = ["nonlinearizable"]
    _begun_with(facts, file)
    code, said = dstest("report", store)
    assert code == Exit.NOT_PROVEN and ": failed without lost" in said
    file.write_text("{}")
    code, said = dstest("report", store)
    assert code == Exit.FAIL and "1 of 3 passed" in said


def _begun_with(facts: dict[str, Any], file: Path) -> None:
    """Written as a night that was begun so."""
    night = msgspec.convert(facts, Night)
    file.write_text(json.dumps(facts | {"asked_sha256": digest_of(night.items)}))


@pytest.mark.parametrize("how", ["expected", "another night", "no command", "another place"])
def test_no_night_turns_a_failure_green(store: Path, how: str) -> None:
    (file,) = store.rglob("night.json")
    facts = json.loads(file.read_text())
    (green,) = [one for one in facts["items"] if one["expected"]["control"] != "red"]
    (red,) = [one for one in facts["items"] if one["expected"]["control"] == "red"]
    run = str((file.parent / red["tries"][0]["result"]).resolve())
    if how == "expected":  # as if the red one were under test, and this one the control
        green["expected"], red["expected"] = red["expected"], green["expected"]
        file.write_text(json.dumps(facts))
    else:
        red["expected"], expected = {"control": ""}, red["expected"]
        _begun_with(facts, file)
        item = {**red, "expected": expected, "tries": [{**red["tries"][0], "result": run}]}
        item |= {"argv": []} if how == "no command" else {}
        other = store / "other" / "20260101T000000Z-1"
        other.mkdir(parents=True)
        if how == "another place":
            shutil.copy(file.parent / "nightly.toml", other)
        _begun_with({**facts, "items": [item], "chosen": [red["cell"]]}, other / "night.json")
    code, said = dstest("report", store)
    assert code == Exit.FAIL and "by finding a known bug" not in said, said


def claimed_again(store: Path) -> RunDir:
    (run,) = runs_in(store / "more")
    return run


def claimed_first(store: Path) -> RunDir:
    return claimed(store / "simulated")


def moved(run: RunDir, name: str) -> RunDir:
    return RunDir(run.path.rename(run.path.with_name(name)))


def another_seed(store: Path) -> None:
    """The run that was made again is passed off as one of another seed."""
    run = claimed_again(store)
    spec = {**run.read_json("run.json")["spec"], "seed": 9}
    run = moved(run, f"{run.path.name.partition('-')[0]}-9")
    change_facts(run, spec=spec)
    sealed(run)


def a_copy(store: Path) -> None:
    run = claimed_first(store)
    shutil.copytree(run.path, store / "copied" / run.path.parent.name / run.path.name)


def another_digest(store: Path) -> None:
    run = claimed_again(store)
    change_facts(run, digest="0" * 64)
    sealed(run)


def another_version(store: Path) -> None:
    run = claimed_again(store)
    change_facts(run, system_version="simulated-000000000000")
    sealed(run)


def on_nodes(store: Path) -> None:
    run = claimed_again(store)
    change_facts(run, transport="network", lab="lxc")
    sealed(run)


TRICKS: list[Callable[[Path], None]] = [
    another_seed,
    a_copy,
    another_digest,
    another_version,
    on_nodes,
]


@pytest.mark.parametrize("trick", TRICKS, ids=[trick.__name__ for trick in TRICKS])
@pytest.mark.sampled(2)
def test_a_copy_of_a_simulation_gains_nothing(trick: Callable[[Path], None], store: Path) -> None:
    trick(store)
    decision = decided(store, ("seeds = 1", "seeds = 2"))
    assert "G06" in rules(decision) or "G02" in rules(decision), decision.findings
    assert decision.exit == Exit.NOT_PROVEN
    first = claimed_first(store).path
    code, said = dstest("report", first, *(store.glob("copied")), store / "more")
    assert code == Exit.NOT_PROVEN and "it is a copy of" in said, said


@pytest.mark.parametrize("after_bytes", [150_000, 0])
@pytest.mark.sampled(1)
def test_a_night_that_was_cut_off_and_made_again(
    after_bytes: int, made: Path, tmp_path: Path
) -> None:
    """A try that was stopped has judged what it had; the whole run of its seed stands for it."""
    store = Path(shutil.copytree(made / "store", tmp_path / "store", symlinks=True))
    died = _ended(store, after_bytes, signal.SIGTERM)
    assert died.read_json("run.json")["ended_by"]
    decision = decided(store)
    assert decision.findings == (), decision.findings
    assert numbers(decision) == numbers(decided(made / "store"))
    # Nothing else stands for it.
    shutil.rmtree(claimed(store / "simulated").path)
    assert decided(store).exit == Exit.NOT_PROVEN


@pytest.mark.parametrize("where", ["began", "served", "asked", 150_000])
@pytest.mark.sampled(1)
def test_a_simulation_that_was_killed_does_not_keep_a_release_back(
    where: str | int, made: Path, tmp_path: Path
) -> None:
    """Wherever it died: before it noted its version, its clocks, or anything that it recorded."""
    store = Path(shutil.copytree(made / "store", tmp_path / "store", symlinks=True))
    if isinstance(where, int):
        died = _ended(store, where, signal.SIGKILL)
    else:
        died = _killed_before_note(store, {"began": 2, "served": 3, "asked": 4}[where])
    # G24 where it had no more than begun.
    assert rules(decided(store)) in ({"G03"}, {"G24"}), "it is to be recovered first"
    code, said = dstest("recover", died.path)
    assert died.read_json("verdict.json") is not None, (code, said)
    decision = decided(store)
    assert decision.findings == () and decision.exit == Exit.PASS, decision.findings


KILLED = """
import os, signal, sys
from dstest.__main__ import main
from dstest.history.layout import RunDir
left, noted = int(sys.argv.pop(1)), RunDir.write_meta
def write_meta(run, meta):
    global left
    left -= 1
    if not left:
        os.kill(os.getpid(), signal.SIGKILL)
    noted(run, meta)
RunDir.write_meta = write_meta
main()
"""


def _words_again(store: Path) -> list[str]:
    """Of the claimed run of a store, once more."""
    seed = seed_of(claimed(store))
    return [*WORDS, "--seed", str(seed), "--time-limit", "20", "--store", str(store / "died")]


def _killed_before_note(store: Path, note: int) -> RunDir:
    """The claimed run once more, killed as it notes its facts for this time, counted from 1."""
    words = ["-c", KILLED, str(note), "run", *_words_again(store)]
    subprocess.run([sys.executable, *words], check=False, timeout=200)
    (died,) = runs_in(store / "died")
    return died


def _ended(store: Path, after_bytes: int, by: signal.Signals) -> RunDir:
    """The claimed run of a store once more, ended when it has recorded so much."""
    words = ["-m", "dstest", "run", *_words_again(store)]
    with subprocess.Popen([sys.executable, *words]) as process:
        until = time.monotonic() + 200
        while not _recorded(store / "died", after_bytes) and time.monotonic() < until:
            time.sleep(0.02)
        process.send_signal(by)
        process.wait(200)
    (died,) = runs_in(store / "died")
    return died


def _recorded(store: Path, wanted: int) -> bool:
    return any(path.stat().st_size > wanted for path in store.rglob("worker-*.seg"))


def test_what_a_claim_wants_is_told_where_it_is_missing(tmp_path: Path) -> None:
    path = tmp_path / "simulated.toml"
    path.write_text(POLICY.replace("sizes = [5]\n", ""))
    code, said = dstest("gate", "--policy", path, tmp_path)
    assert code == Exit.USAGE
    line = POLICY[: POLICY.index("[[claim]]")].count("\n") + 1
    assert f":{line}: claim[0]: there is no 'sizes', which is required" in said
    assert path.name in said


def without_verdict(run: JudgedRun, *, anomaly: bool = False) -> JudgedRun:
    rows = {name: {**row, "valid": not anomaly} for name, row in run.verdict.checkers.items()}
    verdict = one_more(run.verdict, verdict=State.INCONCLUSIVE_FAULT, checkers=rows)
    return one_more(run, verdict=verdict, passes=False)


def cut_off(run: JudgedRun) -> JudgedRun:
    return one_more(run, meta=one_more(run.meta, ended_by="killed", digest=None))


def pair(store: Path) -> tuple[JudgedRun, JudgedRun]:
    """The claim's run and the one that was made again, the older first."""
    runs = [run for run in gather([store], "checkers").runs if not run.meta.options_given]
    one, other = sorted(runs, key=lambda run: run.meta.started or "")
    return one, other


def gathered_of(*units: Unit) -> StoreEvidence:
    found = StoreEvidence(units=units, plans=(), findings=())
    return one_more(found, same=doubles([run for run in found.runs if run.over]).same)


def policy_of(store: Path) -> Policy:
    path = store.parent / "simulated.toml"
    path.write_text(policy_for(store))
    return read_policy(path).policy


def answered(store: Path, *units: Unit) -> Answer:
    """What the claim of the page comes to by these alone."""
    policy = policy_of(store)
    return claim_answer(gathered_of(*units), policy.claim[0], policy, clock.wall_ns())


def against(answer: Answer) -> set[str]:
    return {finding.rule for finding in answer.findings}


def counts_of(answer: Answer) -> list[Path]:
    return [run.path for run in answer.counted]


def with_a_failed_attempt(run: JudgedRun) -> Unit:
    failed = one_more(run.verdict, verdict=State.FAIL_REPRODUCIBLE)
    dead = one_more(run, path=Path("dead"), verdict=failed, passes=False, over=False)
    return one_more(unit_of(run), kind="session", earlier=(dead,))


def test_an_attempt_that_failed_is_not_lost_with_the_run_that_was_made_again(store: Path) -> None:
    old, new = pair(store)
    session = with_a_failed_attempt(old)
    assert "G22" in against(answered(store, session, unit_of(new)))
    seen = one_more(without_verdict(old, anomaly=True), path=Path("dead"), over=False)
    session = one_more(session, earlier=(seen,))
    answer = answered(store, session, unit_of(new))
    assert "G37" in against(answer) and counts_of(answer) == [new.path]
    quiet = one_more(session, earlier=(one_more(without_verdict(old), over=False),))
    answer = answered(store, quiet, unit_of(new))
    assert not against(answer) and counts_of(answer) == [new.path]


def test_a_green_control_loses_no_attempt_either(store: Path) -> None:
    old, new = pair(store)
    session = with_a_failed_attempt(old)
    policy = policy_of(store)
    control = one_more(policy.control[0], expect="green", options=(), anomalies=())
    gathered = gathered_of(session, unit_of(new))
    answer = control_answer(gathered, control, policy, clock.wall_ns())
    assert "G22" in against(answer) and counts_of(answer) == [new.path]


@pytest.mark.parametrize("early", [False, True])
def test_an_anomaly_is_left_out_for_no_run_without(early: bool, store: Path) -> None:
    """Of two without a verdict as of one that was cut off and one that passed."""
    old, new = pair(store)
    seen = without_verdict(old, anomaly=True)
    seen, other = (cut_off(seen), new) if early else (seen, without_verdict(new))
    assert "G37" in against(answered(store, unit_of(seen), unit_of(other)))
    quiet = cut_off(without_verdict(old)) if early else without_verdict(old)
    answer = answered(store, unit_of(quiet), unit_of(other))
    assert against(answer) == (set() if early else {"G24"})
    assert {finding.where for finding in answer.findings} <= {str(other.path)}


def test_the_order_of_options_and_the_place_of_plug_ins_say_nothing(store: Path) -> None:
    old, new = pair(store)

    def said(run: JudgedRun, given: list[str], path: str, sha256: str) -> RunMeta:
        spec, files = {**run.meta.spec, "files": [path]}, {path: sha256}
        return one_more(run.meta, options_given=given, spec=spec, plugin_files=files)

    one = said(old, ["keys=3", "fault_s=6"], "/one/mine.py", "a" * 64)
    for given, path, sha256, same in (
        (["fault_s=6", "keys=3"], "/other/mine.py", "a" * 64, True),
        (["fault_s=6", "keys=3"], "/other/mine.py", "b" * 64, False),
        (["fault_s=6", "keys=4"], "/one/mine.py", "a" * 64, False),
    ):
        other = said(new, given, path, sha256)
        assert made_again(one, old.path, other, new.path) is same


@pytest.mark.parametrize("of", ["dstest", "kernel"])
@pytest.mark.sampled(1)
def test_one_that_fits_counts_also_where_it_is_not_the_newest(of: str, store: Path) -> None:
    """Whoever makes a run again elsewhere takes nothing away of what is there."""
    run = claimed_again(store)
    host = run.read_json("run.json")["host"]
    change_facts(run, host={**host, of: "0.0.1"})
    sealed(run)
    asked = f'[evidence]\nhost.kernel = "{host["kernel"]}"'
    decision = decided(store, ("[evidence]", asked))
    assert decision.findings == (), decision.findings
    assert str(claimed_first(store).path) in decision.evidence
