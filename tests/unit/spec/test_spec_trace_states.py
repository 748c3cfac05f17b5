"""The states that a trace file has are held against those that its steps lead to."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from dstest.cli.app import app
from dstest.core.errors import ConfigError, Exit

pytestmark = pytest.mark.slow

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


WHOLE = """

class Beside(Spec):
    most = 2

    def initial(self):
        yield S()

    @action(client=(1, 2))
    @when("room", lambda self, s: s.x < self.most)
    def up(self, s, client):
        return replace(s, x=s.x + 1)

    @action()
    @when("full", lambda self, s: s.x == self.most)
    def take(self, s):
        return replace(s, x=0)


class Both(System):
    limit = 4
    parts = {"up": Up(), "beside": Beside(most=%s)}

    @action()
    @when("at the limit", lambda self, s: s.up.x == self.limit)
    def close(self, s):
        return s
"""


@pytest.fixture
def whole() -> str:
    """A trace in `w.json` of a specification with parts: six steps."""
    spec = SPEC.replace("import Spec", "import Spec, System")
    Path("both.py").write_text(spec + WHOLE % 1)
    Path("other.py").write_text(spec + WHOLE % 2)
    assert run("drive", "both.py", "--where", "s.up.x == 3", "--out", "w.json").exit_code == 0
    return "both.py"


def test_a_trace_of_parts_says_what_they_are_made_with(whole: str) -> None:
    text = Path("w.json").read_text()
    assert " at 0x" not in text
    assert json.loads(text)["constants"] == {"limit": "4", "beside.most": "1"}
    done = run("drive", "other.py", "--along", "w.json")
    assert "other constants: beside.most" in str(done.exception)
    old = json.loads(text)
    old["constants"]["parts"] = "{'up': <Up object at 0x7f00>}"
    Path("old.json").write_text(json.dumps(old))
    assert run("drive", whole, "--along", "old.json").exit_code == 0


def test_each_command_reads_a_trace_of_parts(whole: str) -> None:
    def said(*words: str, exits: int = 0) -> str:
        done = run(*words)
        assert done.exit_code == exits, (words, done.output, done.exception)
        return done.output

    assert "at the limit is false" in said("why", whole, "close", "--after", "w.json")
    assert said("knock", whole, "w.json") == "accepted as it is\n"
    assert "p1->>p1: take()" in said("chart", whole, "w.json")
    said("drive", whole, "--along", "w.json", "--out", "again.json")
    assert Path("again.json").read_text() == Path("w.json").read_text()
    file = json.loads(Path("w.json").read_text())
    file["steps"] = [{**row, "state": ""} for row in file["steps"] if row["action"] != "take"]
    Path("full.json").write_text(json.dumps(file))
    assert "without up.sub:beside.room" in said("knock", whole, "full.json", exits=1)
    assert "first difference" in said("chart", whole, "w.json", "full.json", exits=1)


def test_the_commit_after_which_a_trace_of_parts_is_not_followed(whole: str) -> None:
    def commit(text: str) -> None:
        Path("both.py").write_text(text)
        for words in (["add", "both.py"], ["commit", "-qm", "x"]):
            subprocess.run(["git", "-c", "user.name=a", "-c", "user.email=a@b", *words], check=True)

    text = Path(whole).read_text()
    subprocess.run(["git", "init", "-q"], check=True)
    for n, version in enumerate([text, text + "\n", text.replace("s.x < 9", "s.x < 2"), text[:-1]]):
        commit(version if n < 3 else Path("both.py").read_text() + "\n")
    asked = [sys.executable, "-m", "dstest", "spec", "drive", whole, "--along"]
    done = run("bisect", "HEAD~3", "HEAD", "--", *asked, str(Path("w.json").absolute()))
    assert done.exit_code == 0 and "first bad" in done.output, done.output
    bad = subprocess.run(["git", "rev-parse", "HEAD~1"], capture_output=True, text=True, check=True)
    assert f"first bad: {bad.stdout[:12]}" in done.output


def test_a_trace_of_what_comes_with_dstest_has_parts_too() -> None:
    where = ("--where", "len(s.election.elected) > 0")
    assert run("drive", "raft", *where, "--out", "r.json").exit_code == 0
    done = run("why", "raft", "commit", "--after", "r.json")
    assert done.exit_code in (0, 1) and "most voters is false" in done.output


@pytest.mark.parametrize("name", ["crash", "done", "parts"])
def test_an_action_called_as_something_of_every_specification(name: str) -> None:
    spec = SPEC.replace("import Spec", "import Spec, System").replace("idle", name)
    Path("up.py").write_text(spec.replace("Up(Spec)", "Up(System)"))
    done = run("explore", "up.py")
    assert f"Up.{name} is an action or an invariant" in str(done.exception)
    assert "call the method otherwise" in str(done.exception)
