"""What a checker answers is believed only where it can be read and agrees with itself."""

from __future__ import annotations

import json
from asyncio import CancelledError
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import force_setattr, replace
from touched_runs import dstest

from dstest.core.check import Anomaly, Budget, CheckResult, KeyCount, OpCount
from dstest.core.errors import ConfigError
from dstest.core.history import Header, History
from dstest.core.protocols import Checker
from dstest.history.generator.true_histories import history
from dstest.judge.checker_answers import ask_checker, bounded_answer, of_all

pytestmark = pytest.mark.slow

MADE = history("set-full", 1, 30)
N = len(MADE.ops)
GOOD = CheckResult(
    checker="mine",
    valid=True,
    model="any",
    ops=OpCount(total=N, consumed=N),
    keys=KeyCount(total=1, decided=1),
)


class Mine(Checker):
    name, kind, models = "mine", "history", ("any",)

    def __init__(self, answer: Callable[[History], Any]) -> None:
        self._answer = answer

    def check(self, history: History, model: str, budget: Budget) -> Any:
        return self._answer(history)


def answered(answer: Callable[[History], Any], made: History = MADE) -> CheckResult:
    """The same answer in a run and in `dstest check`; the copies of a canary are asked alike."""
    found = bounded_answer(Mine(answer), made, "any", Budget())
    assert ask_checker(Mine(answer), made, "any", Budget(), looks=False).valid in (
        found.valid,
        True,
    )
    return found


def test_a_good_answer_is_what_it_was() -> None:
    assert answered(lambda _: GOOD) is GOOD


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (None, "a NoneType instead of a CheckResult"),
        ({"valid": True}, "a dict instead of a CheckResult"),
        (CheckResult, "a StructMeta instead of a CheckResult"),
        (replace(GOOD, valid="true"), "cannot be read: Invalid enum value 'true'"),
        (replace(GOOD, valid=None), "cannot be read"),
        (replace(GOOD, valid=1), "cannot be read"),
        (replace(GOOD, ops=None), "cannot be read"),
        (replace(GOOD, ops=OpCount(total=N, consumed="all")), "cannot be read"),  # type: ignore[arg-type]
        (replace(GOOD, anomalies=[]), "cannot be read"),
        (replace(GOOD, stats={"x": object()}), "cannot be read"),
        (replace(GOOD, checker="linearizable"), "is that of 'linearizable'"),
        (replace(GOOD, model="other"), "was asked about 'any' and found 'other' to hold"),
        (replace(GOOD, model=None), "was asked about 'any' and found None to hold"),
        (replace(GOOD, anomaly_types=["lost"]), "valid, with lost"),
        (replace(GOOD, anomalies={"lost": [Anomaly(type="lost")]}), "valid, with lost"),
        (replace(GOOD, not_=["any"]), "valid, with its model ruled out"),
        (replace(GOOD, ops=OpCount()), f"none of {N} operations was judged"),
        (replace(GOOD, ops=OpCount(total=N, consumed=-1)), "a count in it is below 0"),
        (replace(GOOD, ops=OpCount(total=N, consumed=N, excluded={"x": -1})), "is below 0"),
        (replace(GOOD, keys=KeyCount(total=-5, decided=-7)), "a count in it is below 0"),
        (replace(GOOD, ops=OpCount(total=1, consumed=1)), f"about 1 operations, and there are {N}"),
        (replace(GOOD, ops=OpCount(total=N + 1, consumed=N)), f"about {N + 1} operations"),
        (replace(GOOD, ops=OpCount(total=N, consumed=10**9)), "1000000000 operations were judged"),
        (replace(GOOD, keys=KeyCount(total=1, decided=2)), "2 of 1 keys were decided"),
    ],
)
def test_what_is_no_answer_is_unknown(answer: Any, said: str) -> None:
    found = answered(lambda _: answer)
    assert found.valid == "unknown"
    assert found.checker == "mine"
    assert (found.reason or "").startswith("checker mine gave no answer: ")
    assert said in (found.reason or "")
    assert found.ops == OpCount(total=N)


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (
            replace(GOOD, ops=OpCount(total=N, consumed=1)),
            f"{N - 1} of {N} operations were neither",
        ),
        (replace(GOOD, ops=OpCount(total=N, consumed=1, excluded={"x": 2})), "were neither"),
        (replace(GOOD, ops=OpCount(total=N, consumed=N, excluded={"x": 2})), "were neither"),
        (replace(GOOD, keys=KeyCount(total=5, decided=4, undecided=["k"])), "4 of 5 keys were"),
        (replace(GOOD, keys=KeyCount(total=5, decided=0)), "0 of 5 keys were decided"),
        (replace(GOOD, keys=KeyCount(total=1, decided=1, undecided=["*"])), "1 of 1 keys were"),
    ],
)
def test_an_answer_about_a_part_is_none_about_the_whole(answer: CheckResult, said: str) -> None:
    found = of_all(ask_checker(Mine(lambda _: answer), MADE, "any", Budget()))
    assert (found.valid, said in (found.reason or "")) == ("unknown", True), found.reason


def test_what_leaves_nothing_open_is_about_the_whole() -> None:
    left = replace(GOOD, ops=OpCount(total=N, consumed=N - 2, excluded={"failed": 2}))
    assert of_all(left) is left
    wrong = replace(GOOD, valid=False, ops=OpCount(total=N, consumed=1))
    assert of_all(wrong) is wrong


def test_a_violation_needs_no_counts() -> None:
    bad = CheckResult(checker="mine", valid=False, model="any", anomaly_types=["lost"])
    assert answered(lambda _: bad) is bad


def test_nothing_is_valid_of_an_empty_history() -> None:
    nothing = replace(GOOD, ops=OpCount(), keys=KeyCount())
    found = answered(lambda _: nothing, History(header=Header(), ops=[]))
    assert found.valid == "unknown"


def clears(made: History) -> CheckResult:
    made.ops.clear()
    return GOOD


def turns(made: History) -> CheckResult:
    made.ops.reverse()
    return GOOD


def adds(made: History) -> CheckResult:
    next(op.output for op in made.ops if type(op.output) is list).append("x")
    return GOOD


def takes(made: History) -> CheckResult:
    made.header.options.clear()
    return GOOD


def sets(made: History) -> CheckResult:
    force_setattr(made.ops[-1], "output", "x")
    return GOOD


@pytest.mark.parametrize("change", [clears, turns, adds, takes, sets])
def test_a_history_that_was_changed_is_not_judged(change: Callable[[History], CheckResult]) -> None:
    made = history("set-full", 1, 30)
    made.header.options["k"] = 1
    found = bounded_answer(Mine(change), made, "any", Budget())
    assert found.valid == "unknown"
    assert "checker mine changed the history" in (found.reason or "")
    assert len(made.ops) == N
    assert made.ops == sorted(made.ops, key=lambda op: op.invoke_ts)


def raising(error: BaseException) -> Callable[[History], Any]:
    def raises(_: History) -> Any:
        raise error

    return raises


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (SystemExit(0), "SystemExit: 0"),
        (SystemExit(1), "SystemExit: 1"),
        (ValueError("x"), "ValueError: x"),
        (KeyError("x"), "KeyError: 'x'"),
        (RuntimeError("x"), "RuntimeError: x"),
        (GeneratorExit(), "GeneratorExit"),
        (CancelledError(), "CancelledError"),
        (OSError(28, "no space"), "OSError: [Errno 28] no space"),
    ],
)
def test_what_a_checker_raises_is_unknown(error: BaseException, said: str) -> None:
    found = answered(raising(error))
    assert found.valid == "unknown"
    assert "checker mine failed: " in (found.reason or "")
    assert "test_checker_answers.py, line " in (found.reason or "")
    assert said in (found.reason or "")


def test_an_option_that_a_checker_refuses_is_wrong_usage() -> None:
    with pytest.raises(ConfigError, match="permits"):
        answered(raising(ConfigError("permits are missing")))


def test_what_is_spent_in_a_copy_is_unknown_as_well() -> None:
    for error in (MemoryError(), RecursionError()):
        assert answered(raising(error)).valid == "unknown"


def test_ctrl_c_is_none_of_the_checker() -> None:
    with pytest.raises(KeyboardInterrupt):
        answered(raising(KeyboardInterrupt()))


ODD = {
    "nothing to read": "None",
    "cannot be written": "CheckResult(checker='odd', valid=False, stats={'x': object()})",
    "no operation of it": """CheckResult(checker='odd', valid=False, model='any', anomalies={
        'odd': [Anomaly(type='odd', ops=[99999, 'x'], witness=[{}], culprit='nobody')]},
        stats={'anomalies': {'odd': 'many'}, 'x': None})""",
    "nested": """CheckResult(checker='odd', valid=False, model='any', anomalies={'odd': [Anomaly(
        type='odd', key={'a': [1]}, ops=[o.op_id for o in history.ops[:2]], element={'z': [1]},
        witness=[{'op_id': [1], 'x': {'y': [2]}}])]}, keys=KeyCount(total=1, undecided=[{}]))""",
}
FILE = """
from dstest.core.check import Anomaly, CheckResult, KeyCount
from dstest.core.protocols import Checker
class Odd(Checker):
    name, kind, models = "odd", "history", ("any",)
    def check(self, history, model, budget):
        return {answer}
CHECKER = Odd()
"""


@pytest.mark.parametrize(("what", "verdict"), [*zip(ODD, [3, 3, 1, 1], strict=True)])
@pytest.mark.sampled(2)
def test_a_run_is_judged_whatever_one_of_its_checkers_answers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str, verdict: int
) -> None:
    (tmp_path / "odd.py").write_text(FILE.format(answer=ODD[what]))
    monkeypatch.setenv("DSTEST_FILES", str(tmp_path / "odd.py"))
    words = ("--lab", "sim", "--system", "toykv", "--workload", "set", "--nemesis", "none")
    asked_of = ("--checker", "odd", "--time-limit", "5", "--seed", "2", "--store", tmp_path / "s")
    code, said = dstest("run", *words, *asked_of)
    assert (code, "Traceback" in said) == (verdict, False), said
    run = next((tmp_path / "s/toykv-set-none").iterdir())
    results = json.loads((run / "verdict.json").read_text())["checkers"]
    assert results["set-full"]["valid"] is True
    assert results["odd"]["valid"] == ("unknown" if verdict == 3 else False)
    assert dstest("recover", run)[0] == dstest("check", run)[0] == verdict
