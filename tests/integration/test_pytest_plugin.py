"""A project outside the tree whose tests run dstest: a lab of their own, a pass, and no lab
is left."""

from __future__ import annotations

import importlib.metadata
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from clusters.labs import state

pytestmark = [pytest.mark.lab, pytest.mark.slow, pytest.mark.timeout(900)]

ROOT = Path(__file__).resolve().parents[2]
PYPROJECT = """\
[project]
name = "theirs"
version = "1"

[tool.pytest.ini_options]
addopts = "--strict-markers --strict-config"
"""
TEST = """\
import pytest

SHORT = dict(system="toykv", workload="register", nemesis="partition", nodes=5, time_limit_s=21,
             seed=1)
CUT = {"shape": "one", "direction": "both", "fault_s": 4, "quiet_s": 8}


@pytest.mark.dstest(**SHORT, options=CUT)
def test_it_keeps_its_promise(dstest_run):
    assert dstest_run.state == "PASS-smoke"
    assert dstest_run.faults and all(fault.landed == "yes" for fault in dstest_run.faults)
    assert len(dstest_run.history.ops) > 100
    assert dstest_run.report.is_file()
"""


def labs_of_the_plugin() -> set[str]:
    """Those of these tests have the name of their process of pytest-xdist in theirs."""
    return {lab for lab in state.lab_ids() if re.fullmatch(r"pytest-\d+", lab)}


def test_a_project_outside_the_tree(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text(PYPROJECT)
    (tmp_path / "test_theirs.py").write_text(TEST)
    before = labs_of_the_plugin()
    installed = importlib.metadata.entry_points(group="pytest11", name="dstest")
    plugin = () if installed else ("-p", "dstest.testing.plugin")
    done = subprocess.run(
        [sys.executable, "-P", "-m", "pytest", "-p", "no:cacheprovider", "-rA", *plugin],
        cwd=tmp_path, text=True, capture_output=True, timeout=850, check=False,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    text = done.stdout + done.stderr
    assert "1 passed" in text and "failed" not in text, text
    assert labs_of_the_plugin() == before
