"""Reports: whole, self-contained, and safe against what a system may have answered."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from typing import Any
from xml.etree import ElementTree

import msgspec
import pytest
from made_report import SPEC, evidence, ops, report

from dstest.core.evidence import CheckerEvidence
from dstest.core.history import Header, History
from dstest.core.run_words import command_of
from dstest.core.verdict import State
from dstest.judge.decide import RED_FLAGS, WEAK_ITEMS, decide
from dstest.report.findings import render_findings
from dstest.report.html import FAULT_DETAILS_MAX, render_html, scripts
from dstest.report.moments import headline, moments
from dstest.report.plots import POINTS_MAX, latency_svg, rate_svg
from dstest.report.terminal import summary_text
from dstest.report.timeline import label, sentence, timeline_svg
from dstest.report.write import render_junit

pytestmark = pytest.mark.slow


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


@pytest.mark.parametrize(("result", "said"), [("clean", True), ("violation", False)])
def test_what_a_clean_verdict_is_not_sure_of_is_said(result: Any, said: bool) -> None:
    found = evidence()
    why = "total-queue: 3 may be with takers"
    checker = msgspec.structs.replace(found.checker, result=result, why=why)
    made = report(checker=checker)
    for text in (summary_text(made), Page(render_html(made)).text):
        assert (why in " ".join(text.split())) is said


OWN = ("run-data", "run-numbers", "run-texts", None)
"""Ids of the page's script elements: data that is no script, and last our own."""


@pytest.mark.parametrize("fail", [False, True])
@pytest.mark.parametrize("hostile", [False, True])
def test_the_page_asks_for_nothing_and_runs_nothing_but_ours(hostile: bool, fail: bool) -> None:
    text = render_html(report(hostile=hostile, fail=fail))
    assert "\x1b" not in text
    assert "\x00" not in text
    page = Page(text)
    assert page.open == []
    names = {tag for tag, _ in page.tags}
    assert not names & {"img", "iframe", "link", "object", "embed", "form", "base"}
    elements = [attributes for tag, attributes in page.tags if tag == "script"]
    assert [attributes.get("id") for attributes in elements] == list(OWN)
    assert all(a["type"] in ("application/json", "text/plain") for a in elements[:-1])
    assert elements[-1] == {}
    assert text.count(scripts()) == 1
    assert text.count("</script>") == len(OWN)
    for tag, attributes in page.tags:
        for name, value in attributes.items():
            assert not name.startswith("on"), (tag, name)
            if name in ("href", "src", "xlink:href", "action", "data"):
                assert value is not None
                assert re.fullmatch(r"#[\w-]+|[\w./-]+", value), (tag, name, value)
                assert "//" not in value
            elif not name.startswith("xmlns"):
                assert "http:" not in (value or ""), (tag, name, value)


def test_the_policy_of_the_page_forbids_every_request() -> None:
    page = Page(render_html(report(fail=True)))
    (policy,) = [
        a["content"]
        for tag, a in page.tags
        if tag == "meta" and a.get("http-equiv") == "Content-Security-Policy"
    ]
    assert policy is not None
    rules = dict(rule.strip().split(" ", 1) for rule in policy.split(";"))
    assert rules.pop("default-src") == "'none'"
    assert rules.pop("img-src") == "data:"
    assert rules.pop("style-src") == rules.pop("script-src") == "'unsafe-inline'"
    assert set(rules.values()) == {"'none'"}


def test_styles_ask_for_nothing() -> None:
    text = render_html(report())
    for style in re.findall(r"<style[^>]*>(.*?)</style>", text, re.DOTALL):
        assert "@import" not in style
        assert "url(" not in style


@pytest.mark.parametrize("fail", [False, True])
def test_the_page_has_its_sections(fail: bool) -> None:
    page = Page(render_html(report(fail=fail)))
    ids = [a["id"] for tag, a in page.tags if tag == "section" and a.get("id")]
    assert ids == [
        "verdict", *(["anomalies"] if fail else []), "why-not-better", "timeline-charts",
        "operations", "faults", "checkers", "audit", "history", "again", "facts", "words",
    ]  # fmt: skip
    for row in (*RED_FLAGS, *WEAK_ITEMS):
        assert row in page.text
    assert "dstest run --system etcd" in page.text
    assert "1,234" in page.text
    if fail:
        assert "stale-read on key 0-1" in page.text
        assert "operation 4, process 4" in page.text
        # Nobody has run it again: nothing is said of how often, and the state is that of files.
        assert page.text.count("FAIL (not re-run yet)") == 2
        head, decided = page.text.split("How this was decided", 1)
        assert "nondeterministic" not in head
        assert "State FAIL-nondeterministic in verdict.json" in decided
    else:
        assert "one seed only" in page.text


def test_many_witnesses_open_on_demand() -> None:
    made = report(fail=True)
    result = made.results["linearizable"]
    found = result.anomalies["stale-read"] * 9
    many = msgspec.structs.replace(result, anomalies={"stale-read": found})
    page = Page(render_html(msgspec.structs.replace(made, results={"linearizable": many})))
    assert page.open == []
    assert "8 more witnesses" in page.text


def test_the_page_of_a_big_run_stays_small() -> None:
    big = report(count=100_000)
    text = render_html(big)
    assert len(text.encode()) < 2_000_000
    assert "All 100,000 operations are here" in text
    assert f"a sample: {POINTS_MAX:,} of 100,000" in latency_svg(big)


def test_many_faults_are_cut_and_said_so() -> None:
    many = msgspec.structs.replace(report(), faults=report().faults * 40)
    text = render_html(many)
    assert f"{FAULT_DETAILS_MAX} of 80 faults in detail" in text
    assert len(text.encode()) < 1_000_000


@pytest.mark.parametrize("hostile", [False, True])
def test_plots_are_xml_of_their_own(hostile: bool) -> None:
    made = report(hostile=hostile, fail=True)
    witness = made.anomalies[0][1]
    for svg in (
        latency_svg(made),
        rate_svg(made),
        timeline_svg([op for op in made.history.ops if op.op_id in witness.ops]),
    ):
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
        assert "- Reduction: not reduced: " in text
        assert "- Blame: unknown - pending: " in text
        assert "- TaxDC type: unclassified: " in text
        assert "dstest run --system etcd" in text


def states() -> list[tuple[State, dict[str, Any], str | None]]:
    return [
        (State.PASS_SMOKE, {}, None),
        (State.FAIL_NONDETERMINISTIC, {"violation": True}, "failure"),
        (State.NOT_RUN, {"attempted": False}, "error"),
        (State.INCONCLUSIVE_ENV, {"missing_capability": ["nft"]}, "error"),
        (State.INCONCLUSIVE_FAULT, {"faults": []}, "error"),
        (State.PARTIAL_SURFACE, {"checker": CheckerEvidence()}, "error"),
    ]


@pytest.mark.parametrize(("state", "changes", "kind"), states(), ids=lambda x: str(x)[:20])
def test_junit(state: State, changes: dict[str, Any], kind: str | None) -> None:
    found = evidence(**changes)
    made = report(hostile=True)
    whole = msgspec.structs.replace(made.meta, ended_by=None)
    made = msgspec.structs.replace(made, verdict=decide(found), evidence=found, meta=whole)
    assert made.state is state
    suite = ElementTree.fromstring(render_junit(made))
    case = suite.find("testcase")
    assert case is not None
    said = [child.tag for child in case if child.tag not in ("system-out", "properties")]
    assert said == ([kind] if kind else [])
    wanted = {"failure": "failures", "error": "errors", "skipped": "skipped"}
    for name, attribute in wanted.items():
        assert suite.get(attribute) == str(int(kind == name))


def test_a_pass_that_ended_early_is_no_green_case() -> None:
    made = report()
    assert made.state.passed and "<error" not in render_junit(made)
    early = msgspec.structs.replace(made.meta, ended_by="the disk is full")
    text = render_junit(msgspec.structs.replace(made, meta=early))
    assert 'errors="1"' in text and 'message="the run ended early: the disk is full"' in text


def test_junit_says_how_much_was_tested() -> None:
    suite = ElementTree.fromstring(render_junit(report(fail=True)))
    told = {row.get("name"): row.get("value") for row in suite.iter("property")}
    assert told["faults_landed"] == told["faults_planned"] == "2"
    assert told["fingerprints"] == "linearizable/stale-read/#-#/register"
    assert told["system"] == "etcd" and told["seed"] == "42" and told["tier"] == "smoke"
    assert "--seed 42" in (told["command"] or "")


def test_terminal_summary() -> None:
    text = summary_text(report())
    for expected in ("PASS-smoke", "2 of 2 landed", "n1->n2 0 → 1,234", "why not better",
                     "WO11: one seed only", "report.html", "--seed 42"):  # fmt: skip
        assert expected in text
    assert "\x1b" not in text
    assert "\x1b[1;32mPASS-smoke\x1b[0m" in summary_text(report(), color=True)
    failed = report(fail=True)
    assert "\x1b[1;31mFAIL" in summary_text(failed, color=True)
    said, _ = headline(failed, moments(failed, ()))
    assert said.startswith("etcd 3.4")
    assert said in " ".join(summary_text(failed).split())
    assert said.split(" on key ")[0] not in " ".join(text.split())


def test_what_was_never_injected_has_nothing_to_heal() -> None:
    made = report()
    fault = msgspec.structs.replace(made.faults[0], window=None, heal_verified=True)
    said = summary_text(msgspec.structs.replace(made, faults=[fault]))
    assert "never injected, nothing to heal" in said


def test_the_terminal_is_safe() -> None:
    assert "\x1b" not in summary_text(report(hostile=True, fail=True))


def test_the_command_runs_the_same_again() -> None:
    assert command_of(SPEC) == (
        "dstest run --system etcd --workload register --nemesis partition --lab lxc --nodes 5"
        " --time-limit 60 --concurrency 10 --seed 42 -o clients=false -o keys=3 -o 'shape=a b'"
    )
    assert command_of({}) == ""
