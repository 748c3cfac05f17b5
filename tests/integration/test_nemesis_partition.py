"""partition in its shapes on a real etcd: each one lands, is proven on both sides and healed."""

from __future__ import annotations

from pathlib import Path

import pytest
from runs import SHORT, faults_of, run_here

from dstest.core.errors import Exit
from dstest.core.node import LabInfo

pytestmark = [pytest.mark.lab, pytest.mark.slow, pytest.mark.timeout(300)]


@pytest.mark.parametrize(
    ("shape", "direction"),
    [("halves", "both"), ("one", "in"), ("one", "both"), ("majority", "both"), ("leader", "both")],
)
def test_it_lands_and_heals(lab: LabInfo, tmp_path: Path, shape: str, direction: str) -> None:
    options = (*SHORT, f"shape={shape}", f"direction={direction}")
    done = run_here(lab, tmp_path, options=options)
    (fault,) = faults_of(done.path)
    assert done.exit_code == Exit.PASS, (done.verdict.reason, fault)
    assert (fault["landed"], fault["heal_verified"]) == ("yes", True)
    assert all(fault["injector"]["during"].values())
    assert not any(n for pair in fault["victim"]["during"].values() for n in pair)
