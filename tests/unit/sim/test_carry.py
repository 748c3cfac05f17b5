"""`dstest replay RUN --lab LAB`: what a simulation has found, as a run on nodes. The runs on nodes
themselves are tests/integration/test_carry.py; here other runs stand for what came of them."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from typer.testing import CliRunner

from dstest.cli.app import app
from dstest.core.errors import ConfigError, EvidenceError, Exit
from dstest.core.run_record import RunSpec
from dstest.core.verdict import State
from dstest.runner import replay
from dstest.runner.fault_plans import SCHEDULE, read_schedule
from dstest.runner.plugins import resolve
from dstest.runner.replay import Carrying, carry, carrying
from dstest.runner.screen import Progress
from dstest.runner.session import Finished, run_session

pytestmark = pytest.mark.slow

GIVEN = ["bug=sequence-reuse", "scope=primaries", "fault_s=3"]
SPEC = RunSpec(
    system="toykv",
    lab="sim",
    workload="unique-ids",
    nemesis="kill",
    nodes=5,
    concurrency=10,
    time_limit_s=24.0,
    seed=1,
)


def simulated(store: Path, *given: str, **changes: Any) -> Finished:
    plugins = resolve(msgspec.structs.replace(SPEC, **changes), [*given])
    return run_session(plugins, store=store, ui=Progress(io.StringIO()))


@pytest.fixture(scope="module")
def failed(tmp_path_factory: pytest.TempPathFactory) -> Finished:
    done = simulated(tmp_path_factory.mktemp("failed"), *GIVEN)
    assert done.exit_code == Exit.FAIL, done.verdict.reason
    return done


@pytest.fixture(scope="module")
def passed(tmp_path_factory: pytest.TempPathFactory) -> Finished:
    done = simulated(tmp_path_factory.mktemp("passed"), *GIVEN[1:])
    assert done.exit_code == Exit.PASS, done.verdict.reason
    return done


@pytest.fixture(scope="module")
def other(tmp_path_factory: pytest.TempPathFactory) -> Finished:
    """It shows another violation."""
    asked = {"workload": "bank", "nemesis": "none", "seed": 2, "time_limit_s": 8.0}
    done = simulated(tmp_path_factory.mktemp("other"), "bug=dirty-read", **asked)
    assert done.exit_code == Exit.FAIL, done.verdict.reason
    return done


def test_the_schedule_is_planned_again_to_the_letter(failed: Finished) -> None:
    asked = carrying(failed.path, "lxc", None)
    spec, plans = asked.plugins.spec, asked.plugins.plans
    assert plans == read_schedule(failed.path / SCHEDULE).plans and plans
    assert (spec.lab, spec.rate, spec.seed, spec.nodes) == ("lxc", None, 1, 5)
    assert (spec.workload, spec.time_limit_s, spec.concurrency) == ("unique-ids", 24.0, 10)
    assert spec.schedule == str((failed.path / SCHEDULE).resolve())
    assert asked.plugins.given == GIVEN and spec.options["bug"] == "sequence-reuse"
    assert asked.wanted == failed.verdict.evidence.violation_fingerprint


def test_what_one_side_alone_has_is_told(failed: Finished, other: Finished) -> None:
    told = carrying(failed.path, "lxc", None).told
    assert told["faults"] == "2 at the same seconds, 4 to 14; f1, f2 strike whoever leads"
    assert told["load"] == (
        "100 operations a second of the simulated clock there, a closed loop here"
        " (--rate for another)"
    )
    assert "audit=no" in told["only here"] and "workers=0" in told["only here"]
    assert "seed 1" in told["only there"]
    assert carrying(failed.path, "lxc", 300.0).told["load"].endswith("300 operations a second here")
    assert carrying(other.path, "lxc", None).told["faults"] == "none are planned"


def test_other_hosts_are_struck_by_their_names(tmp_path: Path) -> None:
    done = simulated(
        tmp_path,
        *["bug=stale-follower-read", "fault_s=3", "quiet_s=1"],
        workload="register",
        nemesis="partition",
        seed=3,
        rate=30.0,
        time_limit_s=20.0,
    )
    assert done.exit_code == Exit.FAIL, done.verdict.reason
    asked = carrying(done.path, "lxc", None)
    assert "the hosts that were struck there" in asked.told["faults"]
    # what is fixed there stays so here, and is told so
    assert "action=drop" in asked.told["only here"]
    assert {plan.facts["action"] for plan in asked.plugins.plans} == {"drop"}


def test_what_cannot_be_carried_is_refused(
    failed: Finished, passed: Finished, tmp_path: Path
) -> None:
    for path, lab, rate, said, remedy in (
        (failed.path, "sim", None, "--lab sim: that is where it ran", "leave --lab out"),
        (failed.path, "nowhere", None, "nowhere", ""),
        (failed.path, "rootless", None, "within namespaces", "schedule.json --lab rootless`"),
        (failed.path, "lxc", -1.0, "--rate -1", "leave --rate out"),
        (passed.path, "lxc", None, "shows no violation", "dstest run --schedule"),
        (tmp_path / "none", "lxc", None, "", ""),
    ):
        with pytest.raises(ConfigError) as refused:
            carrying(path, lab, rate)
        assert said in refused.value.message, (path, lab)
        assert remedy in (refused.value.remedy or "")


def test_a_run_on_nodes_is_not_carried(failed: Finished, tmp_path: Path) -> None:
    run = _copied(failed.path, tmp_path)
    meta = json.loads((run / "run.json").read_bytes())
    (run / "run.json").write_text(json.dumps({**meta, "spec": {**meta["spec"], "lab": "lxc"}}))
    with pytest.raises(ConfigError, match="was not simulated: it had nodes of lxc"):
        carrying(run, "podman", None)


@pytest.mark.parametrize("name", [SCHEDULE, "history.jsonl", "verdict.json"])
def test_edited_files_are_refused(name: str, failed: Finished, tmp_path: Path) -> None:
    run = _copied(failed.path, tmp_path)
    (run / name).write_text((run / name).read_text() + " ")
    with pytest.raises(EvidenceError):
        carrying(run, "lxc", None)


def _copied(path: Path, to: Path) -> Path:
    import shutil

    return Path(shutil.copytree(path, to / path.name))


@pytest.fixture
def asked(failed: Finished) -> Carrying:
    return carrying(failed.path, "lxc", None)


def standing_in(monkeypatch: pytest.MonkeyPatch, *runs: Finished) -> None:
    """These are what comes of the runs on nodes, one after the other."""
    following: Iterator[Finished] = iter(runs)
    monkeypatch.setattr(replay, "run_session", lambda *_, **__: next(following))


@pytest.mark.parametrize(
    ("runs", "again", "code", "words"),
    [
        (["failed"], 1, Exit.FAIL, "came again in 1 of 1: "),
        (["passed"], 0, Exit.PASS, "did not come again in 1: "),
        (["passed", "failed"], 1, Exit.FAIL, "came again in 1 of 2: "),
        (["other", "passed"], 0, Exit.FAIL, "; another one did: bank/"),
        (["unjudged"], 0, Exit.HARNESS, "; 1 of them proved nothing"),
        (["passed", "unproven"], 0, Exit.NOT_PROVEN, "; 1 of them proved nothing"),
    ],
)
def test_what_came_of_it_is_by_the_fingerprint_and_the_code_of_the_runs_on_nodes(
    runs: list[str],
    again: int,
    code: Exit,
    words: str,
    asked: Carrying,
    failed: Finished,
    passed: Finished,
    other: Finished,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    known = {
        "failed": failed,
        "passed": passed,
        "other": other,
        "unjudged": Finished(path=tmp_path, exit_code=Exit.HARNESS),
        "unproven": msgspec.structs.replace(passed, exit_code=Exit.NOT_PROVEN),
    }
    standing_in(monkeypatch, *(known[name] for name in runs))
    done, came = carry(asked, len(runs), store=tmp_path)
    assert (came.again, came.runs, done[-1].exit_code) == (again, len(runs), code)
    assert words in came.words and asked.wanted in came.words


def test_the_simulated_run_stays_as_it_is(
    asked: Carrying, failed: Finished, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = {path: path.read_bytes() for path in failed.path.rglob("*") if path.is_file()}
    standing_in(monkeypatch, failed)
    carry(asked, 1, store=tmp_path)
    after = {path: path.read_bytes() for path in failed.path.rglob("*") if path.is_file()}
    assert before == after
    assert failed.verdict.verdict is State.FAIL_NONDETERMINISTIC


def test_times_below_one_are_refused(asked: Carrying, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="--times 0"):
        carry(asked, 0, store=tmp_path)
    done = CliRunner().invoke(app, ["replay", str(asked.path), "--lab", "lxc", "--times", "0"])
    assert isinstance(done.exception, ConfigError) and done.output == ""


def test_the_command(failed: Finished, passed: Finished, monkeypatch: pytest.MonkeyPatch) -> None:
    wanted = failed.verdict.evidence.violation_fingerprint
    standing_in(monkeypatch, failed, passed)
    done = CliRunner().invoke(app, ["replay", str(failed.path), "--lab", "lxc", "--times", "2"])
    assert done.exit_code == Exit.FAIL, done.output
    assert f"carried     from {failed.path} to lxc" in done.stdout
    assert f"violation   came again in 1 of 2: {wanted}" in done.stdout
    standing_in(monkeypatch, passed)
    done = CliRunner().invoke(app, ["replay", str(failed.path), "--lab", "lxc", "--json"])
    assert done.exit_code == Exit.PASS, done.output
    carried = json.loads(done.stdout)["carried"]
    assert (carried["wanted"], carried["again"], carried["runs"]) == (wanted, 0, 1)
    assert carried["found"] == {} and carried["told"]["faults"]
