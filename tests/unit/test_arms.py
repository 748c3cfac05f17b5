"""Sessions: what is run, in which order, what is tried again, and going on after a kill."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from made_arms import (
    CLEAN,
    PLAN,
    SYSTEM,
    UNPROVEN,
    VIOLATED,
    Lab,
    Runs,
    evidence,
    plugins_of,
    start,
    without_a_lab,
)
from typer.testing import CliRunner

from dstest.campaign import session as arms
from dstest.campaign.session import begin, resume, shortfalls
from dstest.cli.app import app
from dstest.core import registry
from dstest.core.errors import (
    ConfigError,
    Exit,
    HarnessError,
    Interrupted,
    LabError,
)
from dstest.core.node import Foreign, LabInfo, NodeInfo
from dstest.core.run_record import RunSpec
from dstest.core.verdict import State
from dstest.history.layout import RunDir
from dstest.judge.decide import decide
from dstest.report.session import session_text
from dstest.runner.screen import Quiet
from dstest.runner.session import Finished, process_start_time
from dstest.runner.session_file import SessionDir


@pytest.fixture(autouse=True)
def _no_real_lab(monkeypatch: pytest.MonkeyPatch) -> None:
    without_a_lab(monkeypatch)


def test_all_arms_are_run_and_add_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    runs = Runs()
    done = start(tmp_path, runs, monkeypatch)
    assert [made[1:] for made in runs.made] == PLAN.arms
    assert done.verdict is not None
    assert (done.verdict.state, done.exit_code) == (State.PASS_HARDENING, Exit.PASS)
    assert (tmp_path / "latest").resolve() == done.path
    assert (done.path / "status").read_text() == "DONE: PASS-hardening\n"
    for name in ("report.html", "session.md", "junit.xml", "session.json"):
        assert (done.path / name).stat().st_size > 100


def test_what_keeps_all_arms_from_being_better_is_said_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done = start(tmp_path, Runs(*[UNPROVEN] * 8), monkeypatch)
    assert done.verdict is not None
    said = session_text(done.path, RunSpec(), [], done.verdict)
    assert "n5-s1, n5-s2, n5-s3, n3-s1: Fault f1" in " ".join(said.split())


def test_an_arm_whose_fault_did_not_land_is_tried_once_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = Runs(CLEAN, UNPROVEN, CLEAN, CLEAN, CLEAN)
    done = start(tmp_path, runs, monkeypatch)
    assert [made[1:] for made in runs.made] == [(5, 1), (5, 2), (5, 2), (5, 3), (3, 1)]
    assert done.verdict is not None
    assert done.verdict.state is State.PASS_HARDENING
    assert done.verdict.arms[1].earlier == [State.INCONCLUSIVE_FAULT]
    assert "INCONCLUSIVE-fault-not-proven" in (done.path / "session.md").read_text()


def test_a_sabotaged_seed_is_no_pass(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    runs = Runs(CLEAN, UNPROVEN, UNPROVEN, CLEAN, CLEAN)
    done = start(tmp_path, runs, monkeypatch)
    assert len(runs.made) == 5
    assert done.verdict is not None
    assert (done.verdict.state, done.exit_code) == (State.INCONCLUSIVE_FAULT, Exit.NOT_PROVEN)


def test_a_violation_is_never_tried_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    runs = Runs(CLEAN, VIOLATED)
    done = start(tmp_path, runs, monkeypatch)
    assert len(runs.made) == 4
    assert done.exit_code == Exit.FAIL
    assert done.verdict is not None
    said = session_text(done.path, RunSpec(), [], done.verdict)
    assert f"dstest blame {done.path}/arms/n5-s2/" in said


def test_a_lab_that_fails_leaves_the_arm_unrun(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = Runs(CLEAN, LabError("no bridge"), LabError("no bridge"))
    done = start(tmp_path, runs, monkeypatch)
    assert done.verdict is not None
    assert (done.verdict.state, done.exit_code) == (State.NOT_RUN, Exit.NOT_PROVEN)
    assert done.verdict.arms[1].reason == "no bridge"


LACKING = evidence(missing_capability=["no NFQUEUE"])


class FewLabs(Lab):
    """Some are up; what is brought up and taken down is kept."""

    def __init__(self, up: dict[str, int]) -> None:
        self.sizes = dict(up)
        self.brought: list[tuple[str, int]] = []
        self.taken: list[str] = []

    def status(self, lab_id: str) -> Any:
        return super().status(f"{lab_id}-{self.sizes[lab_id]}") if lab_id in self.sizes else None

    def up(self, lab_id: str, nodes: int, **_: Any) -> Any:
        self.brought.append((lab_id, nodes))
        self.sizes[lab_id] = nodes

    def down(self, lab_id: str) -> list[str]:
        self.taken.append(lab_id)
        self.sizes.pop(lab_id, None)
        return []


@pytest.mark.parametrize(
    ("up", "brought"),
    [
        ({}, [("mine-5", 5), ("mine-3", 3)]),
        ({"mine": 5}, [("mine-3", 3)]),
        ({"mine": 3, "mine-5": 5}, []),
    ],
)
def test_labs_of_a_session_are_named_after_the_users(
    up: dict[str, int],
    brought: list[tuple[str, int]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    labs = FewLabs(up)
    monkeypatch.setattr(registry, "load", lambda _group, _name: labs)
    monkeypatch.setattr(arms, "run_session", Runs())

    def planned(spec: RunSpec, given: list[str]) -> Any:
        return SimpleNamespace(spec=spec, system=SYSTEM, lab=labs, given=given, plans=[])

    begin(
        RunSpec(), [], PLAN, store=tmp_path, ui=Quiet(), lab_id="mine",
        plugins_of=planned,
    )  # fmt: skip
    assert labs.brought == brought
    assert set(labs.taken) == {name for name, _ in brought}
    assert labs.sizes == up


def test_arms_of_machines_that_were_adopted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Three of five serve the arm of three; a tier that wants five does not begin with three."""
    adopted = Foreign(taken={}, as_found={})

    def ran(count: int) -> list[int]:
        nodes = [NodeInfo(name=f"n{i}", address=f"192.0.2.{i}") for i in range(count)]
        info = LabInfo(
            lab_id="mine", kind="hosts", nodes=nodes, control="192.0.2.9", adopted=adopted
        )
        labs = SimpleNamespace(transport="network", status=lambda _: info)
        runs = Runs()
        monkeypatch.setattr(arms, "run_session", runs)

        def planned(spec: RunSpec, given: list[str]) -> Any:
            return SimpleNamespace(spec=spec, system=SYSTEM, lab=labs, given=given, plans=[])

        begin(
            RunSpec(), [], PLAN, store=tmp_path / str(count), ui=Quiet(), lab_id="mine",
            plugins_of=planned,
        )  # fmt: skip
        return [nodes for _, nodes, _ in runs.made]

    assert ran(5) == [5, 5, 5, 3]
    with pytest.raises(LabError, match="has 3 machines, this arm wants 5"):
        ran(3)


def test_what_the_environment_cannot_deliver(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done = start(tmp_path, Runs(*[LACKING] * 8), monkeypatch)
    assert done.verdict is not None
    assert (done.verdict.state, done.verdict.outcome) == (State.INCONCLUSIVE_ENV, "BLOCKED")
    assert done.exit_code == Exit.HARNESS


def test_stopped_and_resumed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    done = start(tmp_path, Runs(CLEAN, Interrupted("stopped by SIGINT")), monkeypatch)
    assert (done.verdict, done.exit_code) == (None, Exit.INTERRUPTED)
    assert "dstest resume" in (done.path / "status").read_text()
    judged: list[Path] = []

    def recover(path: Path, **how: object) -> Finished:
        judged.append(path)
        RunDir.open(path).write_json("verdict.json", decide(UNPROVEN))
        RunDir.open(path).write_sums()
        return Finished(path=path, exit_code=3, verdict=decide(UNPROVEN))

    monkeypatch.setattr(arms, "recover", recover)
    runs = Runs()
    monkeypatch.setattr(arms, "run_session", runs)
    again = resume(done.path, ui=Quiet(), plugins_of=plugins_of)
    assert len(judged) == 1
    assert [made[1:] for made in runs.made] == [(5, 2), (5, 3), (3, 1)]
    assert again.verdict is not None
    assert again.verdict.state is State.PASS_HARDENING
    assert again.verdict.arms[1].earlier == [State.INCONCLUSIVE_FAULT]
    # Nothing is left to do: the same verdict again, and no run.
    runs.made.clear()
    once_more = resume(done.path, ui=Quiet(), plugins_of=plugins_of)
    assert (runs.made, once_more.exit_code) == ([], Exit.PASS)


def test_a_violation_of_a_run_that_died_is_not_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done = start(tmp_path, Runs(CLEAN, Interrupted("killed")), monkeypatch)

    def recover(path: Path, **how: object) -> Finished:
        RunDir.open(path).write_json("verdict.json", decide(VIOLATED))
        RunDir.open(path).write_sums()
        return Finished(path=path, exit_code=1, verdict=decide(VIOLATED))

    monkeypatch.setattr(arms, "recover", recover)
    runs = Runs()
    monkeypatch.setattr(arms, "run_session", runs)
    again = resume(done.path, ui=Quiet(), plugins_of=plugins_of)
    assert [made[1:] for made in runs.made] == [(5, 3), (3, 1)]
    assert again.exit_code == Exit.FAIL


def test_a_session_that_still_runs_is_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done = start(tmp_path, Runs(), monkeypatch)
    directory = SessionDir.open(done.path)
    file = directory.read()
    file.pid, file.pid_start_time = 1, process_start_time(1)
    directory.write(file)
    with pytest.raises(ConfigError, match="still running"):
        resume(done.path, ui=Quiet(), plugins_of=plugins_of)


def test_a_broken_session_file(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="not a session"):
        resume(tmp_path)
    (tmp_path / "session.json").write_text("{")
    with pytest.raises(ConfigError, match="cannot be read"):
        resume(tmp_path)


def test_a_stop_is_a_stop_though_the_run_saw_a_violation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Stopped(Runs):
        def __call__(self, plugins: Any, **how: Any) -> Finished:
            done = super().__call__(plugins, **how)
            stopped = Interrupted("stopped by SIGINT")
            return msgspec.structs.replace(done, exit_code=Exit.FAIL, failure=stopped)

    runs = Stopped(VIOLATED)
    done = start(tmp_path, runs, monkeypatch)
    assert (len(runs.made), done.verdict, done.exit_code) == (1, None, Exit.INTERRUPTED)


def test_a_store_that_cannot_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(HarnessError, match="cannot make a run directory"):
        start(tmp_path / "file", Runs(), monkeypatch)


@pytest.mark.parametrize("tier", ["hardening", "release"])
def test_one_arm_of_a_tier_is_a_session_and_no_pass(
    tier: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A single run may pass as smoke: with a tier asked for, that is not what was asked for."""
    monkeypatch.setattr(arms, "run_session", Runs())
    monkeypatch.setattr(arms, "resolve", plugins_of)
    monkeypatch.setattr(
        arms.begin,
        "__kwdefaults__",
        {**(arms.begin.__kwdefaults__ or {}), "plugins_of": plugins_of},
    )
    flags = ["--tier", tier, "--seeds", "1", "--nodes", "5", "--store", str(tmp_path)]
    done = CliRunner().invoke(app, ["run", *flags])
    assert done.exit_code == Exit.NOT_PROVEN, done.output


def test_what_a_session_cannot_supply_is_said_before_it_begins() -> None:
    whole = [(5, 1), (5, 2), (5, 3), (3, 1)]
    assert shortfalls("hardening", whole, 305.0, 12) == []
    assert shortfalls("smoke", [(5, 1)], 60.0, 2) == []
    said = " ".join(shortfalls("hardening", [(3, 1), (3, 2)], 20.0, 1))
    for what in ("300 seconds", "5 nodes", "10 faults", "3 seeds", "2 cluster sizes"):
        assert what in said
