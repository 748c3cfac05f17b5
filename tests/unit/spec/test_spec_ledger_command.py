"""`dstest spec ledger`, and `conform --ledger` that writes it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from dstest.cli.app import app
from dstest.core.errors import ConfigError, Exit

MODEL = """
from dstest.spec import Spec, Step, action, invariant, maps, when


class Counter(Spec):
    def initial(self):
        yield (0,)

    @action(value=(1, 2))
    @when("next", lambda s, value: value == s[0] + 1)
    def count(self, s, value):
        return (value,)

    @invariant("C1", "not negative")
    def positive(self, s):
        return s[0] >= 0

    @maps("count")
    def of_count(self, record):
        yield Step("count", (record.value,))
"""

GOOD = "".join(f'{{"kind": "count", "value": {n}}}\n' for n in (1, 2, 3))


def run(*words: str) -> Result:
    return CliRunner().invoke(app, ["spec", *words])


@pytest.fixture(autouse=True)
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "counter.py").write_text(MODEL)
    (tmp_path / "good.log").write_text(GOOD)
    (tmp_path / "bad.log").write_text(GOOD.replace("3", "4"))
    monkeypatch.chdir(tmp_path)


def conform(log: str, *more: str) -> Result:
    return run("conform", "counter.py", log, "--log", "--ledger", "l.jsonl", *more)


def test_what_is_accepted_is_no_mismatch() -> None:
    assert conform("good.log", "--commit", "a").exit_code == Exit.PASS
    assert not Path("l.jsonl").exists()


def test_the_same_mismatch_under_three_commits() -> None:
    for commit in ("a", "b"):
        said = conform("bad.log", "--commit", commit)
        assert said.exit_code == Exit.FAIL and "going in circles" not in said.output
    assert run("ledger", "l.jsonl").exit_code == Exit.PASS
    said = conform("bad.log", "--commit", "c")
    assert "came again under 3 commits" in said.output
    shown = run("ledger", "l.jsonl")
    assert shown.exit_code == Exit.FAIL
    assert "count: next (system)" in shown.output
    assert "dstest spec why SPEC count" in " ".join(shown.output.split())


def test_a_fix_is_noted_and_is_no_sighting() -> None:
    conform("bad.log", "--commit", "a")
    (fingerprint,) = json.loads(run("ledger", "l.jsonl", "--json").output)["mismatches"]
    for commit in "bcd":
        words = ("--fix", fingerprint, "--commit", commit, "--what", "counts from 1")
        assert run("ledger", "l.jsonl", *words).exit_code == Exit.PASS
    said = json.loads(run("ledger", "l.jsonl", "--json").output)
    assert [one["fix"] for one in said["mismatches"][fingerprint]] == [None, *["counts from 1"] * 3]
    assert said["circles"] == []
    assert "fix: counts from 1" in run("ledger", "l.jsonl").output


def test_json_stays_one_object() -> None:
    said = CliRunner().invoke(
        app,
        [
            *("spec", "conform", "counter.py", "bad.log", "--log", "--json"),
            *("--ledger", "l.jsonl", "--commit", "a"),
        ],
    )
    assert json.loads(said.stdout)["verdict"] == "reject"
    assert "mismatch" in said.stderr


def test_a_last_line_that_is_cut_off_is_no_comparison_that_forgives() -> None:
    conform("bad.log", "--commit", "a")
    Path("bad.log").write_text(Path("bad.log").read_text() + '{"kind": "cou')
    said = conform("bad.log", "--commit", "b")
    assert "a last line that was cut off" in said.output
    assert "forgives more" not in run("ledger", "l.jsonl").output


def test_a_comparison_that_forgives_more_says_so() -> None:
    conform("bad.log", "--commit", "a")
    Path("counter.py").write_text(MODEL.replace("Spec):\n", 'Spec):\n    ignores = {"x"}\n', 1))
    Path("bad.log").write_text('{"kind": "x"}\n' + Path("bad.log").read_text())
    conform("bad.log", "--commit", "b")
    assert "forgives more than it did: 0, now 1" in run("ledger", "l.jsonl").output


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("none.jsonl",), "there is no ledger"),
        (("l.jsonl", "--fix", "0" * 12, "--commit", "b", "--what", "x"), "no mismatch 000"),
        (("l.jsonl", "--fix", "0" * 12, "--commit", "b"), "nothing is said of what was done"),
        (("l.jsonl", "--commit", "b"), "are of --fix"),
        (("bad.log",), "line 1"),
    ],
)
def test_bad_input(words: tuple[str, ...], message: str) -> None:
    conform("bad.log", "--commit", "a")
    said = run("ledger", *words)
    assert isinstance(said.exception, ConfigError) and message in str(said.exception)


def test_where_no_commit_is_known_and_a_ledger_that_is_damaged() -> None:
    said = conform("bad.log")
    assert isinstance(said.exception, ConfigError) and "no repository" in str(said.exception)
    Path("l.jsonl").write_text("nothing\n")
    said = conform("bad.log", "--commit", "a")
    assert isinstance(said.exception, ConfigError) and "line 1" in str(said.exception)
    assert Path("l.jsonl").read_text() == "nothing\n"
