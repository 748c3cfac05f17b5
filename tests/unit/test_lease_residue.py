"""Leases that a dead run has left are told with what they will do."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

from clusters.remote.bundle import RUN_PATH
from clusters.remote.connection import LEASES
from dstest.cli.lab import LabLook, text_of
from dstest.core.node import LabInfo, NodeInfo
from dstest.core.residue import Leftover, leftovers_of


def armed(run: Path, lease_id: str, heal: list[list[str]], state: str = "leases") -> None:
    folder = run / state / lease_id
    folder.mkdir(parents=True)
    lease = {"heal": heal, "step_s": 10.0, "ttl_s": 10.0, "armed_ns": 1}
    (folder / "lease.json").write_text(json.dumps(lease))


def found_in(run: Path) -> list[str]:
    look = LEASES.look.replace(str(RUN_PATH), str(run))
    done = subprocess.run(["sh", "-c", look], capture_output=True, text=True, check=False)
    return [one.what for one in leftovers_of(LEASES, done.stdout.splitlines())]


def test_the_lease_of_a_fault_says_what_it_will_run(tmp_path: Path) -> None:
    armed(tmp_path, "f1", [["nft", "delete", "table", "inet", "dstest_fault"]])
    armed(tmp_path, "f2", [["sh", "-c", 'kill "$1"\nwait'], ["true"]], "firing")
    armed(tmp_path, "f3", [["echo", "x" * 500]])
    armed(tmp_path, "run", [["sh", "-c", "sweep"]])
    first, second, third, run = sorted(found_in(tmp_path))
    assert first == "lease f1, which runs: nft delete table inet dstest_fault"
    assert second.startswith("lease f2, which runs: sh -c kill")
    assert third.startswith("lease f3, which runs: echo xxx")
    assert len(third) < 160
    assert run == "lease run", "by this name the leak audit knows it"


def test_a_lease_that_ends_meanwhile_is_told_by_name(tmp_path: Path) -> None:
    (tmp_path / "leases" / "f1").mkdir(parents=True)
    assert found_in(tmp_path) == ["lease f1"]
    assert found_in(tmp_path / "absent") == []


def test_the_lease_of_a_run_says_what_it_is_for() -> None:
    node = NodeInfo(name="n1", address="10.0.0.1")
    info = LabInfo(lab_id="x", kind="lxc", nodes=[node], control="10.0.0.9")
    look = LabLook(
        lab_id="x", kind="lxc", state="running", lacks=[], lab=info,
        used_by=[], left={"n1": [Leftover(residue="leases", what="lease run", ours=True)]},
        not_looked=None,
    )  # fmt: skip
    assert any(
        "n1: lease run, which takes away what the run has laid" in line for line in text_of(look)
    )
