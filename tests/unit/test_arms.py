"""Sessions: what is run, in which order, what is tried again, and going on after a kill."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from test_audit import but, good
from typer.testing import CliRunner

from dstest.cli.app import app
from dstest.core import registry
from dstest.core.errors import (
    ConfigError,
    EvidenceError,
    Exit,
    HarnessError,
    Interrupted,
    LabError,
)
from dstest.core.evidence import Evidence
from dstest.core.spec import RunSpec
from dstest.core.verdict import State
from dstest.judge.decide import decide
from dstest.judge.evidence import build_evidence
from dstest.judge.session import judge_session
from dstest.report.session import session_text, write_session
from dstest.runner import arms, session_check
from dstest.runner.arms import ArmsPlan, begin, resume
from dstest.runner.outlook import shortfalls
from dstest.runner.progress import Quiet
from dstest.runner.session import Finished, process_start_time
from dstest.runner.session_check import SessionFinished
from dstest.runner.session_file import SessionDir, SessionFile
from dstest.store.layout import RunDir

SYSTEM = SimpleNamespace(name="etcd", packages=("etcd-server",))
HOST = {"dstest": "1", "python": "3", "kernel": "6", "cpus": 2}


def evidence(**changes: Any) -> Evidence:
    alone = but(seeds_agreeing=1, node_counts_run=[5], **changes)
    return build_evidence(alone, op_types=frozenset({"read", "write"}))


CLEAN = evidence()
UNPROVEN = evidence(
    records=[msgspec.structs.replace(good().records[0], landed="no"), *good().records[1:]]
)
VIOLATED = evidence(
    results={"linearizable": msgspec.structs.replace(good().results["linearizable"], valid=False)}
)


class Runs:
    """Stands in for `run_session`: what it is told to end with, run after run."""

    def __init__(self, *script: Evidence | Exception) -> None:
        self.script = list(script)
        self.made: list[tuple[str, int, int]] = []

    def __call__(self, plugins: Any, *, store: Path, name: str, **_: Any) -> Finished:
        self.made.append((name, plugins.spec.nodes, plugins.spec.seed))
        step = self.script.pop(0) if self.script else CLEAN
        if isinstance(step, Exception) and not isinstance(step, Interrupted):
            raise step
        run = RunDir.create(store, name, plugins.spec.seed)
        spec = msgspec.to_builtins(plugins.spec)
        facts = {"spec": spec, "options_given": plugins.given}
        facts |= {"host": HOST, "system_version": "3.4"}
        run.write_json("run.json", facts)
        run.give_up_ballast()
        if isinstance(step, Interrupted):
            return Finished(path=run.path, exit_code=Exit.INTERRUPTED, failure=step)
        run.write_json("evidence.json", step)
        verdict = decide(step)
        run.write_json("verdict.json", verdict)
        run.write_sums()
        return Finished(path=run.path, exit_code=0, verdict=verdict)


class Lab:
    """Always up, and of the right size."""

    def status(self, lab_id: str) -> Any:
        size = int(lab_id.rsplit("-", 1)[1]) if "-" in lab_id else 5
        return SimpleNamespace(nodes=[0] * size, lab_id=lab_id, facts={})

    def down(self, lab_id: str) -> list[str]:
        return []

    def up(self, *_: Any, **__: Any) -> None:
        return


def plugins_of(spec: RunSpec, given: list[str]) -> Any:
    return SimpleNamespace(spec=spec, system=SYSTEM, lab=Lab(), given=given, plans=[0] * 12)


PLAN = ArmsPlan(
    arms=[(5, 1), (5, 2), (5, 3), (3, 1)], tier="hardening", time_limit_s=305.0, attempts_max=2
)


@pytest.fixture(autouse=True)
def _no_real_lab(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "load", lambda _group, _name: Lab())
    monkeypatch.setattr(arms, "packages_for", tuple)
    # Run directories of these tests hold no more than their evidence.
    monkeypatch.setattr(session_check, "verified", lambda run: run)


def start(
    store: Path, runs: Runs, monkeypatch: pytest.MonkeyPatch, plan: ArmsPlan = PLAN
) -> SessionFinished:
    monkeypatch.setattr(arms, "run_session", runs)
    return begin(RunSpec(), [], plan, store=store, ui=Quiet(), plugins_of=plugins_of)


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
        size = self.sizes.get(lab_id)
        return None if size is None else SimpleNamespace(nodes=[0] * size, lab_id=lab_id, facts={})

    def up(self, lab_id: str, nodes: int, **_: Any) -> None:
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
        RunDir.open(path).write_json("evidence.json", UNPROVEN)
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
        RunDir.open(path).write_json("evidence.json", VIOLATED)
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


def test_a_session_is_read_again_and_an_edited_one_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done = start(tmp_path, Runs(), monkeypatch)
    assert session_check.reread(done.path).verdict == done.verdict
    for name in ("session.json", "junit.xml", "arms/n5-s2/" + "*/evidence.json"):
        (file,) = done.path.glob(name)
        kept = file.read_bytes()
        file.write_bytes(kept.replace(b"PASS", b"pass", 1).replace(b"true", b"false", 1) + b" ")
        with pytest.raises(EvidenceError, match="changed"):
            session_check.reread(done.path)
        file.write_bytes(kept)


def laundered(done: SessionFinished, change: Callable[[SessionDir, SessionFile], None]) -> None:
    """Change a session, then put its verdict, reports and sums right again."""
    directory = SessionDir.open(done.path)
    file = directory.read()
    change(directory, file)
    found = [session_check.arm_evidence(directory, arm) for arm in file.arms]
    verdict = judge_session(found, file.tier)
    file.verdict = msgspec.to_builtins(verdict)
    directory.write(file)
    write_session(directory.path, file.spec, file.options_given, verdict)
    directory.write_sums()


def leave_out(_: SessionDir, file: SessionFile) -> None:
    del file.arms[1]


def forget_an_attempt(_: SessionDir, file: SessionFile) -> None:
    del file.arms[1].attempts[0]


def unfinish(directory: SessionDir, file: SessionFile) -> None:
    """The failing run counts as one that died, and holds clean evidence."""
    run = RunDir.open(directory.path / file.arms[1].attempts[-1])
    (run.path / "sha256sums").unlink()
    run.write_status("running")
    run.write_json("evidence.json", CLEAN)


def one_run_for_all(_: SessionDir, file: SessionFile) -> None:
    for arm in file.arms[1:]:
        arm.attempts = list(file.arms[0].attempts)


def of_outside(directory: SessionDir, file: SessionFile) -> None:
    """A run that lies beside the session counts as one of it."""
    good = directory.path / file.arms[0].attempts[0]
    shutil.copytree(good, directory.path.parent / "elsewhere" / good.name)
    file.arms[1].attempts = [f"../elsewhere/{good.name}"]


def of_another_seed(directory: SessionDir, file: SessionFile) -> None:
    good, bad = (directory.path / file.arms[i].attempts[-1] for i in (0, 1))
    shutil.rmtree(bad)
    shutil.copytree(good, bad)


def of_another_test(_: SessionDir, file: SessionFile) -> None:
    file.spec = msgspec.structs.replace(file.spec, workload="bank")


def no_arms(_: SessionDir, file: SessionFile) -> None:
    file.arms = []


CHANGES = [
    leave_out,
    forget_an_attempt,
    unfinish,
    one_run_for_all,
    of_outside,
    of_another_seed,
    of_another_test,
]


@pytest.mark.parametrize("change", CHANGES)
def test_a_failed_session_is_not_laundered(
    change: Callable[[SessionDir, SessionFile], None],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    runs = Runs(CLEAN, VIOLATED)
    if change is forget_an_attempt:
        # A violation, then an attempt that is clean: made by hand, no session runs it.
        runs = Runs(CLEAN, UNPROVEN, CLEAN)
    done = start(tmp_path, runs, monkeypatch)
    laundered(done, change)
    for look in (session_check.reread, arms.resume):
        with pytest.raises(EvidenceError):
            look(done.path)


@pytest.mark.parametrize("change", [*CHANGES, no_arms])
def test_a_stopped_session_that_was_changed_does_not_go_on(
    change: Callable[[SessionDir, SessionFile], None],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    runs = Runs(CLEAN, VIOLATED, Interrupted("stopped"))
    if change is forget_an_attempt:
        runs = Runs(CLEAN, UNPROVEN, CLEAN, Interrupted("stopped"))
    done = start(tmp_path, runs, monkeypatch)
    directory = SessionDir.open(done.path)
    file = directory.read()
    change(directory, file)
    directory.write(file)
    monkeypatch.setattr(arms, "run_session", Runs())
    with pytest.raises(EvidenceError):
        arms.resume(done.path, ui=Quiet(), plugins_of=plugins_of)


def test_reports_that_tell_another_verdict(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    done = start(tmp_path, Runs(CLEAN, VIOLATED), monkeypatch)
    directory = SessionDir.open(done.path)
    for name in ("junit.xml", "session.md", "report.html"):
        file = done.path / name
        kept = file.read_text()
        file.write_text(kept.replace("FAIL", "PASS").replace('failures="2"', 'failures="0"'))
        directory.write_sums()
        with pytest.raises(EvidenceError, match=name):
            session_check.reread(done.path)
        file.write_text(kept)
    directory.write_sums()
    assert session_check.reread(done.path).exit_code == Exit.FAIL


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
