"""What keeps a verdict from the next better one, and the command that would supply it."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from made_audit import but, good
from made_plugins import declaring
from touched_runs import dstest

from dstest.core import registry
from dstest.core.evidence import Rerun
from dstest.core.protocols import Lab, System
from dstest.core.run_words import command_of
from dstest.history.layout import RunDir
from dstest.judge.audit_rows import UNEXPLAINED
from dstest.judge.decide import decide
from dstest.judge.evidence import build_evidence
from dstest.report.model import load_report
from dstest.report.remedies import another_seed, remedies, with_options
from dstest.runner import session

pytestmark = pytest.mark.slow

SPEC: dict[str, Any] = {
    "system": "etcd",
    "workload": "register",
    "nemesis": "partition",
    "lab": "lxc",
    "nodes": 5,
    "time_limit_s": 30.0,
    "concurrency": 20,
    "seed": 7,
    "options": {"fault_s": 6.0, "quiet_s": 4.0},
}


def supplied(**changes: Any) -> dict[str, str]:
    """Command by obstacle for a run of one seed and one size with these facts changed."""
    facts = but(seeds_agreeing=1, node_counts_run=[5], **changes)
    evidence = build_evidence(facts, op_types=frozenset({"read", "write"}))
    lines = decide(evidence).why_not_better
    return dict(remedies(lines, SPEC, ["keys=5"], "store/run"))


def words(found: dict[str, str], start: str) -> list[str]:
    (command,) = [command for line, command in found.items() if line.startswith(start)]
    return shlex.split(command)


def test_breadth_is_supplied_by_a_tier() -> None:
    found = supplied()
    for row in ("WO10", "WO11"):
        command = words(found, row)
        assert command[command.index("--tier") + 1] == "hardening"
        assert "--seed" not in command
        assert "--nodes" not in command
        assert command[-2:] == ["-o", "keys=5"]


def test_what_only_the_author_of_a_system_can_do_is_said_and_no_run_is_asked_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The same run again would come to the same."""
    lines = [
        "RF4: f1: 3 of 4 paths to be cut were idle before it, as n4->n2",
        "RF3: 0 of 1 planned faults landed on both sides",
        "WO8: the client library may retry unseen: requests on the wire were not counted",
        f"RF7: 2 alarms in the logs {UNEXPLAINED}, first n1: Traceback",
        "WO10: cluster sizes run: 5; another size is needed",
    ]
    shipped = remedies(lines, SPEC, [], "store/run")
    # Nor does a system that comes along change by that, though nobody is told how to write it.
    assert [bool(row.command) for row in shipped] == [True, False, False, True, True]
    monkeypatch.setattr(registry, "load", lambda *_: declaring(System, deployment=object))
    found = remedies(lines, {**SPEC, "system": "own", "files": ["own.py"]}, [], "store/run")
    assert [bool(row.command) for row in found] == [False, False, False, False, True]
    told = [row.obstacle.removeprefix(line) for row, line in zip(found, lines, strict=True)]
    words = ("links()", "", "request_counter", "harmless", "")
    assert all(word in text for word, text in zip(words, told, strict=True))


def test_another_point_is_proposed_where_one_was_not_reached() -> None:
    """Of those that were counted instead, and never the same again."""
    unmet = "Fault f1 (aimed) is not proven to have landed (no): "
    told = "reached there: function:mvcc.(*store).Read (412 times), function:b (9 times)"
    again = "function:a was never reached on n1 in f1, and is not waited for again"
    lines = [
        f"{unmet}function:a: counted on 5 members; {told}; function:a: never reached in 9 s",
        f"Fault f2 (aimed) is not proven to have landed (no): nothing was injected: {again}",
    ]
    spec = {**SPEC, "nemesis": "aimed"}
    first, second = remedies(lines, spec, ["at=function:a", "hit=3", "then=pause"], "store/run")
    asked = shlex.split(first.command)
    assert "at=function:mvcc.(*store).Read" in asked and "then=pause" in asked
    assert "hit=3" not in asked and "at=function:a" not in asked
    assert second.command == ""
    bare = [lines[0].replace(told, "nor was anything near it"), lines[1]]
    found = remedies(bare, spec, ["at=function:a"], "store/run")
    assert [one.command for one in found] == ["", ""]
    assert "dstest points SYSTEM --count" in found[0].obstacle


def test_a_direction_that_was_not_cut() -> None:
    both = [r.facts | {"direction": "both"} for r in good().records]
    records = [
        type(r)(**{**{f: getattr(r, f) for f in r.__struct_fields__}, "facts": facts})
        for r, facts in zip(good().records, both, strict=True)
    ]
    assert words(supplied(records=records), "WO7")[-2:] == ["-o", "direction=in"]


def test_a_violation_is_replayed_and_no_fault_is_one_flag() -> None:
    import msgspec

    bad = msgspec.structs.replace(good().results["linearizable"], valid=False)
    found = supplied(results={"linearizable": bad}, rerun=Rerun())
    assert words(found, "It has not been re-run")[:3] == ["dstest", "replay", "store/run"]
    assert words(found, "A violation") == []
    found = supplied(records=[], faults_planned=0)
    assert "--nemesis" in words(found, "No fault was planned")


def test_nothing_can_be_supplied_to_a_foreign_history() -> None:
    assert remedies(["WO6: short"], {}, None, ".")[0].command == ""


@pytest.mark.parametrize("rate", [12345.67, 0.1, 400.0, 1e6])
def test_the_command_asks_for_the_same_numbers(rate: float) -> None:
    command = shlex.split(command_of({**SPEC, "rate": rate, "stop_on_violation": True}))
    assert float(command[command.index("--rate") + 1]) == rate
    assert "--stop-on-violation" in command


def command(line: str, **changes: Any) -> list[str]:
    return shlex.split(remedies([line], SPEC | changes, [], "run")[0].command)


def test_a_suggested_run_is_long_enough_for_what_it_is_to_show() -> None:
    said = command("No fault was planned: x", nemesis="none", time_limit_s=4.0)
    assert said[said.index("--time-limit") + 1] == "30"
    assert said[said.index("--nemesis") + 1] == "partition"
    said = command("RF1: no whole second of load", time_limit_s=1.0)
    assert said[said.index("--time-limit") + 1] == "30"


@pytest.mark.parametrize(
    ("system", "fault"),
    [("etcd", "partition"), ("memcached", "kill"), ("nowhere-installed", "partition")],
)
def test_the_first_fault_is_one_that_the_system_can_have(system: str, fault: str) -> None:
    for line in ("No fault was planned: x", "WO11: one seed only"):
        said = command(line, system=system, nemesis="none")
        assert said[said.index("--nemesis") + 1] == fault


def test_the_smoke_budget_is_not_met_by_a_hardening_session_alone() -> None:
    said = command("The smoke budget asks for 20 seconds of load; this run had 4.")
    assert said[said.index("--tier") + 1] == "smoke"


def test_a_tier_that_asks_for_faults_gets_some() -> None:
    said = command("WO6: 60 s of load, hardening asks for 300 s", nemesis="none")
    assert said[said.index("--nemesis") + 1] == "partition"


def test_the_tier_alone_gives_time_enough_for_its_faults() -> None:
    line = "The hardening budget asks for 10 landed faults; this run had 5."
    assert "--time-limit" not in command(line)
    slow = command(line, options={"fault_s": 60.0, "quiet_s": 60.0})
    assert slow[slow.index("--time-limit") + 1] == "1215"


def test_a_schedule_names_its_own_faults() -> None:
    said = command_of({**SPEC, "schedule": "a.json"})
    assert "--nemesis" not in said and "--schedule a.json" in said


@pytest.mark.parametrize(("rate", "asked"), [(100.0, "300"), (None, None)])
def test_too_few_keys_before_a_fault_ask_for_more_load(
    rate: float | None, asked: str | None
) -> None:
    """The same command again would come to the same."""
    line = (
        "RF2: f1: fewer than 5 keys written before it were read after it, so that what it "
        "destroyed would not show"
    )
    (found,) = remedies([line], {**SPEC, "rate": rate}, [], "store/run")
    command = shlex.split(found.command)
    assert ("--rate" in command) == (asked is not None)
    assert asked is None or command[command.index("--rate") + 1] == asked


WITHOUT = [
    "RF7: 26 alarms in the logs that no fault explains, first n1: Traceback",
    "WO8: the client library may retry unseen: requests on the wire were not counted",
    "The checker could not decide: slo: nothing was tested",
    "None of 2 re-runs of the same seed showed it again: one is needed",
]


@pytest.mark.parametrize("line", WITHOUT)
def test_what_chance_cannot_mend_is_not_asked_for_again(line: str) -> None:
    said = command(line)
    assert said[:2] in ([], ["dstest", "logs"]), said


def test_where_no_paths_carry_traffic_a_fault_of_processes_is_offered() -> None:
    said = command("RF4: f1: 3 of 4 paths to be cut were idle before it, as n4->n2")
    assert said[said.index("--nemesis") + 1] == "kill"


@pytest.mark.parametrize(
    "idle",
    [
        "idle: only 20 operations began in its window, 30 are needed",
        "idle: 20 of 30 operations began in its window",
        "too few operations in windows, 30 are needed: 20 in f2, 25 in f1",
    ],
)
def test_a_fault_that_stood_too_shortly_is_asked_to_stand_longer(idle: str) -> None:
    line = f"Fault f1 (kill) is not proven: {idle}"
    spec = {**SPEC, "options": {"fault_s": 2.0, "quiet_s": 4.0}, "time_limit_s": 17.0}
    found = shlex.split(remedies([line], spec, ["fault_s=2", "keys=5"], "run")[0].command)
    assert found[-4:] == ["-o", "keys=5", "-o", "fault_s=5"]
    assert float(found[found.index("--time-limit") + 1]) >= 24


def sim(store: Path, *words: str) -> dict[str, Any]:
    test = ("--lab", "sim", "--system", "toykv", "--rate", 60, "--store", store)
    code, said = dstest("run", *test, *words, "--json")
    assert code in (0, 3), said
    told: dict[str, Any] = json.loads(said[said.index("{") :])
    return told


@pytest.mark.parametrize(
    "words",
    [
        ("--workload", "register", "--nemesis", "partition", "-o", "fault_s=0.2"),
        ("--workload", "register", "--nemesis", "none", "-o", "without=read"),
        ("--workload", "queue", "--nemesis", "none", "-o", "write_ratio=1"),
    ],
)
@pytest.mark.sampled(1)
def test_what_is_offered_does_not_come_to_the_same(words: tuple[str, ...], tmp_path: Path) -> None:
    first = sim(tmp_path / "a", *words, "--time-limit", "20", "--seed", "3")
    report = load_report(Path(first["run"]))
    told = [one.command for one in report.remedies if "--tier" not in one.command]
    (command,) = {one for one in told if "--lab sim" in one}
    again = sim(tmp_path / "b", *shlex.split(command)[2:], "--seed", "3")
    assert again["verdict"]["rule"] != first["verdict"]["rule"], (command, again["verdict"])


@pytest.mark.parametrize("counts", [True, False])
def test_what_keeps_a_run_from_passing_is_said_when_it_begins(tmp_path: Path, counts: bool) -> None:
    counted = {"client_port": 1, "request_counter": object} if counts else {}
    system = declaring(System, name="own", **counted)
    lab = declaring(Lab, name="lxc")
    plugins: Any = SimpleNamespace(lab=lab, system=system, spec=SimpleNamespace(system="own"))
    said: list[str] = []
    ui: Any = SimpleNamespace(say=said.append)
    session._begun(plugins, RunDir(tmp_path), ui)
    assert any("PARTIAL (WO8)" in line for line in said) is not counts


@pytest.mark.parametrize("limit_s", [12.0, 25.0, 60.0])
def test_commands_about_a_failure_have_the_load_of_its_run(limit_s: float) -> None:
    """What is asked is whether it is gone, not for a pass."""
    spec = {**SPEC, "time_limit_s": limit_s}
    changed = shlex.split(with_options(spec, ["keys=5"], {"min_replicas": 2}))
    other = shlex.split(another_seed(spec, ["keys=5"]))
    for words in (changed, other):
        assert words[words.index("--time-limit") + 1] == f"{limit_s:g}"
        assert words[words.index("--concurrency") + 1] == "20"
    assert changed[changed.index("--seed") + 1] == "7" and "--seed" not in other
    line = "The smoke budget asks for 20 seconds of load; this run had 3."
    least = shlex.split(remedies([line], spec, ["keys=5"], "run")[0].command)
    assert "--time-limit" not in least or float(least[least.index("--time-limit") + 1]) >= 30
