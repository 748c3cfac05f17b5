"""The states that a trace file has are held against those that its steps lead to."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from dstest.cli.app import app
from dstest.core.errors import ConfigError, Exit

SPEC = """
from dataclasses import dataclass, replace

from dstest.spec import Spec, action, invariant, when


@dataclass(frozen=True)
class S:
    x: int = 0
    kept: tuple[int, ...] = ()


class Up(Spec):
    def initial(self):
        yield S()

    @action(client=(1, 2))
    @when("below", lambda s: s.x < 9)
    def up(self, s, client):
        return replace(s, x=s.x + 1, kept=(*s.kept, client))

    @action()
    @when("never", lambda s: s.x > 99)
    def idle(self, s):
        return s

    @invariant("U1", "never three")
    def few(self, s):
        return s.x != 3
"""


def run(*words: str) -> Result:
    return CliRunner().invoke(app, ["spec", *words])


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("up.py").write_text(SPEC)
    assert run("explore", "up.py", "--out", "t.json").exit_code == Exit.FAIL


def changed_spec() -> None:
    Path("up.py").write_text(SPEC.replace("x=s.x + 1,", "x=s.x + 2,"))


def edited_file() -> None:
    rows = json.loads(Path("t.json").read_text())
    rows["steps"][0]["state"] = rows["steps"][0]["state"].replace("x=1", "x=3")
    Path("t.json").write_text(json.dumps(rows))


OTHERS = {changed_spec: "x is 2, and 1 in the file", edited_file: "x is 1, and 3 in the file"}


def test_a_trace_as_it_was_written_is_accepted() -> None:
    assert run("knock", "up.py", "t.json").exit_code == Exit.PASS
    assert run("drive", "up.py", "--along", "t.json").exit_code == Exit.PASS
    assert run("chart", "up.py", "t.json").exit_code == Exit.PASS
    assert run("why", "up.py", "up", "--after", "t.json").exit_code == Exit.PASS


@pytest.mark.parametrize("other", OTHERS)
def test_another_state_is_told_by_step_and_field(other: object) -> None:
    other()  # type: ignore[operator]
    said = OTHERS[other]  # type: ignore[index]
    knocked = run("knock", "up.py", "t.json")
    assert knocked.exit_code == Exit.FAIL
    assert f"step 0, up(1): {said}" in knocked.output
    for words in (
        ("drive", "up.py", "--along", "t.json"),
        ("chart", "up.py", "t.json"),
        ("why", "up.py", "up", "--after", "t.json"),
    ):
        done = run(*words)
        assert isinstance(done.exception, ConfigError)
        assert f"step 0, up(1): {said}" in done.exception.message


def test_a_chart_has_lanes_of_who_acts() -> None:
    assert "participant p0 as client 1" in run("chart", "up.py", "t.json").output
    other = SPEC.replace("@action(client=(1, 2))", "@action(by=(1,), client=(1, 2))")
    other = other.replace("up(self, s, client)", "up(self, s, by, client)")
    other = other.replace("x=s.x + 1", "x=s.x + by")
    other = other.replace("@action()", "@action(n=(1, 2))")
    other = other.replace("idle(self, s)", "idle(self, s, n)")
    Path("up.py").write_text(other)
    run("explore", "up.py", "--out", "t.json")
    assert "participant p0 as Up" in run("chart", "up.py", "t.json").output
    named = other.replace("class Up(Spec):", "class Up(Spec):\n    lane = 'client'")
    Path("up.py").write_text(named)
    assert "participant p0 as client 1" in run("chart", "up.py", "t.json").output


def test_the_depth_is_that_of_the_trace() -> None:
    said = run("explore", "up.py").output
    assert "depth 3, and there are more" in said and "   3 up(1)" in said


def test_mutants_of_what_is_never_taken_are_told_so_and_all_by_their_place() -> None:
    Path("up.py").write_text(SPEC.replace("s.x != 3", "s.x != 30"))
    said = run("mutate", "up.py", "--no-deadlock").output.splitlines()
    assert any("of idle: never; the action is never taken" in line for line in said)
    assert any("limit of idle at 23:30: never: s.x > 99 -> s.x >= 99" in line for line in said)
    assert len(said) == len(set(said))


def test_a_guard_that_goes_wrong_says_so() -> None:
    Path("up.py").write_text(
        SPEC.replace("x > 99)", 'x > 99)\n    @when("first", lambda s: s.kept[0] == 1)')
    )
    said = run("why", "up.py", "idle").output
    assert "first is undefined: s.kept[0] == 1; it goes wrong there" in said
    assert not any(line.endswith("; ") for line in said.splitlines())
