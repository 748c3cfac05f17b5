"""A plan is executed step by step, and goes on after a death; what ran counts, and what was said of
it does not."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from executed_plan import PLAN, stale
from made_runs import made, recorded, registers

from dstest.core import registry
from dstest.core.errors import ConfigError, Exit
from dstest.plans.execution import driver
from dstest.plans.execution.driver import Driver, begin, resume
from dstest.plans.execution.state import (
    Capability,
    Execution,
    ExecutionDir,
    Step,
    select_steps,
    steps_of,
)
from dstest.plans.reader import read_plan

pytestmark = pytest.mark.slow

ETCD = Path(__file__).resolve().parents[2] / "docs" / "plans" / "etcd.md"

Act = Callable[[Step, Path, Sequence[str]], int]


def _passes(step: Step, folder: Path, argv: Sequence[str]) -> int:
    made(folder / "etcd-register-partition" / f"run{step.tries}", registers(), "register")
    return Exit.PASS


def _fails(step: Step, folder: Path, argv: Sequence[str]) -> int:
    made(folder / "etcd-register-partition" / f"run{step.tries}", stale(registers()), "register")
    return Exit.FAIL


def _nothing(step: Step, folder: Path, argv: Sequence[str]) -> int:
    return Exit.HARNESS


@pytest.fixture
def acts(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, Act]]:
    """What the commands of the steps do, in their order."""
    planned: list[tuple[str, Act]] = []

    def command(self: Driver, step: Step, argv: Sequence[str]) -> int:
        log = self._dir.log_of(step)
        log.write_text(f"$ dstest {' '.join(argv)}\ndstest: the lab is not there\n")
        wanted, act = planned.pop(0)
        assert argv[0] == wanted, argv
        return int(act(step, self._dir.artifacts_of(step), argv))

    monkeypatch.setattr(Driver, "_command", command)
    monkeypatch.setattr(driver, "require_sound", lambda plan: None)
    monkeypatch.setattr(driver, "lint", lambda plan: [])
    monkeypatch.setattr(driver, "host_rows", list)
    return planned


def _begin(store: Path, *only: str, budget: str = "smoke", **more: Any) -> int:
    given: dict[str, Any] = {"lab_id": None, "allow_missing": False, "commit": "", **more}
    path = store.parent / f"{store.name}-plan.md"
    path.write_text(PLAN)
    return begin(path, budget=budget, only=only, store=store, say=lambda _: None, **given)


def _execution(store: Path) -> tuple[ExecutionDir, Execution]:
    directory = ExecutionDir.open(store / "latest")
    return directory, directory.read()


def _states(store: Path) -> dict[str, str]:
    return {step.id: step.state for step in _execution(store)[1].steps}


def test_a_scenario_is_run_and_told(acts: list[tuple[str, Act]], tmp_path: Path) -> None:
    acts.append(("run", _passes))
    assert _begin(tmp_path, "S1") == Exit.NOT_PROVEN
    directory, execution = _execution(tmp_path)
    assert _states(tmp_path) == {"S1": "PASS-smoke", "S2/near": "NOT-RUN", "S2/far": "NOT-RUN"}
    assert execution.steps[1].reason == "it was not asked for"
    for name in ("session-log.md", "findings/S1.md", "findings/report.md", "plan.md"):
        assert (directory.path / name).is_file()
    log = (directory.path / "session-log.md").read_text()
    for heading in ("Toolbox discovered", "Environment capability matrix", "Preconditions",
                    "Scenario timeline", "Scenario verdicts", "Artifacts"):  # fmt: skip
        assert f"## {heading}" in log
    assert execution.outcome == "DONE_WITH_CONCERNS"


def test_a_run_that_did_less_than_the_plan_asks(
    acts: list[tuple[str, Act]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(globals(), "PLAN", PLAN.replace("faults 1;", "faults 2;"))
    acts.append(("run", _passes))
    assert _begin(tmp_path, "S1") == Exit.NOT_PROVEN
    step = _execution(tmp_path)[1].steps[0]
    assert step.state == "PARTIAL-model"
    assert "a run had 1 landed faults of 2" in step.reason


def test_a_run_of_another_length_is_none_of_the_plans(
    acts: list[tuple[str, Act]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(globals(), "PLAN", PLAN.replace("duration 28 s", "duration 60 s"))
    acts.append(("run", _passes))
    assert _begin(tmp_path, "S1") == Exit.NOT_PROVEN
    step = _execution(tmp_path)[1].steps[0]
    assert step.state == "INCONCLUSIVE-oracle-too-weak"
    assert "is a run of something else: time_limit_s" in step.reason


def test_a_failure_is_the_outcome(acts: list[tuple[str, Act]], tmp_path: Path) -> None:
    acts += [("run", _fails), ("run", _nothing)]
    assert _begin(tmp_path) == Exit.FAIL
    _, execution = _execution(tmp_path)
    assert [s.state for s in execution.steps[:2]] == ["FAIL-nondeterministic", "INCONCLUSIVE-env"]
    assert "the lab is not there" in execution.steps[1].reason


def test_nothing_ran(acts: list[tuple[str, Act]], tmp_path: Path) -> None:
    acts.append(("run", _nothing))
    assert _begin(tmp_path, "S1") == Exit.HARNESS
    assert _execution(tmp_path)[1].outcome == "BLOCKED"


def test_ctrl_c_leaves_the_rest_to_resume(acts: list[tuple[str, Act]], tmp_path: Path) -> None:
    acts += [("run", _passes), ("run", lambda *_: int(Exit.INTERRUPTED))]
    assert _begin(tmp_path) == Exit.INTERRUPTED
    directory, execution = _execution(tmp_path)
    assert [step.status for step in execution.steps] == ["done", "running", "done"]
    acts.append(("run", _passes))
    assert resume(directory.path, say=lambda _: None) == Exit.NOT_PROVEN
    assert _states(tmp_path)["S2/near"] == "PASS-smoke"
    assert not acts


def test_a_run_that_died_is_judged_first(acts: list[tuple[str, Act]], tmp_path: Path) -> None:
    def dies(step: Step, folder: Path, argv: Sequence[str]) -> int:
        recorded(folder / "etcd-register-partition" / "died", stale(registers()), "register")
        raise KeyboardInterrupt

    def recovers(step: Step, folder: Path, argv: Sequence[str]) -> int:
        from dstest.history.layout import RunDir
        from dstest.runner.judgement import judge

        run = RunDir.open(Path(argv[1]))
        judge(run)
        run.write_sums()
        run.write_status("recovered: FAIL-nondeterministic")
        return Exit.FAIL

    acts.append(("run", dies))
    with pytest.raises(KeyboardInterrupt):
        _begin(tmp_path, "S1")
    directory, execution = _execution(tmp_path)
    assert execution.steps[0].status == "running"
    acts.append(("recover", recovers))
    assert resume(directory.path, say=lambda _: None) == Exit.FAIL
    assert _states(tmp_path)["S1"] == "FAIL-nondeterministic"


def test_what_is_missing_stops_it_before_anything_is_made(
    acts: list[tuple[str, Act]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def rows(plan: Any) -> list[Capability]:
        return [
            Capability(
                needs="programs", present=False, version="", source="nft is not there",
                scenarios=["S1"], install="apt install nftables",
            )
        ]  # fmt: skip

    monkeypatch.setattr(driver, "capabilities_of", rows)
    with pytest.raises(ConfigError, match="missing: programs") as raised:
        _begin(tmp_path, "S1")
    assert "apt install nftables" in str(raised.value.remedy)
    assert not list(tmp_path.iterdir())
    acts.append(("run", _passes))
    assert _begin(tmp_path, allow_missing=True) == Exit.NOT_PROVEN
    assert list(_states(tmp_path).values()) == ["INCONCLUSIVE-env", "PASS-smoke", "NOT-RUN"]


@pytest.mark.parametrize("kind", ["vagrant", "vm", "podman"])
def test_the_lab_is_looked_for_that_was_asked_for(
    acts: list[tuple[str, Act]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """Not another one, which this host could make."""
    monkeypatch.setitem(globals(), "PLAN", PLAN.replace(
        'nemesis = "', f'lab = "{kind}"\nnemesis = "'
    ))  # fmt: skip
    lab: Any = registry.load("labs", kind)
    monkeypatch.setattr(type(lab), "missing", lambda self: {f"{kind}-tool": f"apt install {kind}"})
    with pytest.raises(ConfigError, match=f"missing: {kind}-tool") as raised:
        _begin(tmp_path, "S1")
    assert f"apt install {kind}" in str(raised.value.remedy)
    assert not list(tmp_path.iterdir())


def test_a_plan_that_is_unsound_is_not_run(tmp_path: Path) -> None:
    weak = tmp_path / "weak.md"
    text = ETCD.read_text()
    at = text.index("- **Oracle:**")
    end = text.index("\n", at)
    weak.write_text(text[:at] + "- **Oracle:** logs look fine" + text[end:])
    with pytest.raises(ConfigError, match="L19"):
        begin(
            weak, budget="smoke", only=[], store=tmp_path / "store", lab_id=None,
            allow_missing=False, commit="", say=lambda _: None,
        )  # fmt: skip
    assert not (tmp_path / "store").exists()


def test_another_plan_is_not_gone_on_with(acts: list[tuple[str, Act]], tmp_path: Path) -> None:
    acts.append(("run", lambda *_: int(Exit.INTERRUPTED)))
    _begin(tmp_path, "S1")
    directory, _ = _execution(tmp_path)
    directory.plan.write_text(directory.plan.read_text() + "\n")
    with pytest.raises(ConfigError, match="is not the plan that this began with"):
        resume(directory.path, say=lambda _: None)


def test_one_that_runs_is_left_alone(acts: list[tuple[str, Act]], tmp_path: Path) -> None:
    acts.append(("run", lambda *_: int(Exit.INTERRUPTED)))
    _begin(tmp_path, "S1")
    path = tmp_path / "latest" / "execution.json"
    facts = json.loads(path.read_text())
    facts |= {"pid": 1, "pid_start_time": int(Path("/proc/1/stat").read_text().split()[21])}
    path.write_text(json.dumps(facts))
    with pytest.raises(ConfigError, match="is still running"):
        resume(tmp_path / "latest", say=lambda _: None)


def test_steps(tmp_path: Path) -> None:
    plan = read_plan(ETCD)
    steps = select_steps(plan, "smoke", ["S1"])
    assert [step.id for step in steps if step.argv] == ["S1"]
    assert {step.reason for step in steps if step.scenario == "S2"} == {"it was not asked for"}
    release = {step.id: step for step in steps_of(plan, "release")}
    assert (release["S3"].state, release["S3"].status) == ("NOT-RUN", "done")
    assert "no lab of ours is free" in release["S3"].reason
    with pytest.raises(ConfigError, match="no such budget"):
        steps_of(plan, "quick")
    with pytest.raises(ConfigError, match="none of that id"):
        select_steps(plan, "smoke", ["S99"])
