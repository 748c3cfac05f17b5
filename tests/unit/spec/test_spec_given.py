"""What `drive`, `why` and `weaker` are given, taken at its word."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from dstest.cli.app import app
from dstest.core.errors import ConfigError, Exit
from dstest.spec.weaker import weakenings

TRUTHS = ("(x for x in ())", "'s.holder is None'", "[]", "0", "None", "s.holder.nobody")


def spec(*words: str) -> Result:
    return CliRunner().invoke(app, ["spec", *words])


@pytest.mark.parametrize("text", TRUTHS)
def test_what_is_no_truth_is_no_goal(text: str) -> None:
    error = spec("drive", "lock", "--where", text).exception
    assert isinstance(error, ConfigError) and "--where" in str(error)


def test_a_goal_that_is_no_truth_later_on() -> None:
    error = spec("drive", "lock", "--where", "False if s == self_first else 0").exception
    assert isinstance(error, ConfigError) and "NameError" in str(error)
    text = "False if s == next(iter(self.initial())) else 'yes'"
    error = spec("drive", "lock", "--where", text).exception
    assert isinstance(error, ConfigError) and "'yes', which is neither true nor false" in str(error)


@pytest.mark.parametrize("command", ["why", "drive"])
def test_more_steps_than_there_are(command: str, tmp_path: Path) -> None:
    file = str(tmp_path / "trace.json")
    text = "s != next(iter(self.initial()))"
    assert spec("drive", "lock", "--where", text, "--out", file).exit_code == Exit.PASS
    words = (
        ["why", "lock", "acquire", "--after"] if command == "why" else ["drive", "lock", "--along"]
    )
    error = spec(*words, file, "--events", "999").exception
    assert isinstance(error, ConfigError) and "has no 999 steps: it has 1" in str(error)
    assert spec(*words, file, "--events", "1").exit_code in (Exit.PASS, Exit.FAIL)
    bare = ["why", "lock", "acquire"] if command == "why" else ["drive", "lock", "--where", text]
    assert isinstance(spec(*bare, "--events", "1").exception, ConfigError)


ANSWERS = """
from dstest.spec import Spec, action

class Shop(Spec):
    def initial(self):
        yield 0

    @action()
    def go(self, s):
        return s

    def answer_of(self, s, step, after):
        if step.action == "go":
            return after
        return "no"
"""


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (ANSWERS[ANSWERS.index("    def answer_of") :], ""),
        ("return after", "return ..."),
        ('return "no"', "return ..."),
        ("def answer_of", "def answers_of"),
        ('step.action == "go"', "step.action"),
        (
            '        if step.action == "go":\n',
            "        if step.args:\n            return ...\n        else:\n",
        ),
    ],
)
def test_answers_that_are_asked_no_more_are_flagged(old: str, new: str) -> None:
    """Also where a specification has answers and no invariant."""
    assert old in ANSWERS
    found = weakenings(ANSWERS, ANSWERS.replace(old, new))
    assert "Shop.answer_of" in [one.id for one in found]
    assert weakenings(ANSWERS, ANSWERS) == []
