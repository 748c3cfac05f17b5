"""A simulated run that failed: what is said asks for nothing that it cannot give."""

from __future__ import annotations

import io
import re

import pytest

from dstest.campaign.blame_runs import blame_run
from dstest.cli.shrink import blame as blame_command
from dstest.core.run_record import RunSpec
from dstest.history.layout import RunDir
from dstest.judge.blame import HOST_EVENTS, PROBES_FILE, QUIET, SWAP, aside_of
from dstest.report.findings import render_findings
from dstest.report.html import render_html
from dstest.report.model import load_report
from dstest.report.terminal import summary_text
from dstest.report.write import render_junit
from dstest.runner.plugins import resolve
from dstest.runner.screen import Progress
from dstest.runner.session import run_session

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def failed(tmp_path_factory: pytest.TempPathFactory) -> RunDir:
    spec = RunSpec(
        system="toykv", lab="sim", nodes=5, time_limit_s=10.0, seed=3, rate=100.0, nemesis="none"
    )
    plugins = resolve(spec, ["bug=stale-follower-read"])
    done = run_session(plugins, store=tmp_path_factory.mktemp("s"), ui=Progress(io.StringIO()))
    assert done.verdict.verdict.failed, done.verdict.reason
    return RunDir(done.path)


def test_what_to_do_next_is_what_helps_there(failed: RunDir) -> None:
    report = load_report(failed.path)
    for text in (
        summary_text(report), render_findings(report), render_junit(report), render_html(report)
    ):  # fmt: skip
        plain = " ".join(re.sub("</?span[^>]*>", "", text.replace("\\", "")).split())
        assert "dstest blame" not in plain and "--times 3" not in plain
        assert "dstest shrink" in plain and "dstest replay" in plain
        commands = re.findall("dstest run --system toykv [^<;`]*?-o bug=stale-follower-read", plain)
        seeded = ["--seed" in words for words in commands]
        assert False in seeded and any("--lab" not in words for words in commands), plain


def test_probes_that_need_nodes_do_not_apply(failed: RunDir) -> None:
    found = blame_run(failed.path, 3)
    assert found.runs == [] and found.blame is not None and found.blame.startswith("unknown")
    assert {*found.probes} == {SWAP, QUIET}
    text = render_findings(load_report(failed.path), found.probes)
    rows = [row for row in text.splitlines() if "does not apply to a simulation" in row]
    assert {row.split(" | ")[0].strip("| ") for row in rows} == {SWAP, QUIET, HOST_EVENTS}
    assert (aside_of(failed.path) / PROBES_FILE).is_file()


def test_blame_names_what_helps(failed: RunDir, capsys: pytest.CaptureFixture[str]) -> None:
    import typer

    with pytest.raises(typer.Exit):
        blame_command(failed.path, 3, None, False)
    said = capsys.readouterr().out
    assert said.count("does not apply to a simulation") == 2
    assert "another seed, or the same on nodes" in said
