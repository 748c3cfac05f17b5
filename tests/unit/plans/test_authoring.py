"""Author mode: only what the plan declares, never over what is there, never unasked."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from dstest.core.errors import ConfigError
from dstest.plans.authoring import MODE, author
from dstest.plans.model import Plan
from dstest.plans.reader import read_plan

pytestmark = pytest.mark.slow

ETCD = Path(__file__).resolve().parents[3] / "docs" / "plans" / "etcd.md"


@pytest.fixture
def plan(tmp_path: Path) -> Plan:
    path = tmp_path / "etcd.md"
    shutil.copy(ETCD, path)
    return read_plan(path)


def test_nothing_is_written_unasked(
    plan: Plan, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(MODE, raising=False)
    with pytest.raises(ConfigError, match="author mode is off"):
        author(plan, tmp_path / "repo", beside=False)
    assert not (tmp_path / "repo").exists()


def test_skeletons_are_written_with_their_origin(
    plan: Plan, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(MODE, "1")
    repo = tmp_path / "repo"
    rows = author(plan, repo, beside=False)
    assert [row.scenario for row in rows] == [one.id for one in plan.scenarios]
    for row in rows:
        assert row.what == "written"
        assert row.path.is_relative_to(repo)
        text = row.path.read_text()
        assert plan.sha256 in text
        assert f"scenario {row.scenario}" in text
    again = author(plan, repo, beside=False)
    assert {row.what for row in again} == {"skipped"}
    before = rows[0].path.read_text()
    beside = author(plan, repo, beside=True)
    assert {row.what for row in beside} == {"beside"}
    assert beside[0].path.name.endswith(".py.new")
    assert rows[0].path.read_text() == before


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("tests/auto/", "tests/auto/../../../", "lies outside"),
        ("tests/auto/", "tests/", "is in no directory `auto`"),
        ("import subprocess", "import (subprocess", "is no Python"),
    ],
)
def test_what_is_refused_writes_nothing(
    old: str, new: str, said: str, plan: Plan, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(MODE, "1")
    path = Path(plan.path)
    assert old in path.read_text()
    path.write_text(path.read_text().replace(old, new))
    with pytest.raises(ConfigError, match=said):
        author(read_plan(path), tmp_path / "repo", beside=False)
    assert not (tmp_path / "repo").exists()
