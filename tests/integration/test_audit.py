"""Servers that tell what they have applied, held against what clients know: with PostgreSQL. With
etcd: tests/integration/test_nemesis_storage.py."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from busy import assert_passed
from runs import RATE

from dstest.core.errors import Exit
from dstest.core.run_record import RunSpec
from dstest.runner.plugins import resolve
from dstest.runner.screen import Quiet
from dstest.runner.session import Finished, run_session

pytestmark = [pytest.mark.lab, pytest.mark.slow, pytest.mark.selftest, pytest.mark.timeout(400)]

LOST = "acknowledged-without-effect"


def run(lab_id: str, store: Path, fsync: str) -> Finished:
    wanted = RunSpec(
        system="postgresql", workload="register", nemesis="power", rate=RATE, time_limit_s=22.0,
        seed=11,
    )  # fmt: skip
    options = ["fault_s=5", "quiet_s=8", f"fsync={fsync}", "audit=true"]
    return run_session(resolve(wanted, options), store=store, lab_id=lab_id, ui=Quiet())


def test_commits_that_a_power_cut_takes(lab_for: Callable[[str], str], tmp_path: Path) -> None:
    done = run(lab_for("postgresql"), tmp_path, "off")
    assert done.exit_code == Exit.FAIL
    assert done.verdict is not None
    assert done.verdict.checkers["server-effects"]["anomaly_types"] == [LOST]


def test_commits_that_are_on_the_disk(lab_for: Callable[[str], str], tmp_path: Path) -> None:
    done = run(lab_for("postgresql"), tmp_path, "on")
    assert_passed(done)
    effects = json.loads((done.path / "effects.json").read_text())
    assert effects["whole"] and effects["pairing"]["effects"] > 500
