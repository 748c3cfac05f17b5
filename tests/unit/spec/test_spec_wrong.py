"""What goes wrong in a specification is told at its writer's own line, with what helps there."""

from __future__ import annotations

from pathlib import Path

import pytest

from dstest.core.errors import ConfigError
from dstest.spec.against import drive_against
from dstest.spec.compose import load
from dstest.spec.explore import explore

HEAD = """from dataclasses import dataclass, replace
from dstest.spec import Spec, action, invariant, when


@dataclass(frozen=True)
class S:
    jobs: tuple[int, ...] = ()
    holder: int | None = None


class Own(Spec):
    limit = 2

    def initial(self):
        yield S()

    def done(self, s):
        return True
"""

LINE = HEAD.count("\n") + 4
"""Of the body of an action."""


def action_of(body: str, guard: str = "True") -> str:
    guarded = f"    @action()\n    @when('may', lambda s: {guard})\n"
    return f"\n{guarded}    def act(self, s):\n        {body}\n"


@pytest.fixture
def raised(tmp_path: Path) -> object:
    def ask(text: str, *constants: str) -> ConfigError:
        file = tmp_path / "own.py"
        file.write_text(text)
        with pytest.raises(ConfigError) as caught:
            explore(load(str(file), constants))
        assert str(caught.value).count("remedy:") == 1
        assert "dstest_file" not in str(caught.value)
        return caught.value

    return ask


@pytest.mark.parametrize(
    ("body", "line", "remedy"),
    [
        ("return replace(s, job=(1,))", LINE + 1, "did you mean jobs?"),
        ("return replace(s, jobs=s.job)", LINE + 1, "did you mean jobs?"),
        ("return replace(s, holder=s.holder.left)", LINE + 1, "may be None there"),
        ("return replace(s, holder=s.jobs[0])", LINE + 1, "a guard that must hold first"),
        ("s.holder = 1", LINE + 1, "replace(s, field=..)"),
        ("return replace(s, holder=self.limits)", LINE + 1, "did you mean limit"),
        ("return replaced(s, holder=1)", LINE + 1, "define replaced"),
        ("raise RuntimeError('no')", LINE + 1, "mend that line"),
    ],
)
def test_an_update_that_goes_wrong(body: str, line: int, remedy: str, raised: object) -> None:
    error = raised(HEAD + action_of(body))  # type: ignore[operator]
    assert f"own.py, line {line}:" in error.message
    assert remedy in error.remedy


def test_a_guard_that_goes_wrong(raised: object) -> None:
    error = raised(HEAD + action_of("return s", "s.jobs[0] == 1"))  # type: ignore[operator]
    assert f"own.py, line {LINE - 1}:" in error.message and "guard" in error.remedy


STEADY = HEAD + action_of("return s", "s.holder == 1")


@pytest.mark.parametrize(
    ("text", "said", "remedy"),
    [
        (
            STEADY + "\n    @invariant('I1', 'x', kind='action')\n    def one(self, s):\n"
            "        return True\n",
            f"own.py, line {LINE + 3}: invariant I1, of kind action, takes (s)",
            "(before, step, after)",
        ),
        (
            STEADY + "\n    @invariant('I1', 'x')\n    def one(self):\n        return True\n",
            "invariant I1, of kind state, takes ()",
            "(s)",
        ),
        (STEADY.replace("yield S()", "return S()"), "initial() of Own returns a state", "`yield`"),
        (STEADY.replace("yield S()", "S()"), "initial() of Own gives nothing", "`yield`"),
        (STEADY.replace("yield S()", "yield S([])"), "unhashable", "tuples and frozensets"),
        (STEADY.replace("yield S()", "yield S(job=1)"), "own.py, line 15:", "initial() yields"),
        (STEADY.replace("def done(self, s)", "def done(self)"), "done() of Own takes ()", "(s)"),
    ],
)
def test_what_is_declared_otherwise_than_it_is_asked(
    text: str, said: str, remedy: str, raised: object
) -> None:
    error = raised(text)  # type: ignore[operator]
    assert said in error.message and remedy in error.remedy


def test_an_error_of_initial_has_one_remedy(raised: object) -> None:
    text = STEADY.replace("yield S()", "from dstest.spec import Spec\n        yield Own(limits=1)")
    error = raised(text)  # type: ignore[operator]
    assert "has no constant 'limits'" in error.message and "limit" in error.remedy


def test_a_constant_where_there_is_none(raised: object) -> None:
    error = raised(STEADY.replace("    limit = 2\n", ""), "limit=3")  # type: ignore[operator]
    assert not error.remedy.rstrip().endswith("one of") and "there is none" in error.remedy


def test_answers_that_take_something_else(tmp_path: Path) -> None:
    file = tmp_path / "own.py"
    file.write_text(STEADY + "\n    def answer_of(self, step):\n        return ...\n")
    with pytest.raises(ConfigError, match=r"own.py, line \d+: answer_of of Own takes \(step\)"):
        drive_against(load(str(file)), lambda seed: None, seed=1)  # type: ignore[arg-type, return-value]
