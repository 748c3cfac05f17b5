"""Reports: whole, self-contained, and safe against what a system may have answered."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import msgspec
import pytest
import typer
from typer.testing import CliRunner

from dstest.cli.report import report as report_command
from dstest.core.check import Anomaly, CheckResult, KeyCount, OpCount
from dstest.core.errors import ConfigError
from dstest.core.evidence import AuditRow, CheckerEvidence, Evidence, FaultEvidence, LandingRecord
from dstest.core.evidence import Signal as Signal_
from dstest.core.history import ClockSource, Header, History, Window
from dstest.core.op import Op
from dstest.core.verdict import State
from dstest.judge.budgets import budgets
from dstest.judge.decide import decide
from dstest.judge.facts import Canary
from dstest.judge.view import RED_FLAGS, WEAK_ITEMS
from dstest.report.command import command_of
from dstest.report.findings import render_findings
from dstest.report.html import FAULT_DETAILS_MAX, render_html
from dstest.report.junit import render_junit
from dstest.report.model import RunReport, build_report, load_report
from dstest.report.plots import POINTS_MAX, latency_svg, rate_svg
from dstest.report.terminal import summary_text
from dstest.report.timeline import label, sentence, timeline_svg
from dstest.report.write import render, summary, write_reports
from dstest.store.jsonl import write_history

HOSTILE = "\x1b[2J\x00<script>alert(1)</script><img src=http://evil.test/x onerror=a()>|`*"
S = 1_000_000_000
SPEC: dict[str, Any] = {
    "system": "etcd", "workload": "register", "nemesis": "partition", "lab": "lxc", "nodes": 5,
    "time_limit_s": 60.0, "rate": None, "concurrency": 10, "seed": 42, "model": None,
    "options": {"keys": 3, "clients": False, "targets": "", "shape": "a b"},
}  # fmt: skip


def ops(count: int = 200, *, hostile: bool = False) -> list[Op]:
    made = []
    for i in range(count):
        unknown, failed = i % 20 == 7, i % 20 == 9
        text = HOSTILE if hostile else "refused"
        made.append(
            Op(
                op_id=i,
                process_id=i % 10,
                invoke_ts=i * 60 * S // count,
                complete_ts=None if unknown else i * 60 * S // count + 2_000_000 + i * 1000,
                op_type="write" if i % 2 else "read",
                key=HOSTILE if hostile else "0-1",
                input=i if i % 2 else None,
                output=None if unknown or failed else HOSTILE if hostile else i,
                error=text if unknown or failed else None,
                timeout_marker=unknown,
                node_seen=None if unknown else f"n{i % 5 + 1}",
            )
        )
    return made


def record(i: int, hostile: bool = False) -> LandingRecord:
    text = HOSTILE if hostile else "every rule counted"
    return LandingRecord(
        fault_id=f"f{i + 1}",
        nemesis="partition",
        targets=["n1"],
        scheduled_at=i * 10 * S + 4 * S,
        injected_at=i * 10 * S + 4 * S,
        landed_at=i * 10 * S + 4 * S + 120_000_000,
        healed_at=i * 10 * S + 9 * S,
        heal_verified=True,
        landed="yes",
        epoch=f"f{i + 1}",
        injector=Signal_(
            signal="packets dropped per rule",
            before={"n1->n2": 0},
            during={"n1->n2": 1234},
            after={"n1->n2": [1240, 1240]},
            moved=True,
            detail=text,
        ),
        victim=Signal_(
            signal="probes that arrived",
            before={"n1->n2": [3, 3]},
            during={"n1->n2": [0, 0]},
            after={"n1->n2": [3, 3]},
            moved=True,
        ),
        facts={"shape": "one", "direction": "in", "rechecks": [{"at_ns": 1, "present": True}]},
        notes=[text],
    )


def evidence(**changes: Any) -> Evidence:
    ok = AuditRow(status="ok", evidence="12 of 12")
    fields: dict[str, Any] = {
        "attempted": True,
        "fault_planned": True,
        "faults_planned": 2,
        "faults": [
            FaultEvidence(id=f"f{i}", nemesis="partition", landed="yes", heal_verified=True)
            for i in (1, 2)
        ],
        "checker": CheckerEvidence(
            declared=["linearizable"], ran=["linearizable"], result="clean", ops_eligible=190,
            ops_consumed=190, keys_total=2, keys_decided=2, canary_killed=4, canary_total=4,
        ),
        "redflags": dict.fromkeys(RED_FLAGS, ok),
        "weak_audit": dict.fromkeys(WEAK_ITEMS, ok)
        | {"WO11": AuditRow(status="short", evidence="one seed only")},
        "budget": budgets({"duration_s": 60, "nodes": 5, "faults": 2, "seeds": 1, "ops": 600},
                          nemesis=True),
    }  # fmt: skip
    return Evidence(**(fields | changes))


def report(*, hostile: bool = False, fail: bool = False, **changes: Any) -> RunReport:
    made = ops(changes.pop("count", 200), hostile=hostile)
    text = HOSTILE if hostile else "Read 4 returned a value that was overwritten before it began."
    result = CheckResult(
        checker="linearizable",
        valid=not fail,
        model="register",
        anomaly_types=["stale-read"] if fail else [],
        anomalies={
            "stale-read": [
                Anomaly(type="stale-read", key=made[0].key, ops=[1, 3, 4, 7], minimal=True,
                        epochs=["f1"], explanation=text)
            ]
        }
        if fail
        else {},
        ops=OpCount(total=200, consumed=190, excluded={"unknown-read": 10}),
        keys=KeyCount(total=2, decided=2),
    )  # fmt: skip
    found = evidence(violation=fail, **changes)
    header = Header(
        run="20261121T215100Z-42",
        system="etcd",
        system_version=HOSTILE if hostile else "3.4.23",
        workload="register",
        model="register",
        nodes=[f"n{i}" for i in range(1, 6)],
        concurrency=10,
        seed=42,
        clock=ClockSource(host="control"),
        windows=[Window(epoch="f1", nemesis="partition", inject_start=4 * S, healed_at=9 * S)],
    )
    verdict = decide(
        found,
        {"linearizable": msgspec.to_builtins(result)},
        blame="unknown - pending: generator swap" if fail else None,
    )
    canary = Canary(
        killed=1,
        total=1,
        details=[{"kind": "stale-read", "mutant": text, "valid": False, "checker": "x"}],
    )
    facts = {"spec": SPEC, "healthy": {"n1": True}, "ended_by": HOSTILE if hostile else None}
    return build_report(
        verdict,
        found,
        [record(i, hostile) for i in range(2)],
        History(header=header, ops=made),
        SPEC,
        facts,
        canary=canary,
        path=Path("store/x/run"),
    )


class Page(HTMLParser):
    """Tags, attributes and the ids of a page."""

    VOID = frozenset({"meta", "br", "img", "link", "input", "hr"})

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.text = ""
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


@pytest.mark.parametrize("fail", [False, True])
@pytest.mark.parametrize("hostile", [False, True])
def test_the_page_asks_for_nothing_and_runs_nothing(hostile: bool, fail: bool) -> None:
    text = render_html(report(hostile=hostile, fail=fail))
    assert "\x1b" not in text
    assert "\x00" not in text
    page = Page(text)
    assert page.open == []
    names = {tag for tag, _ in page.tags}
    assert not names & {"script", "img", "iframe", "link", "object", "embed", "form", "base"}
    for tag, attributes in page.tags:
        for name, value in attributes.items():
            assert not name.startswith("on"), (tag, name)
            if name in ("href", "src", "xlink:href", "action", "data"):
                assert value is not None
                assert value.startswith("#"), (tag, name, value)
            elif not name.startswith("xmlns"):
                assert "http" not in (value or ""), (tag, name, value)


def test_styles_ask_for_nothing() -> None:
    text = render_html(report())
    for style in re.findall(r"<style[^>]*>(.*?)</style>", text, re.DOTALL):
        assert "@import" not in style
        assert "url(" not in style


@pytest.mark.parametrize("fail", [False, True])
def test_the_page_has_its_sections(fail: bool) -> None:
    page = Page(render_html(report(fail=fail)))
    ids = [a["id"] for tag, a in page.tags if tag == "section"]
    assert ids == [
        "verdict", "why-not-better", "checkers", "faults", "timeline", "audit", "history",
        "again", "facts", "words",
    ]  # fmt: skip
    for row in (*RED_FLAGS, *WEAK_ITEMS):
        assert row in page.text
    assert "dstest run --system etcd" in page.text
    assert "1,234" in page.text
    if fail:
        assert "stale-read on key 0-1" in page.text
        assert "operation 4, process 4" in page.text
        assert "FAIL-nondeterministic" in page.text
    else:
        assert "one seed only" in page.text


def test_many_witnesses_open_on_demand() -> None:
    made = report(fail=True)
    result = made.results["linearizable"]
    found = result.anomalies["stale-read"] * 9
    many = msgspec.structs.replace(result, anomalies={"stale-read": found})
    page = Page(render_html(msgspec.structs.replace(made, results={"linearizable": many})))
    assert page.open == []
    assert "6 more witnesses" in page.text


def test_the_page_of_a_big_run_stays_small() -> None:
    big = report(count=100_000)
    text = render_html(big)
    assert len(text.encode()) < 1_000_000
    assert f"a sample: {POINTS_MAX:,} of 100,000" in text


def test_many_faults_are_cut_and_said_so() -> None:
    many = msgspec.structs.replace(report(), faults=report().faults * 40)
    text = render_html(many)
    assert f"{FAULT_DETAILS_MAX} of 80 faults in detail" in text
    assert len(text.encode()) < 1_000_000


@pytest.mark.parametrize("hostile", [False, True])
def test_plots_are_xml_of_their_own(hostile: bool) -> None:
    made = report(hostile=hostile, fail=True)
    witness = made.anomalies[0][1]
    for svg in (latency_svg(made), rate_svg(made), timeline_svg(made.ops_of(witness))):
        root = ElementTree.fromstring(svg)
        assert root.tag == "{http://www.w3.org/2000/svg}svg"
        assert "<script" not in svg
        assert "#010203" not in svg


def test_plots_of_an_empty_history() -> None:
    empty = msgspec.structs.replace(report(), history=History(header=Header(), ops=[]))
    ElementTree.fromstring(latency_svg(empty))
    ElementTree.fromstring(rate_svg(empty))
    assert timeline_svg([]) == ""


def test_the_same_run_draws_the_same_plots() -> None:
    assert latency_svg(report()) == latency_svg(report())


def test_labels() -> None:
    read, write = ops()[2], ops()[7]
    assert label(read) == "read → 2"
    assert label(write) == "write 7 → ?"
    assert "never answered" in sentence(write)
    assert label(ops()[9]) == "write 9 → fail"


@pytest.mark.parametrize("fail", [False, True])
def test_findings(fail: bool) -> None:
    text = render_findings(report(fail=fail, hostile=True))
    for heading in ("## Summary", "## Scenario results", "## Findings", "## Green-but-broken",
                    "## Session verdict"):  # fmt: skip
        assert heading in text
    first = text.split("## Summary")[1].strip().splitlines()[0]
    assert first.startswith("Session FAIL" if fail else "Session DONE")
    assert "<script" not in text
    assert "\x1b" not in text
    rows = [line for line in text.splitlines() if re.match(r"\| (RF|WO)\d+ ", line)]
    assert len(rows) == 24
    if fail:
        assert "not reduced yet" in text
        assert "Blame: unknown - pending: generator swap" in text
        assert "dstest run --system etcd" in text


def states() -> list[tuple[State, dict[str, Any], str | None]]:
    return [
        (State.PASS_SMOKE, {}, None),
        (State.FAIL_NONDETERMINISTIC, {"violation": True}, "failure"),
        (State.NOT_RUN, {"attempted": False}, "skipped"),
        (State.INCONCLUSIVE_ENV, {"missing_capability": ["nft"]}, "skipped"),
        (State.INCONCLUSIVE_FAULT, {"faults": []}, "error"),
        (State.PARTIAL_SURFACE, {"checker": CheckerEvidence()}, "error"),
    ]


@pytest.mark.parametrize(("state", "changes", "kind"), states(), ids=lambda x: str(x)[:20])
def test_junit(state: State, changes: dict[str, Any], kind: str | None) -> None:
    found = evidence(**changes)
    made = msgspec.structs.replace(report(hostile=True), verdict=decide(found), evidence=found)
    assert made.state is state
    suite = ElementTree.fromstring(render_junit(made))
    case = suite.find("testcase")
    assert case is not None
    said = [child.tag for child in case if child.tag not in ("system-out", "properties")]
    assert said == ([kind] if kind else [])
    wanted = {"failure": "failures", "error": "errors", "skipped": "skipped"}
    for name, attribute in wanted.items():
        assert suite.get(attribute) == str(int(kind == name))


def test_terminal_summary() -> None:
    text = summary_text(report())
    for expected in ("PASS-smoke", "2 of 2 landed", "n1->n2 0 → 1,234", "why not better",
                     "WO11: one seed only", "report.html", "--seed 42"):  # fmt: skip
        assert expected in text
    assert "\x1b" not in text
    assert "\x1b[1;32mPASS-smoke\x1b[0m" in summary_text(report(), color=True)
    assert "\x1b[1;31mFAIL" in summary_text(report(fail=True), color=True)


def test_the_terminal_is_safe() -> None:
    assert "\x1b" not in summary_text(report(hostile=True, fail=True))


def test_the_command_runs_the_same_again() -> None:
    assert command_of(SPEC) == (
        "dstest run --system etcd --workload register --nemesis partition --lab lxc --nodes 5"
        " --time-limit 60 --concurrency 10 --seed 42 -o clients=false -o keys=3 -o 'shape=a b'"
    )
    assert command_of({}) == ""


@pytest.fixture
def run_dir(tmp_path: Path) -> Path:
    made = report(fail=True)
    write_history(tmp_path / "history.jsonl", made.history)
    records = [record(i) for i in range(2)]
    faults = b"".join(msgspec.json.encode(r) + b"\n" for r in records)
    (tmp_path / "faults.jsonl").write_bytes(faults)
    (tmp_path / "run.json").write_text(json.dumps({"spec": SPEC}))
    (tmp_path / "evidence.json").write_bytes(msgspec.json.encode(made.evidence))
    (tmp_path / "verdict.json").write_bytes(msgspec.json.encode(made.verdict))
    write_reports(tmp_path, made.verdict, records, made.history, {"spec": SPEC}, made.canary)
    return tmp_path


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
