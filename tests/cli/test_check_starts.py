"""What answers say of the state that objects start with, and where none is taken for granted."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import session_files as made
from checking import check, put

from dstest.core import registry
from dstest.core.history import Header, History
from dstest.core.op import Op
from dstest.history.jsonl import write_history

pytestmark = pytest.mark.usefixtures("judge_here")


def edn(*rows: tuple[str, str, str], key: str = "") -> str:
    """Operations one after the other: f, asked, told."""
    lines = []
    for f, asked, told in rows:
        base = f":process 0, :f :{f}{key}"
        lines.append(f"{{{base}, :type :invoke, :value {asked}}}")
        lines.append(f"{{{base}, :type :ok, :value {told}}}")
    return "\n".join(lines)


REGISTER = edn(("write", "1", "1"), ("read", "nil", "1"))
TXNS = edn(("txn", "[[:w :x 1]]", "[[:w :x 1]]"), ("txn", "[[:r :x nil]]", "[[:r :x 1]]"))
LISTS = edn(
    ("txn", "[[:append :x 1]]", "[[:append :x 1]]"), ("txn", "[[:r :x nil]]", "[[:r :x [1]]]")
)
KV = edn(("put", '"a"', '"a"'), ("append", '"b"', '"b"'), ("get", "nil", '"ab"'), key=', :key "x"')
QUEUE = edn(("enqueue", "1", "1"), ("dequeue", "nil", "1"))


@pytest.mark.parametrize(
    ("text", "asked", "said"),
    [
        (REGISTER, [], "every key starts as null, as usual; --initial says otherwise"),
        (REGISTER, ["--initial", "0"], "every key starts as 0, as --initial says"),
        (QUEUE, ["--model", "fifo-queue"], "every key starts as empty, as usual; --initial"),
        (QUEUE, ["--model", "fifo-queue", "--initial", "[]"], "every key starts as [], as --in"),
        (TXNS, [], "every key starts as null, as usual; --initial says otherwise"),
        (TXNS, ["--initial", "0"], "every key starts as 0, as --initial says"),
        (TXNS, ["--initial", '{"x": 0}'], 'keys start as {"x": 0}, as --initial says'),
        (LISTS, [], "every key starts as [], as usual"),
        (LISTS, ["--initial", "[]"], "every key starts as [], as --initial says"),
        (KV, [], 'every key starts as "", as in such files; --initial says otherwise'),
        (KV, ["--initial", '"z"'], 'every key starts as "z", as --initial says'),
        ("w(1,5,0,7)\nr(1,5,1,8)\n", [], "every key starts as 0, as in such files; --initial"),
        ("w(1,5,0,7)\nr(1,5,1,8)\n", ["--initial", "3"], "every key starts as 3, as --initial"),
        ("w 1 5\n===\nr 1 5\n", [], "no key starts with a value, as in such files; --initial"),
    ],
)
def test_the_text_and_the_json_tell_the_start(
    tmp_path: Path, text: str, asked: list[str], said: str
) -> None:
    path = put(tmp_path, text, "h.txt")
    code, shown = check(path, *asked)
    assert code in (0, 1), shown
    assert sum(said in line for line in shown.splitlines()) == 1, shown
    found = json.loads(check(path, *asked, "--json")[1])
    assert said in found["reason"]
    if "--initial" in asked:
        assert found["stats"]["initial"] == json.loads(asked[-1])


def test_a_log_of_cobra_tells_its_start_itself(tmp_path: Path) -> None:
    logs = made.put_logs(tmp_path / "logs", made.cobra([[([("r", 1, None), ("w", 1, 5)], True)]]))
    assert "every key starts as what no write has, as the marks say" in check(logs)[1]


def test_a_history_of_ours_says_what_its_header_says(tmp_path: Path) -> None:
    def told(**options: int) -> str:
        op = Op(op_id=0, process_id=0, invoke_ts=0, complete_ts=5, op_type="read", key="a",
                output=options.get("initial"))  # fmt: skip
        header = Header(workload="cas-register", model="cas-register", options=dict(options))
        write_history(tmp_path / "history.jsonl", History(header=header, ops=[op]))
        return check(tmp_path / "history.jsonl")[1]

    assert "every key starts as 4, as the history's header says" in told(initial=4)
    assert "starts as" not in told()


@pytest.mark.parametrize(
    "asked",
    [
        *(["--model", model] for model in ("fifo-queue", "set", "log", "counter", "mutex")),
        *(["--checker", name] for name in ("order", "set-full", "total-queue", "bank")),
        ["--model", "stack", "--checker", "linearizable"],
        ["--workload", "cas-register"],
        ["--workload", "append-log"],
    ],
)
def test_a_key_value_log_is_no_other_object(tmp_path: Path, asked: list[str]) -> None:
    """Its start is implied of a map alone: whoever asks for another model hears of operations."""
    code, said = check(put(tmp_path, KV, "h.edn"), *asked)
    assert code == 3, said
    assert '""' not in said and "--initial" not in said.replace("--initial says otherwise", "")
    assert "not an operation of" in said or "neither null nor" in said, said


def test_a_key_value_log_names_its_model_where_it_is_refused(tmp_path: Path) -> None:
    path = put(tmp_path, KV, "h.edn")
    for model in ("register", "serializable", "nothing"):
        code, said = check(path, "--model", model)
        assert (code, "--model kv-map" in said) == (2, True), said
    assert check(path, "--model", "kv-map")[0] == 0
    assert check(path, "--checker", "linearizable")[0] == 0
    assert check(path, "--checker", "linearizable", "--model", "kv-map")[0] == 0


def test_the_example_of_the_page_is_judged_as_it_says(tmp_path: Path) -> None:
    page = (Path(__file__).resolve().parents[2] / "docs" / "reference" / "formats.md").read_text()
    part = page.split("## Key-value logs")[1].split("\n## ")[0]
    lines = [line.strip() for line in part.splitlines() if line.startswith("    {")]
    assert len(lines) == 4
    code, said = check(put(tmp_path, "\n".join(lines), "h.txt"))
    assert (code, "valid under kv-map" in said, 'starts as ""' in said) == (0, True, True)
    wrong = "\n".join([*lines[:3], lines[3].replace('"x"', '"y"')])
    assert check(put(tmp_path, wrong, "h.txt"))[0] == 1


def test_appends_alone_are_not_taken_for_those_of_a_map(tmp_path: Path) -> None:
    path = put(tmp_path, edn(("append", "1", "1"), key=', :key "x"'), "h.edn")
    code, said = check(path)
    assert (code, "--model log" in said) == (2, True), said


def test_the_refusal_names_each_checker_with_a_start_once(tmp_path: Path) -> None:
    path = put(tmp_path, edn(("add", "1", "1"), ("read", "nil", "#{1}")), "h.edn")
    code, said = check(path, "--checker", "set-full", "--initial", "[2]")
    assert code == 2
    traits = {name: registry.load("checkers", name) for name in
              registry.names("checkers")}  # fmt: skip
    able = {name for name, trait in traits.items() if trait.initial}
    assert {"linearizable", "rw-register", "bank"} <= able
    assert "list-append" not in able
    for name in traits:
        assert said.count(f"{name},") + said.count(f"{name}:") <= 2
        assert (name in said.split("ask ")[1]) is (name in able), name
