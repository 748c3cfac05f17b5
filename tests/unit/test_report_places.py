"""When an anomaly came about and when it showed, in cases as runs of real systems gave them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
from made_meta import meta
from made_moments import failing, fault, op, views
from made_report import S, report

from dstest.core import registry
from dstest.core.check import Budget, Stuck
from dstest.core.history import Header, History
from dstest.core.op import Op
from dstest.report.html import render_html
from dstest.report.logs import read_logs
from dstest.report.moments import Moment, headline, moments

LOST = "enqueue 616 (of element 165) was acknowledged, it never came out, and op 12148 was empty"


def only(found: list[Moment]) -> Moment:
    (one,) = found
    return one


def test_what_stood_between_two_operations_is_not_said_to_have_met_one() -> None:
    # memcached: a write, a kill of its node, a kill of all, a read that finds nothing
    ops = (op(35, 0.07, "write", input=1), op(47189, 27.5, output=None))
    faults = [fault("f1", 4.5, 12.2), fault("f2", 16.3, 24.6), fault("f3", 30.1, 37.3)]
    found = only(moments(failing(*ops, faults=faults), []))
    assert "It shows at 27.51 s, outside every fault: 2.9 s after f2" in found.where
    assert "ran inside" not in found.where
    assert (
        "Fault window f1 (partition one, in on n1) and fault window f2 (partition one, in on n1) "
        "lie between the operations of its witness." in found.where
    )
    assert found.inside == []
    assert [f.id for f in found.beside] == ["f1", "f2"]
    assert "it stood between the operations of the witness" in render_html(
        failing(*ops, faults=faults)
    )


def test_what_an_operation_met_is_no_window_between() -> None:
    ops = (op(1, 5, "write", input=1), op(2, 6, "write", input=2), op(3, 27, output=1))
    found = only(moments(failing(*ops, faults=[fault("f1", 4, 5.005), fault("f2", 9, 12)]), []))
    assert "Earlier operations of its witness ran inside fault window f1" in found.where
    assert "Fault window f2 (partition one, in on n1) lies between" in found.where
    assert [f.id for f in found.inside] == ["f1"]


def test_others_than_the_one_that_shows_need_not_be_earlier() -> None:
    ops = (op(1, 1, "write", input=1), op(2, 2, output=9), op(3, 5, "write", input=2))
    made = failing(*ops, faults=[fault("f1", 4, 9)], culprit=2)
    assert "Other operations of its witness ran inside" in only(moments(made, [])).where


def test_of_many_windows_between_the_first_are_named() -> None:
    ops = (op(1, 1, "write", input=1), op(2, 500, output=None))
    faults = [fault(f"f{n}", 10 * n, 10 * n + 5) for n in range(1, 41)]
    found = only(moments(failing(*ops, faults=faults), []))
    assert "fault window f3 (partition one, in on n1) and 37 more lie between" in found.where
    assert [f.id for f in found.beside] == ["f38", "f39", "f40"]


def test_a_window_that_an_operation_was_marked_with_is_met() -> None:
    # a client marks what it asked while the heal was on its way
    marked = op(2, 9.2, output=1, fault_epoch="f1")
    found = only(moments(failing(op(1, 1, "write"), marked, faults=[fault("f1", 4, 9)]), []))
    assert "It shows at 9.21 s, inside fault window f1" in found.where


def test_a_loss_is_told_by_when_it_was_done_and_when_it_showed() -> None:
    # redis-cluster: an add that a primary acknowledged while it was cut off
    ops = (op(1476, 5.17, "add", input=442), op(7498, 25.47, output=[183, 391]))
    text = "add 1476 had been acknowledged before read 7498 began, yet 442 is missing from it"
    made = failing(*ops, faults=[fault("f1", 5.106, 13.689)], text=text, type="lost")
    found = only(moments(made, []))
    assert found.where == (
        "Acknowledged at 5.18 s, inside fault window f1 (partition one, in on n1); "
        "seen to be missing at 25.48 s, 11.8 s after f1 (partition) was healed."
    )
    assert found.culprit == 7498


def test_a_message_that_was_lost_before_any_fault_and_missed_after_three() -> None:
    # nats: acknowledged, then all power was cut, three times
    ops = (op(616, 4.65, "enqueue", input=165), op(12148, 87.84, "dequeue", output=None))
    faults = [fault("f1", 4.9, 28.3), fault("f2", 32.0, 49.4), fault("f3", 52.7, 69.1)]
    found = only(moments(failing(*ops, faults=faults, text=LOST, type="lost"), []))
    assert found.where.startswith(
        "Acknowledged at 4.66 s, outside every fault: 0.2 s before f1 (partition) was "
        "injected; seen to be missing at 87.85 s, 18.8 s after f3 (partition) was healed. "
        "Fault window f1 "
    )
    assert "ran inside" not in found.where
    assert found.culprit == 12148


def test_a_loss_without_faults_or_with_no_acknowledgement_of_its_own() -> None:
    ops = (op(1, 1, "add", input=4), op(2, 3, output=[]))
    found = only(moments(failing(*ops, faults=[], type="lost"), []))
    assert found.where == (
        "Acknowledged at 1.01 s; seen to be missing at 3.01 s. No fault was injected in this run."
    )
    unknown = (op(1, 1, "add", input=4, complete_ts=None, timeout_marker=True),
               op(2, 3, output=[4]), op(3, 6, output=[]))  # fmt: skip
    found = only(moments(failing(*unknown, faults=[], type="lost"), []))
    assert found.where.startswith("Still read at 3.01 s; seen to be missing at 6.01 s.")
    twice = (op(1, 1, "add", input=4), op(2, 2, "add", input=4), op(3, 6, output=[4]))
    found = only(moments(failing(*twice, faults=[], type="lost"), []))
    assert found.where.startswith("First acknowledged at 1.01 s; seen to be missing at 6.01 s.")
    alone = only(moments(failing(op(2, 3, output=[]), faults=[fault("f1", 2, 5)], type="lost"), []))
    assert alone.where.startswith("It shows at 3.01 s, inside fault window f1")


def test_an_overlap_of_holds_has_a_begin_and_an_end() -> None:
    # etcd: the holder was paused, its lease ran out, and another got the lock
    ops = (
        op(303, 2.95, "acquire", process_id=6),
        op(665, 6.53, "acquire", process_id=17),
        op(2103, 20.0, "release", process_id=6, error="not-held: it has expired"),
        op(2451, 23.48, "release", process_id=17),
    )
    text = "processes 6 and 17 both surely held the lock for 13460.000 ms"
    kind = "overlapping-holds"
    made = failing(*ops, faults=[fault("f1", 4.17, 15.96)], text=text, type=kind)
    found = only(moments(made, []))
    assert found.where == (
        "Both held it from 6.54 s to 20.00 s: it began inside fault window f1 (partition one, in "
        "on n1), and ended 4.0 s after f1 (partition) was healed."
    )
    assert found.culprit == 665
    on = text.replace("for 13460.000 ms", "from then on")
    found = only(moments(failing(*ops[:2], faults=[], text=on, type=kind), []))
    assert found.where == (
        "Both held it from 6.54 s on, to the end of the run. No fault was injected in this run."
    )
    other = only(moments(failing(*ops, faults=[], text="both held it for 7.000 ms", type=kind), []))
    assert "Both held it" not in other.where


def test_an_overlap_of_leases_ends_as_the_first_runs_out() -> None:
    lease = {"ttl_ns": 5_000_000_000}
    ops = (
        op(1, 1, "acquire", process_id=6, input=lease),
        op(2, 4, "renew", process_id=6, input=lease),
        op(3, 6, "acquire", process_id=7, input=lease),
    )
    text = "processes 6 and 7 both surely held the lock for 2990.000 ms"
    found = only(moments(failing(*ops, faults=[], text=text, type="overlapping-holds"), []))
    assert found.where.startswith("Both held it from 6.01 s to 9.00 s.")


def test_the_logs_beside_a_loss_are_of_the_moment_of_its_acknowledgement(tmp_path: Path) -> None:
    for node, second in (("n1", 5), ("n2", 25)):
        folder = tmp_path / "nodes" / node
        folder.mkdir(parents=True)
        line = f"1970-01-01T00:00:{second:02d}.200000Z {node} speaks\n"
        (folder / "log").write_text(line, encoding="utf-8")
    clocks = meta(clock_start_ns=0, origin_ns=0)
    logs = read_logs(tmp_path, clocks)
    assert all(log.lines for log in logs)
    ops = (op(1, 5.17, "add", input=4), op(2, 25.1, output=[]))
    made = failing(*ops, faults=[fault("f1", 5.1, 13)], type="lost")
    first, later = only(moments(made, logs)).logs
    assert first.lines and not first.why
    assert "says nothing then" in later.why
    page = render_html(msgspec.structs.replace(made, path=str(tmp_path), meta=clocks))
    assert "what is missing later was acknowledged here" in page
    assert "From two seconds before the acknowledgement to two seconds after it" in page


def test_data_of_an_anomaly_name_the_operation_and_its_sentence_does_not() -> None:
    ops = (op(1, 1, "write", input=1), op(2, 2, output=1), op(3, 5, "write", input=2))
    said = "read 2 saw 1, and read 9 did not"
    assert only(moments(failing(*ops, faults=[], text=said), [])).culprit == 3
    assert only(moments(failing(*ops, faults=[], text=said, culprit=2), [])).culprit == 2
    # One that the history does not hold gives nothing away.
    gone = failing(*ops, faults=[], text="no operation is named", culprit=77)
    assert only(moments(gone, [])).culprit == 3


def test_why_nothing_fits_is_said_from_data_without_any_sentence() -> None:
    ops = (op(1, 1, "write", input=1), op(2, 2, "write", input=2), op(3, 3, output=1))
    stuck = Stuck(needs="it needs the value 1", noun="register", held="2")
    made = failing(*ops, faults=[], text="Whatever.", culprit=3, stuck=stuck)
    main, exact = headline(made, moments(made, []))
    assert "(stale read)" in main
    assert exact == (
        "Process 0 at n1 was answered “read → 1” at 3.01 s: it needs the value 1, and the "
        "register could only be 2; it had been overwritten 1.0 s before it was asked."
    )


def test_an_overlap_is_placed_by_its_times_without_any_sentence() -> None:
    ops = (
        op(303, 2.95, "acquire", process_id=6),
        op(665, 6.53, "acquire", process_id=17),
        op(2103, 20.0, "release", process_id=6, error="not-held: it has expired"),
    )
    begin, kind = int(6.54 * S), "overlapping-holds"
    made = failing(*ops, faults=[], text="", type=kind, overlap_ns=(begin, 20 * S), culprit=665)
    found = only(moments(made, []))
    assert found.where.startswith("Both held it from 6.54 s to 20.00 s.")
    assert found.culprit == 665
    made = failing(*ops, faults=[], text="", type=kind, overlap_ns=(begin, None), culprit=665)
    assert "Both held it from 6.54 s on, to the end" in only(moments(made, [])).where
    # Times that no answer of the witness has are not believed.
    made = failing(*ops, faults=[], text="", type=kind, overlap_ns=(7, 20 * S), culprit=665)
    assert "Both held it" not in only(moments(made, [])).where


def _txn(number: int, at_s: float, *mops: list[Any]) -> Op:
    asked = [[f, key, None if f == "r" else value] for f, key, value in mops]
    return op(number, at_s, "txn", key=None, input=asked, output=[*mops], process_id=number)


def test_of_two_answers_that_exclude_each_other_the_later_gave_it_away() -> None:
    """Nothing is wrong before it: a fault between the two stands before the anomaly."""
    appends = [_txn(n, 1 + n, ["append", "x", value]) for n, value in enumerate((1, 8, 2))]
    ops = [*appends, _txn(3, 5, ["r", "x", [1, 8]]), _txn(4, 20, ["r", "x", [1, 2]])]
    history = History(header=Header(model="serializable"), ops=ops)
    result = registry.load("checkers", "list-append").check(history, "serializable", Budget())
    made = msgspec.structs.replace(
        report(fail=True), results={"list-append": result}, history=history,
        faults=views([fault("f1", 8, 12)]),
    )  # fmt: skip
    first = next(m for m in moments(made, []) if m.anomaly.type == "incompatible-order")
    assert first.culprit == 4
    assert first.where.startswith("It shows at 20.01 s, outside every fault: 8.0 s after f1")


def test_after_a_heal_its_effects_may_last_until_the_recovery() -> None:
    late = fault("f1", 4, 9, until_s=14)
    for at_s, said in (
        (
            12.0,
            "3.0 s after f1 (partition) was healed, while its effects may have lasted (until 14",
        ),
        (15.0, "outside every fault: 6.0 s after f1 (partition) was healed"),
    ):
        (found,) = moments(failing(op(1, at_s), faults=[late]), [])
        assert said in found.where
    to_the_end = msgspec.structs.replace(late, until_ns=None)
    (found,) = moments(failing(op(1, 15.0), faults=[to_the_end]), [])
    assert "while its effects may have lasted (to the end)" in found.where
    never_landed = msgspec.structs.replace(to_the_end, landed="no")
    (found,) = moments(failing(op(1, 15.0), faults=[never_landed]), [])
    assert "outside every fault: 6.0 s after f1 (partition, not proven to have landed)" in (
        found.where
    )
