"""`dstest confirm` and `dstest explain` of a run that failed, and of one that did not."""

from __future__ import annotations

import shutil
from io import StringIO
from pathlib import Path
from typing import Any

import msgspec
import pytest
from typer.testing import CliRunner

import dstest
from dstest.campaign import confirm, session_check
from dstest.campaign.session import _Driver
from dstest.cli.app import app
from dstest.core.errors import ConfigError, DstestError, EvidenceError, Exit, Interrupted
from dstest.core.evidence import Rerun
from dstest.core.run_record import RunSpec
from dstest.core.verdict import State
from dstest.history.layout import RunDir
from dstest.judge.session import SessionVerdict
from dstest.runner import replay
from dstest.runner.integrity import verify_run
from dstest.runner.plugins import resolve
from dstest.runner.screen import Progress
from dstest.runner.session import Finished
from dstest.runner.session_file import ArmState, SessionDir, SessionFile

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

SPEC = RunSpec(
    system="toykv", lab="sim", nemesis="none", nodes=3, concurrency=6, rate=50.0,
    time_limit_s=22.0, seed=3,
)  # fmt: skip
STALE = msgspec.structs.replace(SPEC, time_limit_s=8.0)
"""Long enough for the bug to show."""


@pytest.fixture(scope="module")
def stale(tmp_path_factory: pytest.TempPathFactory) -> Path:
    store = tmp_path_factory.mktemp("stale")
    done = dstest.run(STALE, ["bug=stale-follower-read"], store=store)
    assert done.exit_code == Exit.FAIL
    return done.path


def command(*words: str) -> Any:
    return CliRunner().invoke(app, [*words, "--json"])


def test_each_part_is_done_or_it_is_said_why_not(stale: Path, tmp_path: Path) -> None:
    words = ("confirm", str(stale), "--times", "1", "--within", "0.9", "--store", str(tmp_path))
    done = command(*words)
    assert done.exit_code == Exit.FAIL, done.output
    found = msgspec.json.decode(done.stdout)
    assert found["verdict"] == "FAIL-reproducible"
    assert (found["reproduced"], found["replays"]) == (1, 1)
    assert found["blame"]["why_not"], "a simulation has one client"
    assert found["reproducer"] is None and "dstest shrink" in found["left"]["shrink"]


def test_what_does_not_come_again_is_not_made_small(
    stale: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened = RunDir.open(shutil.copytree(stale, tmp_path / stale.name))
    meta = opened.read_meta()
    assert meta is not None
    meta.rerun = Rerun(same_seed_runs=2, reproduced=0)
    opened.write_meta(meta)
    original = Finished(path=opened.path, exit_code=1, verdict=None)
    monkeypatch.setattr(confirm, "verify_run", lambda run: verify_run(RunDir.open(stale)))
    monkeypatch.setattr(confirm, "replay", lambda *_, **__: [original, original, original])
    monkeypatch.setattr(confirm, "blame_run", lambda *_, **__: None)
    monkeypatch.setattr(confirm, "shrink_run", lambda *_, **__: pytest.fail("it was made small"))
    found = confirm.confirm_run(opened.path, within_s=1e6, times=2, store=tmp_path)
    assert not found.reproduced and "did not come again" in found.left["shrink"]


def test_there_is_nothing_to_confirm_without_a_violation(tmp_path: Path) -> None:
    done = dstest.run(SPEC, store=tmp_path)
    with pytest.raises(ConfigError, match="has no violation"):
        confirm.confirm_run(done.path, within_s=60.0, times=1, store=tmp_path)
    said = command("explain", str(done.path))
    assert said.exit_code == Exit.PASS, said.output
    assert msgspec.json.decode(said.stdout)["debug"]["hypotheses"] == []


def test_the_page_begins_with_what_was_asked_and_found(stale: Path) -> None:
    said = CliRunner().invoke(app, ["explain", str(stale)])
    assert said.exit_code == Exit.FAIL, said.output
    lines = said.stdout.splitlines()
    assert lines[0].startswith("FAIL-") and "bug=stale-follower-read" in lines[1]
    assert "stale" in lines[2] and f"dstest confirm {stale}" in said.stdout


def test_an_unfinished_run_is_no_answer(stale: Path, tmp_path: Path) -> None:
    run = Path(shutil.copytree(stale, tmp_path / stale.name))
    for name in ("verdict.json", "sha256sums"):
        (run / name).unlink()
    (run / "status").write_text("running\n")
    for words in (("explain", str(run)), ("confirm", str(run)), ("check", str(run))):
        done = CliRunner().invoke(app, [*words])
        assert isinstance(done.exception, DstestError), (words, done.output)
        assert "not judged to its end" in done.exception.message
        assert "dstest recover" in (done.exception.remedy or "")


def test_options_and_schedule_of_a_spec_are_those_of_the_run(tmp_path: Path) -> None:
    spec = msgspec.structs.replace(STALE, options={"bug": "stale-follower-read"})
    assert dstest.run(spec, store=tmp_path).exit_code == Exit.FAIL
    with pytest.raises(ConfigError):
        dstest.run(msgspec.structs.replace(SPEC, schedule="/nowhere/schedule.json"), store=tmp_path)
    with pytest.raises(ConfigError):
        dstest.run(SPEC, "bug=none", store=tmp_path)


def test_a_replay_that_was_interrupted_says_nothing(
    stale: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = Path(shutil.copytree(stale, tmp_path / "r" / stale.name))
    cut = Finished(path=run, exit_code=130, verdict=None, failure=Interrupted("stopped"))
    monkeypatch.setattr(replay, "run_session", lambda *_, **__: cut)
    before = RunDir.open(run).read_meta()
    with pytest.raises(Interrupted):
        confirm.confirm_run(run, within_s=600.0, times=2, store=tmp_path)
    after = RunDir.open(run).read_meta()
    assert before is not None and after is not None and after.rerun == before.rerun
    verify_run(RunDir.open(run))


def test_a_run_that_proved_nothing_is_explained_and_no_pass(tmp_path: Path) -> None:
    done = dstest.run(msgspec.structs.replace(SPEC, time_limit_s=10.0), store=tmp_path)
    assert done.exit_code == Exit.NOT_PROVEN
    said = command("explain", str(done.path))
    assert said.exit_code == Exit.NOT_PROVEN, said.output


def failing(*words: str) -> Any:
    test = ("--lab", "sim", "--system", "toykv", "--nemesis", "none", "--nodes", "3")
    load = ("--concurrency", "6", "--rate", "50", "--time-limit", "8")
    stale = ("-o", "bug=stale-follower-read")
    return CliRunner().invoke(app, ["run", *test, *load, *stale, *words])


def test_a_run_that_fails_is_made_again_where_that_is_asked_for(tmp_path: Path) -> None:
    done = failing("--seed", "3", "--confirm", "1", "--store", str(tmp_path), "--json")
    assert done.exit_code == Exit.FAIL, done.output
    found = msgspec.json.decode(done.stdout)
    assert found["verdict"]["verdict"] == "FAIL-reproducible"
    first = Path(found["run"]).resolve()
    assert (tmp_path / "latest").resolve() == first, "the newest is the one that was asked for"
    assert len([*tmp_path.glob("*/*/run.json")]) == 2


def test_an_arm_of_a_session_that_fails_is_made_again(tmp_path: Path) -> None:
    done = failing("--seed", "3,4", "--store", str(tmp_path), "--json")
    assert done.exit_code == Exit.FAIL, done.output
    found = msgspec.json.decode(done.stdout)
    assert states_of(found)["n3-s3"] == "FAIL-reproducible"
    assert (tmp_path / "latest").resolve() == Path(found["session"]).resolve()
    assert verified(Path(found["session"])) == Exit.FAIL


def states_of(told: Any) -> dict[str, str]:
    return {arm["id"]: arm["state"] for arm in told["verdict"]["arms"]}


@pytest.fixture(scope="module")
def _unconfirmed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    store = tmp_path_factory.mktemp("unconfirmed") / "store"
    done = failing("--seed", "3,4", "--store", str(store), "--json", "--confirm", "0")
    assert done.exit_code == Exit.FAIL, done.output
    assert states_of(msgspec.json.decode(done.stdout))["n3-s3"] == "FAIL-nondeterministic"
    return store


@pytest.fixture
def unconfirmed(_unconfirmed: Path, tmp_path: Path) -> Path:
    """A session whose arm failed, and was not made again."""
    store = Path(shutil.copytree(_unconfirmed, tmp_path / "store", symlinks=True))
    (file,) = store.glob("*/2*/session.json")
    assert verified(file.parent) == Exit.FAIL
    return file.parent


def test_an_arm_of_a_session_that_is_over_stays_as_it_is(unconfirmed: Path, tmp_path: Path) -> None:
    (arm,) = unconfirmed.glob("arms/n3-s3/*/run.json")
    again = command("replay", str(arm.parent), "--store", str(tmp_path / "again"))
    assert again.exit_code == Exit.FAIL, again.output
    assert msgspec.json.decode(again.stdout)["verdict"]["verdict"] == "FAIL-reproducible"
    text = CliRunner().invoke(app, ["replay", str(arm.parent), "--store", str(tmp_path / "again")])
    assert "FAIL-reproducible" in text.output
    assert verified(unconfirmed) == Exit.FAIL


def test_what_a_session_still_owes_is_made_up_for(unconfirmed: Path) -> None:
    """As where its process was killed between an arm's verdict and its re-run."""
    session = SessionDir.open(unconfirmed)
    file = session.read()
    file.confirm, file.verdict = 1, None
    session.write(file)
    (session.path / "sha256sums").unlink()
    again = CliRunner().invoke(app, ["resume", str(session.path), "--json"])
    assert again.exit_code == Exit.FAIL, again.output
    assert states_of(msgspec.json.decode(again.stdout))["n3-s3"] == "FAIL-reproducible"
    assert verified(session.path) == Exit.FAIL


def test_another_version_may_say_the_same_in_other_words(
    unconfirmed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A session that an older dstest has left is no edited one; its verdict has to be the same."""
    monkeypatch.setattr("dstest.report.session.session_reports", lambda *_: {"report.html": ""})
    with pytest.raises(EvidenceError, match="is not what the verdict gives"):
        session_check.reread(unconfirmed)
    for module in ("dstest.campaign.session_check", "dstest.runner.integrity"):
        monkeypatch.setattr(f"{module}.__version__", "99.0.0")
    assert session_check.reread(unconfirmed).exit_code == Exit.FAIL
    monkeypatch.setattr(session_check, "judge_session", lambda *_: _passed())
    with pytest.raises(EvidenceError, match="its arms give PASS-smoke"):
        session_check.reread(unconfirmed)


def _passed() -> SessionVerdict:
    return SessionVerdict(
        outcome="DONE", state=State.PASS_SMOKE, reason="", tier_wanted="smoke", tier_met="smoke",
        seeds_agreeing=2, sizes=[3], arms=[], exit_code=0,
    )  # fmt: skip


def test_an_arm_that_never_ran_owes_nothing(tmp_path: Path) -> None:
    (tmp_path / "arms" / "n3-s3" / "t").mkdir(parents=True)
    arm = ArmState(id="n3-s3", nodes=3, seed=3, attempts=["arms/n3-s3/t"], done=True)
    file = SessionFile(
        spec=SPEC,
        options_given=[],
        tier="smoke",
        attempts_max=1,
        arms=[arm],
        started="20261130T000000Z",
        confirm=1,
    )
    driver = _Driver(SessionDir(tmp_path), file, Progress(StringIO()), resolve, None)
    assert driver._owed(arm) is None


def verified(session: Path) -> int:
    return CliRunner().invoke(app, ["report", str(session)]).exit_code
