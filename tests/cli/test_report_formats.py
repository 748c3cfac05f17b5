"""`dstest report` for CI servers: one file for a whole store, and nothing in it is green that is
not a pass."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import threading
import tomllib
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from importlib.metadata import packages_distributions
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from forked import Ended, dstest
from gate_store import NAME, run_at, session_at
from made_nights import item_of, night_in
from made_runs import recorded, registers
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from pydantic_sarif.model import StaticAnalysisResultsFormatSarifVersion210JsonSchema as Sarif
from touched_runs import undecided
from typer.testing import CliRunner

from dstest.cli.app import app
from dstest.cli.report import OF_OUT
from dstest.core.errors import DstestError
from dstest.core.extras import install_command
from dstest.history.layout import RunDir
from dstest.runner import integrity
from dstest.runner.integrity import Again, Verified, verify_run

pytestmark = pytest.mark.slow
ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A pass, a violation, a session that passed; what was edited, cut, killed."""
    store = tmp_path_factory.mktemp("formats") / "store"
    passed = run_at(store, 1)
    run_at(store, 4, bug=True)
    session_at(store, [7, 8])
    edited = store / "odd" / "edited"
    shutil.copytree(passed.path, edited)
    verdict = edited / "verdict.json"
    verdict.write_text(verdict.read_text().replace("PASS-smoke", "PASS-hardening"))
    cut = store / "odd" / "cut"
    shutil.copytree(passed.path, cut)
    shutil.rmtree(cut / "segments")
    killed = recorded(store / "odd" / "killed", registers(count=50), "register")
    killed.write_status("running")
    return store


def report(*words: str | Path, cwd: Path) -> Ended:
    return dstest("report", *words, cwd=cwd)


def cases(path: Path) -> dict[str, str]:
    """Kind of each case by its path."""
    found = {}
    for case in ElementTree.parse(path).getroot().iter("testcase"):
        kinds = [child.tag for child in case if child.tag in ("failure", "error", "skipped")]
        found[case.get("name") or ""] = (kinds or ["green"])[0]
    return found


def test_one_file_for_a_whole_store(store: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    done = report(store, "--out", out, "--otlp", out / "t.json", "--github", cwd=store.parent)
    assert done.returncode == 1, done.stderr
    found = cases(out / "junit.xml")
    assert {found[f"store/odd/{name}"] for name in ("edited", "cut", "killed")} == {"error"}
    kinds = sorted(found.values())
    assert kinds == ["error"] * 3 + ["failure"] + ["green"] * 4
    log = json.loads((out / "results.sarif").read_text())
    Sarif.model_validate(log)
    rules = [row["ruleId"] for row in log["runs"][0]["results"]]
    assert sorted(rules) == ["nonlinearizable", *["not-believed"] * 3]
    assert not log["runs"][0]["invocations"][0]["executionSuccessful"]
    line = next(
        row["locations"][0]["physicalLocation"]
        for row in log["runs"][0]["results"]
        if row["ruleId"] == "nonlinearizable"
    )
    history = (store.parent / line["artifactLocation"]["uri"]).read_bytes().splitlines()
    assert json.loads(history[line["region"]["startLine"] - 1])["op_type"] == "read"
    assert done.stdout.count("::error ") == 4
    assert "4 of 8 passed" in done.stdout and "4 of 8 passed" in (out / "summary.md").read_text()
    assert (out / "metrics.prom").read_text().count('state="not-believed"} 1.0') == 3
    spans = json.loads((out / "t.json").read_text())["resourceSpans"][0]["scopeSpans"][0]["spans"]
    assert len({span["traceId"] for span in spans}) == 8


@pytest.mark.parametrize(
    ("name", "kind", "code"), [("edited", "error", 3), ("killed", "error", 2), ("cut", "error", 2)]
)
def test_one_that_is_not_to_be_believed(
    name: str, kind: str, code: int, store: Path, tmp_path: Path
) -> None:
    run = store / "odd" / name
    done = report(run, "--junit", tmp_path / "j.xml", cwd=tmp_path)
    assert done.returncode == code, done.stderr
    assert [*cases(tmp_path / "j.xml").values()] == [kind]


def test_a_run_that_passed_shows_its_summary_as_well(store: Path, tmp_path: Path) -> None:
    run = next((store / "etcd-register-partition").glob("*-1"))
    step = tmp_path / "step.md"
    step.write_text("what was said before\n")
    env = {"GITHUB_ACTIONS": "true", "GITHUB_STEP_SUMMARY": str(step)}
    # What the environment says of CI is read when the process starts.
    done = subprocess.run(
        [sys.executable, "-m", "dstest", "report", run, "--junit", "j.xml"], cwd=tmp_path,
        env={**os.environ, **env}, text=True, capture_output=True, timeout=110, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "why not better" in done.stdout and "::error" not in done.stdout
    assert list(cases(tmp_path / "j.xml").values()) == ["green"]
    assert step.read_text().startswith("what was said before\n## dstest: 1 of 1 passed")


def test_a_session_and_a_run_in_one_file(store: Path, tmp_path: Path) -> None:
    session = next((store / "etcd-register-partition-session").iterdir())
    run = next((store / "etcd-register-partition").glob("*-1"))
    done = report(session, run, run, "--junit", tmp_path / "j.xml", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert sorted(cases(tmp_path / "j.xml").values()) == ["green"] * 4
    assert "4 of 4 passed" in done.stdout


def test_evidence_is_not_written_into(store: Path, tmp_path: Path) -> None:
    run = next((store / "etcd-register-partition").glob("*-1"))
    for flag in ("--junit", "--out", "--prometheus", "--sarif", "--summary", "--otlp"):
        done = report(run, flag, run / "x", cwd=tmp_path)
        assert done.returncode == 2 and "evidence" in done.stderr, flag
    assert report(run, cwd=tmp_path).returncode == 0


def test_nothing_to_report_is_no_pass(tmp_path: Path) -> None:
    done = report(tmp_path, "--junit", tmp_path.parent / "j.xml", cwd=tmp_path)
    assert done.returncode == 2 and "no run" in done.stderr
    assert not (tmp_path.parent / "j.xml").exists()


class _Collector(BaseHTTPRequestHandler):
    taken: list[ExportTraceServiceRequest] = []
    answer = 200

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if self.headers.get("Content-Encoding") == "gzip":
            import gzip

            body = gzip.decompress(body)
        if self.path == "/v1/traces":
            self.taken.append(ExportTraceServiceRequest.FromString(body))
        self.send_response(self.answer)
        self.end_headers()

    def log_message(self, format: str, *args: Any) -> None:
        return None


@pytest.fixture
def collector() -> Iterator[tuple[str, type[_Collector]]]:
    class Mine(_Collector):
        taken: list[ExportTraceServiceRequest] = []

    server = HTTPServer(("127.0.0.1", 0), Mine)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}", Mine
    server.shutdown()
    thread.join()
    server.server_close()


def test_traces_go_to_a_collector(
    store: Path, tmp_path: Path, collector: tuple[str, type[_Collector]]
) -> None:
    url, mine = collector
    run = next((store / "etcd-register-partition").glob("*-4"))
    done = report(run, "--otlp", url, cwd=tmp_path)
    assert done.returncode == 1, done.stderr
    (request,) = mine.taken
    spans = request.resource_spans[0].scope_spans[0].spans
    root = spans[0]
    assert root.status.code == root.status.STATUS_CODE_ERROR
    assert "anomaly" in [event.name for event in root.events]
    fault = next(span for span in spans if span.name == "fault f1 partition")
    assert fault.parent_span_id == root.span_id
    assert (fault.end_time_unix_nano - fault.start_time_unix_nano) == 4_000_000_000


def test_a_collector_that_refuses_is_no_success(
    store: Path, tmp_path: Path, collector: tuple[str, type[_Collector]]
) -> None:
    url, mine = collector
    mine.answer = 400
    run = next((store / "etcd-register-partition").glob("*-1"))
    done = report(run, "--otlp", url, cwd=tmp_path)
    assert done.returncode == 4 and "did not take the traces" in done.stderr


def test_without_the_extra_it_is_named(store: Path, tmp_path: Path) -> None:
    """A package that is not there: its name stands for nothing in `sys.modules`."""
    code = (
        "import sys\n"
        "sys.modules.update({'opentelemetry': None, 'opentelemetry.exporter': None})\n"
        "sys.argv[0] = 'dstest'\n"
        "from dstest.cli.entry import main\nmain()"
    )
    run = next((store / "etcd-register-partition").glob("*-1"))
    words = [sys.executable, "-c", code, "report", str(run), "--otlp", str(tmp_path / "t.json")]
    words += ["--out", str(tmp_path / "ci"), "--junit", str(tmp_path / "j.xml")]
    done = subprocess.run(words, text=True, capture_output=True, timeout=100, check=False)
    assert done.returncode == 2 and install_command("otel") in done.stderr
    assert not [*tmp_path.rglob("*")], "a half of what was asked for is written"
    words[words.index("--otlp") + 1] = "http://127.0.0.1:9"
    done = subprocess.run(words, text=True, capture_output=True, timeout=100, check=False)
    assert done.returncode == 2 and install_command("otel") in done.stderr
    assert not [*tmp_path.rglob("*")], "a half of what was asked for is written"


def test_what_out_writes_needs_no_extra(store: Path, tmp_path: Path) -> None:
    """As in an environment that has only what dstest asks for itself."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    base = {re.split("[<>=]", row)[0] for row in project["dependencies"]}
    more = {
        re.split(r"[<>=\[]", row)[0]
        for rows in project["optional-dependencies"].values()
        for row in rows
    } - base
    modules = {
        module
        for module, packages in packages_distributions().items()
        if (names := {package.lower().replace("_", "-") for package in packages}) & more
        and not names & {*base, "dstest"}
    }
    code = (
        "import sys\n"
        f"sys.modules.update(dict.fromkeys({sorted(modules)!r}))\n"
        "sys.argv[0] = 'dstest'\n"
        "from dstest.cli.entry import main\nmain()"
    )
    run = next((store / "etcd-register-partition").glob("*-1"))
    words = [sys.executable, "-c", code, "report", str(run), "--out", str(tmp_path / "ci")]
    done = subprocess.run(words, text=True, capture_output=True, timeout=100, check=False)
    assert done.returncode in (0, 1, 3), done.stderr
    assert {path.name for path in (tmp_path / "ci").iterdir()} == set(OF_OUT.values())


@pytest.mark.parametrize("what", ["a pass", "a violation", "a session", "edited"])
def test_each_run_is_judged_once(
    store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    """Formats and what is shown are made of one judgement."""
    asked: list[Path] = []

    def counting(run: RunDir, again: Again) -> Verified:
        asked.append(run.path)
        return verify_run(run, again)

    monkeypatch.setattr(integrity, "verify_run", counting)
    given, code = {
        "a pass": (next((store / NAME).glob("*-1")), 0),
        "a violation": (next((store / NAME).glob("*-4")), 1),
        "a session": (next(store.rglob("session.json")).parent, 0),
        "edited": (store / "odd" / "edited", 3),
    }[what]
    words = ["report", str(given), "--out", str(tmp_path / "out")]
    done = CliRunner().invoke(app, words)
    ended = 3 if isinstance(done.exception, DstestError) else done.exit_code
    assert ended == code, (done.output, done.exception)
    assert (tmp_path / "out" / "junit.xml").is_file()
    runs = {path.parent.resolve() for path in given.glob("**/segments")}
    assert sorted(asked) == sorted(runs), "each once, and none left out"


def test_a_session_whose_runs_are_undecided_now_is_no_pass(
    store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Judged again, as on a host that is too slow for its checkers."""
    undecided(monkeypatch)
    session = next(store.rglob("session.json")).parent
    assert CliRunner().invoke(app, ["report", str(session)]).exit_code == 0
    done = CliRunner().invoke(app, ["report", "--deep", str(session)])
    assert isinstance(done.exception, DstestError) and done.exception.exit_code == 3
    assert "judged again it is INCONCLUSIVE" in str(done.exception)


def test_runs_of_a_store_that_has_none_by_themselves(tmp_path: Path) -> None:
    """No line at all looks as if nothing lay there."""
    night = night_in(tmp_path / "store", 1, [item_of("a", "", [None])]).path
    done = dstest("list", "--runs", cwd=tmp_path)
    assert done.returncode == 0 and not done.stdout
    assert "1 night" in done.stderr and night.name in done.stderr
    done = dstest("list", "--runs", "--store", "nowhere", cwd=tmp_path)
    assert done.returncode == 0 and "no runs: there is no nowhere" in done.stderr
