"""Where an answer is to be written is tried before the work, and no verdict is lost with it."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from dstest.cli import spec
from dstest.cli.app import app
from dstest.core.errors import ConfigError, Exit

SPEC = """
from dstest.spec import Spec, action, invariant


class Up(Spec):
    def initial(self):
        yield (0,)

    @action()
    def up(self, s):
        return (s[0] + 1,)

    @invariant("U1", "never three")
    def few(self, s):
        return s[0] != 3
"""

BAD = "/nonexistent/x.json"
SPEC_COMMANDS = [
    ("spec", "explore", "up.py", "--out", BAD),
    ("spec", "simulate", "up.py", "--seed", "1", "--out", BAD),
    ("spec", "drive", "up.py", "--where", "s[0] == 2", "--out", BAD),
    ("spec", "live", "up.py", "samples.jsonl", "--metrics", BAD),
    ("spec", "conform", "up.py", "h.jsonl", "--ledger", BAD),
]
OTHERS = [
    ("sim", "--seeds", "1", "--history", BAD),
    ("sim", "--seeds", "1", "--log", BAD),
    ("check", "h.jsonl", "--report", "up.py/report"),
    ("check", "h.jsonl", "--workload", "list-append", "--proof", BAD),
]


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "up.py").write_text(SPEC)
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("words", [*SPEC_COMMANDS, *OTHERS], ids=lambda one: " ".join(one[:3]))
def test_a_place_that_cannot_be_written_is_told_before_the_work(words: tuple[str, ...]) -> None:
    done = CliRunner().invoke(app, list(words))
    assert isinstance(done.exception, ConfigError)
    assert "cannot write" in done.exception.message and done.output == ""


@pytest.mark.parametrize("command", ["explore", "simulate"])
def test_the_answer_is_printed_before_the_file_is_written(
    command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The disk may be full by then."""

    def refused(*_: object) -> None:
        raise ConfigError("cannot write: No space left on device", remedy="another")

    monkeypatch.setattr(spec, "write_whole", refused)
    done = CliRunner().invoke(app, ["spec", command, "up.py", "--out", "x.json"])
    assert "U1 is violated" in done.output and isinstance(done.exception, ConfigError)


def test_a_place_that_can_be_written_is(tmp_path: Path) -> None:
    done = CliRunner().invoke(app, ["spec", "explore", "up.py", "--out", "x.json"])
    assert done.exit_code == Exit.FAIL
    assert sorted(one.name for one in tmp_path.iterdir()) == ["up.py", "x.json"]
