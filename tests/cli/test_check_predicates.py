"""`dstest check` on transactions with predicate reads, in the notations that they come in."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from dstest.cli.app import app
from dstest.core.errors import ConfigError, DstestError, HistoryError

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


@pytest.mark.parametrize("value", [5, True, 1.5, "x", [5], [{"a": 1}], [True], [[]]])
def test_values_that_are_no_micro_ops_are_no_crash(tmp_path: Path, value: Any) -> None:
    events = [{"process": 0, "type": kind, "f": "txn", "value": value} for kind in ("invoke", "ok")]
    (tmp_path / "h.json").write_text("\n".join(map(json.dumps, events)))
    done = CliRunner().invoke(app, ["check", str(tmp_path / "h.json")])
    assert done.exit_code in (2, 3), done.output
    assert done.exception is None or isinstance(done.exception, SystemExit | DstestError)


def test_tuples_say_what_they_need(tmp_path: Path) -> None:
    mops = [["rp", "true", None]], [["rp", "true", {}]]
    events = [
        {"process": 0, "type": kind, "f": "txn", "value": [3, value]}
        for kind, value in zip(("invoke", "ok"), mops, strict=True)
    ]
    (tmp_path / "h.json").write_text("\n".join(map(json.dumps, events)))
    done = CliRunner().invoke(app, ["check", str(tmp_path / "h.json")])
    assert isinstance(done.exception, ConfigError)
    assert "--independent" in str(done.exception.remedy)


def test_micro_ops_of_predicates_say_the_workload(tmp_path: Path) -> None:
    """Where they stand early, without being asked; else the message names it."""
    inserts = events((0, "invoke", [["insert", "x", 1]]), (0, "ok", [["insert", "x", 1]]))
    code, answer = check(tmp_path, inserts)
    assert (code, answer["checker"]) == (3, "closed-predicate")
    many = events(*((0, kind, [["w", "x", n]]) for n in range(90) for kind in ("invoke", "ok")))
    late = tmp_path / "late.json"
    late.write_text(f"{many}\n{inserts}")
    done = CliRunner().invoke(app, ["check", str(late)])
    assert isinstance(done.exception, HistoryError)
    assert "closed-predicate" in str(done.exception.remedy)


def test_the_page_shows_a_history_that_can_be_judged(tmp_path: Path) -> None:
    page = (Path(__file__).resolve().parents[2] / "docs" / "reference" / "formats.md").read_text()
    part = page.split("## Transactions with predicate reads")[1].split("## ")[0]
    rows = [line.strip() for line in part.splitlines() if line.startswith("    {")]
    code, answer = check(tmp_path, "\n".join(rows))
    assert (code, answer["valid"], answer["checker"]) == (0, True, "closed-predicate")
