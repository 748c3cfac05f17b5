"""Errors that no fault explains are shown with their counts; what only a fault did is not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest
from made_audit import but
from made_report import report

from dstest.core.evidence import CheckerEvidence, CheckerOps
from dstest.core.history import Header, History
from dstest.core.op import Op
from dstest.judge.decide import decide, judged_text, share
from dstest.judge.evidence import build_evidence
from dstest.report.findings import render_findings
from dstest.report.html import render_html
from dstest.report.model import RunReport, build_report
from dstest.report.remedies import Remedy, without_method
from dstest.report.service import unusual
from dstest.report.terminal import summary_text


def op(number: int, **changes: Any) -> Op:
    given: dict[str, Any] = {"op_type": "enqueue", "complete_ts": number + 1, "output": 1}
    return Op(op_id=number, process_id=0, invoke_ts=number, **given | changes)


def unknown(number: int, error: str = "unsupported operation: dequeue", **changes: Any) -> Op:
    given: dict[str, Any] = {"op_type": "dequeue", "output": None, "timeout_marker": True}
    return op(number, **given | {"error": error} | changes)


def history(*ops: Op) -> History:
    return History(header=Header(), ops=list(ops))


def reported(*ops: Op) -> RunReport:
    return msgspec.structs.replace(report(), errors=unusual(history(*ops)))


def test_a_type_of_which_none_succeeded() -> None:
    (row,) = unusual(history(*map(op, range(50)), *map(unknown, range(50, 57))))
    assert row.op_type == "dequeue"
    assert row.message == "none of 7 operations succeeded"
    (told,) = row.texts
    assert (told.count, told.outcome, told.text) == (7, "unknown", "unsupported operation: dequeue")


def test_a_code_that_the_system_does_not_list_is_named_whenever_it_came() -> None:
    """Also during a fault, when nothing else is out of the ordinary."""
    error = "not listed as definite: no-majority: 1 of 3"
    odd = [unknown(i, error, op_type="enqueue", fault_epoch="f1") for i in range(50, 94)]
    (row,) = unusual(history(*map(op, range(50)), *odd))
    assert row.message == "44 x no-majority not listed in definite_errors: counted as unknown"
    listed = [unknown(i, "no-majority", op_type="enqueue", fault_epoch="f1") for i in (50, 51)]
    assert unusual(history(*map(op, range(50)), *listed)) == []


def test_the_most_frequent_first_and_digits_make_no_difference() -> None:
    refused = [unknown(i, f"refused by 10.0.0.{i}") for i in range(3)]
    (row,) = unusual(history(*refused, *(unknown(i, "late") for i in range(3, 5))))
    assert [(told.text, told.count) for told in row.texts] == [
        ("refused by 10.0.0.0", 3),
        ("late", 2),
    ]


def test_what_a_fault_did_is_in_order_and_so_are_a_few() -> None:
    good = [op(i) for i in range(95)]
    during = [unknown(i, op_type="enqueue", fault_epoch="f1") for i in range(100, 200)]
    few = [unknown(i, op_type="enqueue") for i in range(200, 205)]
    assert unusual(history(*good, *during, *few)) == []
    (row,) = unusual(history(*good, *during, *few, unknown(300, op_type="enqueue")))
    assert row.message == "6 of 101 operations ended unknown while no fault stood"
    assert unusual(history()) == []


def test_in_a_run_without_a_fault_none_is_in_order() -> None:
    """25 of 3,000 hung in threads, and the run passed without a word of them."""
    ops = [op(i) for i in range(2975)]
    (row,) = unusual(history(*ops, *(unknown(3000 + i, op_type="enqueue") for i in range(25))))
    assert row.message == "25 of 3,000 operations ended unknown while no fault stood"


def test_it_is_said_wherever_a_run_is_told_of() -> None:
    shown = reported(*map(unknown, range(7)))
    for text in (summary_text(shown), render_findings(shown), render_html(shown)):
        assert "none of 7 operations succeeded" in text
        assert "unsupported operation: dequeue" in text
    ordinary = reported(op(1))
    assert "errors that no fault" not in render_html(ordinary)
    assert "Errors" not in render_findings(ordinary)


def test_what_the_client_lacks_is_supplied_by_no_command() -> None:
    shown = reported(*map(unknown, range(7)))
    assert "The client lacks do_dequeue" in shown.remedies[0].obstacle
    assert not any(remedy.command for remedy in shown.remedies)
    assert without_method([Remedy("a", "b")], []) == [Remedy("a", "b")]


def test_a_replay_is_offered_whatever_the_client_lacks() -> None:
    found = [Remedy("a", "dstest replay store/run --times 3"), Remedy("b", "dstest run")]
    assert [remedy.command for remedy in without_method(found, ["dequeue"])] == [
        "",
        "dstest replay store/run --times 3",
        "",
    ]


def test_a_run_that_ended_before_its_load_says_why_and_nothing_else() -> None:
    made = report()
    made.meta.ended_by = "db on n1 ended with status 5; end of its log:\n usage"
    assert len(made.remedies) > 1, "it had a load"
    (remedy,) = msgspec.structs.replace(made, history=history()).remedies
    assert "before its load: db on n1 ended with status 5; end of its log." in remedy.obstacle
    assert remedy.command == made.command


def test_operations_are_counted_once_and_by_checker_where_they_differ() -> None:
    def of(**counts: tuple[int, int]) -> CheckerEvidence:
        rows = {n: CheckerOps(eligible=e, consumed=c) for n, (e, c) in counts.items()}
        return CheckerEvidence(ran=list(counts), by_checker=rows, ops_consumed=4, ops_eligible=4)

    assert (
        judged_text(of(set=(1000, 1000), order=(1000, 1000)))
        == "set, order judged 1,000 operations"
    )
    assert share(of(set=(1000, 1000), order=(1000, 1000))) == "1,000 of 1,000"
    uneven = of(set=(40, 40), order=(40, 38))
    assert judged_text(uneven) == "set judged 40 and order 38 operations"
    assert share(uneven) == "40 of 40 by set, 38 of 40 by order"
    assert judged_text(CheckerEvidence(ran=["set"], ops_consumed=40)) == "set judged 40 operations"


@pytest.mark.parametrize(
    ("by", "said", "offered"),
    [
        ("stopped by SIGINT", "Interrupted after 0 s; nodes healed", "dstest run"),
        ("cannot record: no space left on the disk of /x", "ended early", "--store /another/disk"),
    ],
)
def test_a_run_that_was_cut_short_says_that_first_and_offers_what_helps(
    by: str, said: str, offered: str, tmp_path: Path
) -> None:
    facts = but(ended_by=by, records=[], faults_planned=3)
    evidence = build_evidence(facts, op_types=frozenset({"read", "write"}))
    verdict = decide(evidence)
    assert verdict.reason.startswith(f"The run ended before its time: {by}")
    meta = msgspec.structs.replace(report().meta, ended_by=by)
    made = build_report(verdict, [], history(op(1)), meta, path=tmp_path)
    text = summary_text(made)
    assert said in text.splitlines()[2], text
    told = text.partition("why not better")[2]
    assert told.count("  - ") == 1 and offered in told, told


def test_where_nothing_was_broken_each_unknown_operation_is_told() -> None:
    """As of a thread that hangs: it is one of thousands, and nothing was there to hold it up."""
    (row,) = unusual(history(*map(op, range(300)), unknown(300, "no answer", op_type="enqueue")))
    assert row.message == "1 of 301 operations ended unknown while no fault stood"
