"""A specification as a checker: what it says of histories, and of files that it cannot be."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from counter_spec import Count, Counter, history, op

from dstest.core.check import Budget, CheckResult
from dstest.core.errors import ConfigError
from dstest.core.history import History
from dstest.core.registry import FILES, named_in, offered, use
from dstest.judge.checker_answers import ask_checker
from dstest.judge.mutants.families import canaries
from dstest.judge.mutants.operators import nobodys_answer
from dstest.judge.mutants.shapes import Part
from dstest.spec import Record, Spec, Step, System, action, checker_of, invariant, maps
from dstest.spec.conform import conform_history


class Anything(Counter):
    @action(value=range(9))
    def read(self, s: Count, value: int) -> Count:
        return s


class NeverAsked(Counter):
    @invariant("CN3", "of steps", kind="action")
    def steps(self, before: Count, step: Step, after: Count) -> bool:
        return True


GOOD = history(
    op(0, "inc", given=2),
    op(1, "read", got=2),
    op(2, "inc", given=1),
    op(3, "read", got=3),
    op(4, "read", "b", got=0),
    op(5, "read", "b", unknown=True),
    op(6, "inc", "b", given=1, failed=True),
)


def asked(of: History, spec: Spec | None = None, budget: Budget | None = None) -> CheckResult:
    checker = checker_of(spec or Counter())
    return ask_checker(checker, of, checker.models[0], budget or Budget())


def test_what_it_has_is_valid_and_counted() -> None:
    said = asked(GOOD)
    assert said.valid is True, said.reason
    assert (said.ops.total, said.ops.consumed) == (7, 5)
    assert said.ops.excluded == {"unknown-read": 1, "fail": 1}
    assert (said.keys.total, said.keys.decided) == (2, 2)
    assert said.stats["invariants"]["CN1"]["held"] > 0
    assert said.stats["never_asked"] == ["CN2"]


class UpTo(Counter):
    """What an increment was given is the least that is there after it."""

    @maps("inc", after=lambda s, record: s.value >= record.input)
    def of_inc(self, record: Record) -> Iterator[Step]:
        yield Step("add", (1,))


@pytest.mark.parametrize("given", [(5, 1), (1, 5)])
def test_unknown_ones_that_are_told_apart_need_no_order(given: tuple[int, int]) -> None:
    """The first may have had no effect, and the second one."""
    unknown = [op(n, "inc", given=one, unknown=True) for n, one in enumerate(given)]
    of = history(*unknown, op(2, "read", got=0), op(3, "read", got=1))
    assert asked(of, UpTo()).valid is True


def test_what_a_guard_forbids_is_a_violation() -> None:
    wrong = history(*GOOD.ops[:3], op(3, "read", got=2), *GOOD.ops[4:])
    said = asked(wrong)
    assert said.valid is False
    assert said.anomaly_types == ["no-behaviour"]
    (one,) = said.anomalies["no-behaviour"]
    assert (one.culprit, one.key, one.ops) == (3, "a", [3])
    assert "current" in one.explanation


def test_what_an_invariant_forbids_is_told_by_it() -> None:
    said = asked(GOOD, Counter(most=2))
    assert said.valid is False
    assert said.anomaly_types == ["CN1"]
    assert said.anomalies["CN1"][0].culprit == 2


@pytest.mark.parametrize(
    ("of", "spec", "why"),
    [
        (history(), Counter(), "no record"),
        (history(op(0, "watch", got=1)), Counter(), "no record"),
        (history(op(0, "peek", got=1)), Counter(), "neither maps nor ignores"),
        (history(op(0, "inc", given="x"), op(1, "read", got=0)), Counter(), "Counter"),
        (GOOD, Anything(), "vacuous"),
        (history(*(op(n, "inc", given=1) for n in range(4))), Counter(), "vacuous"),
    ],
)
def test_what_it_could_not_be_asked_is_unknown(of: History, spec: Spec, why: str) -> None:
    said = asked(of, spec)
    assert said.valid == "unknown"
    assert said.ops.consumed == 0
    assert why in (said.reason or "")


def test_out_of_time_is_unknown() -> None:
    ops = [op(n, "inc", "a", given=1, unknown=True) for n in range(60)]
    said = asked(history(*ops, op(90, "read", got=7)), budget=Budget(time_s=0.0))
    assert said.valid == "unknown"


def test_an_invariant_that_nothing_asked_keeps_it_open(monkeypatch: pytest.MonkeyPatch) -> None:
    def without(*given: Any, **more: Any) -> Any:
        said = conform_history(*given, **more)
        said.counts["CN3"] = msgspec.structs.replace(said.counts["CN3"], passed=0)
        return said

    monkeypatch.setattr("dstest.spec.checker.conform_history", without)
    said = asked(GOOD, NeverAsked())
    assert said.valid == "unknown"
    assert "CN3" in (said.reason or "")


def test_it_rejects_answers_that_nobody_gave() -> None:
    checker = checker_of(Counter())

    def check(of: History) -> CheckResult:
        return ask_checker(checker, of, checker.models[0], Budget())

    rows = canaries(checker, checker.models[0], GOOD, 1, check).details
    assert {row["kind"] for row in rows} >= {"nobodys-answer"}
    assert all(row["valid"] is False for row in rows if row["kind"] == "nobodys-answer")
    assert not any(row["sure"] for row in rows)


@pytest.mark.parametrize(
    ("given", "got", "made"),
    [
        (None, 4, 2_000_000_011),
        (None, "x", "2000000011"),
        (None, True, None),
        (None, None, None),
        (7, 7, None),
        ([["append", 1, 2]], [["append", 1, 2]], None),
        ([["r", 1, None]], [["r", 1, 5]], [["r", 1, 2_000_000_011]]),
        ({"k": 1}, {"k": 1, "v": 2}, {"k": 1, "v": 2_000_000_011}),
    ],
)
def test_an_answer_of_nobody(given: Any, got: Any, made: Any) -> None:
    found = nobodys_answer(Part([op(0, "x", given=given, got=got)], {}), random.Random(1))
    assert (found[1][0].output if found else None) == made


class OfLogs(Counter):
    server_log = "protocol.jsonl"


def test_one_of_server_logs_is_refused() -> None:
    with pytest.raises(ConfigError, match="what servers log"):
        checker_of(OfLogs())


TEXT = """
from dataclasses import dataclass
from dstest.spec import Spec, Step, System, action, invariant, maps, checker_of

@dataclass(frozen=True)
class S:
    n: int = 0

class MyPart(Spec):
    def initial(self):
        yield S()
    @action()
    def tick(self, s):
        return S(s.n + 1)
    @invariant("X1", "x")
    def x(self, s):
        return s.n >= 0
"""
MAPPED = """
    @maps("inc")
    def of_inc(self, record):
        yield Step("tick")
"""
SYSTEM = """
class Whole(System):
    parts = {"one": MyPart()}
    @maps("inc")
    def of_inc(self, record):
        yield Step("tick")
"""


@pytest.mark.parametrize(
    ("text", "name"),
    [
        (TEXT + MAPPED, "my-part-spec"),
        (TEXT + MAPPED + SYSTEM, "whole-spec"),
        (TEXT + MAPPED + "class B(MyPart): pass\nCHECKER = checker_of(B())\n", "b-spec"),
    ],
)
def test_a_file_is_its_checker(
    text: str, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(FILES, "")
    file = tmp_path / "mine.py"
    file.write_text(text)
    assert named_in("checkers", str(file)) == name


@pytest.mark.parametrize(
    ("text", "why", "remedy"),
    [
        (TEXT, "MyPart none says what an operation stands for", "@maps"),
        (TEXT + MAPPED + "class B(MyPart): pass\n", "several", "CHECKER = checker_of(MyPart())"),
        (TEXT.replace("def tick", "def crash"), "every Spec has under that name", "crash_it"),
    ],
)
def test_a_file_that_is_none_says_why(
    text: str, why: str, remedy: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(FILES, "")
    file = tmp_path / "mine.py"
    file.write_text(text)
    with pytest.raises(ConfigError) as error:
        use([file])
    assert why in error.value.message
    assert remedy in (error.value.remedy or "")
    assert "python3" not in (error.value.remedy or "")


def test_a_plug_in_beside_a_specification_stays_one(tmp_path: Path) -> None:
    file = tmp_path / "both.py"
    file.write_text(TEXT + "from nemeses.none import NoNemesis\nclass Q(NoNemesis):\n"
                    "    name = 'quiet'\nNEMESIS = Q()\n")  # fmt: skip
    assert set(offered(file)) == {"nemeses"}


def test_a_system_of_parts_is_asked_whole() -> None:
    class Two(System):
        parts = {"one": Counter(), "two": Counter(most=2)}
        per_key = True

        @maps("inc")
        def of_inc(self, record: Record) -> Iterator[Step]:
            yield Step("add", (record.input,))

        @maps("read", only_reads=True)
        def of_read(self, record: Record) -> Iterator[Step]:
            yield Step("read", (record.output,))

    said = asked(GOOD, Two())
    assert said.valid is False
    assert said.anomaly_types == ["two.CN1"]
