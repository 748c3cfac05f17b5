"""A scenario as arguments of `dstest run`: nothing is guessed, and the command takes them."""

from __future__ import annotations

import shlex

import pytest
from plan_mutations import SOUND, changed, read
from typer.main import get_command

from dstest.campaign.launch import Arm, Budget, Run, argv_of
from dstest.cli.commands import app_of
from dstest.plans.model import BUDGETS, Scenario

PLAN = read(SOUND)


def scenario(id: str) -> Scenario:
    found = PLAN.scenario(id)
    assert found is not None
    return found


def test_a_budget_of_one_size() -> None:
    assert scenario("S4").arguments("smoke") == [
        *("run", "--system", "etcd", "--workload", "set", "--nemesis", "power"),
        *("--tier", "smoke", "--nodes", "3", "--time-limit", "60", "--seeds", "1"),
        *("--concurrency", "20", "-o", "scope=all", "-o", "writeback_s=0.5"),
    ]


def test_sizes_of_the_tier_are_left_to_it() -> None:
    """So its first seed alone runs at the other size, as the tier asks for."""
    words = scenario("S4").arguments("hardening")
    assert "--nodes" not in words and words[words.index("--tier") + 1] == "hardening"
    run = scenario("S4").run
    assert run is not None
    other = Budget(nodes=(7, 5), duration_s=305.5, faults=10, seeds=3)
    words = argv_of(run, Arm(name=""), "hardening", other)
    assert words[words.index("--nodes") + 1] == "7,5"
    assert words[words.index("--time-limit") + 1] == "305.5"


def test_an_arm_has_its_own() -> None:
    arms = scenario("S11").arms
    assert scenario("S11").arm_id(arms[0]) == "S11/by-tenant"
    words = scenario("S11").arguments("smoke", arms[1])
    assert words[-4:] == ["-o", "tenants=5", "-o", "fairness_by=node"]
    assert words[words.index("--rate") + 1] == "300"


def test_everything_that_a_run_block_says_is_given() -> None:
    run = Run(
        system="etcd", workload="register", nemesis="none", checker=("slo",), model="register",
        lab="vm", concurrency=7, rate=12.5, seed=3, plugin=("./a.py", "./b.py"),
        system_version=("x.deb",), options={"a": True, "b": 0.25, "c": "d e"},
    )  # fmt: skip
    budget = Budget(nodes=(3,), duration_s=60, faults=0, seeds=2)
    words = argv_of(run, Arm(name="x", workload="set", options={"b": 1}), "smoke", budget)
    assert words == [
        *("run", "--system", "etcd", "--workload", "set", "--nemesis", "none"),
        *("--plugin", "./a.py", "--plugin", "./b.py", "--system-version", "x.deb"),
        *("--checker", "slo", "--lab", "vm", "--model", "register", "--tier", "smoke"),
        *("--nodes", "3", "--time-limit", "60", "--seed", "3", "--seeds", "2"),
        *("--concurrency", "7", "--rate", "12.5", "-o", "a=true", "-o", "b=1", "-o", "c=d e"),
    ]


def test_what_is_not_there_is_not_made_up() -> None:
    with pytest.raises(KeyError):
        scenario("S11").arguments("release", scenario("S11").arms[0])
    with pytest.raises(ValueError, match="S11 has 3 arms"):
        scenario("S11").arguments("smoke")
    without = read(changed(SOUND, (("```toml run\n", "```toml\n"),))).scenario("S1")
    assert without is not None and without.arms == ()
    with pytest.raises(ValueError, match="S1 has no run block"):
        without.arguments("smoke")


@pytest.mark.parametrize("tier", BUDGETS)
@pytest.mark.parametrize("one", PLAN.scenarios, ids=lambda one: one.id)
def test_dstest_run_takes_the_words(one: Scenario, tier: str) -> None:
    command = get_command(app_of("run"))
    run = command.commands["run"]  # type: ignore[attr-defined]
    for arm in one.arms if tier in one.budgets else ():
        words = one.arguments(tier, arm)
        context = run.make_context("run", words[1:])
        assert context.params["workload"] == one.run.workload  # type: ignore[union-attr]
        assert context.params["tier"] == tier


@pytest.mark.parametrize("one", PLAN.scenarios, ids=lambda one: one.id)
def test_a_skeleton_runs_what_its_scenario_says(one: Scenario) -> None:
    assert one.skeleton is not None
    names: dict[str, str] = {}
    exec(compile(one.skeleton.text, one.id, "exec"), names)
    assert shlex.split(names["COMMAND"]) == ["dstest", *one.arguments("smoke", one.arms[0])]
    assert f"test_{one.id.lower()}_{one.name}" in names
