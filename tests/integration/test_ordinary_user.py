"""Who is not root can look and judge, and writes nothing but what he names."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from ordinary_user import User, ordinary_user
from runs import CALM, dstest, latest

from dstest.core.errors import Exit
from dstest.core.node import LabInfo

pytestmark = [
    pytest.mark.lab,
    pytest.mark.skipif(os.geteuid() != 0, reason="making a user needs root"),
    pytest.mark.timeout(200),
]


@pytest.fixture(scope="module")
def user() -> Iterator[User]:
    with ordinary_user() as made:
        yield made


@pytest.fixture(scope="module", autouse=True)
def _nothing_outside(user: User) -> Iterator[None]:
    before = set(user.files())
    yield
    assert set(user.files()) <= before


@pytest.mark.parametrize(
    "words", ["--help", "list --capabilities", "nemeses", "findings", "lab list"]
)
def test_looking_needs_no_root(user: User, words: str) -> None:
    done = user.dstest(*words.split())
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout or words == "lab list"
    assert sorted(p.name for p in user.home.iterdir() if p.name[0] != ".") == []


def test_the_doctor_says_what_works_without_root(user: User) -> None:
    """All is well where `rootless` is; labs of root are named, and not tried."""
    done = user.dstest("doctor", "--json")
    assert "Traceback" not in done.stderr
    rows = {row["name"]: row for row in json.loads(done.stdout)}
    assert not rows["root"]["ok"]
    assert "podman" in rows["root"]["detail"]
    assert "podman" not in rows
    well = all(row["ok"] or row["optional"] for row in rows.values())
    assert done.returncode == (0 if well else Exit.HARNESS), done.stderr


def test_a_history_is_made_and_judged(user: User) -> None:
    made = user.dstest("generate", "-o", "h.jsonl")
    assert made.returncode == 0, made.stderr
    assert user.dstest("check", "h.jsonl").returncode == 0
    (user.home / "h.jsonl").chmod(0o444)
    os.chown(user.home / "h.jsonl", 0, 0)
    assert user.dstest("check", "h.jsonl").returncode == 0
    (user.home / "h.jsonl").unlink()


def test_a_run_of_root_is_reported_where_it_may_be_read(
    user: User, lab: LabInfo, tmp_path: Path
) -> None:
    """A copy of it is judged again and its report written; the run itself stays as it is."""
    words = ("--lab-id", lab.lab_id, "--nemesis", "none", "--time-limit", "5")
    assert dstest(*CALM, *words, "--store", tmp_path).returncode in (Exit.PASS, Exit.NOT_PROVEN)
    copy = user.home / "run"
    user.give(latest(tmp_path), copy)
    said = user.dstest("report", copy)
    assert "Traceback" not in said.stderr
    assert said.returncode in (Exit.PASS, Exit.NOT_PROVEN), said.stderr
    assert (copy / "report.html").stat().st_uid == user.uid
    assert user.dstest("list", "--runs", "--store", user.home).returncode == 0


def test_labs_of_root_are_refused_with_the_reason(user: User) -> None:
    for kind in ("lxc", "podman"):
        done = user.dstest("run", "--lab", kind, "--store", user.home / "s", timeout_s=60)
        assert done.returncode == Exit.HARNESS, done.stderr
        assert "root" in done.stderr
        assert "Traceback" not in done.stderr
