"""The shapes of Jepsen's own workloads, and of Maelstrom's: each right history and a wrong one."""

from __future__ import annotations

from pathlib import Path

import pytest
from checking import check, put

pytestmark = pytest.mark.slow


def history(*events: str) -> str:
    """Op maps of `process f asked -> answered`, where `..` was asked before and `!fail` begins an
    answer of that type."""
    rows = []
    for event in events:
        process, f, rest = event.split(" ", 2)
        asked, _, told = rest.partition(" -> ")
        kind = "ok"
        if told.startswith("!"):
            kind, told = told[1:].split(" ", 1)
        if asked != "..":
            rows.append(f"{{:process {process} :type :invoke :f :{f} :value {asked}}}")
        if told:
            rows.append(f"{{:process {process} :type :{kind} :f :{f} :value {told}}}")
    return "\n".join(rows)


FORK = (
    "5 write [[:w 11 1]]",
    "3 write [[:w 12 1]]",
    "7 read [[:r 11 nil] [:r 12 nil]] -> [[:r 11 1] [:r 12 nil]]",
    "0 read [[:r 12 nil] [:r 11 nil]] -> [[:r 12 <>] [:r 11 <>]]",
    "5 write .. -> [[:w 11 1]]",
    "3 write .. -> [[:w 12 1]]",
)
REVERSE = ("0 write [1 1] -> [1 1]", "0 write [1 2] -> [1 2]", "1 read [1 nil] -> [1 <>]")
KAFKA = (
    "0 assign [11] -> [11]",
    "1 send [[:send 11 641]] -> [[:send 11 [537 641]]]",
    "1 txn [[:send 11 645] [:poll]] -> [[:send 11 [539 645]] [:poll {}]]",
    "0 poll [[:poll]] -> [[:poll {11 [[537 641]]}]]",
    "0 poll [[:poll]] -> [[:poll {11 [[<> 645]]}]]",
)
G2 = (
    "0 insert [1 [nil 1]]",
    "1 insert [1 [2 nil]]",
    "0 insert .. -> [1 [nil 1]]",
    "1 insert .. -> !<> [1 [2 nil]]",
)
CAUSAL = (
    "0 read-init [1 nil] -> [1 0]",
    "0 write [1 1] -> [1 1]",
    "0 read [1 nil] -> [1 1]",
    "0 write [1 2] -> [1 2]",
    "0 read [1 nil] -> [1 <>]",
)
MULTI = (
    "0 txn [[:write :x 1] [:write :y 2]] -> [[:write :x 1] [:write :y 2]]",
    "1 txn [[:read :x nil] [:read :y nil]] -> [[:read :x 1] [:read :y <>]]",
)
BROADCAST = ("0 broadcast 1 -> 1", "1 read nil -> []", "1 read nil -> [<>]")
OWNED = (
    '0 acquire "a" -> "a"',
    '0 acquire "a" -> "a"',
    '0 release "a" -> "a"',
    '0 release "<>" -> "<>"',
    '1 acquire "b" -> "b"',
)
FENCED = (
    '0 acquire nil -> {:client "c0" :fence 7}',
    '0 release nil -> {:client "c0"}',
    '1 acquire nil -> {:client "c1" :fence <>}',
)
DECREMENTS = ("0 inc 3 -> 3", "0 dec 1 -> 1", "0 read nil -> <>")
BANK = (
    "0 read nil -> {0 10 1 10}",
    "1 transfer {:from 0 :to 1 :amount 5} -> {:from 0 :to 1 :amount 5}",
    "0 read nil -> <>",
)
POLLED = (
    "0 send [[:send 1 10]] -> [[:send 1 [0 10]]]",
    "0 send [[:send 1 11]] -> [[:send 1 [1 11]]]",
    "1 poll [[:poll]] -> [[:poll {1 [[0 10]]}]]",
    "1 poll [[:poll]] -> [[:poll {1 [<>]}]]",
)
COUNTER = ("0 add 10", "1 add 100", "2 read nil -> <>", "0 add .. -> 10", "1 add .. -> 100")


@pytest.mark.parametrize(
    ("events", "right", "wrong", "options"),
    [
        (FORK, ("1", "1"), ("1", "nil"), "--workload long-fork"),
        (FORK, ("1", "1"), ("1", "nil"), "--checker long-fork --model snapshot-isolation"),
        (REVERSE, ("[1 2]",), ("[2]",), "--checker causal-reverse --independent"),
        (REVERSE, ("#{2 1}",), ("#{2}",), "--checker causal-reverse --independent"),
        (KAFKA, ("539",), ("537",), "--checker kafka --model kafka"),
        (KAFKA, ("539",), ("537",), "--workload append-log"),
        (G2, ("fail",), ("ok",), "--workload g2 --independent"),
        (CAUSAL, ("2",), ("1",), "--workload causal --independent"),
        (CAUSAL, ("2",), ("0",), "--model causal --independent"),
        (MULTI, ("2",), ("nil",), ""),
        (BROADCAST, ("1",), ("",), "--checker set-full --model eventual"),
        (OWNED, ("a", "a"), ("x", "x"), "--model reentrant-mutex"),
        (FENCED, ("8",), ("7",), "--model fencing-lock"),
        (COUNTER, ("10",), ("5",), ""),
        (DECREMENTS, ("2",), ("3",), ""),
        (DECREMENTS, ("2",), ("4",), "--model counter"),
        (BANK, ("{0 5 1 15}",), ("{0 10 1 10}",), "--workload bank -o total=20"),
        (BANK, ("{0 5M 1 15.0}",), ("{0 10M 1 10M}",), "--workload bank -o total=20 -o accounts=2"),
        (POLLED, ("[1 11]",), ("[0 10]",), "--checker kafka --model kafka"),
        (COUNTER, ("0",), ("111",), "--checker counter-bounds"),
    ],
)
def test_right_and_wrong(
    tmp_path: Path, events: tuple[str, ...], right: tuple[str, ...], wrong: tuple[str, ...],
    options: str,
) -> None:  # fmt: skip
    for code, words in ((0, right), (1, wrong)):
        text = history(*events)
        for word in words:
            text = text.replace("<>", word, 1)
        found, said = check(put(tmp_path, text, "h.edn"), *options.split())
        assert found == code, said


@pytest.mark.parametrize(
    ("sent", "polls", "code", "said"),
    [
        ("[1 2]", "[:poll {[1 2] [[0 5] [1 6]]}]", 0, ""),
        ("[1 2]", "[:poll {[1 2] [[1 6] [0 5]]}]", 1, "nonmonotonic-poll"),
        ("{:t 1}", "[:poll {{:t 1} [[0 5] [1 6]]}]", 3, "names no log"),
        ("1", "[:poll {1 [[0 5]]}] [:poll {1 [[1 6]]}]", 0, ""),
        ("1", "[:poll {1 [[1 6]]}] [:poll {1 [[0 5]]}]", 1, "nonmonotonic-poll"),
        ("1", "[:poll {1 [[0 5] [1 6]]}] [:poll {1 [[1 6]]}]", 1, "int-duplicate"),
        ('"11"', '[:poll {"11" [[0 5] [1 6]]}]', 0, ""),
        ('"11"', '[:poll {"011" [[0 5] [1 6]]}]', 1, "garbage-read"),
        ("7", '[:poll {"007" [[0 5] [1 6]]}]', 1, "garbage-read"),
        ('"007"', '[:poll {"007" [[0 5] [1 6]]}]', 0, ""),
    ],
)
def test_logs_of_kafka_are_told_apart_and_polled_in_order(
    tmp_path: Path, sent: str, polls: str, code: int, said: str
) -> None:
    asked, told = f"[[:send {sent} 5] [:send {sent} 6]]", f"[:send {sent} [0 5]]"
    text = (
        f"{{:process 0 :type :invoke :f :txn :value {asked}}}\n"
        f"{{:process 0 :type :ok :f :txn :value [{told} [:send {sent} [1 6]]]}}\n"
        "{:process 1 :type :invoke :f :poll :value [[:poll]]}\n"
        f"{{:process 1 :type :ok :f :poll :value [{polls}]}}\n"
    )
    options = ["--checker", "kafka", "--model", "kafka"]
    found, answer = check(put(tmp_path, text, "h.edn"), *options)
    assert (found, said in answer) == (code, True), answer


@pytest.mark.parametrize(
    ("added", "read", "said"),
    [
        ("1", "nil", "(read): null is"),
        ("1.5", "2", "(add): 1.5 is"),
        ("1", '"x"', '(read): "x" is'),
    ],
)
def test_what_no_counter_holds_is_named(tmp_path: Path, added: str, read: str, said: str) -> None:
    text = history(f"0 add {added} -> {added}", f"0 read nil -> {read}")
    code, answer = check(put(tmp_path, text, "h.edn"), "--checker", "counter-bounds")
    assert (code, f"{said} not an integer" in answer) == (3, True), answer
    assert "not an operation" not in answer


@pytest.mark.parametrize(
    ("events", "options", "said"),
    [
        (
            ("0 write 1 -> 1", "1 write 638 -> !fail 638 :error :timeout", "2 read nil -> 638"),
            "",
            "write 638 (op 1, process 1) failed (timeout) and must not have had effect: what timed",
        ),
        (
            ("0 read nil -> {0 10, 1 0}", "1 read nil -> {0 10, 1 nil}"),
            "--workload bank -o accounts=2 -o total=10",
            "read (op 1) shows no whole number as the balance of account 1",
        ),
        (
            ("0 read nil -> {0 10, 1 0}", "1 read nil -> {0 10}"),
            "--workload bank -o accounts=2 -o total=10",
            "read (op 1) does not show account 1",
        ),
    ],
)
def test_a_violation_names_what_gave_it_away(
    tmp_path: Path, events: tuple[str, ...], options: str, said: str
) -> None:
    code, answer = check(put(tmp_path, history(*events), "h.edn"), *options.split())
    assert (code, said in answer) == (1, True), answer


@pytest.mark.parametrize(("member", "wrong"), [('"11"', True), ("11", False)])
def test_members_are_told_apart_by_value(tmp_path: Path, member: str, wrong: bool) -> None:
    """11 was written and "11" was not: who reads a 1 of that has read what nobody wrote."""
    events = (
        "5 write [[:w 11 1]] -> [[:w 11 1]]",
        "3 write [[:w 12 1]] -> [[:w 12 1]]",
        f"7 read [[:r {member} nil] [:r 12 nil]] -> [[:r {member} 1] [:r 12 1]]",
    )
    found, answer = check(put(tmp_path, history(*events), "h.edn"), "--workload", "long-fork")
    assert (found == 1) == wrong, answer


def test_a_checker_says_what_it_did_not_look_for(tmp_path: Path) -> None:
    """Write 2 had ended before the read began: strict serializability forbids that."""
    text = history("0 write 1 -> 1", "0 write 2 -> 2", "1 read nil -> [1]")
    code, answer = check(put(tmp_path, text, "h.edn"), "--checker", "causal-reverse")
    assert (code, "reversed pairs alone were looked for" in answer) == (0, True), answer
    text = history("0 read nil -> {0 4.5 1 15.5}", "0 transfer {:from 0 :to 1 :amount 1} -> nil")
    code, answer = check(put(tmp_path, text, "h.edn"), *["--workload", "bank", "-o", "total=20"])
    assert (code, "4.5 is no whole number" in answer) == (3, True), answer
    text = history(*BANK).replace("<>", "{0 7 1 13}")
    options = ["--workload", "bank", "-o", "total=20", "--model", "serializable"]
    code, answer = check(put(tmp_path, text, "h.edn"), *options)
    assert (code, "totals alone were judged" in answer) == (0, True), answer
