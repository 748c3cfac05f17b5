"""`dstest check` with the checkers of whole histories: workloads, --checker, budgets, unknown."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from dstest.cli.app import app
from dstest.core.check import Budget, CheckResult, OpCount
from dstest.core.errors import ConfigError
from dstest.core.history import History
from dstest.core.protocols import Checker
from dstest.history.generator.true_histories import KINDS, history
from dstest.history.jsonl import write_history
from dstest.judge import checker_answers

pytestmark = pytest.mark.slow

WORKLOADS = {
    "set": "set-full",
    "queue": "total-queue",
    "dead-letters": "dead-letters",
    "counter": "counter",
    "bank": "bank",
    "long-fork": "long-fork",
    "lock": "lock",
    "lease": "lease",
    "unique-ids": "unique-ids",
    "session": "session",
    "watch": "watch",
    "append-log": "kafka",
    "atomic-view": "atomic-view",
    "g2": "g2",
    "closed-predicate": "closed-predicate",
}


def run(path: Path, *options: str) -> tuple[int, Any]:
    result = CliRunner().invoke(app, ["check", str(path), "--json", *options])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result.exit_code, json.loads(result.stdout)


def saved(folder: Path, made: History) -> Path:
    path = folder / "history.jsonl"
    write_history(path, made)
    return path


@pytest.mark.parametrize("workload", WORKLOADS)
def test_workloads_choose_their_checkers(tmp_path: Path, workload: str) -> None:
    path = saved(tmp_path, history(WORKLOADS[workload], 1, 150, unknown=0.0))
    code, answer = run(path, "--workload", workload)
    assert (code, answer["valid"]) == (0, True), answer["reason"]
    assert answer["workload"] == workload


@pytest.mark.parametrize("kind", ["causal", "exactly-once", "reconciliation", "final-state"])
def test_a_checker_can_be_chosen_by_name(tmp_path: Path, kind: str) -> None:
    path = saved(tmp_path, history(kind, 1, 150))
    code, answer = run(path, "--checker", KINDS[kind].checker)
    assert (code, answer["valid"]) == (0, True), answer["reason"]


def test_several_checkers_give_one_answer_the_worst(tmp_path: Path) -> None:
    made = history("total-queue", 1, 60, unknown=0.0)
    path = saved(tmp_path, made)
    code, answer = run(path, "--workload", "queue")
    assert code == 0
    assert set(answer["stats"]) == {"total-queue", "order"}
    taken = [op for op in made.ops if op.op_type == "dequeue" and op.output is not None]
    lost = [op for op in made.ops if op is not taken[-1]]
    path = saved(tmp_path, History(header=made.header, ops=lost))
    code, answer = run(path, "--workload", "queue")
    assert (code, answer["valid"], answer["anomaly_types"]) == (1, False, ["lost"])


def test_a_model_that_nobody_knows_is_refused(tmp_path: Path) -> None:
    path = saved(tmp_path, history("set-full", 1, 30))
    with pytest.raises(ConfigError, match="no checker of workload set"):
        run(path, "--workload", "set", "--model", "nonsense")
    with pytest.raises(ConfigError, match="does not know"):
        run(path, "--checker", "bank", "--model", "nonsense")


def test_time_that_is_used_up_is_unknown_with_the_keys(tmp_path: Path) -> None:
    path = saved(tmp_path, history("prefix", 1, 3000))
    code, answer = run(path, "--checker", "order", "--model", "prefix", "--budget-s", "0.00001")
    assert (code, answer["valid"]) == (3, "unknown")
    assert answer["keys"]["decided"] < answer["keys"]["total"]
    assert answer["keys"]["undecided"]
    assert "time budget" in answer["reason"]


class Greedy(Checker):
    name = "greedy"
    kind = "history"
    models = ("any",)

    def __init__(self, act: Any) -> None:
        self._act = act

    def check(self, history: History, model: str, budget: Budget) -> CheckResult:
        self._act()
        judged = OpCount(total=len(history.ops), consumed=len(history.ops))
        return CheckResult(checker=self.name, valid=True, model=model, ops=judged)


def eat() -> None:
    pile = [bytearray(1 << 20) for _ in range(4000)]
    assert pile


def hang() -> None:
    while True:
        pass


def test_memory_that_is_used_up_is_unknown_and_kills_nobody() -> None:
    made = history("set-full", 1, 10)
    result = checker_answers.bounded_answer(Greedy(eat), made, "any", Budget(memory_mb=64))
    assert result.valid == "unknown"
    assert result.keys.decided < result.keys.total
    assert result.reason == "memory budget of 64 MB used up"
    assert checker_answers.bounded_answer(Greedy(lambda: None), made, "any", Budget()).valid is True


def test_a_checker_that_never_looks_at_the_clock_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checker_answers, "GRACE_S", 0.05)
    made = history("set-full", 1, 10)
    result = checker_answers.bounded_answer(Greedy(hang), made, "any", Budget(time_s=0.1))
    assert result.valid == "unknown"
    assert "did not stop" in (result.reason or "")


def test_a_child_that_dies_is_unknown(tmp_path: Path) -> None:
    job = checker_answers.Job(
        source=checker_answers.Source(path=str(tmp_path / "missing.jsonl")), checker="set-full",
        model="linearizable", budget=Budget(),
    )  # fmt: skip
    (result,) = checker_answers.run_jobs([job])
    assert result.valid == "unknown"
    assert "ended with status" in (result.reason or "")
