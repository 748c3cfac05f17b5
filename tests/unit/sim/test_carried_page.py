"""What docs/simulation.md says of toykv's bugs on nodes is docs/carried.json, row by row."""

from __future__ import annotations

import io
import json
import shlex
import sys
from pathlib import Path
from typing import Any

import pytest

from clusters.systems.toykv.bugs import BUGS
from clusters.systems.toykv.simulated import SIMULATED
from dstest.core.errors import Exit
from dstest.core.run_record import RunSpec
from dstest.judge.symptom import all_fingerprints
from dstest.runner.plugins import resolve
from dstest.runner.screen import Progress
from dstest.runner.session import run_session
from dstest.runner.simulated_run import simulated_version

pytestmark = pytest.mark.slow

DOCS = Path(__file__).resolve().parents[3] / "docs"
CARRIED: dict[str, Any] = json.loads((DOCS / "carried.json").read_bytes())
ROWS: list[dict[str, Any]] = CARRIED["rows"]


def line(row: dict[str, Any]) -> str:
    """As the page has it."""
    there, here = row["simulated"], row["on_nodes"]
    came = "the same" if here["again"] else "; ".join(here["fingerprints"]) or "none"
    cells = [f"`{row['bug']}`", str(there["seed"]), f"`{there['wanted']}`", here["verdict"]]
    faults = f"{here['faults_landed']} of {here['faults_planned']}"
    return "| " + " | ".join([*cells, came, faults, f"{here['operations']:,}"]) + " |"


def test_each_bug_has_its_row() -> None:
    assert [row["bug"] for row in ROWS] == list(BUGS)
    page = (DOCS / "simulation.md").read_text()
    assert [line(row) for row in ROWS if line(row) not in page] == []
    again = sum(bool(row["on_nodes"]["again"]) for row in ROWS)
    assert f"{again} of {len(ROWS)}" in page


def test_the_simulations_are_of_the_servers_as_they_are_now() -> None:
    """Where this fails the commands of `simulated` are to be run again, each digest twice."""
    assert CARRIED["system_version"] == simulated_version(SIMULATED)
    page = " ".join((DOCS / "simulation.md").read_text().split())
    assert CARRIED["system_version"] in page
    if CARRIED["on_nodes_version"] != CARRIED["system_version"]:
        assert f"the build before, `{CARRIED['on_nodes_version']}`, the nodes ran" in page


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row["bug"])
def test_a_row_is_what_was_run(row: dict[str, Any]) -> None:
    there, here = row["simulated"], row["on_nodes"]
    words = shlex.split(there["command"])
    assert words[:2] == ["dstest", "run"] and words[words.index("--lab") + 1] == "sim"
    assert f"bug={row['bug']}" in words and str(there["seed"]) in words
    assert there["replayed_digest"] == there["digest"]
    assert there["wanted"] in there["fingerprints"]
    assert bool(here["again"]) == (there["wanted"] in here["fingerprints"])
    assert here["transport"] == "network" and here["faults_landed"] <= here["faults_planned"]


def test_a_seed_is_found_again_as_it_stands_there(tmp_path: Path) -> None:
    row = next(row for row in ROWS if row["bug"] == "sequence-reuse")["simulated"]
    bug = BUGS["sequence-reuse"]
    spec = RunSpec(
        system="toykv",
        lab="sim",
        workload=bug.workload,
        nemesis=bug.nemesis,
        time_limit_s=bug.time_limit_s,
        seed=row["seed"],
    )
    plugins = resolve(spec, [f"bug={bug.name}", *bug.options])
    done = run_session(plugins, store=tmp_path, ui=Progress(io.StringIO()))
    assert done.exit_code == Exit.FAIL
    assert all_fingerprints(done.verdict) == row["fingerprints"]
    if sys.version != CARRIED["python"]:
        pytest.skip(f"digests are those of Python {CARRIED['python']}")
    meta = json.loads((done.path / "run.json").read_bytes())
    assert meta["digest"] == row["digest"]
