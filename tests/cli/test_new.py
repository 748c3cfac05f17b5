"""`dstest new`: what it writes runs, is clean, and is found as a plug-in; it overwrites nothing."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from forked import Ended, dstest

from dstest.core.errors import Exit
from dstest.core.protocols import Nemesis
from dstest.core.registry import WORDS, offered
from dstest.extend.scaffold.write import KINDS, Kind, render

pytestmark = pytest.mark.slow

LONG = "a-name-that-is-as-long-as-a-30"
LINES_MAX = {"system": 90, "workload": 70, "nemesis": 90, "checker": 60}
BIN = Path(sys.executable).parent


ENV = {**os.environ, "PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}"}


def run(*argv: str | Path, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(a) for a in argv], cwd=cwd, env=ENV, capture_output=True, text=True, timeout=120,
        check=False,
    )  # fmt: skip


def new(*words: str | Path, cwd: Path) -> Ended:
    return dstest("new", *words, cwd=cwd, env=ENV)


@pytest.mark.parametrize("kind", KINDS.values(), ids=lambda kind: kind.name)
def test_what_it_writes_works(kind: Kind, tmp_path: Path) -> None:
    done = new(kind.name, LONG, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    module = LONG.replace("-", "_")
    assert {p.name for p in tmp_path.iterdir()} == {f"{module}.py", f"test_{module}.py"}
    skeleton = tmp_path / f"{module}.py"
    assert offered(skeleton)[kind.group].name == LONG
    assert skeleton.read_text().count("\n") <= LINES_MAX[kind.name]
    assert not any(word in skeleton.read_text() for word in ("my_", "my-", "My"))
    tested = run(sys.executable, "-m", "pytest", "-q", f"test_{module}.py", cwd=tmp_path)
    assert tested.returncode == 0, tested.stdout
    config = Path(__file__).resolve().parents[2] / "pyproject.toml"
    for command in (["check"], ["format", "--check"]):
        clean = run(BIN / "ruff", *command, "--no-cache", "--config", config, ".", cwd=tmp_path)
        assert clean.returncode == 0, clean.stdout


@pytest.mark.parametrize("kind", KINDS.values(), ids=lambda kind: kind.name)
def test_the_next_commands_are_named(kind: Kind, tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    done = new(kind.name, "slow-link", "--dir", "sub", cwd=tmp_path)
    said = done.stdout.splitlines()
    assert said[2] == "  pytest ./sub/test_slow_link.py"
    assert [line.strip().split()[0] for line in said[3:]] == ["dstest"] * len(kind.commands)
    assert any("./sub/slow_link.py" in line for line in said[3:])
    if kind.name == "checker":  # the others' tests are run above
        assert run("pytest", "-q", "./sub/test_slow_link.py", cwd=tmp_path).returncode == 0


@pytest.mark.slow
def test_types_are_right_in_a_folder_of_its_own(tmp_path: Path) -> None:
    for kind in KINDS:
        assert new(kind, f"own-{kind}", cwd=tmp_path).returncode == 0
    done = run(BIN / "mypy", "--strict", "--cache-dir", os.devnull, ".", cwd=tmp_path)
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("there", ["slow_link.py", "test_slow_link.py"])
def test_nothing_is_overwritten(tmp_path: Path, there: str) -> None:
    (tmp_path / there).write_text("mine\n")
    done = new("checker", "slow-link", cwd=tmp_path)
    assert done.returncode == Exit.USAGE
    assert f"{there} would be overwritten" in done.stderr
    assert [p.name for p in tmp_path.iterdir()] == [there]
    assert (tmp_path / there).read_text() == "mine\n"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("fault", "x"), "one of system, workload, nemesis, checker"),
        (("checker", "Upper"), "no name of a plug-in"),
        (("checker", "under_score"), "no name of a plug-in"),
        (("checker", "../up"), "no name of a plug-in"),
        (("checker", "two--dashes"), "no name of a plug-in"),
        (("checker", "7up"), "no name of a plug-in"),
        (("checker", "n" * 31), "no name of a plug-in"),
        (("checker", ""), "an empty word after checker"),
        (("checker", "class"), "a word of Python"),
        (("checker", "none"), "a word of Python"),
        (("system", "etcd"), "there is a system called 'etcd' already"),
        (("workload", "register"), "there is a workload called 'register' already"),
        (("nemesis", "partition"), "there is a nemesis called 'partition' already"),
        (("checker", "json"), "would hide the module json"),
        (("checker", "pytest"), "would hide the module pytest"),
        (("checker", "x", "--dir", "absent"), "cannot write to absent: No such file"),
    ],
)
def test_wrong_usage_writes_nothing(tmp_path: Path, words: tuple[str, ...], said: str) -> None:
    done = new(*words, cwd=tmp_path)
    assert done.returncode == Exit.USAGE
    assert said in done.stderr
    assert "Traceback" not in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_each_kind_has_what_the_mechanism_of_files_asks() -> None:
    for kind in KINDS.values():
        skeleton, test = render(kind, "some-name").values()
        assert f"\n{WORDS[kind.group]} = SomeName()\n" in skeleton
        assert "some_name.py" in test


def test_the_nemesis_is_one(tmp_path: Path) -> None:
    assert new("nemesis", "slow-link", cwd=tmp_path).returncode == 0
    nemesis = offered(tmp_path / "slow_link.py")["nemeses"]
    members = [m for m in vars(Nemesis) if not m.startswith("_")]
    assert [m for m in members if not hasattr(nemesis, m)] == []


@pytest.mark.parametrize(
    ("old", "new_text", "said"),
    [
        ("    client_port = PORT\n", "", "no run is better than PARTIAL (WO8)"),
        ("to.dial or to.address", "to.address", "connect to `to.dial or to.address`"),
        ("import contextlib, json", "import nowhere, json", "No module named 'nowhere'"),
        (
            'argv = ("python3", program, node.info.address',
            'argv = (program, self.options["sync"]',
            "the right to execute it: LocalFile has it",
        ),
    ],
    ids=["no counter", "not dialled", "ends at once", "bytes as a program"],
)
def test_what_is_wrong_with_a_system_its_test_says_at_once(
    tmp_path: Path, old: str, new_text: str, said: str
) -> None:
    """An option's default is there, too."""
    assert new("system", "own-store", cwd=tmp_path).returncode == 0
    file = tmp_path / "own_store.py"
    text = file.read_text().replace("await self.link(to)", LINK).replace(
        "    client_port = PORT\n", f"    options = {OPTIONS}\n    client_port = PORT\n"
    )  # fmt: skip
    text = text.replace("import json\n", "import asyncio\nimport json\n", 1)
    text = text.replace("import OpDraft", "import OpDraft, Option")
    assert old in text
    file.write_text(text.replace(old, new_text))
    tested = run(sys.executable, "-m", "pytest", "-q", "-x", "test_own_store.py", cwd=tmp_path)
    assert tested.returncode == 1
    assert said in tested.stdout


LINK = "await asyncio.open_connection(to.dial or to.address, PORT)"
OPTIONS = '{"sync": Option(type=str, default="yes", help="when")}'
