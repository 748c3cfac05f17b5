"""Each command gives a program one JSON object, also where it fails, or says why it has none."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import typer.main
from forked import WIDE, dstest, dstests

from dstest.cli import output
from dstest.cli.app import app
from dstest.core.verdict import State

pytestmark = pytest.mark.slow


def leaves(command: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    inner = getattr(command, "commands", None)
    if inner is None:
        yield path, command
    else:
        for name, one in inner.items():
            yield from leaves(one, (*path, name))


LEAVES = dict(leaves(typer.main.get_command(app)))


def options_of(command: Any) -> set[str]:
    return {option for parameter in command.params for option in parameter.opts}


WITH = [path for path, command in LEAVES.items() if "--json" in options_of(command)]
WITHOUT = [path for path in LEAVES if path not in WITH]


def test_there_are_commands_of_both_kinds() -> None:
    assert len(WITH) > 25
    assert WITHOUT


def test_a_command_without_it_says_why() -> None:
    """That it is interactive: whatever else a command does, a program can be told of."""
    helps = {path: " ".join((command.help or "").split()) for path, command in LEAVES.items()}
    assert [path for path in WITHOUT if "no `--json`: it is for people" not in helps[path]] == []
    assert [path for path in WITH if "no `--json`" in helps[path]] == []


USED_WRONGLY = [
    *(("check",), ("run",)),  # commands
    *(("lab", "up"), ("kb", "fix"), ("plan", "lint")),  # of a group
    *(("monitor", "show"), ("nightly", "run")),  # of a group that has a usual one
]


def test_wrong_usage_is_of_these_kinds() -> None:
    assert {*USED_WRONGLY} <= {*WITH}
    assert {len(path) for path in USED_WRONGLY} == {len(path) for path in WITH}


@pytest.mark.parametrize("path", USED_WRONGLY, ids=" ".join)
def test_wrong_usage_is_an_object_as_well(path: tuple[str, ...], tmp_path: Path) -> None:
    done = dstest(*path, "--no-such-flag", "--json", cwd=tmp_path, env=WIDE)
    assert done.returncode == 2, done.stderr
    said = json.loads(done.stdout)
    assert set(said) == {"error", "remedy", "exit_code"}
    assert said["exit_code"] == 2
    assert "--no-such-flag" in said["error"]
    assert " ".join(path) in said["remedy"]
    assert "--help" in said["remedy"]
    assert "no-such-flag" in done.stderr


REFUSED = [
    ("run", "--system", "etdc"),
    ("run", "--workload", "regsiter"),
    ("run", "--tier", "huge"),
    ("replay", "nowhere"),
    ("recover", "nowhere"),
    ("resume", "nowhere"),
    ("report", "nowhere"),
    ("blame", "nowhere"),
    ("shrink", "nowhere"),
    ("logs", "nowhere"),
    ("trace", "nowhere"),
    ("debug", "nowhere"),
    ("monitor", "show", "nowhere"),
    ("monitor", "scale", "nowhere"),
    ("check", "nowhere.jsonl"),
    ("proof", "nowhere.jsonl", "nowhere.json"),
    ("options", "--system", "etdc"),
    ("compare", "nowhere", "nowhere-else"),
    ("gate", "nowhere.toml"),
    ("plan", "lint", "nowhere.md"),
    ("plan", "show", "nowhere.md"),
    ("plan", "trace", "nowhere.md"),
    ("plan", "status", "nowhere"),
    ("plan", "report", "nowhere"),
    ("nightly", "show", "nowhere.toml"),
    ("nightly", "status", "nowhere"),
    ("nightly", "report", "nowhere"),
    ("store", "show", "nowhere"),
    ("generate",),
    ("generate", "--format", "xml", "-o", "h.xml"),
    ("export", "nowhere", "-o", "h.edn"),
    ("export", "nowhere"),
    ("new", "fault", "mine"),
    ("spec", "export", "nowhere.py", "--to", "quint"),
    ("plan", "new", "--system", "etdc"),
    ("plan", "run", "nowhere.md"),
    ("plan", "resume", "nowhere"),
    ("plan", "author", "nowhere.md"),
    ("nightly", "run", "nowhere.toml"),
    ("nightly", "resume", "nowhere"),
    ("workers", "pack", "nowhere/workers.tar.gz"),
    ("lab", "image", "--system", "etdc"),
    ("lab", "exec", "--lab-id", "never-there", "true"),
    ("lab", "logs", "--lab-id", "never-there"),
]


@pytest.mark.parametrize("words", REFUSED, ids=" ".join)
def test_what_is_refused_says_what_and_what_helps(words: tuple[str, ...], tmp_path: Path) -> None:
    done = dstest(*words, "--json", cwd=tmp_path, env=WIDE)
    assert done.returncode not in (0, 1), done.stdout
    said = json.loads(done.stdout)
    assert set(said) == {"error", "remedy", "exit_code"}
    assert said["exit_code"] == done.returncode
    assert said["error"]
    assert said["remedy"], said
    assert "Traceback" not in done.stderr
    # People are told the same, on standard error.
    assert said["error"].split()[0] in done.stderr


def test_a_command_that_answered_adds_nothing(failed: Path, passed: Path, tmp_path: Path) -> None:
    lines = [(word, str(run), "--json") for run in (failed, passed) for word in ("report", "check")]
    for (_, run, _), done in dstests(lines, tmp_path).items():
        assert done.returncode == (1 if run == str(failed) else 0), done.stderr
        said = json.loads(done.stdout)
        assert set(said) != {"error", "remedy", "exit_code"}


def test_report_as_an_object(failed: Path, copy: Callable[[Path], Path], tmp_path: Path) -> None:
    run = copy(failed)
    said = json.loads(dstest("report", str(run), "--json", cwd=tmp_path).stdout)
    assert (said["exit"], said["run"]) == (1, str(run.resolve()))
    assert said["verdict"]["verdict"].startswith("FAIL")
    assert said["fingerprints"]
    (run / "history.jsonl").write_text("")
    done = dstest("report", str(run), "--json", cwd=tmp_path)
    assert done.returncode == 3
    assert json.loads(done.stdout)["exit_code"] == 3
    assert State.PASS_SMOKE.value not in done.stdout


def test_a_bug_is_an_object_as_well(tmp_path: Path) -> None:
    code = (
        "import sys, dstest.cli.models as m\n"
        "def models(json_: bool = False) -> None: raise ZeroDivisionError('by zero')\n"
        "import typer; from typing import Annotated\n"
        "m.models = lambda json_=False: None\n"
        "def broken(json_: Annotated[bool, typer.Option('--json')] = False) -> None: 1 / 0\n"
        "m.models = broken\n"
        "sys.argv = ['dstest', 'models', '--json']\n"
        "from dstest.__main__ import main; main()"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 4
    said = json.loads(done.stdout)
    assert said["error"].startswith("ZeroDivisionError")
    assert said["exit_code"] == 4


def test_nothing_of_an_answer_that_another_process_gives() -> None:
    code = (
        "import subprocess, sys\n"
        "from dstest.cli.output import answered, hand_over, steady\n"
        "steady(apart=True)\n"
        "assert not answered()\n"
        "print('said by a plug-in')\n"
        "hand_over()\n"
        "assert answered()\n"
        "subprocess.run(['echo', '{}'])\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout == "{}\n"
    assert "said by a plug-in" in done.stderr
    assert not output.answered()
