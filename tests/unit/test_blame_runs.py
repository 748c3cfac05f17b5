"""`dstest blame`: what runs that were made to find out come to, without a lab."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest
from made_runs import another, recorded, registers
from test_blame_causes import judged, sampled, stale, throttled

from dstest.campaign import blame_runs
from dstest.campaign.blame_runs import blame_run
from dstest.core.errors import ConfigError, EvidenceError, Exit
from dstest.core.evidence import BlameProbe
from dstest.core.run_record import RunSpec
from dstest.history.layout import RunDir
from dstest.judge.blame import (
    PROBES_FILE,
    QUIET,
    SWAP,
    Again,
    Asked,
    aside_of,
    enough,
    probes_of,
    read_blame,
)
from dstest.runner.judgement import judge
from dstest.runner.plugins import Plugins, resolve
from dstest.runner.session import Finished
from dstest.store.inventory import walk
from dstest.store.verify import check_asides

pytestmark = pytest.mark.slow


def runs(kind: Asked, *seen: bool | None, disturbed: str = "") -> list[Again]:
    """Runs that showed the violation or not; None = one that was not judged."""
    return [
        Again(
            kind=kind, path=f"{kind}/{n}", judged=one is not None,
            fingerprint="x" if one else None, disturbed=disturbed,
        )
        for n, one in enumerate(seen)
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("made", "swap", "quiet"),
    [
        ([], None, None),
        ([*runs("again", True, True, True), *runs("swap", True)], False, False),
        ([*runs("again", True, True, True), *runs("swap", False, False, False)], True, False),
        # What does not come again at all is not gone because of the second client.
        ([*runs("again", False, False, False), *runs("swap", False, False, False)], None, None),
        # Nor because of the host, as long as few runs say so.
        ([*runs("again", *[False] * 8)], None, None),
        ([*runs("again", *[False] * 9)], None, True),
        (
            [*runs("again", True, disturbed="steal"), *runs("again", False, False, False)],
            None,
            None,
        ),
        # It comes in every third run: three without it are too few.
        ([*runs("again", True, False, False), *runs("swap", False, False, False)], None, False),
        ([*runs("again", True, False, False), *runs("swap", *[False] * 8)], True, False),
        ([*runs("again", False, False, disturbed="swap"), *runs("swap", True)], False, None),
        ([*runs("again", None, None, None), *runs("swap", None)], None, None),
    ],
)
def test_what_runs_show(made: list[Again], swap: bool | None, quiet: bool | None) -> None:
    found = probes_of(made, "x", 3, {})
    assert (found[SWAP].fired, found[QUIET].fired) == (swap, quiet), found


def test_why_there_was_no_run_is_said() -> None:
    found = probes_of([], "x", 3, {"swap": "etcd has no second lock client"})
    assert found[SWAP] == BlameProbe(said="etcd has no second lock client")


@pytest.mark.parametrize(("rate", "wanted"), [(1.0, 3), (0.5, 5), (0.1, 29)])
def test_rare_violations_take_more_runs(rate: float, wanted: int) -> None:
    assert enough(rate, 3) == wanted


class Lab:
    """Stands in for `run_session`: a run that shows the violation, or one that does not."""

    def __init__(self, bad: RunDir, good: RunDir, shows: dict[str, bool]) -> None:
        self.runs = {True: bad, False: good}
        self.shows = shows
        self.made: list[str] = []

    def __call__(self, plugins: Plugins, *, store: Path, **how: Any) -> Finished:
        self.made.append(plugins.spec.options["client"])
        nth = len(self.made)
        run, verdict = another(self.runs[self.shows[self.made[-1]]], store / f"run-{nth}", nth)
        return Finished(path=run.path, exit_code=1, verdict=verdict)


@pytest.fixture
def failed(tmp_path: Path) -> RunDir:
    run = recorded(tmp_path / "run", stale(registers(count=900)), "register")
    sampled(run)
    verdict = judged(run)
    run.write_sums()
    run.write_status(f"verdict: {verdict.verdict.value}")
    return run


def lab_of(tmp_path: Path, failed: RunDir, monkeypatch: pytest.MonkeyPatch, **shows: bool) -> Lab:
    good = recorded(tmp_path / "good", registers(count=900), "register")
    sampled(good)
    judge(good)
    lab = Lab(failed, good, shows)
    monkeypatch.setattr(blame_runs, "run_session", lab)
    # The schedule of a made run says less than one that was planned.
    monkeypatch.setattr(blame_runs, "read_schedule", lambda path: None)
    return lab


def test_what_the_second_client_sees_as_well_is_the_systems(
    tmp_path: Path, failed: RunDir, monkeypatch: pytest.MonkeyPatch
) -> None:
    sums = (failed.path / "sha256sums").read_bytes()
    lab = lab_of(tmp_path, failed, monkeypatch, own=True, raw=True)
    found = blame_run(failed.path, 3)
    assert found.blame == "SUT"
    assert lab.made == ["own", "own", "own", "raw"]
    assert (failed.path / "sha256sums").read_bytes() == sums
    text = (aside_of(failed.path) / "findings.md").read_text()
    assert "- Blame: SUT" in text
    assert "came again in 1 of 1 runs through the second client" in text
    assert blame_run(failed.path, 3).runs == found.runs, "nothing is made twice"


def test_what_the_second_client_does_not_see_is_ours(
    tmp_path: Path, failed: RunDir, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab = lab_of(tmp_path, failed, monkeypatch, own=True, raw=False)
    assert blame_run(failed.path, 2).blame == "harness"
    assert lab.made == ["own", "own", "raw", "raw"]


def test_what_does_not_come_again_leaves_the_blame_open(
    tmp_path: Path, failed: RunDir, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab_of(tmp_path, failed, monkeypatch, own=False, raw=False)
    assert blame_run(failed.path, 2).blame == f"unknown - pending: {SWAP}"


def test_what_is_gone_on_a_quiet_host_was_the_hosts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = recorded(tmp_path / "run", stale(registers(count=900)), "register")
    sampled(run, throttled)
    verdict = judged(run)
    run.write_sums()
    run.write_status(f"verdict: {verdict.verdict.value}")
    lab_of(tmp_path, run, monkeypatch, own=False, raw=False)
    assert blame_run(run.path, 2).blame == "environment"


def test_a_run_without_a_violation_has_nobody_to_blame(tmp_path: Path) -> None:
    run = recorded(tmp_path / "run", registers(count=900), "register")
    verdict, _ = judge(run)
    run.write_sums()
    run.write_status(f"verdict: {verdict.verdict.value}")
    with pytest.raises(ConfigError, match="no violation"):
        blame_run(run.path, 1)


def test_a_file_that_its_runs_contradict_is_not_believed(
    tmp_path: Path, failed: RunDir, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab_of(tmp_path, failed, monkeypatch, own=True, raw=False)
    blame_run(failed.path, 1)
    path = aside_of(failed.path) / PROBES_FILE
    kept = msgspec.json.decode(path.read_bytes())
    kept["runs"][-1]["fingerprint"] = kept["fingerprint"]
    path.write_bytes(msgspec.json.encode(kept))
    with pytest.raises(EvidenceError, match="something else"):
        read_blame(failed.path)
    [wrong] = check_asides(walk(failed.path.parent), ())
    assert wrong.path == aside_of(failed.path)
    assert "found something else" in wrong.what


@pytest.mark.parametrize("renamed", [False, True])
def test_a_copy_of_a_run_is_no_second_one(
    tmp_path: Path, failed: RunDir, monkeypatch: pytest.MonkeyPatch, renamed: bool
) -> None:
    lab_of(tmp_path, failed, monkeypatch, own=True, raw=False)
    blame_run(failed.path, 1)
    path = aside_of(failed.path) / PROBES_FILE
    kept = msgspec.json.decode(path.read_bytes())
    last = kept["runs"][-1]
    copy = {**last, "path": f"{last['path']}-7"}
    shutil.copytree(aside_of(failed.path) / last["path"], aside_of(failed.path) / copy["path"])
    if renamed:
        judge(RunDir(aside_of(failed.path) / copy["path"]))
    kept["runs"].append(copy)
    path.write_bytes(msgspec.json.encode(kept))
    with pytest.raises(EvidenceError, match="-7 is no run of its own"):
        read_blame(failed.path)


def test_a_file_about_another_run_is_not_believed(
    tmp_path: Path, failed: RunDir, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab_of(tmp_path, failed, monkeypatch, own=True, raw=True)
    blame_run(failed.path, 1)
    with (failed.path / "history.jsonl").open("a") as file:
        file.write("\n")
    with pytest.raises(EvidenceError, match="not about"):
        read_blame(failed.path)


def test_a_report_says_what_the_runs_came_to(
    tmp_path: Path, failed: RunDir, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab_of(tmp_path, failed, monkeypatch, own=True, raw=True)
    blame_run(failed.path, 1)
    argv = [sys.executable, "-m", "dstest", "report", str(failed.path)]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == Exit.FAIL, done.stderr
    assert f"blame       SUT, by the runs in {aside_of(failed.path)}" in done.stdout


def test_the_second_client_is_refused_where_there_is_none() -> None:
    with pytest.raises(ConfigError, match="no second lock client"):
        resolve(RunSpec(workload="lock", nemesis="none"), ["client=raw"])
    assert resolve(RunSpec(nemesis="none"), ["client=raw"]).spec.options["client"] == "raw"
