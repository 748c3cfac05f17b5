"""The catalogue of published bugs: each command can be planned, and what is counted is the right
thing found, not any failure."""

from __future__ import annotations

import itertools
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest
from typer.testing import CliRunner

from dstest.cli.app import app
from dstest.core import registry
from dstest.core.errors import Exit
from dstest.core.spec import RunSpec
from dstest.findings import measure as measuring
from dstest.findings.catalogue import CATALOGUE, by_id
from dstest.findings.entries.finding import Finding
from dstest.findings.measure import (
    Ended,
    Measured,
    Trial,
    as_expected,
    interval,
    measure,
    with_trial,
)
from dstest.findings.page import markdown
from dstest.runner.plugins import resolve

LOST = Finding(
    id="L", claim="c", source="s", command=("run", "--system", "etcd"), expect=1,
    anomalies=("lost",),
)  # fmt: skip


def flags(words: Sequence[str]) -> dict[str, str]:
    pairs = itertools.pairwise(words)
    return {flag.removeprefix("--"): value for flag, value in pairs if flag.startswith("--")}


@pytest.mark.parametrize("finding", CATALOGUE, ids=lambda finding: finding.id)
def test_each_command_can_be_planned(finding: Finding) -> None:
    given = flags(finding.command)
    options = [v for k, v in itertools.pairwise(finding.command) if k == "-o"]
    spec = RunSpec(
        system=given["system"], workload=given["workload"], nemesis=given["nemesis"],
        model=given.get("model"), time_limit_s=float(given.get("time-limit", 60)),
    )  # fmt: skip
    plugins = resolve(spec, options)
    known = {m for c in plugins.checkers for m in registry.load("checkers", c.name).models}
    assert plugins.model in known


@pytest.mark.parametrize("finding", CATALOGUE, ids=lambda finding: finding.id)
def test_each_finding_has_its_control(finding: Finding) -> None:
    if finding.expect:
        assert finding.anomalies, "any failure would count"
        control = by_id(finding.control)
        assert control is not None
        assert control.expect == 0
    else:
        assert not finding.anomalies


def test_ids_are_unique() -> None:
    assert len({finding.id for finding in CATALOGUE}) == len(CATALOGUE)


@pytest.mark.parametrize(
    ("code", "anomalies", "good"),
    [
        (1, ["lost"], True),
        (1, ["stale"], False),
        (1, [], False),
        (0, ["lost"], False),
        (3, [], False),
    ],
)
def test_a_failure_of_another_kind_is_none(code: int, anomalies: list[str], good: bool) -> None:
    trial = Trial(seed=1, exit=code, verdict="", anomalies=anomalies)
    assert as_expected(LOST, trial) is good


def test_an_interval_holds_its_share() -> None:
    assert interval(0, 0) == (0, 0, 0.0, 1.0)
    for total in (1, 10, 20):
        for hits in range(total + 1):
            rate = interval(hits, total)
            assert 0 <= rate.low <= hits / total <= rate.high <= 1
    ten = interval(10, 10)
    assert (round(ten.low, 3), ten.high) == (0.722, 1.0)


def ended(words: Sequence[str]) -> Ended:
    """Seed 2 finds nothing, seed 3 dies."""
    seed = int(flags(words)["seed"])
    if seed == 3:
        return Ended(4, {}, {})
    found: list[str] = ["lost"] if seed == 1 else []
    said: dict[str, Any] = {
        "verdict": {"verdict": "FAIL", "checkers": {"set": {"anomaly_types": found}}}
    }
    return Ended(1 if found else 0, said, {"load_s": 7.5, "system_version": "1.2"})


@pytest.fixture
def lost() -> Finding:
    entry = by_id("R1")
    assert entry is not None
    return entry


def measured(entry: Finding, seeds: Sequence[int]) -> list[Measured]:
    known: list[Measured] = []
    for trial in measure(entry, seeds, Path("store"), None, ended):
        known = with_trial(known, entry, trial)
    return known


def test_a_page_is_made_of_measurements(lost: Finding) -> None:
    known = measured(lost, (1, 2, 3))
    assert [trial.exit for trial in known[0].trials] == [1, 0, 4]
    page = markdown(msgspec.json.decode(msgspec.json.encode(known), type=list[Measured]))
    (line,) = [line for line in page.splitlines() if line.startswith("| R1 (finding)")]
    assert "1 of 3 (6% to 79%)" in line
    assert "| 8 s | 1.2 | lost |" in line
    assert page.count("not measured") == len(CATALOGUE) - 1


def test_trials_of_another_command_do_not_count(lost: Finding) -> None:
    older = msgspec.structs.replace(lost, command=(*lost.command, "-o", "rate=10"))
    assert markdown(measured(older, (1, 2))).count("not measured") == len(CATALOGUE)


def test_a_seed_counts_once(lost: Finding) -> None:
    (row,) = measured(lost, (3, 1, 2, 1))
    assert [trial.seed for trial in row.trials] == [1, 2, 3]


def test_what_is_measured_is_kept_and_not_run_again(
    lost: Finding, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[int] = []

    def run(words: Sequence[str]) -> Ended:
        asked.append(int(flags(words)["seed"]))
        if asked[-1] == 3 and asked.count(3) == 1:
            raise KeyboardInterrupt
        return ended(words)

    monkeypatch.setattr(measuring.measure, "__defaults__", (run,))
    results = tmp_path / "results.json"
    words = ["findings", "R1", "--seeds", "3", "--results", str(results)]
    CliRunner().invoke(app, words)
    assert asked == [1, 2, 3]
    done = CliRunner().invoke(app, words)
    assert asked == [1, 2, 3, 3]
    assert done.exit_code == Exit.NOT_PROVEN, "seeds 2 and 3 did not fail"
    (row,) = msgspec.json.decode(results.read_bytes(), type=list[Measured])
    assert [trial.seed for trial in row.trials] == [1, 2, 3]


def test_a_run_without_end_is_no_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    def slow(argv: Sequence[str], **_: object) -> None:
        raise subprocess.TimeoutExpired(argv, 1)

    monkeypatch.setattr(subprocess, "run", slow)
    assert measuring.by_command(["run"]).exit == Exit.HARNESS


def test_the_array_for_programs() -> None:
    done = CliRunner().invoke(app, ["findings", "--json"])
    rows = msgspec.json.decode(done.stdout)
    assert [row["id"] for row in rows] == [finding.id for finding in CATALOGUE]
    assert {"id", "command", "expect", "anomalies"} <= rows[0].keys()


def test_a_wrong_name_is_refused() -> None:
    done = CliRunner().invoke(app, ["findings", "X9"])
    assert done.exception is not None
    assert "no finding is called 'X9'" in str(done.exception)
