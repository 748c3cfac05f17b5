"""A verdict says plainly what was never done: what holds of that holds of nothing."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from dstest.cli.app import app
from dstest.core.errors import Exit

pytestmark = pytest.mark.slow

SPEC = """
from dataclasses import dataclass

from dstest.spec import Spec, action, invariant, when


@dataclass(frozen=True)
class S:
    x: int = 0


class Door(Spec):
    most = 2
    high = 9

    def initial(self):
        yield S()

    def done(self, s):
        return True

    @action()
    @when("below", lambda self, s: s.x < self.most)
    def up(self, s):
        return S(s.x + 1)

    @action()
    @when("high", lambda self, s: s.x >= self.high)
    def leap(self, s):
        return S(0)

    @invariant("D1", "never below")
    def never(self, s):
        return s.x >= 0
"""

HOLDS = "holds: in each state that can be reached"
WALKED = "no violation, and not all was seen: this proves nothing"
VACUOUS = "vacuous: nothing but the start was seen"


def rest(untaken: int) -> str:
    return f"; {untaken} of 2 actions were never taken within these bounds" if untaken else ""


@pytest.mark.parametrize(
    ("command", "constants", "said", "code"),
    [
        ("explore", ("high=2",), HOLDS + rest(0), Exit.PASS),
        ("explore", (), HOLDS + rest(1), Exit.PASS),
        ("explore", ("most=0",), VACUOUS + rest(2), Exit.NOT_PROVEN),
        ("simulate", ("high=2",), WALKED + rest(0), Exit.PASS),
        ("simulate", (), WALKED + rest(1), Exit.PASS),
        ("simulate", ("most=0",), VACUOUS + rest(2), Exit.NOT_PROVEN),
    ],
)
def test_the_verdict_says_how_much_was_never_taken(
    tmp_path: Path, command: str, constants: tuple[str, ...], said: str, code: Exit
) -> None:
    file = tmp_path / "door.py"
    file.write_text(SPEC)
    words = ["spec", command, str(file), *(w for one in constants for w in ("--set", one))]
    done = CliRunner().invoke(app, words)
    assert (done.stdout.splitlines()[-1], done.exit_code) == (said, code)


def test_four_servers_elect_a_leader() -> None:
    words = ["spec", "explore", "raft", "--set", "servers=(1, 2, 3, 4)", "--set", "terms=1"]
    done = CliRunner().invoke(app, [*words, "--set", "length=1"])
    assert "never taken: append, accept, commit, learn, apply\n" in done.stdout
    verdict = f"{HOLDS}; 5 of 12 actions were never taken within these bounds"
    assert (done.stdout.splitlines()[-1], done.exit_code) == (verdict, Exit.PASS)
