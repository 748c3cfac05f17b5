"""`dstest report` of a store in which somebody wants a green result that is none."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from xml.etree import ElementTree

import pytest
from forked import Ended, dstest
from gate_store import run_at

from dstest.history.sums import sums_of

pytestmark = pytest.mark.slow

NAME = "etcd-register-partition"


@pytest.fixture
def store(two_passes: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(two_passes, tmp_path / "store"))


def run_of(store: Path, seed: int) -> Path:
    return next((store / NAME).glob(f"*-{seed}"))


def report(*words: str | Path, cwd: Path) -> Ended:
    return dstest("report", *words, cwd=cwd)


def kinds(path: Path) -> list[str]:
    """What each case is, sorted."""
    cases = ElementTree.parse(path).getroot().iter("testcase")
    names = ("failure", "error", "skipped")
    return sorted(next((c.tag for c in case if c.tag in names), "green") for case in cases)


def test_one_deep_file_takes_down_nothing(store: Path, tmp_path: Path) -> None:
    run, out = run_of(store, 1), tmp_path / "out"
    assert report(store, "--out", out, cwd=tmp_path).returncode == 0
    assert kinds(out / "junit.xml") == ["green", "green"]
    plain = json.dumps({**json.loads((run / "verdict.json").read_text()), "more": 0})
    deep = "[" * 100_000 + "]" * 100_000
    (run / "verdict.json").write_text(f"{plain[:-2]}{deep}}}")
    (run / "sha256sums").write_text(sums_of(run))
    done = report(store, "--out", out, cwd=tmp_path)
    assert done.returncode == 3 and "1 of 2 passed" in done.stdout, done.stderr
    assert kinds(out / "junit.xml") == ["error", "green"]
    assert (out / "metrics.prom").read_text().count('state="not-believed"} 1.0') == 1
    alone = report(run, "--out", out, cwd=tmp_path)
    assert alone.returncode == 3 and "verdict.json cannot be read" in alone.stderr
    assert kinds(out / "junit.xml") == ["error"]


@pytest.mark.parametrize("words", [["nowhere"], ["--otlp", "grpc://x:4317"], ["--verify-key", "x"]])
def test_a_command_that_fails_leaves_nothing_green(
    words: list[str], store: Path, tmp_path: Path
) -> None:
    out, own = tmp_path / "out", tmp_path / "own"
    assert report(run_of(store, 1), "--out", out, cwd=tmp_path).returncode == 0
    shutil.copytree(out, own)
    own_files: list[str | Path] = [
        "--junit",
        own / "junit.xml",
        "--prometheus",
        own / "metrics.prom",
    ]
    (tmp_path / "step.md").write_text("said before\n")
    own_files += ["--summary", tmp_path / "step.md"]
    done = report(run_of(store, 1), *words, "--out", out, *own_files, cwd=tmp_path)
    assert done.returncode == 2, done.stderr
    assert list(out.iterdir()) == []
    assert not (own / "junit.xml").exists() and not (own / "metrics.prom").exists()
    assert (own / "results.sarif").exists()
    assert (tmp_path / "step.md").read_text() == "said before\n"


REMAINS = [
    ("status", "report.html", "junit.xml", "findings.md", "faults.jsonl"),
    ("status", "run.log", "live.json"),
    ("status",),
    ("canary.json",),  # of schema 1
]


@pytest.mark.parametrize("names", REMAINS)
def test_remains_of_a_run_are_red(names: tuple[str, ...], store: Path, tmp_path: Path) -> None:
    left = store / NAME / "20260101T000000Z-9"
    left.mkdir()
    for name in names:
        (left / name).write_text("verdict: FAIL-nondeterministic\n")
    done = report(store, "--junit", tmp_path / "j.xml", cwd=tmp_path)
    assert done.returncode == 3 and "2 of 3 passed" in done.stdout
    assert kinds(tmp_path / "j.xml") == ["error", "green", "green"]


def test_a_run_that_is_called_as_an_aside_is_looked_at(store: Path, tmp_path: Path) -> None:
    failed = run_at(store, 4, bug=True).path
    run = run_of(store, 1)
    failed.rename(run.with_name(f"{run.name}.shrink"))
    done = report(store, "--junit", tmp_path / "j.xml", cwd=tmp_path)
    assert done.returncode == 1, done.stdout
    assert kinds(tmp_path / "j.xml") == ["failure", "green", "green"]
    shutil.rmtree(run.with_name(f"{run.name}.shrink") / "segments")
    assert report(store, cwd=tmp_path).returncode == 3


@pytest.mark.parametrize("place", [f"{NAME}/20260101T000000Z-4", "etcd-register-kill/SAME"])
def test_a_pass_in_the_place_of_another_run_is_red(place: str, store: Path, tmp_path: Path) -> None:
    run = run_of(store, 1)
    there = store / place.replace("SAME", run.name)
    there.parent.mkdir(exist_ok=True)
    run.rename(there)
    done = report(store, "--junit", tmp_path / "j.xml", cwd=tmp_path)
    assert done.returncode == 3 and "1 of 2 passed" in done.stdout, done.stdout
    assert "it lies " in done.stdout
    alone = report(there, cwd=tmp_path)
    assert alone.returncode == 3 and "it lies " in alone.stderr


def test_a_run_counts_once_and_may_be_called_otherwise(store: Path, tmp_path: Path) -> None:
    run = run_of(store, 1)
    shutil.copytree(run, tmp_path / "x")
    assert report(tmp_path / "x", cwd=tmp_path).returncode == 0
    shutil.copytree(run, store / "y")
    # Another name in its first line makes no other run of it.
    history = store / "y" / "history.jsonl"
    done = report(store, "--junit", tmp_path / "j.xml", cwd=tmp_path)
    assert done.returncode == 3 and "it is a copy of" in done.stdout, done.stdout
    assert kinds(tmp_path / "j.xml") == ["error", "green", "green"]
    history.write_text(history.read_text().replace(run.name, "y", 1))
    (store / "y" / "sha256sums").write_text(sums_of(store / "y"))
    assert "2 of 3 passed" in report(store, cwd=tmp_path).stdout
    assert report(run, tmp_path / "x", cwd=tmp_path).returncode == 3


def test_evidence_of_other_runs_is_not_written_over(store: Path, tmp_path: Path) -> None:
    run, other = run_of(store, 1), run_of(store, 2)
    before = (other / "junit.xml").read_bytes()
    places: list[list[str | Path]] = [
        ["--out", other], ["--junit", other / "junit.xml"], ["--summary", other / "findings.md"],
        ["--out", other / "nodes" / "x"],
    ]  # fmt: skip
    for words in places:
        done = report(run, *words, cwd=tmp_path)
        assert done.returncode == 2 and "evidence" in done.stderr, words
    assert (other / "junit.xml").read_bytes() == before and not (other / "nodes" / "x").exists()
    assert report(other, cwd=tmp_path).returncode == 0


def test_one_place_for_two_formats_is_refused(store: Path, tmp_path: Path) -> None:
    run = run_of(store, 1)
    pairs: list[list[str | Path]] = [
        ["--junit", "s.xml", "--sarif", tmp_path / "s.xml"],
        ["--out", "o", "--junit", "o/junit.xml"],
    ]
    for words in pairs:
        done = report(run, *words, cwd=tmp_path)
        assert done.returncode == 2 and "both" in done.stderr
    assert not (tmp_path / "s.xml").exists()


def test_a_name_gives_no_line_of_its_own(store: Path, tmp_path: Path) -> None:
    odd = tmp_path / "odd" / "x\n::error::boo\r%0A\x1b[31m"
    shutil.copytree(run_of(store, 1), odd)
    for words in ([odd], [tmp_path / "odd", "--github"], [odd, "--junit", tmp_path / "j.xml"]):
        done = report(*words, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        lines = [line.strip() for line in (done.stdout + done.stderr).splitlines()]
        assert not any(line.startswith("::error::boo") for line in lines), words
        assert "\x1b" not in done.stdout and "boo" in done.stdout
    (odd / "status").write_text("running\n")
    (odd / "sha256sums").unlink()
    done = report(odd, cwd=tmp_path)
    assert done.returncode == 2 and "\n::error" not in done.stderr and "boo" in done.stderr


def test_labels_tell_paths_apart(store: Path, tmp_path: Path) -> None:
    for name, seed in (("a\x01", 1), ("a\x02", 2), ("a\\x01", 3)):
        if seed < 3:
            shutil.copytree(run_of(store, seed), tmp_path / "odd" / name)
        else:
            (tmp_path / "odd" / name).mkdir()
            (tmp_path / "odd" / name / "status").write_text("running\n")
    done = report(tmp_path / "odd", "--prometheus", tmp_path / "m.prom", cwd=tmp_path)
    assert done.returncode == 3
    rows = (tmp_path / "m.prom").read_text().splitlines()
    names = [row.rpartition(" ")[0] for row in rows if not row.startswith("#")]
    assert len(names) == len(set(names))
    assert sum(name.startswith("dstest_passed{") for name in names) == 3


def test_other_schemes_than_http_are_no_file(store: Path, tmp_path: Path) -> None:
    done = report(run_of(store, 1), "--otlp", "grpc://x:4317", cwd=tmp_path)
    assert done.returncode == 2 and "http://HOST:4318" in done.stderr
    assert not (tmp_path / "grpc:").exists()
