"""Batch mode: a line in, a line out, errors where they belong."""

from __future__ import annotations

import json
from typing import Any

from checkers.txn.batch import run_batch
from dstest.history.generator.histories import Spec, events, lines

SKEW = [
    {"type": "ok", "process": 0, "value": [["append", "x", 1], ["r", "y", []]]},
    {"type": "ok", "process": 1, "value": [["append", "y", 1], ["r", "x", []]]},
]


def ask(*rows: Any) -> list[dict[str, Any]]:
    texts = [row if isinstance(row, str | bytes) else json.dumps(row) for row in rows]
    return [json.loads(line) for line in run_batch(texts)]


def test_each_model_has_its_answer() -> None:
    models = ["serializable", "snapshot-isolation"]
    (answer,) = ask({"name": "a", "workload": "list-append", "models": models, "history": SKEW})
    assert answer["name"] == "a"
    assert answer["results"]["serializable"]["valid"] is False
    assert answer["results"]["serializable"]["anomaly_types"] == ["G2-item"]
    assert answer["results"]["serializable"]["not"] == ["repeatable-read"]
    assert answer["results"]["snapshot-isolation"]["valid"] is True


def test_a_bad_line_is_an_error_for_itself_alone() -> None:
    good = {"name": "good", "workload": "list-append", "history": SKEW}
    answers = ask(
        good,
        "{",
        "",
        b"\xff",
        {"name": "no-history", "workload": "list-append"},
        {"name": "bad-history", "workload": "list-append", "history": [{"type": "ok", "value": 3}]},
        {"name": "bad-workload", "workload": "bank", "history": SKEW},
        {**good, "name": "bad-model", "models": ["no-such-model", "serializable"]},
        good,
    )
    assert len(answers) == 8
    assert answers[0] == {**answers[-1], "results": answers[0]["results"]}
    assert ["error" in a for a in answers[:5]] == [False, True, True, True, True]
    assert answers[4]["name"] == "bad-history"
    assert "error" in answers[5]["results"]["strict-serializable"]
    assert "error" in answers[6]["results"]["no-such-model"]
    assert answers[6]["results"]["serializable"]["valid"] is False


def test_our_records_are_read_too() -> None:
    spec = Spec(txns=100, inject={"G1c": 1})
    _, *records = lines(events(spec), spec, "jsonl")
    history = [json.loads(r) for r in records]
    (answer,) = ask({"name": 7, "workload": "list-append", "history": history})
    assert answer["name"] == 7
    assert answer["results"]["strict-serializable"]["anomaly_types"] == ["G1c"]
