"""Members that join, leave and come back on empty disks: their logs, held to the specification."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from dstest.cli.app import app
from dstest.core.errors import Exit

pytestmark = pytest.mark.slow


@pytest.mark.timeout(600)  # on a busy host
def test_a_run_in_which_members_are_replaced_is_accepted_whole(tmp_path: Path) -> None:
    """A server that joins has no entry, and is sent all from the first on."""
    words = ["run", "--lab", "sim", "--system", "toykv", "--workload", "set", "--nodes", "3"]
    words += ["--nemesis", "membership", "--seed", "1", "--time-limit", "20", "--rate", "20"]
    CliRunner().invoke(app, [*words, "--store", str(tmp_path)])
    (run,) = tmp_path.glob("toykv-set-membership/*")
    journals = [path.read_text() for path in run.glob("nodes/*/protocol.jsonl")]
    assert '"first":1,"rows":[]' in "".join(journals).replace(" ", ""), "nobody has joined"
    done = CliRunner().invoke(app, ["spec", "conform", "raft", str(run)])
    assert done.exit_code == Exit.PASS, done.output[:500]
    assert done.output.startswith("accept: ")
