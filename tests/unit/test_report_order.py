"""What a page tells first, how often it says that something came, and what it dates."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

import msgspec
import pytest
from made_meta import meta
from made_moments import failing, fault, op
from made_report import S, record, report

from dstest.core import registry
from dstest.core.check import Budget
from dstest.core.history import Header, History
from dstest.core.op import Op
from dstest.core.protocols import System, SystemLogs
from dstest.report.charts import axis_of
from dstest.report.findings import render_findings
from dstest.report.html import render_html
from dstest.report.logs import around, read_logs, recorded_changes
from dstest.report.model import RunReport
from dstest.report.moments import headline, moments
from dstest.report.service import SHOWN_MAX, first_shown, instant_text, least_ns, stretches


def txn(number: int, at_s: float, mops: list[list[object]]) -> Op:
    asked = [[f, k, None if f == "r" else v] for f, k, v in mops]
    return op(number, at_s, "txn", key=None, input=asked, output=mops, process_id=number)


LOST_UPDATE = [
    txn(0, 1, [["r", "x", None], ["w", "x", 1]]),
    txn(1, 1, [["r", "x", None], ["w", "x", 2]]),
    txn(2, 3, [["r", "x", 2]]),
]


def told(ops: list[Op], checker: str, model: str) -> list[str]:
    history = History(header=Header(model=model), ops=ops)
    result = registry.load("checkers", checker).check(history, model, Budget())
    made = msgspec.structs.replace(report(fail=True), results={checker: result}, history=history)
    found = moments(made, [])
    return [headline(made, found)[0], *(m.anomaly.type for m in found)]


def test_what_most_models_forbid_is_told_first() -> None:
    said, first, *others = told(LOST_UPDATE, "rw-register", "serializable")
    assert first == "lost-update"
    assert "write-skew" in others or "G2-item" in others
    assert "lost" in said
    assert "write skew" not in said


def test_what_was_seen_is_told_before_a_circle_that_stands_on_an_inferred_order() -> None:
    # Lists whose elements are lost: a circle of appends that no read shows is no dirty write.
    def appended(number: int, at_s: float, *mops: list[object]) -> Op:
        asked = [[f, k, None if f == "r" else v] for f, k, v in mops]
        return op(number, at_s, "txn", key=None, input=asked, output=list(mops), process_id=number)

    ops = [
        appended(0, 1, ["append", "x", 1], ["append", "y", 1]),
        appended(1, 1, ["append", "x", 2], ["append", "y", 2]),
        appended(2, 3, ["r", "x", [1]]),
        appended(3, 3, ["r", "y", [2]]),
        appended(4, 5, ["r", "x", [1, 3]]),
        appended(5, 5, ["append", "x", 3]),
        appended(6, 5, ["append", "x", 4]),
        appended(7, 6, ["r", "x", [1, 4]]),
    ]
    said, first, *others = told(ops, "list-append", "serializable")
    assert any(kind.startswith("G0") for kind in others)
    assert first == "incompatible-order"
    assert "dirty write" not in said


def test_of_one_id_for_two_nobody_says_that_work_was_done_twice() -> None:
    ops = [op(n, n, "generate", key=None, output=17, process_id=n) for n in (1, 2)]
    said, first = told(ops, "unique-ids", "unique")
    assert first == "duplicated"
    assert "gave one id to two callers" in said


@pytest.mark.parametrize(("value", "kind"), [(-1, "phantom-increment"), (0, "lost-increment")])
def test_less_than_nothing_is_no_lost_increment(value: int, kind: str) -> None:
    ops = [
        op(1, 1, "inc", key="c", input=2),
        op(2, 5, "read", key="c", output=value, process_id=1),
    ]
    said, *kinds = told(ops, "counter-bounds", "counter-bounds")
    assert kinds == [kind]
    assert ("acknowledged" in said) == (kind == "lost-increment")


def test_how_often_is_the_same_all_over_the_page() -> None:
    # Two clients of one stale copy, on many keys: few of them have a witness.
    ops = []
    for n in range(60):
        ops += [
            op(4 * n, n, "write", key=f"k{n}", input=1),
            op(4 * n + 1, n + 0.2, "write", key=f"k{n}", input=2),
            op(4 * n + 2, n + 0.4, key=f"k{n}", output=1, process_id=1),
        ]
    ops.sort(key=lambda o: o.invoke_ts)
    history = History(header=Header(model="register"), ops=ops)
    result = registry.load("checkers", "linearizable").check(history, "register", Budget())
    made = msgspec.structs.replace(
        report(fail=True), results={"linearizable": result}, history=history
    )
    witnesses = len(result.anomalies["nonlinearizable"])
    assert witnesses < 60
    page = render_html(made)
    assert "60 stale reads on 60 keys: " in page
    assert "60 stale read over the run" in page, "the strip's name"
    assert f"In this run: 60 times, {witnesses} with a witness." in page
    assert f"In this run: {witnesses} times" not in page


CORRUPT = "1970-01-01T00:00:05.000Z info {initial-corrupt-check:false} data is corrupted: no"


@pytest.mark.parametrize("texts", [(), ("initial-corrupt-check", "data is corrupted: no")])
def test_a_line_is_an_alarm_where_it_is_one_to_the_judge(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, texts: tuple[str, ...]
) -> None:
    class Theirs(System):
        logs = SystemLogs(harmless=texts, alarms=("cannot be mended",))

    real = registry.load
    monkeypatch.setattr(
        registry, "load", lambda kind, name: Theirs() if kind == "systems" else real(kind, name)
    )
    (tmp_path / "nodes" / "n1").mkdir(parents=True)
    own = CORRUPT.replace("05.000", "05.100").partition(" info")[0] + " it cannot be mended"
    (tmp_path / "nodes" / "n1" / "db.log").write_text(f"{CORRUPT}\n{own}\n", encoding="utf-8")
    logs = read_logs(tmp_path, meta(origin_ns=0, clock_start_ns=0), "theirs")
    (lines,) = around(logs, 5 * S, 5 * S)
    assert [line.alarm for line in lines.lines] == ["" if texts else "corruption", "alarm"]


def load(rate: int, until_s: int, dead: list[tuple[float, float, str]]) -> list[Op]:
    """`rate` a second on each of five nodes; nothing succeeds on a node while it is dead."""
    ops = []
    for n in range(rate * until_s * 5):
        at, node = n / rate / 5, f"n{n % 5 + 1}"
        down = any(a <= at < b and who in (node, "all") for a, b, who in dead)
        ops.append(
            op(n, at, output=None if down else 1, node_seen=node, process_id=n % 5,
               complete_ts=None if down else int(at * S) + 1_000_000, timeout_marker=down,
               op_type="read")
        )  # fmt: skip
    return ops


def test_the_longest_stops_of_the_whole_are_shown_whatever_else_there_is() -> None:
    dead = [(2.0 * n, 2.0 * n + 1.2, f"n{n % 5 + 1}") for n in range(1, 19)]
    dead += [(40.0, 42.0, "all"), (50.0, 53.0, "all")]
    rows = stretches(load(20, 60, dead), [])
    at_once, later = first_shown(rows)
    assert len(at_once) == SHOWN_MAX < len(rows)
    assert [n for n, _ in at_once] == sorted(n for n, _ in at_once)
    # From the last answers before: nobody knows more of when it stopped.
    assert [row.start_ns for _, row in at_once if row.whole] == [39_990_999_999, 49_990_999_999]
    assert not any(row.whole for _, row in later)
    assert len(at_once) + len(later) == len(rows)
    page = render_html(_run_of(load(20, 60, dead)))
    assert all(f'id="outage-{n}"' in page for n in range(1, len(rows) + 1))


@pytest.mark.parametrize("last_s", [18.0, 22.4])
def test_all_hung_until_the_end_of_the_load_is_a_stretch_and_on_the_charts(last_s: float) -> None:
    # The last calls go out right after the last answer, and nothing comes back.
    ops = [*load(20, int(last_s), []), *load(20, int(last_s) + 1, [(0, 99, "all")])[-10:]]
    ops = [op for op in ops if op.invoke_ts < last_s * S]
    hung = [
        msgspec.structs.replace(op, op_id=90_000 + n, invoke_ts=int(last_s * S) + n)
        for n, op in enumerate(load(1, 2, [(0, 9, "all")]))
    ]
    ops = [*ops, *hung]
    rows = stretches(ops, [], 28 * S)
    whole = next(row for row in rows if row.whole)
    assert whole.open_end
    assert whole.end_ns == 28 * S
    assert "to the end of the load" in whole.said
    made = _run_of(ops)
    made = msgspec.structs.replace(made, meta=meta(load_end_ns=28 * S))
    assert axis_of(made).end_ns >= 28 * S
    assert "Service never stood still" not in render_html(made)


def test_a_slow_load_that_is_refused_for_nine_seconds_was_not_served() -> None:
    ops = [op(n, n / 2, output=1) for n in range(60)]
    for n in range(20, 38):
        ops[n] = op(n, n / 2, output=None, error="no")
    (row,) = stretches(ops, [])
    assert row.start_ns // S == 9
    assert row.end_ns // S == 19
    assert least_ns(ops) == 9 * S // 2
    assert "no stretch of 4.5 s or more" in render_html(_run_of(ops[:20]))


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({}, "2.0 s after f1 (partition) was healed"),
        (
            {"heal_verified": False},
            "2.0 s after f1 (partition) was taken back, which is not proven",
        ),
        ({"landed": "no"}, "2.0 s after f1 (partition, not proven to have landed) was healed"),
        ({"landed": "ambiguous"}, "2.0 s after f1 (partition, not proven to have landed)"),
    ],
)
def test_an_anomaly_is_not_placed_after_a_heal_that_nothing_proves(
    changes: dict[str, Any], said: str
) -> None:
    stood = msgspec.structs.replace(fault("f1", 4, 9), **changes)
    (found,) = moments(failing(op(1, 11 - 0.01), faults=[stood]), [])
    assert said in found.where
    assert said in instant_text(11 * S, [stood])


def test_a_command_on_the_page_can_be_copied_whatever_the_path() -> None:
    made = failing(op(1, 5), faults=[])
    made = msgspec.structs.replace(made, path="/tmp/sp ace; touch PWNED/r1")
    page = render_html(made)
    assert "dstest shrink &#39;/tmp/sp ace; touch PWNED/r1&#39;" in page
    assert "dstest report &#39;/tmp/sp ace; touch PWNED/r1&#39;" in page
    assert shlex.split(_next_action(made))[-1] == "/tmp/sp ace; touch PWNED/r1"


def _next_action(made: RunReport) -> str:
    return render_findings(made).partition("- Next action: ")[2].splitlines()[0].strip("`. ")


def _run_of(ops: list[Op]) -> RunReport:
    made = report(fail=True)
    history = msgspec.structs.replace(made.history, ops=ops)
    return msgspec.structs.replace(made, history=history, faults=[])


def test_what_stops_again_and_again_under_one_fault_is_told_once() -> None:
    dead = [(10.0 + 3 * n, 11.5 + 3 * n, "n3") for n in range(5)]
    rows = stretches(load(20, 40, dead), [fault("f1", 9.5, 30)])
    (row,) = rows
    assert row.times == 5
    assert "n3 answered nothing with success 5 times from 10.0 s" in row.said
    assert "while f1 (partition) stood" in row.said
    outside = stretches(load(20, 40, dead), [])
    assert len(outside) == 5


def test_a_change_of_the_lead_has_a_latest_time_and_no_invented_one() -> None:
    moved = {"moved": True, "leader": "n1", "new_leader": "n2", "new_term": 4}
    made = msgspec.structs.replace(
        record(0), nemesis="rolling", facts={"steps": [{"moved": False}, moved, moved]}
    )
    found = recorded_changes([made])
    assert [change.time_ns for change in found] == [made.healed_at] * 2
    assert [change.said for change in found] == [
        "n1 → n2, term 4, step 2 of 3", "n1 → n2, term 4, step 3 of 3",
    ]  # fmt: skip
