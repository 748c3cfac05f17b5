"""Whose fault a violation on a real cluster is: etcd that serves stale reads has it itself."""

from __future__ import annotations

from pathlib import Path

import pytest
from runs import SHORT, run_here

from dstest.campaign.blame_runs import blame_run
from dstest.core.node import LabInfo
from dstest.history.layout import RunDir
from dstest.judge.blame import HOST_EVENTS, SWAP, aside_of
from dstest.runner.blame_probes import read_samples
from dstest.runner.screen import Quiet
from dstest.runner.session import Finished

pytestmark = [pytest.mark.lab, pytest.mark.slow, pytest.mark.timeout(900)]


def test_of_stale_reads_it_is_pending(stale_run: Finished) -> None:
    """Before anybody has made the runs that decide it."""
    done = stale_run
    assert done.verdict is not None
    assert done.verdict.verdict.failed, done.verdict.reason
    evidence = done.verdict.evidence
    assert {name for name, probe in evidence.probes.items() if probe.fired} <= {HOST_EVENTS}
    assert done.verdict.blame.startswith("unknown - pending: ")
    assert SWAP in done.verdict.blame
    # etcd documents sequential for these reads, which no checker here judges.
    assert "documented relaxation" in done.verdict.blame
    assert done.verdict.bug.severity.startswith("unclassified: "), done.verdict.bug


@pytest.mark.selftest
def test_stale_reads_are_the_systems(lab: LabInfo, stale_run: Finished) -> None:
    done = stale_run
    found = blame_run(done.path, 1, lab_id=lab.lab_id, ui=Quiet())
    assert found.probes[SWAP].fired is False, found
    if HOST_EVENTS in (found.blame or ""):  # as it must while others keep this host busy
        assert str(found.blame).startswith("unknown - pending: "), found
        return
    assert found.blame == "unknown - pending: documented relaxation", found
    assert "- Blame: unknown" in (aside_of(done.path) / "findings.md").read_text()


@pytest.mark.selftest
def test_the_second_client_does_what_the_first_does(lab: LabInfo, tmp_path: Path) -> None:
    done = run_here(lab, tmp_path, options=(*SHORT, "client=raw"), workload="cas-register")
    evidence = done.verdict.evidence
    assert evidence.checker.result == "clean", evidence.checker.why
    assert all(row.landed == "yes" for row in evidence.faults)
    samples = read_samples(RunDir(done.path))
    assert len(samples) > 15, "a sample a second"
