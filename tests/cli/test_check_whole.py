"""`dstest check` of whole files: batches, models, what is refused and what is judged after all."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from checking import (
    check,
    generated,
    put,
    text_of,
    written,
)
from typer.testing import CliRunner

from dstest.cli.app import app
from dstest.core.history import History
from dstest.core.op import Op
from dstest.history.generator.true_histories import KINDS, history
from dstest.history.jsonl import write_history

BATCH_LINE = {"workload": "list-append", "models": ["serializable"]}
OK_TXNS = [
    {"type": "ok", "process": 0, "f": "txn", "value": [["append", "x", 1]]},
    {"type": "ok", "process": 1, "f": "txn", "value": [["r", "x", [1]]]},
]
BAD_TXNS = [{"type": "ok", "process": 1, "f": "txn", "value": [["r", "x", [9]]]}]
NOTHING = [{"type": "ok", "process": 0, "f": "txn", "value": [["append", "x", 1]]}]
GOOD_LINE = {**BATCH_LINE, "history": OK_TXNS}
FAIL_LINE = {**BATCH_LINE, "history": BAD_TXNS}
VAGUE_LINE = {**BATCH_LINE, "history": NOTHING}
REFUSED_LINE = {**GOOD_LINE, "models": ["linearizable"]}


@pytest.mark.parametrize(
    ("rows", "code"),
    [
        ([GOOD_LINE], 0),
        ([GOOD_LINE, GOOD_LINE], 0),
        ([GOOD_LINE, FAIL_LINE], 1),
        ([FAIL_LINE, VAGUE_LINE, "{", GOOD_LINE], 1),
        ([GOOD_LINE, VAGUE_LINE], 3),
        ([VAGUE_LINE, "{"], 3),
        ([GOOD_LINE, "{"], 2),
        ([json.dumps(GOOD_LINE)[:-1] + ', "models": ["read-committed"]}'], 2),
        ([json.dumps(FAIL_LINE)[:-1] + f', "history": {json.dumps(OK_TXNS)}}}'], 2),
        ([GOOD_LINE, "garbage"], 2),
        ([GOOD_LINE, REFUSED_LINE], 2),
        ([GOOD_LINE, {**GOOD_LINE, "models": []}], 2),
        ([GOOD_LINE, {**GOOD_LINE, "workload": "bank"}], 2),
        ([{**GOOD_LINE, "models": ["serializable", "1SR"]}], 2),
        ([{**GOOD_LINE, "models": ["prefix"]}], 0),
        ([{**FAIL_LINE, "models": ["prefix"]}], 1),
        ([{**GOOD_LINE, "opts": {"anomalies": ["G99"]}}], 2),
        ([{**GOOD_LINE, "opts": {"transaction-order": {"a": "b"}}}], 2),
        ([{**GOOD_LINE, "opts": {"anomalies": 7}}], 2),
        (['{"workload":"list-append","history":' + "[" * 3000 + "]" * 3000 + "}"], 2),
        ([], 2),
        (["", "  "], 2),
        ([b"\xff\xfe"], 2),
    ],
)
def test_a_batch_ends_as_its_worst_line(tmp_path: Path, rows: list[Any], code: int) -> None:
    texts = [r if isinstance(r, bytes) else (r if isinstance(r, str) else json.dumps(r)).encode()
             for r in rows]  # fmt: skip
    path = put(tmp_path, b"\n".join(texts) + b"\n")
    done = CliRunner().invoke(app, ["check", "--batch", str(path)])
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    assert done.exit_code == code, done.output


REFUSED_MODELS = (
    *("linearizable", "sequential", "causal", "PRAM", "monotonic-reads", "monotonic-writes"),
    *("read-your-writes", "writes-follow-reads", "1SR", "view-serializable"),
    "session-serializable",
)


@pytest.mark.parametrize("model", REFUSED_MODELS)
@pytest.mark.parametrize("workload", ["list-append", "rw-register"])
def test_a_model_that_rules_out_nothing_is_refused(
    tmp_path: Path, workload: str, model: str
) -> None:
    bad = written(generated(workload, inject={"G1c": 1}))
    for asked in (model, f"serializable,{model}"):
        code, said = check(put(tmp_path, bad), "--model", asked)
        assert code == 2
        assert f"dstest cannot judge {model} for transactions" in said
        assert "snapshot-isolation" in said
    code, said = check(put(tmp_path, bad), "--checker", workload, "--model", model)
    assert code == 2


@pytest.mark.parametrize("fmt", ["jsonl", "edn"])
@pytest.mark.parametrize("workload", ["list-append", "rw-register"])
def test_no_default_is_weaker_than_another(tmp_path: Path, workload: str, fmt: str) -> None:
    """A stale read: only real time forbids it."""
    mop = "append" if workload == "list-append" else "w"
    values = [
        [[mop, 1, 1]],
        [["r", 1, [1] if mop == "append" else 1]],
        [["r", 1, [] if mop == "append" else None]],
    ]
    made: list[bytes] = []
    for i, value in enumerate(values):
        asked = [[f, k, None if f == "r" else v] for f, k, v in value]
        if fmt == "jsonl":
            op = Op(op_id=i, process_id=i, invoke_ts=10 * i, complete_ts=10 * i + 5, op_type="txn",
                    input=asked, output=value)  # fmt: skip
            made.append(msgspec.json.encode(op) + b"\n")
        else:
            for kind, told in (("invoke", asked), ("ok", value)):
                text = " ".join(
                    f"[:{f} {k} {json.dumps(v).replace('null', 'nil')}]" for f, k, v in told
                )
                made.append(f"{{:process {i}, :type :{kind}, :f :txn, :value [{text}]}}\n".encode())
    head = b'{"schema":"dstest.history/1"}\n' if fmt == "jsonl" else b""
    path = put(tmp_path, head + b"".join(made), f"h.{fmt}")
    plain = check(path)
    assert plain[0] == 1, plain
    for options in (["--workload", workload], ["--checker", workload]):
        assert check(path, *options)[0] == 1, options


def test_an_edited_history_that_is_whole_is_judged(tmp_path: Path) -> None:
    """What no lint can see is for the checkers: the lost element is found."""
    made = history("set-full", 5, 300, unknown=0.0)
    final = max(i for i, op in enumerate(made.ops) if op.op_type == "read" and op.output)
    read = made.ops[final]
    cut = msgspec.structs.replace(read, output=read.output[1:])
    ops = [*made.ops[:final], cut, *made.ops[final + 1 :]]
    path = tmp_path / "h.jsonl"
    write_history(path, History(header=made.header, ops=ops))
    assert check(path, "--workload", "set")[0] == 1


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_two_histories_in_one_are_refused(tmp_path: Path, kind: str) -> None:
    made = history(kind, 2, 60)
    path = tmp_path / "h.jsonl"
    write_history(path, History(header=made.header, ops=[*made.ops, *made.ops]))
    code, said = check(path, "--checker", KINDS[kind].checker)
    assert code == 2
    assert "corrupt" in said


def test_a_directory_stands_for_its_history(tmp_path: Path) -> None:
    put(tmp_path, text_of("bank"), "history.jsonl")
    assert check(tmp_path)[0] == 0
    (tmp_path / "empty").mkdir()
    code, said = check(tmp_path / "empty")
    assert (code, "not a run directory" in said) == (2, True)
    (tmp_path / "cut" / "segments").mkdir(parents=True)
    code, said = check(tmp_path / "cut")
    assert (code, "dstest recover" in said) == (2, True)


def test_an_option_that_nobody_knows_is_named(tmp_path: Path) -> None:
    code, said = check(put(tmp_path, text_of("bank")), "-o", "foo=bar")
    assert code == 2
    assert "no such option for checking operations" in said
    code, said = check(put(tmp_path, text_of("list-append")), "-o", "foo=bar")
    assert "no such option for checking transactions" in said
