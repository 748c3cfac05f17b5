"""`--initial`, `-o`, `:key` and tuples: what a foreign file leaves open is told, nothing is passed
over."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from checking import check, put
from initial_states import CASES
from notation import op as parsed

from dstest.core.history import Header, History
from dstest.core.op import Op
from dstest.history.export import export_lines
from dstest.history.jsonl import write_history

pytestmark = pytest.mark.usefixtures("judge_here")


def edn(*rows: str, **fields: str) -> str:
    """Operations one after the other: `f asked -> told`, further fields by row."""
    lines = []
    for at, row in enumerate(rows):
        asked, _, told = (part.strip() for part in row.partition("->"))
        f, _, value = asked.partition(" ")
        beside = "".join(f", :{name} {text.split()[at]}" for name, text in fields.items())
        base = f":process 0, :f :{f}{beside}"
        lines.append(f"{{{base}, :type :invoke, :value {value or 'nil'}}}")
        lines.append(f"{{{base}, :type :ok, :value {told or value or 'nil'}}}")
    return "\n".join(lines)


def test_the_initial_state_is_told(tmp_path: Path) -> None:
    path = put(tmp_path, edn("read -> 0", "write 1", "read -> 1"), "h.edn")
    assert check(path)[0] == 1
    assert check(path, "--initial", "0")[0] == 0
    assert check(path, "--initial", "2")[0] == 1
    code, said = check(path, "--initial", "0", "--json")
    assert (code, json.loads(said)["stats"]["initial"]) == (0, 0)


@pytest.mark.parametrize("text", ["x", "{", "", '{"x": }'])
def test_an_initial_state_is_json(tmp_path: Path, text: str) -> None:
    code, said = check(put(tmp_path, edn("read -> 0"), "h.edn"), "--initial", text)
    assert code == 2
    assert "--initial" in said


def test_who_has_no_initial_state_says_so(tmp_path: Path) -> None:
    path = put(tmp_path, edn("add 1", "read -> #{1 2}"), "h.edn")
    for asked in (["--checker", "set-full"], ["--workload", "set"], ["--checker", "set"]):
        code, said = check(path, *asked, "--initial", "[2]")
        assert code == 2, said
        assert "no initial state" in said
        assert "--model" in said
    assert check(path, "--model", "set", "--initial", "[2]")[0] == 0
    assert check(path, "--model", "set")[0] == 1


def test_transactions_start_with_it(tmp_path: Path) -> None:
    text = edn("txn [[:r :x nil] [:w :y 1]] -> [[:r :x 0] [:w :y 1]]",
               "txn [[:r :y nil] [:w :x 2]] -> [[:r :y 1] [:w :x 2]]")  # fmt: skip
    path = put(tmp_path, text, "h.edn")
    assert check(path)[0] == 1
    assert check(path, "--initial", "0")[0] == 0
    assert check(path, "--initial", '{"x": 0, "y": 7}')[0] == 0
    code, said = check(path, "--initial", "1")
    assert (code, "starts with it" in said) == (2, True)
    code, said = check(path, "--initial", '{"X": 0}')
    assert (code, "does not occur" in said) == (2, True)
    assert check(path, "--independent")[0] == 2


def test_a_null_that_was_not_there_is_no_initial_state(tmp_path: Path) -> None:
    text = edn("txn [[:w :x 1]]", "txn [[:r :y nil] [:w :y 2]]",
               "txn [[:r :x nil]] -> [[:r :x 1]]")  # fmt: skip
    path = put(tmp_path, text, "h.edn")
    assert check(path)[0] == 0
    assert check(path, "--initial", "0")[0] == 1


def test_list_append_starts_empty(tmp_path: Path) -> None:
    path = put(tmp_path, edn("txn [[:append :x 1]]", "txn [[:r :x nil]] -> [[:r :x [1]]]"), "h.edn")
    assert check(path, "--initial", "[]")[0] == 0
    code, said = check(path, "--initial", "[7]")
    assert (code, "list-append has no initial state" in said) == (2, True)


def test_registers_changed_together_start_with_zero(tmp_path: Path) -> None:
    text = edn("txn [[:read :x nil] [:write :y 1]] -> [[:read :x 0] [:write :y 1]]")
    path = put(tmp_path, text, "h.edn")
    wanted = ["--model", "multi-register"]
    assert check(path, *wanted)[0] == 1
    assert check(path, *wanted, "--initial", '{"x": 0, "y": 0}')[0] == 0
    short = put(tmp_path, text.replace(":read", ":r").replace(":write", ":w"), "s.edn")
    assert check(short, *wanted, "--initial", '{"x": 0, "y": 0}')[0] == 0


BANK = (
    "transfer {:from 0, :to 1, :amount 3}",
    "read -> {0 7, 1 13}",
)


@pytest.mark.parametrize(
    ("asked", "wanted"),
    [
        ([], 3),
        (["-o", "total=20"], 0),
        (["-o", "total=21"], 1),
        (["-o", "total=20", "-o", "accounts=2"], 0),
        (["-o", "total=20", "-o", "accounts=0,1"], 0),
        (["-o", "total=20", "-o", "accounts=3"], 1),
        (["-o", "total=20", "-o", "accounts=a,b"], 1),
        (["-o", "total=20", "-o", "bank_total=21"], 2),
        (["--initial", '{"0": 10, "1": 10}'], 0),
        (["--initial", '{"0": 10, "1": 11}'], 1),
        (["--initial", '{"0": 11, "1": 9}', "--model", "snapshot-isolation"], 0),
        (["--initial", '{"0": 11, "1": 9}', "--model", "strict-serializable"], 1),
        (["--initial", '{"0": 10, "1": 10}', "-o", "total=21"], 2),
        (["--initial", "20"], 2),
    ],
)
def test_a_bank_is_told_what_it_holds(tmp_path: Path, asked: list[str], wanted: int) -> None:
    code, said = check(put(tmp_path, edn(*BANK), "h.edn"), *asked)
    assert code == wanted, said


def test_permits_and_the_first_value_of_a_counter(tmp_path: Path) -> None:
    held = put(tmp_path, edn("acquire", "acquire"), "s.edn")
    for permits, wanted in (("1", 1), ("2", 0)):
        code, said = check(held, "--model", "semaphore", "-o", f"permits={permits}")
        assert code == wanted, said
    assert check(held, "--model", "semaphore", "-o", "permits=2", "--initial", "1")[0] == 1
    counted = put(tmp_path, edn("inc 1", "read -> 6"), "c.edn")
    assert check(counted)[0] == 1
    assert check(counted, "--initial", "5")[0] == 0
    assert check(counted, "-o", "counter_start=5")[0] == 0
    assert check(counted, "-o", "counter_start=5", "--initial", "6")[0] == 2


def test_an_option_that_nobody_asked_has_is_refused(tmp_path: Path) -> None:
    path = put(tmp_path, edn("read -> nil"), "h.edn")
    code, said = check(path, "-o", "total=3")
    assert (code, "would pass it over" in said, "bank" in said) == (2, True, True)
    code, said = check(path, "-o", "totl=3")
    assert (code, "known:" in said, "total" in said) == (2, True, True)


KV = ('append "x"', 'append "y"', 'get -> "x"', 'get -> "y"', 'get -> ""')


def test_a_key_beside_the_value_is_the_object(tmp_path: Path) -> None:
    right = edn(*KV, key='"0" "1" "0" "1" "2"')
    wrong = edn(*KV, key='"0" "1" "1" "0" "2"')
    for asked in ([], ["--model", "kv-map"], ["--model", "kv-map", "--initial", '""']):
        assert check(put(tmp_path, right, "r.edn"), *asked)[0] == 0
        assert check(put(tmp_path, wrong, "w.edn"), *asked)[0] == 1
    _, said = check(put(tmp_path, right, "r.edn"))
    assert 'every key starts as ""' in said
    assert check(put(tmp_path, right, "r.edn"), "--initial", "null")[0] == 1
    null = right.replace('""', "nil")
    assert check(put(tmp_path, null, "n.edn"))[0] == 0
    events = [
        {"process": 0, "type": kind, "f": f, "key": key, "value": value}
        for f, key, value in (("write", "a", 1), ("write", "b", 2), ("read", "a", 1))
        for kind in ("invoke", "ok")
    ]
    path = put(tmp_path, json.dumps(events), "k.json")
    assert check(path)[0] == 0
    events[-1]["value"] = 2
    assert check(put(tmp_path, json.dumps(events), "k.json"))[0] == 1


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ((', :key "1"', ""), "has no key"),
        ((':type :ok, :value "y"', ':type :ok, :key "7", :value "y"'), "two keys|twice"),
        ((':key "1", :type :ok', ':key "2", :type :ok'), "answered for key"),
        ((':key "1"', ":key [1 2]"), "not a scalar"),
        ((':key "1"', ":table 3"), "table beside its value"),
    ],
)
def test_keys_that_contradict_each_other_are_refused(
    tmp_path: Path, change: tuple[str, str], said: str
) -> None:
    text = edn(*KV, key='"0" "1" "0" "1" "2"')
    assert change[0] in text
    import re

    code, message = check(put(tmp_path, text.replace(*change), "h.edn"), "--model", "kv-map")
    assert code == 2, message
    assert re.search(said, message), message


def test_tuples_and_keys_do_not_mix(tmp_path: Path) -> None:
    text = edn(*KV, key='"0" "1" "0" "1" "2"')
    code, said = check(put(tmp_path, text, "h.edn"), "--independent", "--model", "kv-map")
    assert (code, "told already" in said) == (2, True)


TAG = "#jepsen.independent.tuple"


def test_tagged_tuples_are_keys_and_values(tmp_path: Path) -> None:
    def text(last: str) -> str:
        rows = ("write [:a 1]", "write [:b 2]", f"read [:a nil] -> [:a {last}]")
        return edn(*rows).replace("[", f"{TAG} [")

    assert check(put(tmp_path, text("1"), "h.edn"))[0] == 0
    assert check(put(tmp_path, text("2"), "h.edn"))[0] == 1
    assert check(put(tmp_path, text("1"), "h.edn"), "--independent")[0] == 0
    mixed = text("1").replace(f"{TAG} [:b 2]", "[:b 2]")
    for asked in ([], ["--independent"]):
        code, said = check(put(tmp_path, mixed, "m.edn"), *asked)
        assert (code, "tagged as such" in said) == (2, True), said
    code, said = check(put(tmp_path, text("1"), "h.edn"), "--no-independent")
    assert (code, "--no-independent" in said) == (2, True)


def test_tuples_reach_every_checker(tmp_path: Path) -> None:
    rows = ("add [:a 1]", "add [:b 2]", "read [:a nil] -> [:a #{1}]", "read [:b nil] -> [:b #{}]")
    path = put(tmp_path, edn(*rows), "h.edn")
    assert check(path, "--independent", "--checker", "set-full")[0] == 1
    good = put(tmp_path, edn(*rows).replace("#{}", "#{2}"), "g.edn")
    assert check(good, "--independent", "--checker", "set-full")[0] == 0


def test_a_field_that_nobody_reads_is_named(tmp_path: Path) -> None:
    path = put(tmp_path, edn("write 1", "read -> 1", shard="a b", node="n1 n2"), "h.edn")
    code, said = check(path)
    assert code == 0
    assert "fields that nobody read: shard (4 events)" in said
    found = json.loads(check(path, "--json")[1])
    assert found["stats"]["fields_not_read"] == {"shard": 4}


def op(at: int, op_type: str, **fields: Any) -> Op:
    return Op(op_id=at, process_id=0, invoke_ts=10 * at, complete_ts=10 * at + 5, op_type=op_type,
              **fields)  # fmt: skip


ROUND_TRIPS: list[tuple[Header, list[Op], list[str]]] = [
    (Header(workload="cas-register", model="cas-register", options={"initial": 0}),
     [op(0, "read", key="a", output=0), op(1, "write", key="a", input=1)], []),
    (Header(workload="cas-register", model="cas-register", options={"initial": {"a": 0, "b": 1}}),
     [op(0, "read", key="a", output=0), op(1, "read", key="b", output=1)], []),
    (Header(workload="counter", model="counter", options={"initial": 5}),
     [op(0, "inc", key="a", input=1), op(1, "read", key="a", output=6)], []),
    (Header(workload="bank", model="snapshot-isolation", options={"total": 20, "accounts": "2"}),
     [op(0, "transfer", input={"from": 0, "to": 1, "amount": 3}, output=True),
      op(1, "read", output={"0": 7, "1": 13})], []),
    (Header(workload="rw-register", model="serializable", options={"initial": 0}),
     [op(0, "txn", input=[["r", "x", None], ["w", "y", 1]], output=[["r", "x", 0], ["w", "y", 1]]),
      op(1, "txn", input=[["r", "y", None]], output=[["r", "y", 1]])], []),
    (Header(options={"permits": 1, "initial": 0}),
     [op(0, "acquire", key="s", output=False), op(1, "release", key="s")],
     ["--model", "semaphore"]),
]  # fmt: skip


@pytest.mark.parametrize(("header", "ops", "asked"), ROUND_TRIPS)
@pytest.mark.parametrize("notation", ["edn", "json"])
def test_an_export_keeps_what_it_starts_with(
    tmp_path: Path, header: Header, ops: list[Op], asked: list[str], notation: str
) -> None:
    history = History(header=header, ops=ops)
    own = tmp_path / "history.jsonl"
    write_history(own, history)
    assert check(own, *asked)[0] == 0, check(own, *asked)[1]
    text = "\n".join(export_lines(history, notation, keyed=True)) + "\n"
    path = put(tmp_path, text, f"h.{notation}")
    assert check(path, *asked)[0] == 0, check(path, *asked)[1]
    bare = put(tmp_path, text.replace('"initial"', '"initially"').replace('"total"', '"totl"'), "b")
    assert check(bare, *asked)[0] != 0


@pytest.mark.parametrize("notation", ["edn", "json"])
@pytest.mark.parametrize(("model", "initial", "right", "wrong"), CASES)
def test_an_export_of_every_model_is_judged_as_the_history(
    tmp_path: Path, model: str, initial: Any, right: str, wrong: str, notation: str
) -> None:
    permits = {"permits": 3} if model == "semaphore" else {}
    header = Header(options={"initial": initial, **permits})
    asked = ["--checker", "linearizable", "--model", model]
    for text, code in ((right, 0), (wrong, 1)):
        ops = [parsed(line, n) for n, line in enumerate(text.splitlines())]
        history = History(header=header, ops=ops)
        write_history(tmp_path / "history.jsonl", history)
        got, said = check(tmp_path / "history.jsonl", *asked)
        assert got == code, said
        lines = "\n".join(export_lines(history, notation, keyed=True)) + "\n"
        got, said = check(put(tmp_path, lines, f"h.{notation}"), *asked)
        assert got == code, said
        if code == 0:
            bare = put(tmp_path, lines.replace('"initial"', '"initially"'), f"b.{notation}")
            again = check(bare, *asked, "--initial", json.dumps(initial))
            assert again[0] == 0, again[1]
