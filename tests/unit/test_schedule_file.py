"""Fault schedules as files: kept by every run, followed to the letter, refused where wrong."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest
from typer.testing import CliRunner

from dstest.cli.app import app
from dstest.core import registry
from dstest.core.errors import ConfigError
from dstest.core.run_record import RunSpec
from dstest.runner.fault_plans import Schedule, read_schedule
from dstest.runner.plugins import Plugins, resolve, schedule_of


def plugins(**spec: Any) -> Plugins:
    return resolve(RunSpec(nemesis="partition,kill", seed=3, **spec), ["scope=all", "fault_s=5"])


def kept(folder: Path, schedule: Schedule) -> Path:
    path = folder / "schedule.json"
    path.write_bytes(msgspec.json.encode(schedule))
    return path


def test_a_run_from_a_schedule_has_its_faults_and_options(tmp_path: Path) -> None:
    first = plugins()
    schedule = read_schedule(kept(tmp_path, schedule_of(first)))
    again = resolve(RunSpec(seed=99), [], schedule=schedule)
    assert again.plans == first.plans
    assert again.spec.nemesis == "partition,kill"
    assert again.nemesis.name == "partition,kill"
    assert (again.spec.options["scope"], again.spec.options["fault_s"]) == ("all", 5.0)
    other = resolve(RunSpec(seed=99), ["op_timeout_s=1", "shape=one"], schedule=schedule)
    assert (other.spec.options["shape"], other.spec.options["scope"]) == ("one", "all")


def test_options_that_members_mean_differently_are_kept_apart(tmp_path: Path) -> None:
    given = ["kill.scope=all", "membership.scope=primaries", "fault_s=5"]
    first = resolve(RunSpec(nemesis="kill,membership", seed=3), given)
    schedule = read_schedule(kept(tmp_path, schedule_of(first)))
    assert schedule.options["membership.scope"] == "primaries"
    again = resolve(RunSpec(seed=99), [], schedule=schedule)
    assert again.plans == first.plans
    assert again.spec.options == first.spec.options
    replayed = resolve(first.spec, given, schedule=schedule)
    assert replayed.spec.options == first.spec.options
    with pytest.raises(ConfigError, match="different things"):
        resolve(RunSpec(seed=99), ["scope=one"], schedule=schedule)


@pytest.mark.parametrize("time_limit_s", [5.0, 60.0])
def test_a_run_without_faults_can_be_repeated(tmp_path: Path, time_limit_s: float) -> None:
    first = resolve(RunSpec(nemesis="none", time_limit_s=time_limit_s), [])
    schedule = read_schedule(kept(tmp_path, schedule_of(first)))
    assert resolve(first.spec, [], schedule=schedule).plans == []


def test_options_of_a_schedule_are_checked_as_those_of_the_command_line() -> None:
    schedule = schedule_of(plugins())
    for wrong in ({"scope": 5}, {"scope": "everyone"}, {"fault_s": "long"}):
        changed = msgspec.structs.replace(schedule, options={**schedule.options, **wrong})
        with pytest.raises(ConfigError):
            resolve(RunSpec(), [], schedule=changed)


@pytest.mark.parametrize(
    "facts", [{"explains": ["panic", "corruption"]}, {"page_cache": "lost"}, {"stood": {}}]
)
def test_a_schedule_does_not_say_what_became_of_its_faults(facts: dict[str, Any]) -> None:
    schedule = schedule_of(plugins())
    first, *rest = schedule.plans
    forged = msgspec.structs.replace(first, facts={**first.facts, **facts})
    changed = msgspec.structs.replace(schedule, plans=[forged, *rest])
    with pytest.raises(ConfigError, match=f"has the fact {next(iter(facts))}, which its run is to"):
        resolve(RunSpec(), [], schedule=changed)


def test_a_schedule_names_the_nemesis_that_ran() -> None:
    ran = resolve(
        RunSpec(nemesis="partition", seed=3), [], nemesis=registry.load("nemeses", "kill")
    )
    assert schedule_of(ran).nemesis == "kill"


def test_a_schedule_must_fit_the_run(tmp_path: Path) -> None:
    schedule = schedule_of(plugins())
    with pytest.raises(ConfigError, match="for 5 nodes"):
        resolve(RunSpec(nodes=3), [], schedule=schedule)
    with pytest.raises(ConfigError, match="would not fit"):
        resolve(RunSpec(time_limit_s=30.0), [], schedule=schedule)
    strange = msgspec.structs.replace(schedule, options={"colour": 1})
    with pytest.raises(ConfigError, match="colour: no such option"):
        resolve(RunSpec(), [], schedule=strange)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"schema": "dstest.schedule/9"}, "schema"),
        ({"nemesis": "kill"}, "does not name"),
        ({"plans": "twice"}, "same fault_id"),
        ({"plans": "reversed"}, "order"),
        ({"plans": "timeless"}, "has no time"),
        ({"plans": []}, "plans no kill and no partition"),
        ({"nemesis": "partition,kill,pause"}, "plans no pause"),
        ({"colour": 1}, "colour"),
        ({"nodes": "five"}, "nodes"),
    ],
)
def test_wrong_files_are_refused(tmp_path: Path, change: dict[str, Any], message: str) -> None:
    plain = msgspec.to_builtins(schedule_of(plugins()))
    plans = plain["plans"]
    made: dict[Any, Any] = {
        "twice": [plans[0], plans[0]],
        "reversed": plans[::-1],
        "timeless": [{**plans[0], "duration_ns": 0}],
    }
    changed = {**plain, **{k: made.get(str(v), v) for k, v in change.items()}}
    path = tmp_path / "s.json"
    path.write_bytes(msgspec.json.encode(changed))
    with pytest.raises(ConfigError, match=message):
        read_schedule(path)


def test_another_nemesis_beside_a_schedule_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "s.json"
    path.write_bytes(msgspec.json.encode(schedule_of(plugins())))
    result = CliRunner().invoke(app, ["run", "--schedule", str(path), "--nemesis", "disk-full"])
    assert isinstance(result.exception, ConfigError)
    assert "--nemesis disk-full, but" in result.exception.message


def test_a_file_that_is_none_is_a_usage_error(tmp_path: Path) -> None:
    path = tmp_path / "s.json"
    path.write_text("not json")
    for wrong in (path, tmp_path / "absent"):
        result = CliRunner().invoke(app, ["run", "--schedule", str(wrong)])
        assert isinstance(result.exception, ConfigError)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"start_ns": 10**12}, "its last fault ends at 1005 s, after --time-limit"),
        ({"fault_id": "../f1"}, "a fault_id is '../f1'"),
        ({"facts": {}}, "f1 does not say its "),
        ({"facts": {"shape": "zzz"}}, "f1: shape is 'zzz', none of"),
    ],
)
def test_a_schedule_that_no_nemesis_would_plan_is_refused(
    change: dict[str, Any], said: str, tmp_path: Path
) -> None:
    made = resolve(RunSpec(nemesis="partition", time_limit_s=30.0), ["fault_s=5"])
    schedule = schedule_of(made)
    first = schedule.plans[0]
    facts = change.get("facts")
    if facts:
        change = {"facts": {**first.facts, **facts}}
    plans = [msgspec.structs.replace(first, **change)]
    with pytest.raises(ConfigError) as refused:
        edited = read_schedule(kept(tmp_path, msgspec.structs.replace(schedule, plans=plans)))
        resolve(RunSpec(time_limit_s=30.0), [], schedule=edited)
    assert said in str(refused.value)


@pytest.mark.parametrize("nemesis", ["kill", "pause", "partition", "kill,partition"])
def test_a_run_with_named_targets_can_be_repeated(tmp_path: Path, nemesis: str) -> None:
    given = ["targets=n2", *(["shape=one"] if "partition" in nemesis else [])]
    first = resolve(RunSpec(nemesis=nemesis, seed=3), given)
    schedule = read_schedule(kept(tmp_path, schedule_of(first)))
    assert all(plan.facts["targets"] == ["n2"] for plan in first.plans)
    for pairs in ([], given):
        assert resolve(first.spec, pairs, schedule=schedule).plans == first.plans


@pytest.mark.parametrize("lost", ["shape", "action", "targets", "direction"])
def test_a_plan_that_does_not_say_all_is_refused(tmp_path: Path, lost: str) -> None:
    first = resolve(RunSpec(nemesis="partition", seed=3), [])
    plans = [
        msgspec.structs.replace(p, facts={k: v for k, v in p.facts.items() if k != lost})
        for p in first.plans
    ]
    schedule = msgspec.structs.replace(schedule_of(first), plans=plans)
    with pytest.raises(ConfigError, match=f"does not say its {lost}"):
        resolve(first.spec, [], schedule=schedule)


@pytest.mark.parametrize("value", ["random", "sideways"])
def test_a_plan_that_leaves_a_choice_open_is_refused(tmp_path: Path, value: str) -> None:
    first = resolve(RunSpec(nemesis="partition", seed=3), [])
    plans = [msgspec.structs.replace(p, facts={**p.facts, "action": value}) for p in first.plans]
    schedule = msgspec.structs.replace(schedule_of(first), plans=plans)
    with pytest.raises(ConfigError, match=f"action is '{value}'"):
        resolve(first.spec, [], schedule=schedule)


def test_a_service_that_one_nemesis_strikes_is_not_another_ones() -> None:
    mixed = resolve(RunSpec(nemesis="kill,compaction", seed=3, time_limit_s=90.0), ["service=etcd"])
    services = {plan.nemesis: plan.facts.get("service") for plan in mixed.plans}
    assert services["kill"] == "etcd"
    assert "service" in mixed.nemesis.options
    assert {p.nemesis for p in mixed.plans if "service" in p.facts} <= {"kill"}


def test_an_option_that_is_younger_than_a_schedule_has_its_default(tmp_path: Path) -> None:
    first = resolve(RunSpec(nemesis="pause", seed=3), [])
    plans = [
        msgspec.structs.replace(p, facts={k: v for k, v in p.facts.items() if k != "way"})
        for p in first.plans
    ]
    old = msgspec.structs.replace(schedule_of(first), plans=plans)
    assert [p.facts["way"] for p in first.plans] == ["signal"] * len(first.plans)
    assert resolve(first.spec, [], schedule=old).plans == first.plans
