"""Histories that do not say what they are of: looks at groups, and queues with dead letters."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from checking import check, put

from dstest.history.generator.true_histories import history
from dstest.history.jsonl import write_history

VIEWS = """\
{:process 0 :type :invoke :f :bump :value [0 1]}
{:process 1 :type :invoke :f :look :value [[:r 0 nil] [:touch 1 nil] [:r 1 nil]]}
{:process 0 :type :ok :f :bump :value [1 1]}
{:process 1 :type :ok :f :look :value [[:r 0 1] [:touch 1 nil] [:r 1 1]]}
"""


def _json(text: str) -> str:
    """The same in Jepsen's JSON."""
    from dstest.history import edn

    return "".join(
        json.dumps(edn.plain(next(iter(edn.read_all(line))))) + "\n" for line in text.splitlines()
    )


@pytest.fixture
def views(tmp_path: Path) -> Path:
    made = history("atomic-view", 3, 200)
    path = tmp_path / "views.jsonl"
    write_history(path, made)
    return path


@pytest.mark.parametrize("options", [[], ["--format", "dstest"]])
def test_looks_of_ours_are_no_transactions(views: Path, options: list[str]) -> None:
    code, said = check(views, *options)
    assert (code, "--workload atomic-view" in said) == (2, True), said
    code, said = check(views, "--workload", "atomic-view", *options)
    assert code == 0, said


@pytest.mark.parametrize("name", ["h.edn", "h.json"])
def test_looks_of_others_are_refused_with_the_models(tmp_path: Path, name: str) -> None:
    path = put(tmp_path, VIEWS if name.endswith("edn") else _json(VIEWS), name)
    code, said = check(path)
    assert code == 2
    for word in ("--workload atomic-view", "serializable", "snapshot-isolation", "repeatable-read"):
        assert word in said
    code, said = check(path, "--workload", "atomic-view", "--model", "serializable")
    assert code == 0, said


def test_a_step_of_two_items_is_not_decided(tmp_path: Path) -> None:
    text = VIEWS.replace(" [:touch 1 nil]", "").replace("[[:r 0 nil] [:r 1 nil]]", "nil")
    path = put(tmp_path, text.replace("[:r 1 1]", "[:r 1]"), "h.edn")
    code, said = check(path, "--workload", "atomic-view")
    assert code == 3
    assert "checker failed" not in said
    assert "three items" in said


LONG_FORK = """\
{:process 0 :type :invoke :f :write :value [[:w 1 1]]}
{:process 0 :type :ok :f :write :value [[:w 1 1]]}
{:process 1 :type :invoke :f :read :value [[:r 1 nil] [:r 2 nil]]}
{:process 1 :type :ok :f :read :value [[:r 1 1] [:r 2 nil]]}
"""


def test_transactions_by_other_names_are_still_judged(tmp_path: Path) -> None:
    code, said = check(put(tmp_path, LONG_FORK, "h.edn"))
    assert code in (0, 3), said
    assert "serializable" in said


@pytest.mark.parametrize("word", ["reject", "collect"])
def test_dead_letters_are_what_they_are(tmp_path: Path, word: str) -> None:
    text = f"""\
{{:process 0 :type :invoke :f :enqueue :value 1}}
{{:process 0 :type :ok :f :enqueue :value 1}}
{{:process 0 :type :invoke :f :{word}}}
{{:process 0 :type :ok :f :{word} :value 1}}
"""
    code, said = check(put(tmp_path, text, "h.edn"))
    assert code == 2
    assert "--workload dead-letters" in said
    assert "total-queue" not in said


def test_an_answered_take_needs_its_value(tmp_path: Path) -> None:
    text = "{:process 0 :type :invoke :f :collect}\n{:process 0 :type :ok :f :collect}\n"
    code, said = check(put(tmp_path, text, "h.edn"), "--workload", "dead-letters")
    assert (code, "without a value" in said) == (2, True), said
