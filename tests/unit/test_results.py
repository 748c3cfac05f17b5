"""Results in the formats of CI servers: whatever is not a pass is red in each of them, and nothing
that a system has said gets out of its place."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import msgspec
import pytest
from made_report import HOSTILE, report
from prometheus_client.parser import text_string_to_metric_families
from pydantic_sarif.model import StaticAnalysisResultsFormatSarifVersion210JsonSchema as Sarif

from dstest.core.verdict import State
from dstest.report.ci_formats import command
from dstest.report.summarize import summary_of
from dstest.report.write import kind_of
from dstest.report.write import render_junit as render_own
from dstest.store.export.formats import Result, annotation_lines, render_junit, render_summary
from dstest.store.export.gather import worst
from dstest.store.export.sarif import render_sarif
from dstest.store.export.telemetry import endpoint_of, render_otlp, render_prometheus

NOW_NS = 1_800_000_000 * 10**9


def result(state: State | None, exit_code: int, **made: Any) -> Result:
    facts = summary_of(report(**made)) if made else None
    return Result(
        path=Path("store/x/run"), kind="run", state=state, reason="the reason", exit=exit_code,
        run=facts, command="" if facts is None else facts.command,
    )  # fmt: skip


def not_green() -> list[Any]:
    rows = [pytest.param(result(None, 3), "error", id="not-believed")]
    rows += [
        pytest.param(result(state, 1 if state.failed else 3), kind_of(state) or "error", id=state)
        for state in State
    ]  # a pass with exit code 3 is one that ended early
    return rows


def one_hot(text: str) -> list[str]:
    return [
        sample.labels["state"]
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if sample.name == "dstest_verdict" and sample.value == 1
    ]


@pytest.mark.parametrize(("made", "kind"), not_green())
def test_what_is_no_pass_is_red_in_every_format(made: Result, kind: str) -> None:
    suite = ElementTree.fromstring(render_junit([made]))
    assert [child.tag for child in suite.iter() if child.tag in ("failure", "error")] == [kind]
    assert suite.get("skipped") == "0" and suite.find(".//skipped") is None
    assert [line.partition(" ")[0] for line in annotation_lines([made])] == ["::error"]
    log = json.loads(render_sarif([made], made.exit))
    assert [row["level"] for row in log["runs"][0]["results"]] == ["error"]
    Sarif.model_validate(log)
    assert "0 of 1 passed" in render_summary([made])
    metrics = render_prometheus([made], NOW_NS)
    assert one_hot(metrics) == [made.word] and made.word not in ("PASS-smoke", "PASS-hardening")
    assert 'dstest_passed{kind="run",path="store/x/run"} 0.0' in metrics
    spans = json.loads(render_otlp([made], NOW_NS))["resourceSpans"][0]["scopeSpans"][0]["spans"]
    assert [span["status"]["code"] for span in spans] == [2]
    assert worst([made, result(State.PASS_SMOKE, 0)]) == made.exit


def test_a_pass_is_green_in_every_format() -> None:
    made = result(State.PASS_SMOKE, 0, count=200)
    suite = ElementTree.fromstring(render_junit([made]))
    assert (suite.get("failures"), suite.get("errors")) == ("0", "0")
    assert list(annotation_lines([made])) == []
    assert json.loads(render_sarif([made], 0))["runs"][0]["results"] == []
    assert "1 of 1 passed" in render_summary([made])
    assert one_hot(render_prometheus([made], NOW_NS)) == ["PASS-smoke"]
    spans = json.loads(render_otlp([made], NOW_NS))["resourceSpans"][0]["scopeSpans"][0]["spans"]
    assert {span["status"]["code"] for span in spans} == {1}
    assert worst([made]) == 0


def test_a_violation_names_its_anomaly_its_place_and_its_fingerprint() -> None:
    made = result(State.FAIL_NONDETERMINISTIC, 1, fail=True)
    run = json.loads(render_sarif([made, made], 1))["runs"][0]
    assert [rule["id"] for rule in run["tool"]["driver"]["rules"]] == ["stale-read"]
    assert "help" in run["tool"]["driver"]["rules"][0]
    first, again = run["results"]
    place = first["locations"][0]["physicalLocation"]
    assert place["artifactLocation"]["uri"] == "store/x/run/history.jsonl"
    history = report(fail=True).history
    telling = history.ops[place["region"]["startLine"] - 2]  # a header stands before them
    assert telling.op_id == 7, "the last of its witness, where no data names another"
    prints = first["partialFingerprints"]
    assert prints["dstestViolation/v1"] == "etcd/register/linearizable/stale-read/#-#/register"
    assert again["partialFingerprints"]["primaryLocationLineHash"].endswith(":2")
    text = render_prometheus([made], NOW_NS)
    assert 'anomaly="stale-read",checker="linearizable"' in text
    spans = json.loads(render_otlp([made], NOW_NS))["resourceSpans"][0]["scopeSpans"][0]["spans"]
    assert [event["name"] for event in spans[0]["events"]] == ["anomaly"]
    assert {"load", "fault f1 partition", "fault f2 partition"} <= {s["name"] for s in spans}
    assert all(span["parentSpanId"] == spans[0]["spanId"] for span in spans[1:])


@pytest.mark.parametrize("early", [None, "the disk is full"])
@pytest.mark.parametrize("hostile", [False, True])
def test_a_run_has_the_same_properties_in_its_own_file_and_among_others(
    early: str | None, hostile: bool
) -> None:
    made = report(hostile=hostile)
    meta = msgspec.structs.replace(made.meta, ended_by=early)
    made = msgspec.structs.replace(made, meta=meta)
    facts = summary_of(made)
    among = Result(
        path=Path("store/x/run"), kind="run", state=made.state, reason="the reason",
        exit=3 if early else 0, run=facts, command=facts.command, rule=made.verdict.rule,
    )  # fmt: skip
    theirs, own = properties(render_junit([among])), properties(render_own(made))
    assert theirs.pop("path") == "store/x/run"
    assert theirs == own
    assert list(theirs) == list(own)
    assert own["nemesis"] == "partition"
    assert own["verdict"] == ("ended-early" if early else "PASS-smoke")


def properties(text: str) -> dict[str, str]:
    found = ElementTree.fromstring(text).findall(".//property")
    return {str(one.get("name")): str(one.get("value")) for one in found}


def test_the_place_of_a_violation_is_the_operation_that_its_checker_names() -> None:
    made = report(fail=True)
    found = made.results["linearizable"]
    (anomaly,) = found.anomalies["stale-read"]
    rows = {"stale-read": [msgspec.structs.replace(anomaly, culprit=4)]}
    results = {"linearizable": msgspec.structs.replace(found, anomalies=rows)}
    facts = summary_of(msgspec.structs.replace(made, results=results))
    shown = msgspec.structs.replace(result(State.FAIL_NONDETERMINISTIC, 1, fail=True), run=facts)
    place = json.loads(render_sarif([shown], 1))["runs"][0]["results"][0]["locations"][0]
    line = place["physicalLocation"]["region"]["startLine"]
    assert made.history.ops[line - 2].op_id == 4


def test_anomalies_are_counted_with_a_witness_or_without_and_each_once() -> None:
    """Two checkers found the same kind, one of them 40 of it, of which it shows one."""
    shown = report(fail=True)
    one = shown.results["linearizable"]
    counted = msgspec.structs.replace(one, stats={"anomalies": {"stale-read": 40}})
    both = msgspec.structs.replace(shown, results={"linearizable": one, "other": counted})
    facts = summary_of(both)
    assert (facts.anomalies, {one.checker: one.count for one in facts.counted}) == (
        40, {"linearizable": 1, "other": 40},
    )  # fmt: skip
    made = Result(
        path=Path("store/x/run"), kind="run", state=State.FAIL_NONDETERMINISTIC, reason="r",
        exit=1, run=facts,
    )  # fmt: skip
    text = render_prometheus([made], NOW_NS)
    assert 'dstest_run_anomalies{kind="run",path="store/x/run"} 40.0' in text
    assert "- and 35 more in its report" in render_summary([made])
    log = json.loads(render_sarif([made], 1))["runs"][0]["results"]
    assert [row["occurrenceCount"] for row in log] == [40], "one fingerprint"


def test_what_a_system_says_stays_in_its_place() -> None:
    made = result(State.FAIL_NONDETERMINISTIC, 1, fail=True, hostile=True)
    made = msgspec.structs.replace(made, reason=f"{HOSTILE}\n::error::forged\r\n| a | b |")
    ElementTree.fromstring(render_junit([made]))
    lines = list(annotation_lines([made]))
    assert len(lines) == 1 and "\n" not in lines[0] and "\r" not in lines[0]
    Sarif.model_validate(json.loads(render_sarif([made], 1)))
    summary = render_summary([made])
    assert "<script>" not in summary and "<img" not in summary
    assert sum(line.startswith("|") for line in summary.splitlines()) == 3
    for family in text_string_to_metric_families(render_prometheus([made], NOW_NS)):
        assert family.name.startswith("dstest_")
    json.loads(render_otlp([made], NOW_NS))


def test_labels_of_metrics_are_escaped() -> None:
    made = msgspec.structs.replace(result(None, 3), path=Path('store/a"b\\c\nd'))
    text = render_prometheus([made], NOW_NS)
    paths = {
        sample.labels["path"]
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if "path" in sample.labels
    }
    assert paths == {'store/a"b\\c\nd'}


def test_latencies_and_outcomes_are_those_of_the_report() -> None:
    shown = report()
    text = render_prometheus([result(State.PASS_SMOKE, 0, count=200)], NOW_NS)
    found = {
        (sample.labels["op_type"], sample.labels["outcome"]): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if sample.name == "dstest_run_operations"
    }
    for row in shown.types:
        assert found[row.op_type, "ok"] == row.ok and found[row.op_type, "unknown"] == row.unknown
    assert "\ndstest_report_timestamp_seconds 1.8e+09\n" in text
    write = next(row for row in shown.types if row.op_type == "write")
    assert write.p99_ms is not None and f"{write.p99_ms / 1e3}" in text


def test_a_long_summary_is_cut_and_says_so() -> None:
    red = msgspec.structs.replace(result(None, 3), reason="x" * 200_000)
    text = render_summary([red] * 20)
    assert len(text.encode()) < 1_000_000
    assert "16 more did not pass and have no room here." in text


def test_many_annotations_are_counted() -> None:
    lines = list(annotation_lines([result(None, 3)] * 25))
    assert len(lines) == 10 and lines[-1].endswith(
        "::16 more of 25 are not a pass; the log names them"
    )


def test_a_workflow_command_is_one_line() -> None:
    line = command("error", "a, b: c", "50%\r\n::x", file="a,b", line=3)
    assert line == "::error file=a%2Cb,line=3,title=a%2C b%3A c::50%25%0D%0A::x"


def test_endpoints() -> None:
    assert (
        endpoint_of("http://h:4318") == endpoint_of("http://h:4318/") == "http://h:4318/v1/traces"
    )
    assert endpoint_of("https://h/x/v1/traces") == "https://h/x/v1/traces"
    assert endpoint_of("traces.json") is None
