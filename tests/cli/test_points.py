"""`dstest points`: what a program has, and what is none."""

from __future__ import annotations

import json
import random
import sys
from pathlib import Path

import pytest
from touched_runs import dstest

from clusters.labs.image import image_path, packages_for
from dstest.cli.points import _print_counts
from dstest.core import registry
from dstest.core.errors import Exit
from dstest.core.evidence import LandingRecord
from nemeses.process.aimed_survey import Survey


def test_functions_of_a_program() -> None:
    code, said = dstest("points", Path(sys.executable).resolve(), "--search", "PyObject_Repr")
    assert code == Exit.PASS and "PyObject_Repr\n" in said and "functions" in said, said


def test_a_glob_and_a_limit() -> None:
    code, said = dstest(
        "points", Path(sys.executable).resolve(), "--search", "PyDict_*", "--limit", "3"
    )
    assert code == Exit.PASS and "3 of them listed" in said, said


@pytest.mark.parametrize("what", ["/etc/passwd", "nonesuch", "/etc"])
def test_what_is_no_program(what: str) -> None:
    code, said = dstest("points", what)
    assert code == Exit.USAGE and "remedy" in said, said


def test_a_program_that_is_cut_off(tmp_path: Path) -> None:
    whole = Path(sys.executable).resolve().read_bytes()
    for size in (0, 3, 64, 4096, len(whole) // 2, len(whole) - 100):
        (tmp_path / "cut").write_bytes(whole[:size])
        code, said = dstest("points", tmp_path / "cut")
        assert code in (Exit.USAGE, Exit.PASS) and "Traceback" not in said, (size, said)


def test_as_json() -> None:
    code, said = dstest("points", Path(sys.executable).resolve(), "--search", "PyDict_*", "--json")
    told = json.loads(said)
    assert code == Exit.PASS and told["fit"] >= len(told["names"]) > 3 and not told["go"]


@pytest.fixture
def image(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The root of an image of etcd, with a program of this machine in place of its own."""
    monkeypatch.setenv("DSTEST_LAB_DIR", str(tmp_path))
    root = image_path(packages_for([registry.load("systems", "etcd")])) / "rootfs"
    (root / "var/lib/dpkg/info").mkdir(parents=True)
    (root / "usr/bin").mkdir(parents=True)
    listed = ["/usr/bin", "/usr/bin/etcd", "/usr/bin/etcdctl", "/usr/share/doc/etcd"]
    (root / "var/lib/dpkg/info/etcd-server.list").write_text("\n".join(listed))
    for name in ("etcd", "etcdctl"):
        (root / f"usr/bin/{name}").write_bytes(Path(sys.executable).resolve().read_bytes())
    return root


def test_a_system_is_the_program_that_its_packages_bring(image: Path) -> None:
    code, said = dstest("points", "etcd", "--search", "PyObject_Repr")
    assert code == Exit.PASS and f"{image}/usr/bin/etcd:" in said, said
    code, said = dstest("points", "/usr/bin/etcdctl", "--system", "etcd", "--search", "PyDict_*")
    assert code == Exit.PASS and f"{image}/usr/bin/etcdctl:" in said, said


def test_an_image_that_is_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DSTEST_LAB_DIR", str(tmp_path))
    code, said = dstest("points", "etcd")
    assert code == Exit.USAGE and "dstest lab image --system etcd" in said, said
    code, said = dstest("points", "/usr/bin/x", "--system-version", str(tmp_path))
    assert code == Exit.USAGE and "--system NAME" in said, said


ROW = {"armed": 3, "seconds": 2.0}
COUNTED = LandingRecord(
    fault_id="f1", nemesis="count", targets=[], scheduled_at=0, epoch="f1", notes=["n2: gone"],
    facts={
        "points": ["a", "b", "c"],
        "counts": {
            "n1": {**ROW, "reached": {"b": 9, "a": 1}, "stops": 10, "stop_ns": 50_000},
            "n3": {**ROW, "reached": {"a": 20}, "stops": 20, "stop_ns": 40_000},
        },
    },
)  # fmt: skip


def test_counts_are_ranked_and_what_is_never_reached_is_told(
    capsys: pytest.CaptureFixture[str],
) -> None:
    _print_counts(COUNTED, 50, as_json=False)
    said = capsys.readouterr()
    assert [line.split() for line in said.out.splitlines()] == [
        ["21", "1", "20", "a"],
        ["9", "9", "0", "b"],
    ]
    assert "2 of 3 points were reached in 2 s" in said.err and "never reached: c" in said.err
    assert "a stop took 3 us" in said.err and "n2: gone" in said.err
    _print_counts(COUNTED, 50, as_json=True)
    told = json.loads(capsys.readouterr().out)
    assert told["reached"] == {"a": {"n1": 1, "n3": 20}, "b": {"n1": 9, "n3": 0}}
    assert told["never"] == ["c"]


def test_a_survey_is_planned_when_the_load_runs() -> None:
    (plan,) = Survey("mvcc.*", 5.0).plan(random.Random(1), ["n1"], 18.0, {})
    assert plan.start_ns > 0 and plan.duration_ns == 5_000_000_000
