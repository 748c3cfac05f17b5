"""Plug-ins from the user's own files: found by name, refused with the reason, tied to a run."""

from __future__ import annotations

import os
import py_compile
import sys
from pathlib import Path

import pytest
from third_party import BARE

from dstest.core import registry
from dstest.core.errors import ConfigError
from dstest.core.registry import (
    FILES,
    check_digests,
    digests,
    files_in_use,
    named_in,
    plugin_in,
    unchanged,
    use,
)
from dstest.core.run_record import RunSpec
from dstest.runner.plugins import resolve


@pytest.fixture(autouse=True)
def _no_files(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(FILES, "")


@pytest.fixture
def toy(tmp_path: Path) -> Path:
    path = tmp_path / "mydb.py"
    path.write_text(BARE)
    return path


def test_a_file_is_a_plug_in_by_its_name(toy: Path) -> None:
    assert "toy" not in registry.names("systems")
    assert plugin_in("systems", toy) == "toy"
    assert registry.load("systems", "toy").doc == "a toy"
    assert registry.load("systems", "toy") is registry.load("systems", "toy")
    assert files_in_use() == [toy]


def test_names_and_files_mix(toy: Path, tmp_path: Path) -> None:
    other = tmp_path / "quiet.py"
    other.write_text("from nemeses.none import NoNemesis\nclass Q(NoNemesis):\n    name = 'quiet'\n"
                     "NEMESIS = Q()\n")  # fmt: skip
    assert named_in("nemeses", f"partition,{other}") == "partition,quiet"
    assert named_in("systems", "etcd") == "etcd"
    assert named_in("nemeses", "") == ""


def test_a_relative_path_is_found_from_elsewhere(
    toy: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(toy.parent)
    use(["mydb.py"])
    monkeypatch.chdir("/")
    assert registry.load("systems", "toy").name == "toy"


def test_a_run_can_be_planned_on_one(toy: Path) -> None:
    with pytest.raises(ConfigError, match=r"plug-ins of .*mydb\.py are asked for"):
        resolve(RunSpec(system="toy", nemesis="none", files=(str(toy),)), [])
    assert files_in_use() == [], "a spec runs no file"
    use([toy])
    plugins = resolve(RunSpec(system="toy", nemesis="none", files=(str(toy),)), [])
    assert plugins.system.name == "toy"
    with pytest.raises(ConfigError, match="system toy cannot have --nemesis kill: it lacks"):
        resolve(RunSpec(system="toy", nemesis="kill", files=(str(toy),)), [])


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("x = 1\n", "offers no plug-in"),
        ("SYSTEM = 3\n", "SYSTEM is a int, which is no System"),
        ("\nimport nowhere_to_be_found\n", r"mydb\.py, line 2: ModuleNotFoundError"),
        ("def f(:\n", "SyntaxError"),
        ("raise SystemExit(0)\n", "line 1: SystemExit"),
        ("\0", "SyntaxError|ValueError"),
    ],
)
def test_what_is_no_plug_in_is_refused(toy: Path, text: str, said: str) -> None:
    toy.write_text(text)
    with pytest.raises(ConfigError, match=said):
        use([toy])
    assert files_in_use() == []


def test_what_cannot_be_used(toy: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="No such file"):
        use([tmp_path / "absent.py"])
    with pytest.raises(ConfigError, match="has no NEMESIS"):
        plugin_in("nemeses", toy)
    (tmp_path / "a:b").mkdir()
    with pytest.raises(ConfigError, match="may hold no ':'"):
        use([tmp_path / "a:b" / "mydb.py"])
    (tmp_path / "more").mkdir()
    twin = tmp_path / "more" / "mydb.py"
    twin.write_text(BARE)
    use([toy])
    with pytest.raises(ConfigError, match="two files of plug-ins are called mydb"):
        use([twin])


def test_a_name_that_is_taken_is_refused(toy: Path) -> None:
    toy.write_text(BARE.replace('"toy", "a toy"', '"etcd", "a toy"'))
    use([toy])
    with pytest.raises(ConfigError, match="two plug-ins call themselves 'etcd'"):
        registry.load("systems", "etcd")


def test_a_file_in_the_environment_that_is_gone_is_said(
    toy: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(FILES, os.pathsep.join([str(toy), "/absent/x.py"]))
    with pytest.raises(ConfigError, match=r"/absent/x\.py: No such file"):
        registry.names("systems")


def test_a_run_is_judged_with_the_file_it_was_made_with(
    toy: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = digests([toy])
    copies = tmp_path / "plugins"
    copies.mkdir()
    (copies / "mydb.py").write_bytes(toy.read_bytes())
    with pytest.raises(ConfigError, match="was made with") as refused:
        check_digests(made, copies)
    assert f"{FILES}={toy} before" in (refused.value.remedy or ""), "the file itself is unchanged"
    assert files_in_use() == [], "a run directory has no file run, changed or not"
    use([toy])
    check_digests(made, copies)
    toy.write_text(BARE + "\n# changed\n")
    with pytest.raises(ConfigError, match="no such file is in use as it was") as refused:
        check_digests(made, copies)
    assert f"{FILES}={copies / 'mydb.py'} before" in (refused.value.remedy or "")
    assert unchanged(made) == ()
    monkeypatch.setenv(FILES, str(copies / "mydb.py"))
    check_digests(made, copies)
    assert registry.files_in_use() == [copies / "mydb.py"]
    assert unchanged(made) == (str(copies / "mydb.py"),)


def test_a_name_that_nobody_knows_may_be_a_file_here(
    toy: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(toy.parent)
    with pytest.raises(ConfigError) as unknown:
        registry.load("systems", "mydb")
    assert "./mydb.py is a file here: --system ./mydb.py" in (unknown.value.remedy or "")
    with pytest.raises(ConfigError) as unknown:
        registry.load("checkers", "early-reads")
    remedy = unknown.value.remedy or ""
    assert remedy.endswith(
        "one of your own: --plugin FILE.py, or --checker FILE.py of `dstest check`"
    )


def test_an_error_is_placed_in_the_users_file(toy: Path) -> None:
    toy.write_text(BARE + "\n\ndef fails():\n    return int('x y')\n\n\nSYSTEM.fails = fails\n")
    plugin_in("systems", toy)
    try:
        registry.load("systems", "toy").fails()
    except ValueError as error:
        line = toy.read_text().splitlines().index("    return int('x y')") + 1
        assert registry.place_of(error) == f"{toy}, line {line}"
    try:
        len(3)  # type: ignore[arg-type]
    except TypeError as error:
        assert registry.place_of(error).startswith(f"{__file__}, line ")
    assert registry.place_of(ValueError()) == "no known line"


@pytest.mark.parametrize("name", ["a\udcff/mine.py", "mine\udcff.py"])
def test_a_path_that_is_no_text_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """A run could not write down where its plug-in was."""
    path = tmp_path / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(BARE)
    with pytest.raises(ConfigError, match=r"udcff.* is no UTF-8"):
        use([path])
    monkeypatch.setenv(FILES, str(path))
    with pytest.raises(ConfigError, match=r"udcff.* is no UTF-8"):
        registry.names("systems")


def test_what_was_compiled_before_is_not_what_runs(
    toy: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    py_compile.compile(str(toy), invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH)
    kept = sorted((toy.parent / "__pycache__").iterdir())
    toy.write_text(BARE.replace('"a toy"', '"a tot"'))
    plugin_in("systems", toy)
    assert registry.load("systems", "toy").doc == "a tot"
    assert sorted((toy.parent / "__pycache__").iterdir()) == kept
