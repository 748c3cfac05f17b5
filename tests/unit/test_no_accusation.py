"""Whatever a checker found, nothing accuses the system where the verdict does not."""

from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree

import pytest
from failing_runs import contradictory
from typer.testing import CliRunner

from dstest.cli.app import app
from dstest.core.verdict import State
from dstest.report.html import render_html
from dstest.report.model import load_report
from dstest.report.summarize import headline_of, summary_of
from dstest.report.terminal import summary_text

CLI = CliRunner()
ACCUSED = "returned an old value"


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return contradictory(tmp_path_factory.mktemp("run") / "run").path


def test_the_checker_had_found_something(run: Path) -> None:
    report = load_report(run)
    assert report.state is State.INCONCLUSIVE_ORACLE
    assert summary_of(report).violations


def test_its_page_and_its_headline(run: Path) -> None:
    report = load_report(run)
    page = render_html(report)
    assert ACCUSED not in headline_of(report) and ACCUSED not in summary_text(report)
    assert page.count(report.verdict.reason.partition(",")[0]) >= 1
    assert 'id="headline">etcd' not in page
    assert "&middot; severity" not in page and "severity" not in summary_text(report)


def test_its_reason_is_told_once(run: Path) -> None:
    page = render_html(load_report(run))
    head = page[page.index('id="headline">') : page.index('class="tiles"')]
    reason = head[len('id="headline">') : head.index("</h1>")]
    assert head.count(reason) == 1


def test_no_format_names_an_anomaly_as_what_failed(run: Path, tmp_path: Path) -> None:
    out = tmp_path / "ci"
    CLI.invoke(app, ["report", str(run), "--out", str(out)])
    assert {"junit.xml", "summary.md"} <= {made.name for made in out.iterdir()}
    suite = ElementTree.parse(out / "junit.xml").getroot()
    assert [ACCUSED in child.get("message", "") for child in suite.iter("error")] == [False]
    assert ACCUSED not in (out / "summary.md").read_text().split("- nonlinearizable", 1)[0]
    log = json.loads(next(out.glob("*.sarif*")).read_text())
    found = [row["ruleId"] for row in log["runs"][0]["results"]]
    assert found == [State.INCONCLUSIVE_ORACLE.value]
