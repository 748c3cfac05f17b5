"""`dstest shrink` from a failing run to `reproducer.json` and `repro.sh`, without a lab."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest
from made_runs import another, recorded, registers
from shrink.planted import Planted, has
from test_blame_causes import judged, sampled, stale
from typer.testing import CliRunner

from dstest import __version__
from dstest.campaign.shrink import original
from dstest.campaign.shrink import runs as cluster_runs
from dstest.campaign.shrink.candidate import HISTORY, PROGRESS, Attempt, Candidate, alone, aside_of
from dstest.campaign.shrink.driver import shrink_run
from dstest.campaign.shrink.original import script_of
from dstest.campaign.shrink.runs import ClusterRuns, candidate_of
from dstest.cli.app import app
from dstest.core.errors import ConfigError, EvidenceError, Exit
from dstest.core.reproducer import REPRODUCER, SCRIPT, Reproducer
from dstest.history.jsonl import read_history
from dstest.history.layout import RunDir
from dstest.judge.symptom import fingerprints_of
from dstest.runner.judgement import judge
from dstest.runner.plugins import Plugins, resolve
from dstest.runner.replay import spec_of
from dstest.runner.screen import Progress as Ui
from dstest.runner.session import Finished

pytestmark = pytest.mark.slow


def failed_at(path: Path) -> RunDir:
    run = recorded(path, stale(registers(count=900)), "register")
    sampled(run)
    verdict = judged(run)
    run.write_sums()
    run.write_status(f"verdict: {verdict.verdict.value}")
    return run


@pytest.fixture
def failed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RunDir:
    run = failed_at(tmp_path / "run")
    # The schedule of a made run says less than one that was planned.
    monkeypatch.setattr(original, "read_schedule", lambda path: None)
    return run


def shrunk(run: RunDir, runs: Planted, within_s: float = 600) -> Reproducer | None:
    return shrink_run(run.path, within_s=within_s, sure=5, runs=runs)


def test_what_is_left_behind(failed: RunDir) -> None:
    sums = (failed.path / "sha256sums").read_bytes()
    found = shrunk(failed, Planted(lambda c: float(has(c, "f1"))))
    assert found is not None
    aside = aside_of(failed.path)
    assert msgspec.json.decode((aside / REPRODUCER).read_bytes(), type=Reproducer) == found
    assert (failed.path / "sha256sums").read_bytes() == sums
    assert found.confirmed
    assert (found.after.events, found.after.kinds) == (2, ["partition"])
    assert (found.rate_after.runs, found.rate_after.came) == (5, 5)
    assert found.landed == 1
    assert found.command.startswith("dstest run --system etcd --workload register --schedule ")
    whole, part = found.history_ops
    assert part is not None
    assert part < whole / 10
    assert len(read_history(aside / HISTORY).ops) == part
    alone = CliRunner().invoke(app, ["check", str(aside / HISTORY)])
    assert alone.exit_code == Exit.FAIL, alone.output
    assert "nonlinearizable" in alone.output


def fake(
    tmp_path: Path, failed: RunDir, fingerprint: str, came: int, version: str = __version__
) -> dict[str, str]:
    """A dstest whose first runs show the violation, and the others do not."""
    program = tmp_path / "fake-dstest"
    program.write_text(
        f"""#!/bin/sh
[ "$1" = --version ] && {{ echo "{version}"; exit; }}
echo "$@" >> {tmp_path}/asked
for word in "$@"; do case $word in *schedule.json) test -s "$word" || exit 2;; esac; done
[ "$(wc -l < {tmp_path}/asked)" -le {came} ] || exit 3
echo '{{"fingerprints":["other/one","{fingerprint}"]}}'
exit 1
"""
    )
    program.chmod(0o755)
    return {**os.environ, "DSTEST": str(program)}


@pytest.mark.parametrize(("came", "code"), [(5, 0), (4, 0), (3, 1), (0, 1)])
def test_the_script_counts(failed: RunDir, tmp_path: Path, came: int, code: int) -> None:
    found = shrunk(failed, Planted(lambda c: float(has(c, "f1"))))
    assert found is not None
    env = fake(tmp_path, failed, found.fingerprint, came)
    script = aside_of(failed.path) / SCRIPT
    done = subprocess.run(
        ["sh", str(script)], env=env, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == code, done.stderr
    assert f"reproduced in {came} of 5 runs" in done.stdout
    assert ("with more runs" in done.stdout) == (came == 3)
    assert not done.stderr
    asked = (tmp_path / "asked").read_text().splitlines()
    assert all(" --seed 7 " in f" {line} " for line in asked)


def test_the_script_goes_on_after_a_run_that_could_not_be_made(
    failed: RunDir, tmp_path: Path
) -> None:
    found = shrunk(failed, Planted(lambda c: float(has(c, "f1"))))
    assert found is not None
    env = fake(tmp_path, failed, found.fingerprint, 3)
    program = Path(env["DSTEST"])
    program.write_text(program.read_text().replace("exit 3", "exit 4"))
    argv = ["sh", str(aside_of(failed.path) / SCRIPT)]
    done = subprocess.run(argv, env=env, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == Exit.HARNESS
    assert "reproduced in 3 of 5 runs" in done.stdout
    assert done.stderr.count("could not be made (exit 4)") == 2
    (tmp_path / "asked").unlink()
    program.write_text(program.read_text().replace("exit 4", "exit 2").replace("-le 3", "-le 0"))
    done = subprocess.run(argv, env=env, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == Exit.USAGE
    assert len((tmp_path / "asked").read_text().splitlines()) == 1


def test_the_script_says_that_it_is_of_another_version(failed: RunDir, tmp_path: Path) -> None:
    found = shrunk(failed, Planted(lambda c: float(has(c, "f1"))))
    assert found is not None
    env = fake(tmp_path, failed, found.fingerprint, 5, version="0.1.0")
    argv = ["sh", str(aside_of(failed.path) / SCRIPT), "1"]
    done = subprocess.run(argv, env=env, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0
    assert f"found by dstest {__version__}; this is 0.1.0" in done.stderr


def test_the_script_says_what_its_fault_is(failed: RunDir) -> None:
    assert shrunk(failed, Planted(lambda c: float(has(c, "f1")))) is not None
    text = (aside_of(failed.path) / SCRIPT).read_text()
    assert "# Its fault f1: partition, planned at " in text


def test_another_violation_is_not_taken_for_it(failed: RunDir, tmp_path: Path) -> None:
    found = shrunk(failed, Planted(lambda c: float(has(c, "f1"))))
    assert found is not None
    env = fake(tmp_path, failed, found.fingerprint.replace("linearizable/", "other/", 1), 5)
    argv = ["sh", str(aside_of(failed.path) / SCRIPT), "2"]
    done = subprocess.run(argv, env=env, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 1
    assert "reproduced in 0 of 2 runs" in done.stdout


@pytest.mark.parametrize("times", ["0", "-1", "08", "x", "1.5", " "])
def test_a_number_of_runs_that_is_none(failed: RunDir, tmp_path: Path, times: str) -> None:
    found = shrunk(failed, Planted(lambda c: float(has(c, "f1"))))
    assert found is not None
    env = fake(tmp_path, failed, found.fingerprint, 5)
    argv = ["sh", str(aside_of(failed.path) / SCRIPT), times]
    done = subprocess.run(argv, env=env, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 2
    assert not (tmp_path / "asked").exists()


def test_a_longer_name_is_another_violation(failed: RunDir, tmp_path: Path) -> None:
    found = shrunk(failed, Planted(lambda c: float(has(c, "f1"))))
    assert found is not None
    env = fake(tmp_path, failed, f"{found.fingerprint}-strict", 5)
    argv = ["sh", str(aside_of(failed.path) / SCRIPT), "2"]
    done = subprocess.run(argv, env=env, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 1, done.stdout


@pytest.mark.parametrize("lab", ["lxc", "sim"])
def test_what_a_reproducer_takes_is_said_by_its_lab(failed: RunDir, lab: str) -> None:
    found = shrunk(failed, Planted(lambda c: float(has(c, "f1"))))
    meta = failed.read_meta()
    assert found is not None and meta is not None
    start = candidate_of(resolve(spec_of(meta), []))
    text = script_of(found, msgspec.structs.replace(spec_of(meta), lab=lab), start, 20.0)
    on_nodes = ("and root: each run makes its own nodes", "Each run shows it by other operations")
    simulated = ("and no root", "the same simulation, byte for byte")
    assert all((words in text) == (lab != "sim") for words in on_nodes)
    assert all((words in text) == (lab == "sim") for words in simulated)
    assert ("--lab sim" in text) == (lab == "sim")


@pytest.mark.parametrize(
    "text", ["$(touch PWNED)", "`touch PWNED`", "a\ntouch PWNED\n", "';touch PWNED;'"]
)
def test_no_name_is_a_command(failed: RunDir, tmp_path: Path, text: str) -> None:
    found = shrunk(failed, Planted(lambda c: float(has(c, "f1"))))
    assert found is not None
    meta = failed.read_meta()
    assert meta is not None
    start = candidate_of(resolve(spec_of(meta), []))
    odd = msgspec.structs.replace(
        found,
        explanation=text,
        fingerprint=f"c/{text}/k/m",
        system_version=text,
        workload=text,
        builds=[f"/b{text}@0123456789abcdef"],
    )
    files = (f"/p/{text}.py".replace("\n", " "),)
    spec = msgspec.structs.replace(spec_of(meta), files=files, checkers=(text,))
    script = tmp_path / "odd.sh"
    script.write_text(script_of(odd, spec, start, 20.0))
    env = fake(tmp_path, failed, "other", 5)
    argv = ["sh", str(script), "1"]
    subprocess.run(argv, env=env, cwd=tmp_path, capture_output=True, timeout=60, check=False)
    assert not (tmp_path / "PWNED").exists()


def test_a_full_disk_is_not_remembered(failed: RunDir) -> None:
    class Full(Planted):
        def make(self, candidates: Sequence[Candidate]) -> list[Attempt]:
            return [Attempt(why_not="no space left") for _ in candidates]

    with pytest.raises(ConfigError, match="no space left"):
        shrunk(failed, Full(lambda c: 1.0))
    found = shrunk(failed, Planted(lambda c: float(has(c, "f1"))))
    assert found is not None
    assert found.confirmed


def test_what_does_not_come_again_has_no_reproducer(failed: RunDir) -> None:
    assert shrunk(failed, Planted(lambda c: 0.0)) is None
    assert not (aside_of(failed.path) / SCRIPT).exists()


def test_without_time_nothing_is_claimed(failed: RunDir) -> None:
    found = shrunk(failed, Planted(lambda c: 1.0), within_s=1e-6)
    assert found is not None
    assert not found.confirmed
    assert found.stopped
    assert found.rate_after.runs == 0
    assert not (aside_of(failed.path) / SCRIPT).exists()


def test_a_run_without_a_violation_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = recorded(tmp_path / "run", registers(count=900), "register")
    verdict, _ = judge(run)
    run.write_sums()
    run.write_status(f"verdict: {verdict.verdict.value}")
    with pytest.raises(ConfigError, match="no violation"):
        shrunk(run, Planted(lambda c: 1.0))


@pytest.mark.parametrize(
    ("within_s", "sure"), [(0.0, 5), (-1.0, 5), (float("nan"), 5), (float("inf"), 5), (60.0, 0)]
)
def test_numbers_that_are_none(failed: RunDir, within_s: float, sure: int) -> None:
    with pytest.raises(ConfigError, match="--within"):
        shrink_run(failed.path, within_s=within_s, sure=sure, runs=Planted(lambda c: 1.0))


def test_two_at_once(failed: RunDir) -> None:
    with alone(failed.path), pytest.raises(ConfigError, match="another process"):
        shrunk(failed, Planted(lambda c: 1.0))


def cluster(
    failed: RunDir, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, shows: bool
) -> tuple[ClusterRuns, list[Plugins]]:
    """Runs that go as one did that shows the violation, or as one that does not."""
    good = recorded(tmp_path / "good", registers(count=900), "register")
    sampled(good)
    judge(good)
    made: list[Plugins] = []

    def run_session(plugins: Plugins, *, store: Path, **how: Any) -> Finished:
        made.append(plugins)
        path = store / f"run-{len(made)}"
        run, verdict = another(failed if shows else good, path, len(made))
        return Finished(path=run.path, exit_code=1, verdict=verdict)

    monkeypatch.setattr(cluster_runs, "run_session", run_session)
    meta = failed.read_meta()
    assert meta is not None
    fingerprint = failed.read_json("verdict.json")["evidence"]["violation_fingerprint"]
    aside = aside_of(failed.path)
    aside.mkdir(exist_ok=True)
    return ClusterRuns(meta, fingerprint, aside, None, Ui()), made


@pytest.mark.parametrize("shows", [True, False])
def test_a_run_tells_whether_it_came(
    failed: RunDir, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, shows: bool
) -> None:
    runs, made = cluster(failed, tmp_path, monkeypatch, shows)
    meta = failed.read_meta()
    assert meta is not None
    start = candidate_of(resolve(spec_of(meta), []))
    [attempt] = runs.make([msgspec.structs.replace(start, concurrency=4, without=("read",))])
    assert (attempt.judged, attempt.came, attempt.landed) == (True, shows, 1)
    assert (made[0].spec.concurrency, made[0].spec.seed) == (4, 7)
    assert made[0].spec.options["without"] == "read"


def test_what_cannot_be_run_is_no_candidate(
    failed: RunDir, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs, _ = cluster(failed, tmp_path, monkeypatch, shows=True)
    meta = failed.read_meta()
    assert meta is not None
    start = candidate_of(resolve(spec_of(meta), []))
    assert runs.refused(start) == ""
    assert "leaves nodes" in runs.refused(msgspec.structs.replace(start, concurrency=1))
    assert "has no others" in runs.refused(
        msgspec.structs.replace(start, without=("read", "write"))
    )


def test_progress_that_its_runs_contradict_is_not_believed(
    failed: RunDir, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs, _ = cluster(failed, tmp_path, monkeypatch, shows=True)
    shrink_run(failed.path, within_s=600, sure=1, runs=runs)
    path = aside_of(failed.path) / PROGRESS
    kept = msgspec.json.decode(path.read_bytes())
    next(iter(kept["tried"].values()))["attempts"][0]["came"] = False
    path.write_bytes(msgspec.json.encode(kept))
    with pytest.raises(EvidenceError, match="something else"):
        shrink_run(failed.path, within_s=600, sure=1, runs=runs)


def test_a_violation_beside_another_is_seen(failed: RunDir) -> None:
    from dstest.core.check import Anomaly, CheckResult

    both = CheckResult(
        checker="c",
        valid=False,
        model="m",
        anomaly_types=["a", "b"],
        anomalies={"a": [Anomaly(type="a", key="r1")], "b": [Anomaly(type="b", key="r2")]},
    )
    assert fingerprints_of(both) == {"c/a/r#/m", "c/b/r#/m"}


def test_one_of_several_violations_is_chosen_by_its_kind(failed: RunDir) -> None:
    found = shrink_run(
        failed.path,
        within_s=600,
        sure=3,
        violation="nonlinearizable",
        runs=Planted(lambda c: float(has(c, "f1"))),
    )
    assert found is not None
    assert found.fingerprint.split("/")[1] == "nonlinearizable"
    with pytest.raises(ConfigError, match="no violation lost"):
        shrink_run(failed.path, within_s=600, sure=3, violation="lost", runs=Planted(lambda c: 0))
