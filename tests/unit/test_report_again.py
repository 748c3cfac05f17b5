"""A run directory is drawn again, or refused."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest
import typer
from made_meta import meta
from made_report import SPEC, record, report
from typer.testing import CliRunner

from dstest.cli.report import report as report_command
from dstest.core.errors import ConfigError
from dstest.history.jsonl import write_history
from dstest.report.model import load_report
from dstest.report.write import render, summary, write_reports


@pytest.fixture
def run_dir(tmp_path: Path) -> Path:
    made = report(fail=True)
    write_history(tmp_path / "history.jsonl", made.history)
    records = [record(i) for i in range(2)]
    faults = b"".join(msgspec.json.encode(r) + b"\n" for r in records)
    (tmp_path / "faults.jsonl").write_bytes(faults)
    (tmp_path / "run.json").write_bytes(msgspec.json.encode(meta(spec=SPEC).plain))
    (tmp_path / "verdict.json").write_bytes(msgspec.json.encode(made.verdict))
    write_reports(tmp_path, made.verdict, records, made.history, meta(spec=SPEC))
    return tmp_path


pytestmark = pytest.mark.drawn
FILES = ("report.html", "findings.md", "junit.xml", "plots/latency.svg", "plots/rate.svg")


def test_a_run_directory_is_drawn_again(run_dir: Path) -> None:
    before = {name: (run_dir / name).read_bytes() for name in FILES}
    for name in FILES:
        (run_dir / name).unlink()
    assert sorted(render(run_dir, load_report(run_dir))) == sorted(FILES)
    assert render(run_dir, load_report(run_dir)) == [], "what is there already is left alone"
    assert {name: (run_dir / name).read_bytes() for name in FILES} == before
    assert "stale-read" in summary(run_dir)
    assert not list(run_dir.rglob("*.partial"))


def test_what_nobody_summed_up_is_no_run_to_report(run_dir: Path) -> None:
    app = typer.Typer()
    app.command()(report_command)
    done = CliRunner().invoke(app, [str(run_dir)])
    assert isinstance(done.exception, ConfigError)


def test_a_directory_that_was_never_judged_says_so(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"no verdict\.json"):
        load_report(tmp_path)


def test_a_verdict_that_its_evidence_does_not_carry_is_refused(run_dir: Path) -> None:
    raw = json.loads((run_dir / "verdict.json").read_text())
    raw["verdict"] = "PASS-hardening"
    (run_dir / "verdict.json").write_text(json.dumps(raw))
    with pytest.raises(ConfigError, match="PASS needs"):
        load_report(run_dir)
