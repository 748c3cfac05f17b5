"""`closed-predicate` on histories of which everybody can tell what is wrong."""

from __future__ import annotations

import json
from typing import Any

import pytest
from msgspec.structs import replace

from checkers.predicates.plugin import CHECKER
from dstest.core.check import Budget, CheckResult
from dstest.core.history import Header, History
from dstest.core.op import Op

pytestmark = pytest.mark.slow

EVEN, ODD = ["mod", 2, 0], ["mod", 2, 1]


def txn(at: int, begin: int, end: int | None, *mops: list[Any], **fields: Any) -> Op:
    asked = [m[:2] if m[0] in ("r", "rp") else m for m in mops]
    given = {
        "op_id": at, "process_id": at, "invoke_ts": begin, "complete_ts": end, "op_type": "txn",
        "input": asked, "output": list(mops), **fields,
    }  # fmt: skip
    return Op(**given)


def init(rows: Any, **fields: Any) -> Op:
    given = {
        "op_id": 99, "process_id": 99, "invoke_ts": -2, "complete_ts": -1, "op_type": "init",
        "input": rows, "output": rows, **fields,
    }  # fmt: skip
    return Op(**given)


def check(model: str, *ops: Op, **options: Any) -> CheckResult:
    history = History(header=Header(options=options), ops=list(ops))
    return CHECKER.check(history, model, Budget(time_s=20))


SKEW = (
    txn(0, 0, 10, ["rp", EVEN, []], ["insert", "x", 2]),
    txn(1, 1, 11, ["rp", EVEN, []], ["insert", "y", 4]),
)
LONG_SKEW = (
    txn(0, 0, 1, ["insert", "x", 1], ["insert", "y", 3]),
    txn(1, 2, 3, ["w", "x", 5], ["w", "y", 7]),
    txn(2, 10, 20, ["rp", EVEN, []], ["w", "x", 2]),
    txn(3, 11, 21, ["rp", EVEN, []], ["w", "y", 4]),
    txn(4, 30, 31, ["rp", True, [["x", 2], ["y", 4]]]),
)
HALF = (
    txn(0, 0, 1, ["w", "x", 2], ["w", "y", 4]),
    txn(1, 2, 3, ["rp", True, [["x", 2]]]),
)
MISSED = (txn(0, 0, 1, ["w", "x", 2]), txn(1, 2, 3, ["rp", True, []]))

STALE = (
    txn(0, 0, 1, ["w", "x", 2]), txn(1, 2, 3, ["rp", True, []]), txn(2, 4, 5, ["rp", True, []])
)  # fmt: skip

BAD = {
    "both find none and insert": ("serializable", "G2", SKEW),
    "both find none, whichever version they saw": ("serializable", "G2", LONG_SKEW),
    "one of two rows": ("snapshot-isolation", "G-single", HALF),
    "one of two rows, for readers of atomic writes": ("read-atomic", "fractured-read", HALF),
    "read by key what a predicate missed": (
        "serializable",
        "internal",
        (txn(0, 0, 1, ["w", "x", 2]), txn(1, 2, 3, ["r", "x", 2], ["rp", True, []])),
    ),
    "missed its own row": (
        "snapshot-isolation",
        "internal",
        (txn(0, 0, 1, ["w", "x", 2], ["rp", True, []]), txn(1, 2, 3, ["rp", True, [["x", 2]]])),
    ),
    "a row of another value": (
        "read-committed",
        "predicate-mismatch",
        (txn(0, 0, 1, ["w", "x", 2]), txn(1, 2, 3, ["rp", ODD, [["x", 2]]])),
    ),
    "a row of nobody": ("read-committed", "garbage-read", (txn(1, 2, 3, ["rp", ODD, [["x", 3]]]),)),
    "a row that failed": (
        "read-committed",
        "G1a",
        (
            txn(0, 0, 1, ["w", "x", 2], output=None, error="refused"),
            txn(1, 2, 3, ["rp", EVEN, [["x", 2]]]),
        ),
    ),
    "a row that was not the last": (
        "read-committed",
        "G1b",
        (txn(0, 0, 1, ["w", "x", 2], ["w", "x", 3]), txn(1, 2, 3, ["rp", EVEN, [["x", 2]]])),
    ),
    "a row of the future": (
        "read-committed",
        "future-read",
        (txn(0, 0, 1, ["rp", EVEN, [["x", 2]]], ["w", "x", 2]),),
    ),
    "missed in real time": ("strict-serializable", "G-single-realtime", MISSED),
}


@pytest.mark.parametrize("name", BAD)
def test_what_is_wrong_is_found_and_named(name: str) -> None:
    model, kind, ops = BAD[name]
    result = check(model, *ops)
    assert (result.valid, result.anomaly_types) == (False, [kind]), result.reason
    (anomaly,) = result.anomalies[kind]
    assert anomaly.explanation
    assert anomaly.ops


@pytest.mark.parametrize(
    ("model", "ops"),
    [
        ("snapshot-isolation", LONG_SKEW),
        ("read-committed", HALF),
        ("monotonic-atomic-view", LONG_SKEW),
    ],
)
def test_weaker_models_allow_what_stronger_ones_forbid(model: str, ops: tuple[Op, ...]) -> None:
    result = check(model, *ops)
    assert (result.valid, result.anomaly_types) == (True, []), result.reason


def test_a_predicate_that_holds_of_every_version_misses_nothing() -> None:
    ops = (txn(0, 0, 1, ["w", "x", 2]), txn(1, 2, 3, ["rp", True, [["x", 2]]]))
    result = check("serializable", *ops, initial={"y": 1})
    assert result.anomaly_types == ["predicate-read-miss"]
    first = Op(
        op_id=9, process_id=9, invoke_ts=-9, complete_ts=-8, op_type="init", input={"y": 1}
    )  # fmt: skip
    assert check("serializable", first, *ops).anomaly_types == ["predicate-read-miss"]


def test_edges_of_predicates_are_told_from_others() -> None:
    (anomaly,) = check("serializable", *HALF).anomalies["G-single"]
    assert [row["edge"]["reason"] for row in anomaly.witness] == ["wr", "rwp"]
    items = (
        txn(0, 0, 10, ["r", "y", None], ["rp", EVEN, []], ["w", "x", 2]),
        txn(1, 1, 11, ["r", "x", None], ["rp", EVEN, []], ["w", "y", 4]),
    )
    assert check("serializable", *items).anomaly_types == ["G2-item"]


def test_unknown_transactions_may_have_happened() -> None:
    maybe = txn(0, 0, None, ["w", "x", 2], timeout_marker=True, output=None)
    seen = txn(1, 2, 3, ["rp", True, [["x", 2]]])
    missed = txn(2, 4, 5, ["rp", True, []])
    assert check("strict-serializable", maybe, seen).valid is True
    late = txn(2, 1, 2, ["rp", True, []])
    assert check("strict-serializable", maybe, late, seen).valid is True
    result = check("strict-serializable", maybe, seen, missed)
    assert result.anomaly_types == ["G-single-realtime"]


def test_what_a_transaction_had_overwritten_itself_is_internal() -> None:
    ops = (
        txn(0, 0, 1, ["w", "x", 1], ["w", "x", 2], ["rp", ODD, [["x", 1]]]),
        txn(1, 2, 3, ["rp", True, [["x", 2]]]),
    )
    assert check("read-atomic", *ops).anomaly_types == ["internal"]
    assert check("read-committed", *ops).valid is True


def test_groups_have_nothing_to_do_with_each_other() -> None:
    one, other = (txn(at, at, 10 + at, *SKEW[at].output, key=f"g{at}") for at in (0, 1))
    found = [["x", 2]], [["y", 4]]
    looks = [txn(2 + at, 20, 21, ["rp", EVEN, found[at]], key=f"g{at}") for at in (0, 1)]
    assert check("serializable", one, other, *looks).valid is True


def test_sessions_lead_from_group_to_group() -> None:
    """Each process misses what the other one had written before it looked at its group."""
    ops = [
        txn(0, 0, 1, ["insert", "x", 1], key="g", process_id=0),
        txn(1, 0, 1, ["insert", "y", 1], key="h", process_id=1),
        txn(2, 2, 3, ["rp", True, []], key="h", process_id=0),
        txn(3, 2, 3, ["rp", True, []], key="g", process_id=1),
        txn(4, 6, 7, ["rp", True, [["x", 1]]], key="g", process_id=2),
        txn(5, 8, 9, ["rp", True, [["y", 1]]], key="h", process_id=2),
    ]
    assert check("serializable", *ops).valid is True
    result = check("strong-session-serializable", *ops)
    assert (result.valid, result.anomaly_types) == (False, ["G-nonadjacent-process"]), result.reason
    assert check("strong-session-serializable", *ops[:2], *ops[4:]).valid is True


@pytest.mark.parametrize(
    ("ops", "word"),
    [
        ((txn(0, 0, 1, ["w", "x", 2]), txn(1, 2, 3, ["r", "x", 2])), "nothing was tested"),
        ((txn(0, 0, 1, ["rp", EVEN, []]), txn(1, 2, 3, ["w", "x", 3])), "nothing was tested"),
        ((), "nothing was tested"),
        (STALE, "nothing was tested"),
    ],
)
def test_what_tests_nothing_is_unknown(ops: tuple[Op, ...], word: str) -> None:
    result = check("serializable", *ops)
    assert result.valid == "unknown"
    assert word in (result.reason or "")


@pytest.mark.parametrize(
    ("mops", "word"),
    [
        ([["w", "x", 2], ["w", "x", 2]], "write each value to a key only once"),
        ([["w", "x", "a"]], "mod is of integers"),
        ([["append", "x", 2]], 'micro-ops are ["r", k, v]'),
        ([["rp", ["<", 3], []]], "predicates are true"),
        ([["rp", True, [["x", 1], ["x", 2]]]], "each key once"),
        ([["w", "x", None]], "micro-ops are"),
        ([["w", ["x"], 2]], "micro-ops are"),
    ],
)
def test_what_cannot_be_judged_says_what_to_do(mops: list[list[Any]], word: str) -> None:
    result = check("serializable", txn(0, 0, 1, *mops), txn(1, 2, 3, ["rp", EVEN, []]))
    assert result.valid == "unknown"
    assert word in (result.reason or "")


def test_other_operations_leave_a_group_undecided() -> None:
    other = Op(op_id=7, process_id=7, invoke_ts=0, complete_ts=1, op_type="write", input=3)
    result = check("snapshot-isolation", *SKEW, other)
    assert (result.valid, result.keys.undecided) == ("unknown", [None])


def test_a_budget_that_is_spent_is_no_answer() -> None:
    history = History(header=Header(), ops=list(LONG_SKEW))
    result = CHECKER.check(history, "serializable", Budget(time_s=0))
    assert result.valid == "unknown"
    assert "time budget" in (result.reason or "")


@pytest.mark.parametrize("key", [7, -7, 1.5, True, False, "7", 2.0])
def test_keys_of_objects_are_strings_and_found_again(key: Any) -> None:
    """In what a read found, and in what is there at first, which it overwrites."""
    name = key if isinstance(key, str) else json.dumps(key)
    after = (
        txn(1, 2, 3, ["w", key, 2]),
        txn(2, 4, 5, ["rp", [":mod", 2, 0], {name: 2}]),
        txn(3, 6, 7, ["rp", ["=", 1], {}]),
    )
    first = (init({name: 1}), txn(0, 0, 1, ["rp", EVEN, {}], ["r", key, 1]))
    for result in (
        check("strict-serializable", *first, *after),
        check("strict-serializable", *first[1:], *after, initial={name: 1}),
    ):
        assert result.valid is True, (result.anomaly_types, result.reason)
    stale = (*after, txn(4, 8, 9, ["rp", ["=", 1], {name: 1}]))
    assert check("strict-serializable", *first, *stale).valid is False
    never = (init({name: 1}), txn(0, 0, 1, ["rp", True, {}], ["r", key, None]), *after)
    assert check("serializable", *never).valid is False


def test_a_whole_float_may_be_written_as_an_integer() -> None:
    ops = (txn(0, 0, 1, ["w", 1.0, 2]), txn(1, 2, 3, ["rp", EVEN, {"1": 2}]))
    assert check("strict-serializable", *ops).valid is True


@pytest.mark.parametrize(("one", "other"), [(1, "1"), (True, "true"), (1.0, 1)])
def test_a_name_of_two_keys_tells_neither(one: Any, other: Any) -> None:
    ops = (txn(0, 0, 1, ["w", one, 2], ["w", other, 3]),)
    result = check("serializable", *ops, txn(1, 2, 3, ["rp", EVEN, {str(other): 2}]))
    assert result.valid == "unknown"
    assert "may be any of" in (result.reason or "")
    pairs = check("serializable", *ops, txn(1, 2, 3, ["rp", EVEN, [[one, 2]]]))
    assert pairs.valid is True


GROUPED = (
    txn(0, 0, 1, ["w", "x", 2], key="g1"),
    txn(1, 2, 3, ["rp", True, [["x", 2]]], key="g1"),
    txn(2, 4, 5, ["w", "x", 2], key="g2"),
    txn(3, 6, 7, ["rp", True, [["x", 2]]], key="g2"),
)


@pytest.mark.parametrize(
    "initial",
    [{"x": 1}, {"g1": 5}, {"g1": "x"}, {"g1": None}, {"g3": {"x": 1}}, {"g1": {}, "x": 1}, 5, "x"],
)
def test_an_initial_state_of_no_rows_is_no_initial_state(initial: Any) -> None:
    assert check("serializable", *GROUPED, initial=initial).valid == "unknown"
    assert check("serializable", *GROUPED, initial={"g1": {}, "g2": {"y": 1}}).valid is False
    assert check("serializable", *GROUPED, initial={"g2": {}}).valid is True


def test_there_is_one_initial_state() -> None:
    ops = (
        txn(0, 0, 1, ["rp", True, {"x": 1}], ["w", "x", 2]),
        txn(1, 2, 3, ["rp", True, {"x": 2}]),
    )
    assert check("serializable", init({"x": 1}), *ops).valid is True
    assert check("serializable", init({"x": 1}), *ops, initial={"x": 1}).valid is True
    for other in (
        check("serializable", init({"x": 1}), *ops, initial={"x": 7}),
        check("serializable", init({"x": 1}, output={}), *ops),
        check("serializable", init(None), *ops),
    ):
        assert other.valid == "unknown", other.reason


@pytest.mark.parametrize(
    "fields", [{}, {"complete_ts": None, "timeout_marker": True}], ids=["ok", "unknown"]
)
def test_who_does_not_say_what_it_did_leaves_its_group_unknown(fields: dict[str, Any]) -> None:
    """It may have written what others read; one that failed has not."""
    silent = replace(txn(0, 0, 1), input=None, output=None, **fields)
    read = txn(1, 2, 3, ["rp", True, [["x", 2]]])
    result = check("serializable", silent, read)
    assert result.valid == "unknown"
    assert "does not say what it did" in (result.reason or "")
    failed = replace(silent, complete_ts=1, timeout_marker=False, error="no")
    assert check("serializable", failed, read).anomaly_types == ["garbage-read"]


def test_an_unknown_end_may_say_what_it_was() -> None:
    ended = replace(
        txn(0, 0, None), input=None, output=[["w", "x", 2]], timeout_marker=True
    )  # fmt: skip
    assert check("serializable", ended, txn(1, 2, 3, ["rp", True, [["x", 2]]])).valid is True


@pytest.mark.parametrize(
    ("asked", "answered"),
    [
        (["w", "x", 1], ["w", "x", True]),
        (["w", "x", 1], ["w", "x", 1.0]),
        (["w", 1, 5], ["w", True, 5]),
        (["rp", ["=", 1]], ["rp", ["=", True], []]),
    ],
)
def test_an_answer_to_something_else_is_no_answer(asked: list[Any], answered: list[Any]) -> None:
    other = txn(0, 0, 1, input=[asked], output=[answered])
    result = check("serializable", other, txn(1, 2, 3, ["w", "y", 4]))
    assert "other micro-ops than were asked for" in (result.reason or "")


@pytest.mark.parametrize("model", ["serializable", "snapshot-isolation", "read-committed"])
def test_blind_readers_test_nothing(model: str) -> None:
    """However many they are, all of them may come first; in real time they may not."""
    assert check(model, *STALE).valid == "unknown"
    assert check("strict-serializable", *STALE).valid is False
    same = [replace(op, process_id=0) for op in STALE]
    assert check("strong-session-serializable", *same).valid is False


def test_failed_and_middle_writes_are_called_what_they_are() -> None:
    failed = replace(txn(0, 0, 1, ["w", "x", 2], ["w", "x", 4]), error="no", output=None)
    assert check("serializable", failed, txn(1, 2, 3, ["r", "x", 2])).anomaly_types == ["G1a"]
    middle = (init({"x": 1}), txn(0, 0, 1, ["delete", "x"], ["w", "x", 4]))
    result = check("serializable", *middle, txn(1, 2, 3, ["r", "x", None]))
    assert result.anomaly_types == ["G1b"]


def test_models_that_nobody_judges_are_refused() -> None:
    with pytest.raises(ValueError, match="closed-predicate knows"):
        check("repeatable-read", *SKEW)


@pytest.mark.parametrize(
    "output", [None, [["rp", True]], [["rp", True, None]], [["r", "x"]]], ids=str
)
def test_a_read_that_tells_nothing_is_no_read(output: list[Any] | None) -> None:
    """It could have returned anything, and would be left out in silence."""
    mop = ["r", "x"] if output == [["r", "x"]] else ["rp", True]
    before = (txn(0, 0, 1, ["insert", "x", 2]), txn(1, 2, 3, ["rp", True, [["x", 2]]]))
    result = check("serializable", *before, txn(2, 4, 5, input=[mop], output=output))
    assert result.valid == "unknown"
    assert "tells no result" in (result.reason or "")
    unknown = txn(2, 4, None, input=[mop], output=None, timeout_marker=True)
    assert check("serializable", *before, unknown).valid is True


def test_a_circle_is_called_the_same_whatever_its_keys_are_called() -> None:
    def renamed(key: str) -> list[str]:
        first = init({"x": 1, key: 3})
        ops = (
            txn(0, 0, 9, ["r", "x", 1], ["r", key, 3], ["w", "x", 5]),
            txn(1, 1, 8, ["r", "x", 1], ["r", key, 3], ["w", key, 7]),
            txn(2, 20, 21, ["rp", True, {"x": 5, key: 7}]),
        )
        return check("serializable", first, *ops).anomaly_types

    assert renamed(" initial value of y") == renamed("y") == ["G2-item"]


@pytest.mark.parametrize(
    ("budget", "word"), [(Budget(time_s=0.05), "time"), (Budget(memory_mb=1), "memory")]
)
def test_budgets_count_while_the_question_is_made(budget: Budget, word: str) -> None:
    rows = [txn(n, 2 * n, 2 * n + 1, ["w", n % 40, n]) for n in range(600)]
    rows += [
        txn(n, 2 * n, 2 * n + 1, *[["rp", ["=", -1], []]] * 20) for n in range(600, 900)
    ]  # fmt: skip
    history = History(header=Header(), ops=rows)
    result = CHECKER.check(history, "serializable", budget)
    assert result.valid == "unknown"
    assert f"{word} budget" in (result.reason or "")
    assert result.seconds.check < 20
