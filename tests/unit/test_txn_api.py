"""Single rules of the transaction checkers, in a small language.

`"ax1ry12"` is a transaction that appends 1 to x and then reads y as [1 2]; `wx1` writes a register
and `rx_` reads nil. A leading `!` makes it fail, `?` leaves its outcome unknown.
"""

from __future__ import annotations

import dataclasses
import re
from typing import Any

import numpy as np
import pytest

from checkers.txn._native import analyse
from checkers.txn.api import check
from checkers.txn.plugin import LIST_APPEND, from_op_maps
from dstest.core.check import Budget, CheckResult
from dstest.core.history import Header, History
from dstest.core.op import Op

pytestmark = pytest.mark.slow

LIST, REGISTER = "list-append", "rw-register"


def mops(text: str, workload: str) -> list[list[Any]]:
    found: list[list[Any]] = []
    for f, k, v in re.findall(r"([arw])([xyz])(_|\d*)", text):
        if f == "r" and workload == LIST:
            found.append(["r", k, None if v == "_" else [int(d) for d in v]])
        else:
            name = {"a": "append"}.get(f, f)
            found.append([name, k, None if v == "_" else int(v)])
    return found


def events(*texts: str, workload: str = LIST, concurrent: bool = True) -> list[dict[str, Any]]:
    """All transactions at once, or one after the other; each by a process of its own."""
    begun, done = [], []
    for process, text in enumerate(texts):
        kind = {"!": "fail", "?": "info"}.get(text[0], "ok")
        value = mops(text, workload)
        asked = [[f, k, None if f == "r" else v] for f, k, v in value]
        begun.append({"type": "invoke", "process": process, "f": "txn", "value": asked})
        done.append({"type": kind, "process": process, "f": "txn", "value": value})
    if concurrent:
        return begun + done
    return [e for pair in zip(begun, done, strict=True) for e in pair]


def answer(
    *texts: str,
    model: str = "strict-serializable",
    workload: str = LIST,
    concurrent: bool = True,
    **opts: Any,
) -> CheckResult:
    names = {"wfr": "wfr-keys?", "sequential": "sequential-keys?", "linear": "linearizable-keys?"}
    history = from_op_maps(events(*texts, workload=workload, concurrent=concurrent))
    return check(history, workload, [model], {names.get(k, k): v for k, v in opts.items()})


@pytest.mark.parametrize(
    ("types", "texts"),
    [
        (["internal"], ["ax1rx2", "ax2", "rx1"]),
        (["G1a"], ["!ax1", "rx1", "ay1", "ry1"]),
        (["G1b"], ["ax1ax2", "rx1", "rx12"]),
        (["duplicate-elements"], ["ax1", "rx11"]),
        (["incompatible-order"], ["ax1", "ax2", "rx1", "rx2", "ay1"]),
        (["G0"], ["ax1ay1", "ax2ay2", "rx12", "ry21"]),
        (["G1c"], ["ax1ry1", "ay1rx1"]),
        (["G-single-item"], ["ax1ay1", "rx1ry"]),
        (["G2-item"], ["rxay1", "ryax1", "rx1", "ry1"]),
        (["G-nonadjacent-item"], ["ax1", "rx1ry", "ay1", "ry1rx"]),
        (["garbage-read"], ["rx1", "ax2", "ay1", "ry1"]),
    ],
)
def test_list_append(types: list[str], texts: list[str]) -> None:
    result = answer(*texts, model="serializable")
    assert result.valid is False
    assert set(types) <= set(result.anomaly_types)
    for anomaly in result.anomalies[types[0]]:
        assert anomaly.ops
        assert anomaly.witness
        assert anomaly.explanation.endswith(".")


def test_dirty_and_lost_updates() -> None:
    assert "dirty-update" in answer("!ax1", "ax2", "rx12").anomaly_types
    assert "lost-update" in answer("rxax1", "rxax2", "rx12").anomaly_types
    assert "lost-update" not in answer("rxax1", "rx1ax2", "rx12").anomaly_types
    assert "future-read" in answer("rx1ax1", "rx1", model="read-atomic").anomaly_types


@pytest.mark.parametrize(
    ("kind", "texts"),
    [
        ("G-single-item-realtime", ["ax1", "rx", "rx1"]),
        ("G1c-realtime", ["rx1", "ax1"]),
        ("G0-realtime", ["ax2", "ax1", "rx12"]),
    ],
)
def test_realtime(kind: str, texts: list[str]) -> None:
    result = answer(*texts, concurrent=False)
    assert kind in result.anomaly_types
    assert answer(*texts, concurrent=False, model="serializable").valid is True
    assert answer(*texts, concurrent=True).valid is True


def test_process_order() -> None:
    history = events("ax1", "rx", "rx1", concurrent=False)
    for event in history[:4]:
        event["process"] = 0
    result = check(from_op_maps(history), LIST, ["strong-session-serializable"])
    assert result.anomaly_types == ["G-single-item-process"]


@pytest.mark.parametrize(
    ("types", "texts", "opts"),
    [
        (["G1a"], ["!wx1", "rx1", "wy1", "ry1"], {}),
        (["G1b"], ["wx1wx2", "rx1", "rx2"], {}),
        (["internal"], ["wx1rx2", "wx2", "wy1", "ry1"], {}),
        (["G1c"], ["wx1ry1", "wy1rx1"], {}),
        (["G-single-item"], ["wx1wy1", "rx1ry_"], {}),
        (["G2-item"], ["rx_wy1", "ry_wx1"], {}),
        (["lost-update"], ["rx1wx2", "rx1wx3", "wx1"], {}),
        (["G0"], ["wx1ry2wy1", "rx1wx2wy2"], {"wfr": True}),
        (["cyclic-versions"], ["rx1wx2", "rx2wx1"], {"wfr": True}),
    ],
)
def test_rw_register(types: list[str], texts: list[str], opts: dict[str, bool]) -> None:
    result = answer(*texts, workload=REGISTER, model="serializable", **opts)
    assert result.valid is False
    assert set(types) <= set(result.anomaly_types)


def test_linearizable_keys() -> None:
    texts = ["wx1", "wx2", "rx1", "rx2"]
    result = answer(*texts, workload=REGISTER, concurrent=False)
    assert result.anomaly_types == ["no-snapshot-order-realtime"]
    result = answer(*texts, workload=REGISTER, concurrent=False, linear=True)
    assert result.anomaly_types == ["cyclic-versions", "no-snapshot-order-realtime"]
    clean = answer("wx1", "rx1", "wx2", "rx2", workload=REGISTER, concurrent=False, linear=True)
    assert clean.valid is True


def test_nothing_tested_is_unknown() -> None:
    result = answer("ax1", model="serializable")
    assert result.valid == "unknown"
    assert result.anomaly_types == ["empty-transaction-graph"]
    assert answer(model="serializable").valid == "unknown"
    assert check(from_op_maps([]), REGISTER).valid == "unknown"


def test_what_is_not_asked_is_not_reported() -> None:
    result = answer("rxay1", "ryax1", "rx1", "ry1", model="read-committed")
    assert (result.valid, result.anomaly_types, result.not_) == (True, [], [])


def test_many_unseen_appends_cost_no_square() -> None:
    texts = [f"rxax{i % 10}" for i in range(10)]
    history = events(*texts)
    result = check(from_op_maps(history), LIST, ["serializable"])
    assert set(result.anomaly_types) == {"G2-item", "lost-update"}
    many = [
        {"type": t, "process": p, "value": [["r", 0, [] if t == "ok" else None], ["append", 0, p]]}
        for t in ("invoke", "ok")
        for p in range(20_000)
    ]
    found = check(from_op_maps(many), LIST, ["serializable"], budget=Budget(time_s=30))
    assert "G2-item" in found.anomaly_types


def test_values_written_twice_are_refused() -> None:
    with pytest.raises(ValueError, match="written to its key before"):
        answer("ax1", "ax1")


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("outcome", 7), ("process", 99), ("invoke_pos", 10**6), ("complete_pos", -7),
        ("mop_start", -1), ("mop_kind", 9), ("mop_key", 5), ("mop_key", -1), ("mop_value", 77),
        ("mop_value", -2), ("mop_known", 3), ("elem_start", 99), ("elem", 1000), ("elem", -2),
        ("elem", -1),
    ],
)  # fmt: skip
def test_bad_columns_are_refused(column: str, value: int) -> None:
    columns = from_op_maps(events("ax1ay1", "rx1ry1", "rx1"))
    for at in range(len(getattr(columns, column))):
        broken = getattr(columns, column).copy()
        broken[at] = value
        bad = dataclasses.replace(columns, **{column: broken})
        if column == "process" and value == 99:
            bad.process[:] = -2
        if column == "invoke_pos" and at == columns.txns - 1:
            continue
        with pytest.raises(ValueError, match=r"at -?\d+: "):
            check(bad, LIST)


def test_options_out_of_range_and_null_elements_are_refused() -> None:
    columns = from_op_maps(events("ax1", "rx1"))
    for between, sources in ((3, 0), (-1, 0), (0, 32), (0, -1)):
        with pytest.raises(ValueError, match="no such workload, order or source"):
            analyse(
                columns, LIST, between=between, sources=sources, order=np.zeros(0, np.int64),
                budget=Budget(),
            )  # fmt: skip
    with pytest.raises(ValueError, match="an element of a list is null"):
        from_op_maps([{"type": "ok", "process": 0, "value": [["r", 1, [None]]]}])


def test_two_completions_at_one_position_are_refused() -> None:
    columns = from_op_maps(events("ax1", "ax2", "rx1"))
    columns.complete_pos[0] = columns.complete_pos[1] = columns.complete_pos.max()
    for between, sources in ((1, 0), (2, 0), (0, 2), (0, 4)):
        with pytest.raises(ValueError, match=r"at \d+: two transactions complete at one position"):
            analyse(
                columns, "rw-register", between=between, sources=sources,
                order=np.zeros(0, np.int64), budget=Budget(),
            )  # fmt: skip


def test_lengths_and_types_are_refused() -> None:
    columns = from_op_maps(events("ax1", "rx1"))
    with pytest.raises(ValueError, match="mop_key: 1 elements, need 2"):
        check(dataclasses.replace(columns, mop_key=columns.mop_key[:1]), LIST)
    with pytest.raises(ValueError, match="outcome: need one dimension"):
        wide: Any = columns.outcome.astype(np.int64)
        check(dataclasses.replace(columns, outcome=wide), LIST)
    with pytest.raises(ValueError, match="unknown consistency model"):
        check(columns, LIST, ["foo"])
    with pytest.raises(ValueError, match="workload"):
        check(columns, "bank")


def test_spent_budget_is_unknown() -> None:
    columns = from_op_maps(events("ax1", "rx1"))
    assert check(columns, LIST, budget=Budget(memory_mb=0)).valid == "unknown"
    assert check(columns, LIST, budget=Budget(memory_mb=0)).reason is not None


def test_explanation_names_the_reason_of_each_edge() -> None:
    result = answer("ax1ay1", "rx1ry", model="serializable")
    (anomaly,) = result.anomalies["G-single-item"]
    assert "T3 read key y as [] and T2 appended 1, which no read shows" in anomaly.explanation
    assert "T3 read key x as [1], whose last element T2 had appended" in anomaly.explanation
    assert [row["edge"]["reason"] for row in anomaly.witness] == ["rw", "wr"]
    assert anomaly.minimal


def test_plug_in_judges_a_run() -> None:
    def op(i: int, begin: int, end: int, text: str) -> Op:
        value = mops(text, LIST)
        asked = [[f, k, None if f == "r" else v] for f, k, v in value]
        return Op(
            op_id=f"a{i}", process_id=i, invoke_ts=begin, complete_ts=end, op_type="txn",
            input=asked, output=value,
        )  # fmt: skip

    ops = [op(0, 0, 5, "ax1"), op(1, 6, 9, "rx"), op(2, 10, 12, "rx1")]
    history = History(header=Header(), ops=ops)
    result = LIST_APPEND.check(history, "strict-serializable", Budget())
    (anomaly,) = result.anomalies["G-single-item-realtime"]
    assert sorted(anomaly.ops) == ["a0", "a1"]
    assert LIST_APPEND.check(history, "serializable", Budget()).valid is True


def test_drawing() -> None:
    from checkers.txn.models import lattice
    from dstest.report.plots import lattice_svg
    from dstest.report.timeline import loop_file

    (anomaly,) = answer("ax1ay1", "rx1ry").anomalies["G-single-item"]
    assert loop_file(anomaly) == loop_file(anomaly)
    assert "<style>" in loop_file(anomaly)
    assert "<svg" in lattice_svg(lattice(), ["serializable"])


def test_orders_of_versions_go_on_past_one_that_was_read_and_replaced() -> None:
    """2 was written, replaced by 3 by who had read it, then 5 was written: and 2 is read."""
    texts = ["wx2", "rx2wx3", "wx5", "rx2"]
    for unrelated in ([], ["wy9"]):
        result = answer(
            *unrelated, *texts, workload=REGISTER, concurrent=False, linear=True,
            model="serializable",
        )  # fmt: skip
        assert result.anomaly_types == ["cyclic-versions"]
