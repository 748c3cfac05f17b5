"""A failing run on a real cluster made small: the fault that nobody needs goes, the other stays."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from runs import RATE, SHORT

from clusters.systems.toykv.bugs import BUGS
from dstest.campaign.shrink.candidate import aside_of
from dstest.campaign.shrink.driver import shrink_run
from dstest.campaign.shrink.reproducer import read_reproducer
from dstest.core.node import LabInfo
from dstest.core.reproducer import SCRIPT
from dstest.core.run_record import RunSpec
from dstest.runner.plugins import resolve
from dstest.runner.screen import Quiet
from dstest.runner.session import run_session

pytestmark = [pytest.mark.lab, pytest.mark.selftest, pytest.mark.timeout(1500)]

BUG = BUGS["sequence-reuse"]
"""A leader that was killed leaves a block of ids that the next one gives out again."""

FEW_MS = ("delay_ms=20", "jitter_ms=0")
"""A latency that costs nobody the lead, so that it is not needed."""


def test_a_fault_that_is_not_needed_goes(lab: LabInfo, tmp_path: Path) -> None:
    wanted = RunSpec(
        system="toykv", workload=BUG.workload, nemesis="latency,kill",
        time_limit_s=33.0, seed=11, rate=RATE,
    )  # fmt: skip
    options = [*SHORT, *FEW_MS, *BUG.options, f"bug={BUG.name}"]
    plugins = resolve(wanted, options)
    done = run_session(plugins, store=tmp_path, lab_id=lab.lab_id, ui=Quiet())
    assert done.verdict.verdict.failed, done.verdict.reason
    found = shrink_run(done.path, within_s=240, sure=2, lab_id=lab.lab_id, ui=Quiet())
    assert found is not None
    assert (found.before.kinds, found.after.kinds) == (["kill", "latency"], ["kill"])
    assert found.rate_after.came >= 1, found
    assert read_reproducer(done.path, done.verdict) == found
    whole, part = found.history_ops
    assert part is not None
    assert part < whole / 100
    if found.confirmed:
        env = {**os.environ, "DSTEST": _program(tmp_path)}
        argv = ["sh", str(aside_of(done.path) / SCRIPT), "1"]
        shown = subprocess.run(argv, env=env, capture_output=True, text=True, check=False)
        assert "reproduced in " in shown.stdout, shown.stderr


def _program(tmp_path: Path) -> str:
    """`dstest` as it is here."""
    program = tmp_path / "dstest"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m dstest "$@"\n')
    program.chmod(0o755)
    return str(program)
