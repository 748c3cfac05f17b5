"""Every command that README and docs show is executed: here, or by the test that is named.

Commands of `dstest run` are executed up to the first node.
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from documented import ELSEWHERE, OWN_TESTS, ROOT, Shown, elsewhere, shown
from forked import dstest
from gate_store import POLICY
from spoken import calls_in, options_in, speaks
from typer.main import get_command
from typer.testing import CliRunner

from dstest.campaign import session as arms
from dstest.cli.app import app
from dstest.core.run_record import RunSpec
from dstest.runner import session
from dstest.runner.plugins import Plugins, resolve

pytestmark = pytest.mark.slow

ALL = get_command(app)
"""Made once: it takes as long as a run to plan."""


def command_at(words: Sequence[str]) -> tuple[Any, int]:
    """The command that these words name, and how many of them do; `nightly FILE` runs."""
    found, used = ALL, 0
    for word in words:
        below = getattr(found, "commands", {})
        if word not in below:
            break
        found, used = below[word], used + 1
    usual = getattr(found, "commands", {}).get("run") if 0 < used < len(words) else None
    return usual or found, used


def speaks_of(command: Shown) -> bool:
    """Does the page only name a command that asks for more?"""
    found, used = command_at(command.words)
    return bool(used == len(command.words) and found.params)


SHOWN = shown()
COMMANDS = sorted((ROOT / "dstest" / "cli").glob("*.py"))
HERE = [one for one in SHOWN if elsewhere(one) is None]
RUNS = [one for one in HERE if one.words[:1] == ("run",) and len(one.words) > 1]
OTHERS = [one for one in HERE if one.words[:1] != ("run",) and not speaks_of(one)]

VALUES = {
    "HISTORY": "history.jsonl",
    "FILE": "history.jsonl",
    "ORDER": "order.json",
    "RUN": "run",
    "store/latest": "run",
    "STORE...": "store",
    "STORE": "store",
    "DIR": "made",
    "KIND": "system",
    "S": "etcd",
    "W": "register",
    "N": "partition",
}
NAMES = {"new": "small-store", "list": "etcd"}
"""What stands for NAME."""

EXITS = {"report": 1}
"""A command that does not end with 0 here: the store has a run with a known bug."""

FILES = {
    "history.edn": """\
{:index 0 :process 0 :type :invoke :f :write :key "x" :value 5 :time 0}
{:index 1 :process 0 :type :ok :f :write :key "x" :value 5 :time 10}
{:index 2 :process 1 :type :invoke :f :write :key "y" :value 7 :time 20}
{:index 3 :process 1 :type :ok :f :write :key "y" :value 7 :time 30}
{:index 4 :process 1 :type :invoke :f :read :key "y" :value nil :time 40}
{:index 5 :process 1 :type :ok :f :read :key "y" :value 7 :time 50}
""",
    "queue.edn": """\
{:index 0 :process 0 :type :invoke :f :dequeue :value nil :time 0}
{:index 1 :process 0 :type :ok :f :dequeue :value 1 :time 10}
""",
    "bank.edn": """\
{:index 0 :process 0 :type :invoke :f :read :value nil :time 0}
{:index 1 :process 0 :type :ok :f :read :value {0 4, 1 5} :time 10}
{:index 2 :process 1 :type :invoke :f :transfer :value {:from 0, :to 1, :amount 2} :time 20}
{:index 3 :process 1 :type :ok :f :transfer :value {:from 0, :to 1, :amount 2} :time 30}
""",
    "locks.edn": """\
{:index 0 :process 0 :type :invoke :f :acquire :value nil :time 0}
{:index 1 :process 0 :type :ok :f :acquire :value nil :time 10}
{:index 2 :process 1 :type :invoke :f :acquire :value nil :time 20}
{:index 3 :process 1 :type :ok :f :acquire :value nil :time 30}
""",
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, passed: Path, honest_store: Path) -> Path:
    """One with all that the commands speak of."""
    made = tmp_path_factory.mktemp("documented")
    (made / "docs").symlink_to(ROOT / "docs")
    (made / "run").symlink_to(passed)
    shutil.copytree(honest_store, made / "store")
    (made / "release.toml").write_text(POLICY)
    for name, text in FILES.items():
        (made / name).write_text(text)
    for words in (
        ("generate", "--txns", "200", "--seed", "1", "-o", "history.jsonl"),
        ("check", "history.jsonl", "--proof", "order.json"),
    ):
        ended = dstest(*words, cwd=made)
        assert ended.returncode == 0, ended.stderr
    return made


def words_of(command: Shown) -> tuple[str, ...]:
    """As one types them, with files that are there."""
    words = (VALUES.get(word, word) for word in command.words)
    return tuple(NAMES.get(command.words[0], word) if word == "NAME" else word for word in words)


def test_there_are_commands() -> None:
    assert len(SHOWN) > 200
    assert {one.page for one in SHOWN} >= {
        "README.md",
        "docs/reference/formats.md",
        "docs/store.md",
    }


def test_a_command_is_one_and_knows_its_options() -> None:
    for command in SHOWN:
        found, used = command_at(command.words)
        assert used or not command.words, command
        known = {name for param in found.params for name in (*param.opts, *param.secondary_opts)}
        asked = command.words[used:]
        asked = asked[: asked.index("--")] if "--" in asked else asked
        strange = {word for word in asked if word.startswith("-")} - known - {"--help"}
        assert not strange, f"{command.page}: {strange}"


def test_what_is_named_instead_is_there() -> None:
    tests = {*OWN_TESTS.values(), *(where.test for where in ELSEWHERE.values())}
    assert [test for test in tests if not (ROOT / "tests" / test).is_file()] == []


OUTSIDE = [one for one in SHOWN if (at := elsewhere(one)) and at.test not in OWN_TESTS.values()]


def options_of(words: Sequence[str]) -> set[str]:
    before = words[: words.index("--")] if "--" in words else words
    return {word for word in before if word.startswith("--")}


def test_what_is_executed_elsewhere_is_executed_there() -> None:
    for command in OUTSIDE:
        require_executed(command)


def require_executed(command: Shown) -> None:
    where = elsewhere(command)
    assert where is not None
    test, (_, used) = ROOT / "tests" / where.test, command_at(command.words)
    asked = options_of(command.words[used:])
    if not where.calls:
        assert speaks(test, command.words[:used]), f"{where.test} never gives these words"
        assert asked <= options_in(test), f"{where.test}: {asked - options_in(test)}"
        return
    given = calls_in(test, where.calls)
    assert given is not None, f"{where.test} does not call {where.calls}"
    names = {option.removeprefix("--").replace("-", "_") for option in asked}
    assert all(any(arg.startswith(name) for arg in given) for name in names), names
    used_by = [p for p in COMMANDS if calls_in(p, where.calls) is not None]
    assert used_by, f"no command calls {where.calls}"


@pytest.mark.parametrize(
    ("source", "command", "wanted"),
    [
        ('dstest("lab", "up", "--lab", x)', ("lab", "up"), True),
        ('ARGV = ["env", *DSTEST, "lab", "up"]', ("lab", "up"), True),
        ('"see `lab up` there"', ("lab", "up"), False),
        ('"dstest lab up"', ("lab", "up"), True),
        ('run(app, ["lab", *words]); run("up")', ("lab", "up"), True),
        ('run(app, ["lab", *words]); run("down")', ("lab", "up"), False),
        ('run("lab"); run("up")', ("lab", "up"), False),
        ("import shrink", ("shrink",), False),
    ],
)
def test_what_a_test_speaks(
    source: str, command: tuple[str, ...], wanted: bool, tmp_path: Path
) -> None:
    path = tmp_path / "test_it.py"
    path.write_text(source)
    assert speaks(path, command) is wanted


def test_no_reason_is_left_from_before() -> None:
    said = {elsewhere(one) for one in SHOWN}
    assert [begin for begin, where in ELSEWHERE.items() if where not in said] == []


class _WouldBeginError(Exception):
    """All was resolved; now nodes would be made."""


def test_runs_get_as_far_as_their_nodes(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def begin(plugins: Plugins, **_: Any) -> None:
        raise _WouldBeginError

    def begin_session(spec: RunSpec, options: list[str], *_: Any, **__: Any) -> None:
        begin(resolve(spec, options))

    monkeypatch.setattr(session, "run_session", begin)
    monkeypatch.setattr(arms, "begin", begin_session)
    monkeypatch.chdir(tmp_path)
    for command in RUNS:
        got = CliRunner().invoke(app, words_of(command))
        wrong = got.exception
        assert isinstance(wrong, _WouldBeginError), (command.text, got.output, wrong)


@pytest.mark.parametrize("command", OTHERS, ids=lambda one: one.text)
def test_a_command_does_what_it_is_shown_for(folder: Path, command: Shown) -> None:
    came_to = dstest(*words_of(command), cwd=folder)
    whole = {"store", "STORE"} & set(command.words)
    expected = EXITS.get(command.words[0], 0) if whole else 0
    assert came_to.returncode == expected, came_to.stdout + came_to.stderr
