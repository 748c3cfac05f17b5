"""Runs made with files of the user's own: what judges or repeats one names files that are there."""

from __future__ import annotations

import os
import shlex
from pathlib import Path

import pytest
from real_run import unpack
from third_party import BARE

from dstest.core.errors import ConfigError
from dstest.core.registry import FILES, digests, files_in_use
from dstest.history.layout import RunDir
from dstest.report.remedies import remedies
from dstest.runner.integrity import judged_aside
from dstest.runner.replay import spec_of

RERUN = ["It has not been re-run with the same seed: one is needed to call it reproducible."]


@pytest.fixture(autouse=True)
def _no_files(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(FILES, "")


@pytest.fixture
def run(tmp_path: Path) -> RunDir:
    """A recorded run as if a file had been in use, of which it keeps a copy."""
    own = tmp_path / "mydb.py"
    own.write_text(BARE)
    run = unpack(tmp_path)
    meta = run.read_meta()
    assert meta is not None
    meta.plugin_files = digests([own])
    meta.spec["files"] = [str(own)]
    run.write_meta(meta)
    run.write("plugins/mydb.py", own.read_bytes())
    return run


def remedy_of(run: RunDir) -> str:
    with pytest.raises(ConfigError) as refused, judged_aside(run):
        pass
    return refused.value.remedy or ""


def named(remedy: str) -> Path:
    word = next(word for word in shlex.split(remedy) if word.startswith(FILES))
    return Path(word.partition("=")[2])


def test_the_file_is_named_while_it_is_as_it_was_then_the_copy(run: RunDir, tmp_path: Path) -> None:
    own = tmp_path / "mydb.py"
    assert named(remedy_of(run)) == own
    own.write_text(BARE + "# changed\n")
    assert named(remedy_of(run)) == run.path / "plugins" / "mydb.py"
    own.unlink()
    assert named(remedy_of(run)) == run.path / "plugins" / "mydb.py"


def test_what_the_remedy_names_is_enough(
    run: RunDir, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "mydb.py").unlink()
    copy = named(remedy_of(run))
    monkeypatch.setenv(FILES, str(copy))
    with judged_aside(run) as (judged, _):
        assert judged.verdict.verdict.value
    meta = run.read_meta()
    assert meta is not None
    assert spec_of(meta).files == (str(copy),), "a replay does not ask for the file that is gone"


def test_the_command_of_a_replay_has_the_files_in_use(
    run: RunDir, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    meta = run.read_meta()
    assert meta is not None
    ((_, command),) = remedies(RERUN, meta.spec, [], str(run.path))
    setting, *words = shlex.split(command)
    assert words == ["dstest", "replay", str(run.path), "--times", "3"]
    name, _, files = setting.partition("=")
    monkeypatch.setenv(name, files)
    assert files_in_use() == [tmp_path / "mydb.py"]
    assert spec_of(meta).files == (files,)
    assert os.pathsep not in files
