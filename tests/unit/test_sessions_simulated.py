"""Sessions whose nodes are simulated are believed as far as any other, also where they were asked
for no rate: a simulation has one of its own, which its runs record."""

from __future__ import annotations

import shutil
from pathlib import Path

import msgspec
import pytest
from gate_store import resealed, sealed
from real_run import change_facts
from touched_runs import dstest

from dstest.core.errors import Exit
from dstest.history.layout import RunDir
from dstest.runner.session_file import SessionDir

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

WORDS = ("--lab", "sim", "--system", "toykv", "--workload", "register", "--nemesis", "partition")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The store of a session of two seeds without --rate."""
    store = tmp_path_factory.mktemp("session") / "store"
    words = (*WORDS, "--time-limit", 20, "--seed", 21, "--seeds", 2, "--store", store)
    code, said = dstest("run", *words)
    assert code == Exit.PASS, said
    return store


@pytest.fixture
def session(made: Path, tmp_path: Path) -> SessionDir:
    store = Path(shutil.copytree(made, tmp_path / "store", symlinks=True))
    (found,) = store.glob("*-session/*")
    return SessionDir.open(found)


def test_a_session_without_a_rate_is_believed(session: SessionDir) -> None:
    assert session.read().spec.rate is None
    code, said = dstest("report", session.path)
    assert code == Exit.PASS, said
    code, said = dstest("store", "verify", session.path.parents[1], "--verdicts")
    assert code == Exit.PASS, said


@pytest.mark.parametrize("rate", [50.0, None])
def test_a_run_at_another_rate_is_none_of_it(session: SessionDir, rate: float | None) -> None:
    file = session.read()
    run = RunDir.open(session.path / file.arms[0].attempts[0])
    change_facts(run, spec={**run.read_json("run.json")["spec"], "rate": rate})
    sealed(run)
    resealed(session, file)
    code, said = dstest("report", session.path)
    assert code == Exit.NOT_PROVEN and "another arm or session: rate" in said, said


def test_a_session_that_says_another_rate_has_none_of_its_runs(session: SessionDir) -> None:
    file = session.read()
    file.spec = msgspec.structs.replace(file.spec, rate=50.0)
    resealed(session, file)
    code, said = dstest("report", session.path)
    assert code == Exit.NOT_PROVEN and "another arm or session: rate" in said, said
