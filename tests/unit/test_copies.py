"""Which runs are copies of others: one answer, which `dstest report STORE` and `dstest serve` give
alike."""

from __future__ import annotations

import shutil
from pathlib import Path

import msgspec
import pytest
from made_runs import made, registers
from served_store import indexed

from dstest.history.layout import RunDir
from dstest.runner.judgement import judge
from dstest.store.export.gather import gather
from dstest.store.verify import Recording, copies_among, operation_bytes

FIRST = "etcd-register-partition/20260101T000000Z-7"
SECOND = "etcd-register-partition/20260102T000000Z-7"
KEPT = "a-first/kept"
NAMED = "a-first/20260101T000000Z-7"


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("made") / FIRST
    made(folder, registers(count=700), "register")
    return folder


@pytest.fixture
def store(run: Path, tmp_path: Path) -> Path:
    shutil.copytree(run, tmp_path / "store" / FIRST)
    return (tmp_path / "store").resolve()


def told(store: Path) -> dict[str, str]:
    """The copies, as both say it."""
    served = dict(indexed(store).shown.copies)
    listed = {
        result.path.relative_to(store).as_posix(): result.reason
        for result in gather([store])
        if result.reason.startswith("it is a copy of ")
    }
    whys = {ref: f"it is a copy of {store / first}" for ref, first in served.items()}
    assert listed == whys
    return served


def head_of(run: Path) -> bytes:
    return (run / "history.jsonl").read_bytes().partition(b"\n")[0]


def test_an_exact_copy_counts_for_nothing(store: Path) -> None:
    """It stands before the run, and has not its name."""
    shutil.copytree(store / FIRST, store / KEPT)
    assert told(store) == {KEPT: FIRST}


def test_of_two_with_the_name_of_a_run_the_first_counts(store: Path) -> None:
    shutil.copytree(store / FIRST, store / NAMED)
    assert told(store) == {FIRST: NAMED}


def test_a_copy_whose_verdict_was_given_again(store: Path) -> None:
    """What was written around the operations is another file, and another verdict."""
    shutil.copytree(store / FIRST, store / KEPT)
    copy = RunDir.open(store / KEPT)
    facts = copy.read_json("run.json")
    copy.write_json("run.json", {**facts, "tier": "hardening", "ended_by": "somebody"})
    verdict, _ = judge(copy)
    copy.write_status(verdict.verdict.value)
    copy.write_sums()
    plain = msgspec.json.decode((store / FIRST / "verdict.json").read_bytes())
    assert msgspec.to_builtins(verdict) != plain
    assert head_of(copy.path) != head_of(store / FIRST), "its first line has its own name"
    assert told(store) == {KEPT: FIRST}


def test_another_run_with_equal_settings_is_none(store: Path) -> None:
    made(store / SECOND, registers(count=700, seed=2), "register")
    made(store / KEPT, registers(count=700, seed=3), "register")
    assert told(store) == {}


def test_as_many_bytes_of_other_operations_are_no_copy(tmp_path: Path) -> None:
    lines = {"one": b'{"head": 1}\n{"a": 1}\n', "two": b'{"other head": 2}\n{"a": 2}\n'}
    lines["three"] = b"{}\n" + lines["two"].partition(b"\n")[2]
    runs = []
    for name, text in lines.items():
        (tmp_path / name).mkdir()
        (tmp_path / name / "history.jsonl").write_bytes(text)
        runs.append(
            Recording(name=name, path=tmp_path / name, bytes=operation_bytes(tmp_path / name))
        )
    assert {run.bytes for run in runs} == {len(b'{"a": 1}\n')}
    assert copies_among(runs) == {"three": "two"}
    (tmp_path / "two" / "history.jsonl").unlink()
    assert copies_among(runs) == {}
    assert operation_bytes(tmp_path / "two") == 0


def test_only_runs_that_could_be_copies_are_read(tmp_path: Path) -> None:
    runs = [Recording(name=f"{n}", path=tmp_path, bytes=n) for n in (0, 0, 1, 2, 2, 3)]
    read: list[int] = []

    def digest(run: Recording) -> str:
        read.append(run.bytes)
        return ""

    assert copies_among(runs, digest) == {}
    assert read == [2, 2]
