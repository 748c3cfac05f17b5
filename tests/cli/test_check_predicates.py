"""`dstest check` on transactions with predicate reads, in the notations that they come in."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from dstest.cli.app import app

EDN = """
{:process 0, :type :invoke, :f :init, :value {:x 1, :y 3}}
{:process 0, :type :ok, :f :init, :value {:x 1, :y 3}}
{:process 0, :type :invoke, :f :txn, :value [[:rp [:mod 2 0] nil] [:w :x 2]]}
{:process 1, :type :invoke, :f :txn, :value [[:rp [:mod 2 0] nil] [:w :y 4]]}
{:process 0, :type :ok, :f :txn, :value [[:rp [:mod 2 0] {}] [:w :x 2]]}
{:process 1, :type :ok, :f :txn, :value [[:rp [:mod 2 0] {}] [:w :y 4]]}
{:process 1, :type :invoke, :f :txn, :value [[:rp :true nil] [:r :x nil]]}
{:process 1, :type :ok, :f :txn, :value [[:rp :true {:x 2 :y 4}] [:r :x 2]]}
"""


def events(*rows: tuple[int, str, list[Any]]) -> str:
    return "\n".join(
        json.dumps({"process": process, "type": kind, "f": "txn", "value": mops})
        for process, kind, mops in rows
    )


JSON = events(
    (0, "invoke", [["rp", ["mod", 2, 0], None], ["insert", 1, 2]]),
    (1, "invoke", [["rp", ["mod", 2, 0], None], ["insert", 2, 4]]),
    (0, "ok", [["rp", ["mod", 2, 0], {}], ["insert", 1, 2]]),
    (1, "ok", [["rp", ["mod", 2, 0], {}], ["insert", 2, 4]]),
    (1, "invoke", [["rp", "true", None], ["delete", 1]]),
    (1, "ok", [["rp", "true", {"1": 2, "2": 4}], ["delete", 1]]),
)


def check(folder: Path, text: str, *options: str) -> tuple[int, dict[str, Any]]:
    path = folder / ("h.edn" if text.lstrip().startswith("{:") else "h.json")
    path.write_text(text)
    done = CliRunner().invoke(app, ["check", str(path), "--json", *options])
    return done.exit_code, json.loads(done.stdout)


@pytest.mark.parametrize("text", [EDN, JSON])
@pytest.mark.parametrize("asked", [(), ("--workload", "closed-predicate")])
def test_both_notations_are_read(tmp_path: Path, text: str, asked: tuple[str, ...]) -> None:
    code, answer = check(tmp_path, text, *asked)
    assert (code, answer["anomaly_types"]) == (1, ["G2"])
    code, answer = check(tmp_path, text, *asked, "--model", "snapshot-isolation")
    assert (code, answer["valid"]) == (0, True), answer["reason"]


def test_rows_may_be_there_at_first(tmp_path: Path) -> None:
    code, answer = check(tmp_path, JSON, "--initial", '{"7": 1}')
    assert (code, answer["anomaly_types"]) == (1, ["predicate-read-miss"])


def test_a_bad_micro_op_says_what_is_one(tmp_path: Path) -> None:
    code, answer = check(tmp_path, JSON.replace('["mod", 2, 0]', '["mod", 2]'))
    assert code == 3
    assert "predicates are true" in answer["reason"]
