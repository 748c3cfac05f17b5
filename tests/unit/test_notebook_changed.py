"""A run that is changed after it was read is refused wherever it is read again."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from gate_store import run_at

from dstest.core.errors import EvidenceError
from dstest.notebook import History

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def passed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return run_at(tmp_path_factory.mktemp("changed"), 1).path


@pytest.fixture(scope="module")
def other(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return run_at(tmp_path_factory.mktemp("other"), 4, bug=True).path


@pytest.fixture
def copied(passed: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(passed, tmp_path / passed.name))


def cut(run: Path) -> None:
    file = run / "history.jsonl"
    file.write_bytes(b"".join(file.read_bytes().splitlines(keepends=True)[:50]))


def edit(run: Path) -> None:
    """Of the same size, and with the time that it had."""
    file = run / "history.jsonl"
    before = file.stat()
    text = file.read_bytes()
    file.write_bytes(text.replace(b'"output":null', b'"output":1234', 1))
    assert file.stat().st_size == before.st_size and file.read_bytes() != text
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))


def verdict(run: Path) -> None:
    file = run / "verdict.json"
    file.write_text(file.read_text().replace("PASS-smoke", "PASS-hardening"))


def faults(run: Path) -> None:
    (run / "faults.jsonl").write_bytes(b"")


def gone(run: Path) -> None:
    shutil.rmtree(run)


USES: dict[str, Callable[[History, Path], Any]] = {
    "passed": lambda history, _: history.passed,
    "verdict": lambda history, _: history.verdict,
    "ops": lambda history, _: history.ops,
    "to_pandas": lambda history, _: history.to_pandas(),
    "to_parquet": lambda history, path: history.to_parquet(path / "h.parquet"),
    "faults": lambda history, _: history.faults(),
    "anomalies": lambda history, _: history.anomalies(),
    "report": lambda history, _: history.report,
    "check": lambda history, _: history.check(),
}


@pytest.mark.parametrize("change", [cut, edit, verdict, faults, gone])
def test_nothing_is_read_of_a_run_that_was_changed(
    change: Callable[[Path], None], copied: Path, tmp_path: Path
) -> None:
    history = History.from_run(copied)
    assert history.passed and len(history.to_pandas()) == 700
    change(copied)
    for name, use in USES.items():
        with pytest.raises(EvidenceError, match="changed since it was read"):
            use(history, tmp_path)
            raise AssertionError(name)
    assert not (tmp_path / "h.parquet").exists()


def test_nor_of_one_that_is_changed_while_it_is_read(copied: Path) -> None:
    history = History.from_run(copied)
    with pytest.raises(EvidenceError, match=r"history\.jsonl was changed since it was read"):
        for number, _ in enumerate(history):
            if number == 600:
                edit(copied)


def test_a_link_to_another_run_is_not_followed(passed: Path, other: Path, tmp_path: Path) -> None:
    latest = tmp_path / "latest"
    latest.symlink_to(passed)
    history = History.from_run(latest)
    latest.unlink()
    latest.symlink_to(other)
    assert history.passed and len(history.ops) == 700 and history.faults()["landed"].all()


def test_a_run_that_was_only_touched_is_the_same(copied: Path, tmp_path: Path) -> None:
    history = History.from_run(copied)
    for file in copied.glob("*.json*"):
        text = file.read_bytes()
        file.unlink()
        file.write_bytes(text)
    (copied / "report.html").write_text("drawn again")
    assert history.passed and len(history.ops) == 700
    for name, use in USES.items():
        if name != "check":  # `dstest check` looks at the sums, of which report.html has one
            use(history, tmp_path)
