"""`dstest spec weaker`: between versions that git has, with waivers, and its exit codes."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from dstest.cli.app import app
from dstest.core.errors import ConfigError
from dstest.spec.ledger import read_waivers

MODEL = """
from dstest.spec import Spec, action, invariant


class One(Spec):
    def initial(self):
        yield 0

    @action()
    def step(self, s):
        return s + 1

    @invariant("A1", "small")
    def small(self, s):
        return s <= 1

    @invariant("A2", "not negative")
    def positive(self, s):
        return s >= 0
"""


def git(where: Path, *words: str) -> None:
    who = ("-c", "user.name=me", "-c", "user.email=me@here")
    subprocess.run(["git", "-C", str(where), *who, *words], check=True, capture_output=True)


@pytest.fixture
def model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    git(tmp_path, "init", "-q")
    (tmp_path / "one.py").write_text(MODEL)
    (tmp_path / "none.py").write_text("X = 1\n")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-qm", "x")
    monkeypatch.chdir(tmp_path)
    return tmp_path / "one.py"


def weaker(*words: str, since: str = "HEAD") -> Result:
    return CliRunner().invoke(app, ["spec", "weaker", "--since", since, *words])


def loosen(model: Path, by: int = 2) -> None:
    model.write_text(MODEL.replace("s <= 1", f"s <= {by}"))


def test_the_commit_is_asked_for(model: Path) -> None:
    assert CliRunner().invoke(app, ["spec", "weaker", "one.py"]).exit_code == 2


def test_nothing_and_something(model: Path) -> None:
    done = weaker("one.py")
    assert (done.exit_code, done.stdout) == (0, "invariants: 2, weakened: 0, open: 0\n")
    loosen(model)
    done = weaker("one.py")
    assert done.exit_code == 1
    assert "open: one.py: A1: threshold moved [" in done.stdout


def test_what_cannot_be_compared(model: Path) -> None:
    Path("new.py").write_text(MODEL)
    done = weaker("one.py", "new.py")
    assert (done.exit_code, "not compared: new.py is not in HEAD" in done.stdout) == (3, True)
    done = weaker("none.py")
    assert (done.exit_code, "none.py has no invariant" in done.stdout) == (3, True)
    Path("none.py").write_text("X = 2\n")
    assert weaker("none.py").exit_code == 1


def test_a_file_that_was_renamed_is_followed(model: Path) -> None:
    (model.parent / "sub").mkdir()
    git(model.parent, "mv", "one.py", "sub/two.py")
    assert weaker("sub/two.py").exit_code == 0
    loosen(model.parent / "sub/two.py")
    done = weaker("sub/two.py")
    assert (done.exit_code, "A1: threshold moved" in done.stdout) == (1, True)


def waived(model: Path) -> str:
    [change] = re.findall(r"\[(\w+)\]", weaker("one.py").stdout)
    return (
        f'[[waiver]]\nfile = "one.py"\nid = "A1"\nhow = "threshold moved"\nchange = "{change}"\n'
        'requirement = "small"\napprover = "Ada"\n'
    )


def test_a_waiver_is_of_one_change(model: Path) -> None:
    loosen(model)
    good = waived(model)
    Path("w.toml").write_text(good)
    assert weaker("one.py", "--waivers", "w.toml").exit_code == 0
    loosen(model, by=3)
    done = weaker("one.py", "--waivers", "w.toml", "--json")
    said = json.loads(done.stdout)
    assert (done.exit_code, said["open"], len(said["unused_waivers"])) == (1, 1, 1)
    loosen(model)
    Path("w.toml").write_text(good.replace('"one.py"', '"two.py"'))
    done = weaker("one.py", "--waivers", "w.toml")
    assert (done.exit_code, "unused waiver: two.py: A1" in done.stdout) == (1, True)


def test_a_waiver_that_approves_nothing_is_told(model: Path) -> None:
    loosen(model)
    Path("w.toml").write_text(waived(model))
    model.write_text(MODEL)
    done = weaker("one.py", "--waivers", "w.toml")
    assert (done.exit_code, "unused waiver: one.py: A1" in done.stdout) == (1, True)


def test_a_waiver_quotes_and_names(model: Path) -> None:
    loosen(model)
    good = waived(model)
    file = Path("w.toml")
    for old, new, why in (
        ('"small"', '" "', "quotes no requirement, or names nobody"),
        ('"Ada"', '""', "quotes no requirement, or names nobody"),
        ("threshold moved", "no such word", "is of no kind 'no such word'"),
        ("[[waiver]]", "[[waivers]]", "waivers"),
        ('file = "one.py"\n', "", "file"),
    ):
        file.write_text(good.replace(old, new))
        with pytest.raises(ConfigError, match=why):
            read_waivers(file)
