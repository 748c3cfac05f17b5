"""Many anomalies of one kind are a line, and what two checkers found is told once."""

from __future__ import annotations

import re
from typing import Any

import msgspec
from made_moments import fault, op, stamped, views
from made_report import report

from dstest.core import registry
from dstest.core.check import Anomaly, Budget, CheckResult
from dstest.core.history import FaultWindow, Header, History
from dstest.core.op import Op
from dstest.report.html import render_html
from dstest.report.meanings import table_meaning
from dstest.report.model import RunReport
from dstest.report.moments import kinds, moments


def judged(ops: list[Op], *names: str) -> dict[str, CheckResult]:
    found = {}
    for name in names:
        checker = registry.load("checkers", name)
        header = Header(model=checker.models[0])
        found[name] = checker.check(History(header=header, ops=ops), header.model, Budget())
    return found


def failing(ops: list[Op], results: dict[str, Any], faults: list[FaultWindow]) -> RunReport:
    made = report(fail=True)
    history = msgspec.structs.replace(made.history, ops=ops)
    return msgspec.structs.replace(made, results=results, history=history, faults=views(faults))


def losses(count: int = 40) -> list[Op]:
    """An add a second, by two nodes, and a read of nothing a minute later."""
    adds = [op(n, float(n), "add", input=n, node_seen=f"n{n % 2 + 1}") for n in range(count)]
    return stamped([*adds, op(999, 100, output=[], node_seen="n3")], FAULTS)


def old(results: dict[str, CheckResult]) -> dict[str, CheckResult]:
    """As checkers answered before they said what an anomaly is about."""
    unset = msgspec.UNSET
    made = {}
    for name, result in results.items():
        rows = {
            kind: [msgspec.structs.replace(a, element=unset, culprit=unset) for a in group]
            for kind, group in result.anomalies.items()
        }
        made[name] = msgspec.structs.replace(result, anomalies=rows, spreads=unset)
    return made


def test_a_window_that_nothing_proves_is_told_so() -> None:
    unproven = msgspec.structs.replace(fault("f1", 10, 15), landed="no")
    made = failing(losses(), judged(losses(), "set-full"), [unproven])
    (row,) = kinds(made, moments(made, []))
    assert "inside f1 (partition, not proven to have landed)" in row.said


def test_one_more_is_one() -> None:
    ops = [op(n, float(n), "add", input=n, node_seen=f"n{n % 4}") for n in range(40)]
    made = failing(
        [*ops, op(999, 100, output=[])], judged([*ops, op(999, 100, output=[])], "set-full"), []
    )
    (row,) = kinds(made, moments(made, []))
    assert " and 1 more node" in row.said and "1 more nodes" not in row.said


FAULTS = [fault("f1", 10, 15), fault("f2", 60, 70)]


def test_many_of_a_kind_are_one_line_with_times_nodes_keys_and_windows() -> None:
    made = failing(losses(), judged(losses(), "set-full"), FAULTS)
    (kind,) = kinds(made, moments(made, []))
    assert (kind.type, kind.count, kind.first) == ("lost", 40, 1)
    assert kind.said == (
        "found by set-full, 16 of them with a witness. Acknowledged or first read from 0.01 s to "
        "39.01 s by n1 (20) and n2 (20), 6 inside f1 (partition) and 34 outside every fault "
        "window; seen to be missing at 100.01 s by n3, all outside every fault window. "
        "All are on key k."
    )


def test_a_run_of_before_tells_of_its_witnesses_and_says_so() -> None:
    results = old(judged(losses(), "set-full"))
    made = failing(losses(), results, FAULTS)
    (kind,) = kinds(made, moments(made, []))
    assert kind.count == 40
    assert kind.said == (
        "found by set-full, 16 of them with a witness. Of the 16 with a witness: acknowledged or "
        "first read from 0.01 s to 15.01 s by n1 (8) and n2 (8), 6 inside f1 (partition) and 10 "
        "outside every fault; seen to be missing at 100.01 s by n3, all outside every fault. "
        "All are on key k."
    )


def test_one_of_a_kind_needs_no_line_and_no_faults_no_windows() -> None:
    made = failing(losses(1), judged(losses(1), "set-full"), FAULTS)
    (alone,) = kinds(made, moments(made, []))
    page = render_html(made)
    assert alone.count == 1 and 'id="kinds"' not in page and "of this kind" not in page
    made = failing(losses(2), judged(losses(2), "set-full"), [])
    (kind,) = kinds(made, moments(made, []))
    assert "fault window" not in kind.said


def test_of_many_keys_and_windows_those_with_most_are_named() -> None:
    ops = [op(100 * k + n, k, "add", key=f"k{k}", input=n, fault_epoch=f"f{k}")
           for k in range(1, 7) for n in range(k)]  # fmt: skip
    ops += [op(9000 + k, 90, key=f"k{k}", output=[]) for k in range(1, 7)]
    faults = [fault(f"f{k}", k - 0.4, k + 0.4) for k in range(1, 7)]
    made = failing(ops, judged(ops, "set-full"), faults)
    (kind,) = kinds(made, moments(made, []))
    assert (
        "6 inside f6 (partition), 5 inside f5 (partition), 4 inside f4 (partition), " in kind.said
    )
    assert "6 inside 3 more fault windows and none outside every fault window" in kind.said
    assert "They are on 6 keys, most on k6 (6), k5 (5) and k4 (4)." in kind.said


def test_a_kind_without_operations_is_counted() -> None:
    rows = [Anomaly(type="panic", key="n1", explanation="panic") for _ in range(3)]
    result = CheckResult(checker="no-crash", valid=False, anomalies={"panic": rows})
    made = failing(losses(1), {"no-crash": result}, FAULTS)
    (kind,) = kinds(made, moments(made, []))
    assert kind.said == "found by no-crash. No operation of this history is named for them."


def test_the_line_stands_on_the_page_and_in_its_head() -> None:
    page = render_html(failing(losses(), judged(losses(), "set-full"), FAULTS))
    head, _, rest = page.partition('class="tiles"')
    assert "40 of this kind: the 16 with a witness" not in head
    assert "40 of this kind: acknowledged or first read from 0.01 s to 39.01 s by n1 (20)" in head
    assert "seen to be missing since 100.01 s" in head
    assert "In this run: 40 times, 16 with a witness." in rest
    results = judged(losses(), "set-full")
    alone = Anomaly(type="panic", key="n1", explanation="panic")
    results["no-crash"] = CheckResult(checker="no-crash", valid=False, anomalies={"panic": [alone]})
    page = render_html(failing(losses(), results, FAULTS))
    assert "<b>40 &times; lost</b>, found by set-full, 16 of them with a witness." in page


def test_other_kinds_are_named_in_the_head() -> None:
    """Also one that is there once, and has no line of its own."""
    results = judged(losses(), "set-full")
    alone = Anomaly(type="panic", key="n1", explanation="panic")
    results["no-crash"] = CheckResult(checker="no-crash", valid=False, anomalies={"panic": [alone]})
    page = render_html(failing(losses(), results, FAULTS))
    head = page.partition('class="tiles"')[0]
    named = re.search(r"Found as well: (.*?)\.</dd>", head)
    assert named is not None
    assert named[1] in ("1 &times; panic", "40 &times; lost")
    alone_page = render_html(failing(losses(), judged(losses(), "set-full"), FAULTS))
    assert "Found as well" not in alone_page


def test_the_same_loss_stands_once_with_all_who_found_it() -> None:
    for results in (
        judged(losses(12), "set-full", "no-lost-ack"),
        old(judged(losses(12), "set-full", "no-lost-ack")),
    ):
        made = failing(losses(12), results, FAULTS)
        found = moments(made, [])
        assert len(found) == 24
        assert [m.twin_of for m in found] == [None] * 12 + list(range(1, 13))
        for twin in found[12:]:
            first = found[(twin.twin_of or 0) - 1]
            assert (first.checker, twin.checker) == ("set-full", "no-lost-ack")
            assert first.anomaly.ops == twin.anomaly.ops
        (kind,) = kinds(made, found)
        assert "found by set-full (12) and no-lost-ack (12)." in kind.said
        assert kind.many == "at least 12"
        page = render_html(made)
        assert page.count('<article class="anomaly"') == 1
        assert "11 more witnesses" in page
        text = re.sub(r"<[^>]+>", "", page)
        assert "found by set-full, model linearizable and no-lost-ack, model durable" in text
        # Nothing is dropped: both explanations, and an anchor for each of the 24.
        for number in range(1, 25):
            assert f'id="anomaly-{number}"' in page
        for m in found:
            assert msgspec.json.encode(m.anomaly.explanation).decode()[2:-1] in page


def test_what_else_a_second_checker_holds_against_it_is_shown() -> None:
    ops = [op(1, 1, "add", input=7), op(2, 5, output=[]), op(3, 9, output=[])]
    first = Anomaly(type="lost", key="k", ops=[1, 2], element=7, explanation="gone at once")
    other = Anomaly(type="lost", key="k", ops=[1, 3], element=7, explanation="gone at the end")
    results = {
        name: CheckResult(
            checker=name, valid=False, anomaly_types=["lost"], anomalies={"lost": [a]}
        )
        for name, a in (("set-full", first), ("no-lost-ack", other))
    }
    made = failing(ops, results, FAULTS)
    assert [m.twin_of for m in moments(made, [])] == [None, 1]
    page = render_html(made)
    assert "no-lost-ack found the same: gone at the end Acknowledged at 1.01 s" in page
    assert "Its witness holds besides:" in page
    assert "seen to be missing at 9.01 s" in page
    assert "By no-lost-ack: " not in page  # what it says of how often is the same


def test_others_are_the_same_only_where_their_operations_are() -> None:
    ops = [op(1, 1, "add", input=7), op(2, 5, output=[]), op(3, 9, output=[7])]

    def twin_of(kind: str, one: dict[str, Any], other: dict[str, Any], *names: str) -> int | None:
        results: dict[str, Any] = {}
        for name, fields in zip(names or ("a", "b"), (one, other), strict=True):
            row = Anomaly(**{"type": kind, "key": "k", "ops": [1, 2], **fields})
            results[name] = CheckResult(checker=name, valid=False, anomalies={kind: [row]})
        return moments(failing(ops, results, []), [])[1].twin_of

    assert twin_of("stale", {"element": 7}, {"element": 7}) == 1
    assert twin_of("stale", {"element": 7}, {"element": 7, "ops": [1, 3]}) is None
    assert twin_of("stale", {"element": 7}, {"element": 8}) is None
    assert twin_of("lost", {"element": 7}, {"element": 7, "ops": [1, 3]}) == 1
    assert twin_of("lost", {"element": 7}, {"element": "7"}) is None
    assert twin_of("lost", {"element": 7}, {"element": 7, "key": "j"}) is None
    assert twin_of("lost", {"ops": []}, {"ops": []}) is None


def test_two_copies_that_one_checker_misses_are_two_losses() -> None:
    ops = [op(1, 1, "add", input=7), op(2, 5, output=[])]
    rows = [Anomaly(type="lost", key="k", ops=[1, 2], element=7) for _ in range(2)]
    one = CheckResult(checker="a", valid=False, anomalies={"lost": rows})
    made = failing(ops, {"a": one}, [])
    assert [m.twin_of for m in moments(made, [])] == [None, None]
    both = {"a": one, "b": msgspec.structs.replace(one, checker="b")}
    assert [m.twin_of for m in moments(failing(ops, both, []), [])] == [None, None, 1, 2]


def contradicting(keys: int) -> list[Op]:
    """On each key two reads that cannot both be."""
    ops = []
    for n in range(keys):
        for who, seen in enumerate(([1, 2], [2, 1])):
            mops = [["append", n, who + 1]]
            ops.append(op(4 * n + who, 4.0 * n + who, "txn", input=mops, output=mops))
            asked = [["r", n, None]]
            told = [["r", n, seen]]
            at = 4.0 * n + 2 + who
            ops.append(op(4 * n + 2 + who, at, "txn", input=asked, output=told))
    return ops


def test_of_lists_that_contradict_each_other_one_of_each_key_is_told_and_no_first() -> None:
    ops = contradicting(3)
    made = failing(ops, judged(ops, "list-append"), [])
    (kind,) = (k for k in kinds(made, moments(made, [])) if k.type == "incompatible-order")
    assert kind.many == "at least 3"
    assert kind.when.startswith("At least 3 of this kind: one for each key from ")


def test_what_is_meant_holds_of_every_run_that_may_show_it() -> None:
    """Of writes that replace and of those that add; of a stale read as of a lost write."""
    update, order = table_meaning("lost-update"), table_meaning("incompatible-order")
    single = table_meaning("nonlinearizable")
    assert update is not None and order is not None and single is not None
    assert "as in lists" not in update.means
    assert "numbers or whole lists, one change is gone" in update.means
    assert "the same elements" not in order.did
    assert order.did.endswith(": appended elements were lost or reordered")
    assert "lost write" not in single.means


def test_what_was_lost_is_told_beginning_with_its_acknowledgement() -> None:
    ops = [
        msgspec.structs.replace(op(0, 0, "add", input=7), complete_ts=1_500_000_000),
        op(1, 1, output=[7]),
        op(2, 2, output=[]),
        op(3, 3, output=[]),
    ]
    (found,) = judged(ops, "set-full")["set-full"].anomalies["lost"]
    assert found.explanation == (
        "element 7 was acknowledged (add op 0) and returned by read (op 1) before read (op 2) "
        "began, yet it is missing from that read and all that follow"
    )
    unknown = msgspec.structs.replace(ops[0], output=None, error="lost", timeout_marker=True)
    (found,) = judged([unknown, *ops[1:]], "set-full")["set-full"].anomalies["lost"]
    assert found.explanation.startswith("element 7 was returned by read (op 1) before read (op 2)")


def test_witnesses_of_transactions_come_in_order_of_time_and_so_does_the_first() -> None:
    ops = contradicting(6)
    results = judged(ops[::-1], "list-append") | judged(ops, "list-append")
    group = results["list-append"].anomalies["incompatible-order"]
    by_id = {o.op_id: o for o in ops}
    times = [max(by_id[id].complete_ts or 0 for id in one.ops) for one in group]
    assert times == sorted(times)
    made = failing(ops, results, [])
    late = msgspec.structs.replace(
        results["list-append"], anomalies={"incompatible-order": group[::-1]}
    )
    for one in (made, msgspec.structs.replace(made, results={"list-append": late})):
        found = moments(one, [])
        kind = next(k for k in kinds(one, found) if k.type == "incompatible-order")
        assert next(m for m in found if m.number == kind.first).told_ns == times[0]


def test_what_the_same_operations_show_to_another_checker_is_folded_away() -> None:
    ops = [op(1, 1, "add", input=7), op(2, 5, output=[])]
    results = {
        name: CheckResult(
            checker=name,
            valid=False,
            anomaly_types=["lost"],
            anomalies={
                "lost": [Anomaly(type="lost", key="k", ops=[1, 2], element=7, explanation=said)]
            },
        )
        for name, said in (("set-full", "gone"), ("no-lost-ack", "not held"), ("own", "away"))
    }
    page = render_html(failing(ops, results, []))
    assert "<summary>no-lost-ack and own found the same by the same operations</summary>" in page
    assert "no-lost-ack found the same:" not in page and "<p>no-lost-ack: not held</p>" in page


def test_a_column_of_witnesses_that_says_the_same_in_each_row_stands_above_them() -> None:
    ops = contradicting(30)
    page = render_html(failing(ops, judged(ops, "list-append"), []))
    table = page[page.index('aria-label="More anomalies"') :]
    table = table[: table.index("</table>")]
    assert table.count("<tr id=") > 20
    assert table.count("No fault was injected") == 1 and table.count("list-append") == 1
    assert "All were found by list-append. No fault was injected in this run." in table
    assert '<th scope="col">where</th>' not in table
    mixed = render_html(failing(losses(), judged(losses(), "set-full", "no-lost-ack"), FAULTS))
    table = mixed[mixed.index('aria-label="More anomalies"') :]
    assert '<th scope="col">where</th>' in table and '<th scope="col">found by</th>' in table


def test_of_many_the_one_that_is_drawn_is_told_in_a_sentence() -> None:
    made = failing(losses(), judged(losses(), "set-full"), FAULTS)
    first = moments(made, [])[0]
    assert first.below.startswith("The one below: acknowledged at")
    assert first.place is not None
    shown = first.place._replace(said="It shows at 3.97 s, outside every fault.")
    other = msgspec.structs.replace(first, place=shown)
    assert other.below == "The one below shows at 3.97 s, outside every fault."
    none = failing(contradicting(2), judged(contradicting(2), "list-append"), [])
    assert moments(none, [])[0].below == "No fault was injected in this run."
